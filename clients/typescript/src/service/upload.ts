/** A reply goes to the hub, whole or in parts; it counts once the hub has acknowledged it. */

import type { Bytes } from "../bytes.js";
import { FaultyServer, OrderError } from "../errors.js";
import { type Answer, countIn, inWords, problemOf } from "./answers.js";
import { type Call, type Line, saysLater } from "./line.js";
import { PartSize } from "./parts.js";

const TYPE = { "Content-Type": "application/octet-stream" };
/** How often the hub may ask for what it was sent before, in a row. */
const MOST_BACK = 20;

/** The outcome of a reply: it counts; it came too late; the hub found a mistake in it. */
export type Receipt = { readonly kind: "counted" } | { readonly kind: "late" | "faulty"; readonly text: string };

/**
 * Send a reply, in parts if it is large, while the hub answers and the upload makes progress.
 *
 * @throws HubAway when nothing got through for as long as the line is patient.
 * @throws FaultyServer for a hub that asks for the same again and again.
 */
export async function send(
  line: Line,
  path: string,
  reply: Bytes,
  partBytes: number,
  sent: (done: number) => void,
): Promise<Receipt> {
  return receiptOf(await new Upload(line, path, reply, partBytes, sent).run(), reply);
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
    throw new OrderError(
      `the hub already has another answer from this site (${text}): check for a second tab or process`,
    );
  }
  if (answer.status === 410) {
    return { kind: "late", text };
  }
  if (answer.status === 422) {
    return { kind: "faulty", text };
  }
  throw new FaultyServer(`the hub refused a reply (${text})`);
}

/** One upload: where it is, and how far it ever was. */
class Upload {
  readonly #size: PartSize;
  #at = 0;
  #furthest = 0;
  /** Since it was last further than ever: when that was, how often it was asked to go back, how often it was tried. */
  #since = performance.now();
  #back = 0;
  #tries = 0;

  constructor(
    private readonly line: Line,
    private readonly path: string,
    private readonly reply: Bytes,
    partBytes: number,
    private readonly sent: (done: number) => void,
  ) {
    this.#size = new PartSize(partBytes);
  }

  /** Send it all, and return the answer to the whole. */
  async run(): Promise<Answer> {
    for (;;) {
      const end = Math.min(this.#at + this.#size.bytes, this.reply.length);
      const answer = await this.line.call(this.#part(end));
      if (saysLater(answer)) {
        await this.#again(answer);
      } else if (answer.status === 204 && end < this.reply.length) {
        this.#size.went();
        this.#goOn(end);
        this.sent(end);
      } else if (answer.status === 409 && problemOf(answer).name === "upload-offset") {
        this.#goBack(this.#checked(problemOf(answer).fields["upload_offset"]));
      } else {
        this.sent(this.reply.length);
        return answer;
      }
    }
  }

  get #whole(): boolean {
    return this.#at === 0 && this.reply.length <= this.#size.bytes;
  }

  #part(end: number): Call {
    const body = this.reply.subarray(this.#at, end);
    if (this.#whole) {
      return { method: "PUT", path: this.path, headers: TYPE, body, once: true };
    }
    const headers = { ...TYPE, "Upload-Offset": `${this.#at}`, "Upload-Length": `${this.reply.length}` };
    return { method: "PATCH", path: this.path, headers, body, once: true };
  }

  /** A part, or only the answer to it, was lost: go on where the hub is, with smaller parts. */
  async #again(answer: Answer): Promise<void> {
    const before = this.#furthest;
    this.#size.failed(answer.status === 408);
    if (answer.status === 0 && !this.#whole) {
      this.#goOn(await this.#place());
    }
    if (this.#furthest === before) {
      await this.line.rest(answer, this.#tries++, this.#since);
    }
    if (answer.status !== 0 && !this.#whole) {
      this.#goOn(await this.#place());
    }
  }

  #goOn(place: number): void {
    this.#at = place;
    if (place > this.#furthest) {
      this.#furthest = place;
      this.#since = performance.now();
      this.#back = this.#tries = 0;
    }
  }

  #goBack(place: number): void {
    this.#goOn(place);
    if (++this.#back > MOST_BACK) {
      throw new FaultyServer("the hub repeatedly rewound the upload");
    }
  }

  /** Ask where the upload goes on; where the hub does not say, as after the end of an exchange, the next part will. */
  async #place(): Promise<number> {
    const answer = await this.line.call({ method: "HEAD", path: this.path });
    return answer.status === 200 || answer.status === 204 ? this.#checked(countIn(answer, "upload-offset")) : this.#at;
  }

  #checked(value: unknown): number {
    if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0 || value > this.reply.length) {
      throw new FaultyServer("the hub asked to continue an upload at an offset outside it");
    }
    return value;
  }
}
