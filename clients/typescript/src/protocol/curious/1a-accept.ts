/** Step 1a of the guard `curious`: the shares of neighbours are opened before anything is masked with them. */

import { type Fields, packIds, unpackIds } from "../messages.js";
import { without } from "../neighbours.js";
import { type Opening, openAll } from "../opening.js";
import type { Round } from "../round.js";
import type { Dealt, Partner } from "../states.js";
import { answered, step } from "../step.js";

export const accept = step("Shared", "accept-request", async (round, state, fields) => {
  const { opening, reply } = await accepted(round, state, sharedOf(round, state, fields), fields);
  return answered(round, { kind: "Accepted", ...opening.usable, secrets: opening.secrets }, "accept-reply", reply);
});

/** Return the neighbours that have shared, by point 1 under either guard. */
export function sharedOf(round: Round, { neighbours }: Dealt, { dropped }: Fields<"accept-request">): Partner[] {
  return without(neighbours, unpackIds(dropped, round.config.clients));
}

/** Open the texts under either guard. */
export async function accepted(
  round: Round,
  state: Dealt,
  shared: readonly Partner[],
  fields: Fields<"accept-request">,
): Promise<{ readonly opening: Opening; readonly reply: Fields<"accept-reply"> }> {
  const opening = await openAll(round, state, shared, fields);
  return { opening, reply: { accused: packIds(opening.usable.accused), deposits: opening.deposits } };
}
