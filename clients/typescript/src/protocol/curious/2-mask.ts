/** Step 2 of the guard `curious`: the masked vector, or a complaint where the shares come with the request. */

import { le32, type Bytes } from "../../bytes.js";
import { hashed } from "../../labels.js";
import { complaint, presentOf } from "../accusing.js";
import { amongDigest, maskedVector, rowsOf } from "../masking.js";
import { packIds, unpackIds } from "../messages.js";
import { without } from "../neighbours.js";
import { openAll } from "../opening.js";
import { TASK_BYTES, sized, type Round } from "../round.js";
import type { Opened, Usable } from "../states.js";
import { answered, holding, step, type Answer } from "../step.js";

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
  const vector = await maskedVector(round, state, v2, task);
  const next = { kind: "Holding", ...rowsOf(round, state, v2) } as const;
  const among = await amongDigest(round, packIds(next.rows.map(({ client }) => client)));
  return answered(round, next, "mask-reply", { tag: await tagOf(round, vector), among, task, vector }, false);
}

/** The checksum of a masked vector: GMAC under a key that everybody knows. */
async function tagOf({ engine, context, client }: Round, vector: Bytes): Promise<Bytes> {
  const key = await hashed(engine, "maskedVector", context, le32(client));
  return engine.gcmSeal(key.subarray(0, 16), new Uint8Array(12), new Uint8Array(0), vector);
}
