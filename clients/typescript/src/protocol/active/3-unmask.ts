/**
 * Step 3 of the guard `active`: the client releases its shares once enough neighbours have confirmed the same V2, task
 * and V3.
 */

import type { Bytes } from "../../bytes.js";
import type { Fields } from "../messages.js";
import { released } from "../releasing.js";
import { confirmedText, maskingText } from "../roster.js";
import { honest, type Round, sized } from "../round.js";
import { unpackSet } from "../sets.js";
import type { Confirmed, Held } from "../states.js";
import { answered, step } from "../step.js";
import { checkSignatures } from "./member.js";

export const unmask = step("Confirmed", "signed-unmask-request", async (round, state, fields) => {
  const v3 = new Set(unpackSet(state.v3, round.config.clients));
  const survivors = state.rows.filter(({ client }) => v3.has(client) && client !== round.client);
  await checkConfirmed(round, state, survivors, fields);
  const shares = await released(round, state, survivors);
  return answered(round, { kind: "Done", secrets: [] }, "unmask-reply", { shares });
});

/** Points 1 to 5: everyone who is left masked among the same, and enough say that the same are left. */
async function checkConfirmed(
  round: Round,
  { threshold, signed, v3 }: Confirmed,
  survivors: readonly Held[],
  { confirmed, signatures }: Fields<"signed-unmask-request">,
): Promise<void> {
  const { engine, context } = round;
  sized(confirmed, survivors.length, "confirmed");
  honest(
    confirmed.every((flag) => flag <= 1),
    "expected flags of 0 or 1",
  );
  const texts: readonly Bytes[] = [
    await maskingText(engine, { context, ...signed }),
    await confirmedText(engine, { context, ...signed }, v3),
  ];
  await checkSignatures(
    round,
    survivors.map(({ client }, at) => ({ client, text: texts[confirmed[at]!]! })),
    signatures,
  );
  const count = confirmed.filter((flag) => flag === 1).length;
  honest(count >= threshold, `at least ${threshold} confirmations are needed, got ${count}`);
}
