/** Step 2c of the guard `active`: the client signs who survived, once. */

import { confirmedText } from "../roster.js";
import { callers, honest } from "../round.js";
import { answered, step } from "../step.js";
import { memberOf, subset } from "./member.js";

export const confirm = step("SignedV2", "confirm-request", async (round, state, { v3 }) => {
  const { engine, context, config } = round;
  const { threshold, rows, signed, secrets } = state;
  const members = subset(round, v3, signed.v2, "V3");
  const left = rows.filter(({ client }) => members.has(client)).length;
  honest(left >= threshold, `expected ${threshold} clients to be left, got ${left}`);
  honest(members.size >= config.minSurvivors, `expected ${config.minSurvivors} clients in V3, got ${members.size}`);
  const text = await confirmedText(engine, { context, ...signed }, v3);
  const signature = await callers(round, () => memberOf(round).identity.sign(text));
  return answered(round, { kind: "Confirmed", threshold, rows, signed, v3, secrets }, "confirm-reply", { signature });
});
