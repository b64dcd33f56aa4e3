/** Tasks: the bytes that vectors are about, fetched by their digest, which the participant computes itself. */

import { toHex, type Bytes } from "../bytes.js";
import type { Engine } from "../crypto/engine.js";
import { FaultyServer } from "../errors.js";
import { hashed } from "../labels.js";
import { inWords, type Answer } from "./answers.js";
import type { Line } from "./line.js";

const RANGE = /^bytes ([0-9]{1,15})-([0-9]{1,15})\/([0-9]{1,15})$/;

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
  let payload = new Uint8Array();
  for (let at = 0, all = Infinity; at < all; ) {
    const range = { Range: `bytes=${at}-${at + partBytes - 1}` };
    const path = `/v1/tasks/${toHex(digest)}`;
    const answer = await line.call({ method: "GET", path, headers: range, most: at === 0 ? most : partBytes });
    if (answer.status === 404) {
      return null;
    }
    const part = partOf(answer, at, partBytes, at === 0 ? null : all, most);
    if (at === 0) {
      all = part.all;
      payload = new Uint8Array(all);
    }
    payload.set(part.content, at);
    at += part.content.length;
  }
  return { payload, digest: await taskDigest(engine, payload) };
}

function partOf(
  answer: Answer,
  at: number,
  partBytes: number,
  all: number | null,
  most: number,
): { content: Bytes; all: number } {
  const content = answer.body;
  if (at === 0 && answer.status === 200) {
    return { content, all: content.length };
  }
  if (at === 0 && answer.status === 416 && answer.headers.get("content-range") === "bytes */0") {
    return { content: new Uint8Array(), all: 0 };
  }
  const found = RANGE.exec(answer.headers.get("content-range") ?? "");
  if (answer.status !== 206 || found === null) {
    throw new FaultyServer(`the hub did not hand a task over: ${inWords(answer)}`);
  }
  const [first, last, total] = found.slice(1).map(Number) as [number, number, number];
  const expected = Math.min(at + partBytes, total) - at;
  if (first !== at || last !== at + content.length - 1 || content.length !== expected || expected < 1) {
    throw new FaultyServer("the hub handed over another part of a task than it was asked for");
  }
  if (total > most || (all !== null && total !== all)) {
    throw new FaultyServer(`expected a task of ${all ?? `at most ${most}`} bytes, got one of ${total}`);
  }
  return { content, all: total };
}
