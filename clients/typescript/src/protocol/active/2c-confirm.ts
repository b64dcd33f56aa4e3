/** Step 2c of the guard `active`: the client signs the set of survivors, once. */

import { confirmedText } from "../roster.js";
import { honest } from "../round.js";
import { checkLatest } from "../spending.js";
import { answered, step } from "../step.js";
import { memberOf, subset } from "./member.js";

export const confirm = step("SignedV2", "confirm-request", async (round, state, { v3 }) => {
  const { engine, context, config } = round;
  const { threshold, rows, counted, signed, secrets } = state;
  const members = subset(round, v3, signed.v2, "V3");
  const left = rows.filter(({ client }) => members.has(client)).length;
  honest(left >= threshold, `at least ${threshold} clients must be left, got ${left}`);
  honest(
    members.size >= config.minSurvivors,
    `V3 must have at least ${config.minSurvivors} clients, got ${members.size}`,
  );
  await checkLatest(round, counted);
  const text = await confirmedText(engine, { context, ...signed }, v3);
  // No caller's error: an identity elsewhere may have signed when it fails, and the next request may have another V3.
  const signature = await memberOf(round).identity.sign(text);
  return answered(round, { kind: "Confirmed", threshold, rows, counted, signed, v3, secrets }, "confirm-reply", {
    signature,
  });
});
