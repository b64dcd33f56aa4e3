/** Step 3 of the guard `curious`: one share for each, once. */

import { unpackIds } from "../messages.js";
import { without } from "../neighbours.js";
import { released } from "../releasing.js";
import { honest } from "../round.js";
import { answered, step } from "../step.js";

export const unmask = step("Holding", "unmask-request", async (round, state, { dropped }) => {
  const left = without(state.rows, unpackIds(dropped, round.config.clients));
  const survivors = left.filter(({ client }) => client !== round.client);
  honest(survivors.length < left.length, "this client is said to have dropped out");
  const shares = await released(round, state, survivors);
  return answered(round, { kind: "Done", secrets: [] }, "unmask-reply", { shares });
});
