/** Step 2 of the guard `curious`: the masked vector, or a complaint where the shares come with the request. */

import type { Bytes } from "../../bytes.js";
import { amongDigest, vectorTag } from "../../crypto/keys.js";
import { complaint, presentOf } from "../accusing.js";
import { maskedVector, rowsOf } from "../masking.js";
import { packIds, unpackIds } from "../messages.js";
import { without } from "../neighbours.js";
import { openAll } from "../opening.js";
import { type Round, sized, TASK_BYTES } from "../round.js";
import type { Opened, Usable } from "../states.js";
import { type Answer, answered, holding, step } from "../step.js";

export const mask = step("Accepted", "mask-request", async (round, state, { dropped, task }) => {
  const v2 = presentOf(state, unpackIds(dropped, round.config.clients));
  return masked(round, state, v2, task);
});

export const maskAtOnce = step("Shared", "mask-at-once-request", async (round, state, fields) => {
  const v2 = without(state.neighbours, unpackIds(fields.dropped, round.config.clients));
  sized(fields.task, TASK_BYTES, "task");
  const { usable, fresh } = await openAll(round, state, v2, fields);
  return holding(fresh, () =>
    usable.accused.length > 0 ? complaint(round, usable) : masked(round, usable, usable.opened, fields.task),
  );
});

async function masked(round: Round, state: Usable, v2: readonly Opened[], task: Bytes): Promise<Answer> {
  const { engine, context, client } = round;
  const vector = await maskedVector(round, state, v2, task);
  const next = { kind: "Holding", ...rowsOf(round, state, v2, task) } as const;
  const ids = packIds(next.rows.map((held) => held.client));
  const among = await amongDigest(engine, ids, context, client);
  const tag = await vectorTag(engine, vector, context, client);
  return answered(round, next, "mask-reply", { tag, among, task, vector }, false);
}
