/** The answers of a hub. A hub may send anything of any size, so answers are bounded and checked here. */

import { type Bytes, join } from "../bytes.js";
import { FaultyServer } from "../errors.js";
import { shown } from "./errors.js";

/** The maximum bytes of a JSON answer, unless it is a result. */
export const MOST_JSON = 1 << 20;
const PROBLEM = "urn:ccesa:problem:";
/** How much JSON is read: a list of a million survivors has as many values. */
const MOST_VALUES = 1 << 20;
const DEEPEST = 64;
/** How much base64 is read at a time: a text of it is a third larger, and each step on the way as large again. */
const PIECE = 1 << 20;
const [QUOTE, COMMA, BRACKET, BACKSLASH, BRACE] = [0x22, 0x2c, 0x5b, 0x5c, 0x7b];

/** One answer, read to its end; the status 0 stands for none at all. */
export interface Answer {
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  readonly body: Bytes;
  /** Why there is no result. */
  readonly reason?: string;
}

/** An object of JSON, of whose fields nothing is known yet. */
export type Fields = Readonly<Record<string, unknown>>;

/** Return the object that a body is in JSON; throws FaultyServer for anything else. */
export function fieldsOf(body: Uint8Array): Fields {
  checkSmall(body);
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  } catch {
    throw new FaultyServer("the hub's answer is not JSON: check the hub's address");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new FaultyServer("the hub's answer is not a JSON object");
  }
  return value as Fields;
}

/**
 * Refuse JSON that needs more memory than bytes: an empty list is two bytes of text, but fifty bytes in memory.
 *
 * Long texts, as results have, are passed over at the speed of memory.
 */
function checkSmall(body: Uint8Array): void {
  let [values, depth] = [0, 0];
  for (let at = 0; at < body.length; at++) {
    const byte = body[at];
    if (byte === QUOTE) {
      at = endOfText(body, at);
    } else if (byte === COMMA || byte === BRACKET || byte === BRACE) {
      values++;
      depth += byte === COMMA ? 0 : 1;
    } else if (byte === BRACKET + 2 || byte === BRACE + 2) {
      depth--;
    }
    if (values > MOST_VALUES || depth > DEEPEST) {
      throw new FaultyServer(`expected JSON of at most ${MOST_VALUES} values, ${DEEPEST} deep, from the hub, got more`);
    }
  }
}

/** Return where the text ends that begins here: at the next quote that is not behind an odd number of backslashes. */
function endOfText(body: Uint8Array, start: number): number {
  for (let end = body.indexOf(QUOTE, start + 1); end !== -1; end = body.indexOf(QUOTE, end + 1)) {
    let first = end;
    while (body[first - 1] === BACKSLASH && first - 1 > start) {
      first--;
    }
    if ((end - first) % 2 === 0) {
      return end;
    }
  }
  return body.length;
}

/** Return a field that is a text. */
export function textOf(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value !== "string") {
    throw new FaultyServer(`expected a text as "${name}" from the hub, got ${briefly(value)}`);
  }
  return value;
}

/** Return a field that is a whole number of at least so much. */
export function numberOf(fields: Fields, name: string, least: number): number {
  const value = fields[name];
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < least) {
    throw new FaultyServer(`expected a number as "${name}" from the hub, got ${briefly(value)}`);
  }
  return value;
}

/** Return a value for people; one with others in it only by its kind, as it may be deeper than can be written down. */
function briefly(value: unknown): string {
  return typeof value === "object" && value !== null ? "a list or an object" : shown(JSON.stringify(value), 40);
}

/** Return the bytes of a text in base64 with its padding; throws FaultyServer for another, or for more bytes. */
export function fromBase64(text: string, most: number): Bytes {
  if (text.length > 4 * Math.ceil(most / 3) || text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) {
    throw new FaultyServer(`expected at most ${most} bytes in base64 from the hub, got something else`);
  }
  const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const data = new Uint8Array((text.length / 4) * 3 - padding);
  for (let at = 0, from = 0; from < text.length; from += PIECE) {
    const characters = atob(text.slice(from, from + PIECE));
    for (let of = 0; of < characters.length; of++) {
      data[at++] = characters.charCodeAt(of);
    }
  }
  return data;
}

/** Return a header that is an integer of 0 or more, else null. */
export function countIn(answer: Answer, name: string): number | null {
  const text = answer.headers.get(name);
  return text !== null && /^[0-9]{1,15}$/.test(text) ? Number(text) : null;
}

/** The contents of a refusal: its name, or an empty one, and its fields. */
export function problemOf(answer: Answer): { name: string; fields: Fields } {
  try {
    const fields = fieldsOf(answer.body);
    const type = textOf(fields, "type");
    return { name: type.startsWith(PROBLEM) ? type.slice(PROBLEM.length) : "", fields };
  } catch {
    return { name: "", fields: {} };
  }
}

/** Return an answer in a few words, for people: nothing in them can break out of a line. */
export function inWords(answer: Answer): string {
  if (answer.status === 0) {
    return shown(answer.reason ?? "no answer");
  }
  const { name, fields } = problemOf(answer);
  const said = typeof fields["detail"] === "string" ? fields["detail"] : name;
  return said === "" ? `${answer.status}` : `${answer.status}: ${shown(said)}`;
}

/** Return the content of a response, of at most `most` bytes; `alive` is called with each piece that comes. */
export async function contentOf(response: Response, most: number, alive: () => void): Promise<Bytes> {
  const tooMuch = (): FaultyServer => new FaultyServer(`expected at most ${most} bytes from the hub, got more`);
  if (Number(response.headers.get("content-length") ?? 0) > most) {
    throw tooMuch();
  }
  if (response.body === null || response.body === undefined) {
    const whole = new Uint8Array(await response.arrayBuffer());
    if (whole.length > most) {
      throw tooMuch();
    }
    return whole;
  }
  const pieces: Uint8Array[] = [];
  let size = 0;
  const reader = response.body.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    alive();
    size += next.value.length;
    if (size > most) {
      await reader.cancel().catch(() => undefined);
      throw tooMuch();
    }
    pieces.push(next.value);
  }
  return join(pieces);
}
