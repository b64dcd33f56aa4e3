/** Large answers come in parts, so that a broken connection costs one part only. */

import type { Bytes } from "../bytes.js";
import { FaultyServer } from "../errors.js";
import type { Answer } from "./answers.js";
import { type Line, saysLater } from "./line.js";
import { PartSize } from "./parts.js";

const RANGE = /^bytes ([0-9]{1,15})-([0-9]{1,15})\/([0-9]{1,15})$/;

/** The wanted resource, and the seconds that the hub may wait until it exists. */
export interface Wanted {
  readonly path: string;
  readonly wait?: number;
}

/**
 * Fetch what the hub has at a path, part by part.
 *
 * @param most - The maximum bytes that this participant takes.
 * @returns An answer with the status 200 and all of it, or the hub's refusal.
 * @throws HubAway when nothing got through for as long as the line is patient.
 * @throws FaultyServer for parts that were not asked for, or for more bytes.
 */
export async function download(line: Line, wanted: Wanted, partBytes: number, most: number): Promise<Answer> {
  const size = new PartSize(partBytes);
  let whole: Bytes = new Uint8Array();
  let [at, since, tries] = [0, performance.now(), 0];
  for (;;) {
    const headers = { Range: `bytes=${at}-${at + size.bytes - 1}` };
    const answer = await line.call({
      method: "GET",
      ...wanted,
      headers,
      most: at === 0 ? most : size.bytes,
      once: true,
    });
    if (saysLater(answer)) {
      size.failed(answer.status === 408);
      await line.rest(answer, tries++, since);
      continue;
    }
    const part = partOf(answer, at, size.bytes, at === 0 ? null : whole.length, most);
    if (part === null) {
      return answer;
    }
    if (at === 0) {
      whole = part.content.length === part.all ? part.content : new Uint8Array(part.all);
    }
    if (part.content !== whole) {
      whole.set(part.content, at);
    }
    at += part.content.length;
    if (at === whole.length) {
      return { status: 200, headers: answer.headers, body: whole };
    }
    size.went();
    [since, tries] = [performance.now(), 0];
  }
}

/** Return the part that an answer has, and how many bytes there are in all; null for a refusal. */
function partOf(
  { status, headers, body: content }: Answer,
  at: number,
  partBytes: number,
  all: number | null,
  most: number,
): { content: Bytes; all: number } | null {
  if (at === 0 && status === 200) {
    return { content, all: content.length };
  }
  if (at === 0 && status === 416 && headers.get("content-range") === "bytes */0") {
    return { content: new Uint8Array(), all: 0 };
  }
  if (status !== 206) {
    return null;
  }
  const found = RANGE.exec(headers.get("content-range") ?? "");
  if (found === null) {
    throw new FaultyServer("the hub's answer does not say which part it is");
  }
  const [first, last, total] = found.slice(1).map(Number) as [number, number, number];
  const expected = Math.min(at + partBytes, total) - at;
  if (first !== at || last !== at + content.length - 1 || content.length !== expected || expected < 1) {
    throw new FaultyServer("the hub sent another part than requested");
  }
  if (total > most || (all !== null && total !== all)) {
    throw new FaultyServer(`expected ${all ?? `at most ${most}`} bytes in all, got ${total}`);
  }
  return { content, all: total };
}
