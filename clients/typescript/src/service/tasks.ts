/** Tasks: the bytes that vectors are about, fetched by their digest, which the participant computes itself. */

import { type Bytes, toHex } from "../bytes.js";
import type { Engine } from "../crypto/engine.js";
import { FaultyServer } from "../errors.js";
import { hashed } from "../labels.js";
import { inWords } from "./answers.js";
import { download } from "./download.js";
import type { Line } from "./line.js";

/** A task that was fetched. */
export interface Task {
  readonly payload: Bytes;
  /** Of these very bytes, whatever the hub calls them. */
  readonly digest: Bytes;
}

/** Return the digest of a task's bytes. */
export function taskDigest(engine: Engine, payload: Uint8Array): Promise<Bytes> {
  return hashed(engine, "serviceTask", payload);
}

/**
 * Fetch the task that the hub has under a digest, part by part; null if it has none.
 *
 * @param most - The most bytes that this participant takes.
 * @throws FaultyServer for parts that were not asked for, or for more bytes.
 */
export async function fetchTask(
  line: Line,
  engine: Engine,
  digest: Bytes,
  partBytes: number,
  most: number,
): Promise<Task | null> {
  const answer = await download(line, { path: `/v1/tasks/${toHex(digest)}` }, partBytes, most);
  if (answer.status === 404) {
    return null;
  }
  if (answer.status !== 200) {
    throw new FaultyServer(`the hub did not send the task (${inWords(answer)})`);
  }
  return { payload: answer.body, digest: await taskDigest(engine, answer.body) };
}
