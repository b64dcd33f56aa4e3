/** Step 2 of the guard `active`: the vector under masks with all neighbours in one V2, which is signed. */

import { amongDigest, vectorDigest } from "../../crypto/keys.js";
import { complaint, presentOf } from "../accusing.js";
import { maskedVector, rowsOf } from "../masking.js";
import { openAll } from "../opening.js";
import { maskingText, receiptText } from "../roster.js";
import { honest, type Round, sized, TASK_BYTES } from "../round.js";
import type { Opened, Signed, Usable } from "../states.js";
import { type Answer, answered, holding, step } from "../step.js";
import { memberOf, subset } from "./member.js";

export const mask = step("AcceptedAmong", "mask-among-request", async (round, state, { v2, task }) => {
  const members = subset(round, v2, state.roster.v1, "V2");
  const stranger = state.absent.find((client) => members.has(client));
  honest(stranger === undefined, `V2 contains client ${stranger}, whose shares were missing`);
  const shared = [...state.opened.map(({ client }) => client), ...state.accused];
  const present = presentOf(
    state,
    shared.filter((client) => !members.has(client)),
  );
  return masked(round, state, present, { ...state.roster, v2, task });
});

export const maskAtOnce = step("Rostered", "mask-among-at-once-request", async (round, state, fields) => {
  const { v2, task } = fields;
  const members = subset(round, v2, state.roster.v1, "V2");
  sized(task, TASK_BYTES, "task");
  const shared = state.neighbours.filter(({ client }) => members.has(client));
  const { usable, fresh } = await openAll(round, state, shared, fields);
  return holding(fresh, () =>
    usable.accused.length > 0
      ? complaint(round, usable)
      : masked(round, usable, usable.opened, { ...state.roster, v2, task }),
  );
});

async function masked(round: Round, state: Usable, present: readonly Opened[], signed: Signed): Promise<Answer> {
  const { engine, context, client } = round;
  const { identity } = memberOf(round);
  const { v2, task } = signed;
  const vector = await maskedVector(round, state, present, task);
  const digest = await vectorDigest(engine, vector, context, client);
  const among = await amongDigest(engine, v2, context, client);
  const signature = await identity.sign(await maskingText(engine, { context, ...signed }));
  const receipt = await identity.sign(await receiptText(engine, { context, ...signed }, digest));
  const next = { kind: "SignedV2", ...rowsOf(round, state, present, task), signed } as const;
  const fields = { digest, among, task, signature, receipt, vector };
  return answered(round, next, "signed-mask-reply", fields, false);
}
