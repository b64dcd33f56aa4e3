/** A reply goes to the hub, whole or in parts; it counts once the hub has said so. */

import type { Bytes } from "../bytes.js";
import { FaultyServer, OrderError } from "../errors.js";
import { countIn, inWords, problemOf, type Answer } from "./answers.js";
import type { Call, Line } from "./line.js";

const TYPE = { "Content-Type": "application/octet-stream" };
const SMALLEST_PART = 256;
/** How often an upload may go back, or stay where it is, before it is given up. */
const MOST_BACK = 20;

/** What became of a reply: it counts; it came too late; the hub found a mistake in it. */
export type Receipt = { readonly kind: "counted" } | { readonly kind: "late" | "faulty"; readonly text: string };

/** Send a reply, in parts if it is larger than one. */
export async function send(
  line: Line,
  path: string,
  reply: Bytes,
  partBytes: number,
  sent: (done: number) => void,
): Promise<Receipt> {
  if (reply.length > partBytes) {
    return receiptOf(await inParts(line, path, reply, partBytes, sent), reply);
  }
  const answer = await line.call({ method: "PUT", path, headers: TYPE, body: reply, own: [408] });
  if (answer.status === 408 && reply.length > 1) {
    return receiptOf(await inParts(line, path, reply, Math.ceil(reply.length / 2), sent), reply);
  }
  sent(reply.length);
  return receiptOf(answer, reply);
}

/** Read what became of a reply; throws where the hub's answer ends it all. */
function receiptOf(answer: Answer, reply: Bytes): Receipt {
  if (answer.status === 204) {
    return { kind: "counted" };
  }
  const { name } = problemOf(answer);
  const text = inWords(answer);
  if (answer.status === 409 && name === "conflict") {
    if (reply.length === 0) {
      // A start before this one has answered, and this one only wanted to say that it takes no part.
      return { kind: "late", text };
    }
    throw new OrderError(`the hub has another answer in this name (${text}): does a second tab or process take part?`);
  }
  if (answer.status === 410) {
    return { kind: "late", text };
  }
  if (answer.status === 422) {
    return { kind: "faulty", text };
  }
  throw new FaultyServer(`the hub answered ${text} to a reply`);
}

async function inParts(
  line: Line,
  path: string,
  reply: Bytes,
  partBytes: number,
  sent: (done: number) => void,
): Promise<Answer> {
  const began = performance.now();
  let [part, at, back] = [partBytes, await placeOf(line, path, reply), 0];
  for (;;) {
    const end = Math.min(at + part, reply.length);
    const answer = await line.call(partCall(path, reply, at, end));
    if (answer.status === 204 && end < reply.length) {
      at = end;
      sent(at);
    } else if (answer.status === 408) {
      part = Math.max(Math.ceil(part / 2), Math.min(SMALLEST_PART, part));
      await line.rest(answer, back++, began);
      at = await placeOf(line, path, reply);
    } else if (answer.status === 409 && problemOf(answer).name === "upload-offset") {
      const place = checkedPlace(problemOf(answer).fields["upload_offset"], reply);
      back += place > at ? 0 : 1; // it is further where only the answer to a part was lost
      at = place;
    } else {
      sent(reply.length);
      return answer;
    }
    if (back > MOST_BACK) {
      throw new FaultyServer("the hub does not take an upload: it keeps going back");
    }
  }
}

function partCall(path: string, reply: Bytes, at: number, end: number): Call {
  const headers = { ...TYPE, "Upload-Offset": `${at}`, "Upload-Length": `${reply.length}` };
  return { method: "PATCH", path, headers, body: reply.subarray(at, end), own: [408] };
}

/** Ask where the upload goes on. */
async function placeOf(line: Line, path: string, reply: Bytes): Promise<number> {
  const answer = await line.call({ method: "HEAD", path });
  return answer.status === 200 || answer.status === 204 ? checkedPlace(countIn(answer, "upload-offset"), reply) : 0;
}

function checkedPlace(value: unknown, reply: Bytes): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0 || value > reply.length) {
    throw new FaultyServer("the hub wants an upload to go on at a place that is not in it");
  }
  return value;
}
