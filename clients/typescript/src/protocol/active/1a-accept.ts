/** Step 1a of the guard `active`; what the server says here is held against V2 in step 2. */

import { accepted, sharedOf } from "../curious/1a-accept.js";
import { answered, step } from "../step.js";

export const accept = step("Rostered", "accept-request", async (round, state, fields) => {
  const shared = sharedOf(round, state, fields);
  const { opening, reply } = await accepted(round, state, shared, fields);
  const { roster } = state;
  const absent = state.neighbours.filter((neighbour) => !shared.includes(neighbour)).map(({ client }) => client);
  const next = { kind: "AcceptedAmong", ...opening.usable, roster, absent, secrets: opening.secrets } as const;
  return answered(round, next, "accept-reply", reply);
});
