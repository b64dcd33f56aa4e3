/** Results that a hub publishes, one for each question. Nothing in them can be checked here. */

import type { Bytes } from "../bytes.js";
import { FaultyServer } from "../errors.js";
import { type Fields, fieldsOf, fromBase64, inWords, numberOf, problemOf, textOf } from "./answers.js";
import { type Arrays, unpackArrays } from "./arrays.js";
import { download } from "./download.js";
import type { Line } from "./line.js";

/** The size of the parts that a result comes in. */
const PART = 1 << 23;

/** The typed arrays of words, by their bits. */
export const WORD_ARRAYS = { 8: Uint8Array, 16: Uint16Array, 32: Uint32Array, 64: BigUint64Array } as const;

/** Words as a vector has them, and their sum. */
export type Words = Uint8Array | Uint16Array | Uint32Array | BigUint64Array;

/** The contents of a sum, by the form of the contributions. */
export type ResultValue =
  | { readonly type: "words"; readonly words: Words }
  | { readonly type: "arrays"; readonly arrays: Arrays; readonly weight: number }
  | { readonly type: "statistics"; readonly report: unknown; readonly text: string };

/** The result of one question. */
export interface Result {
  readonly question: number;
  /** The ids of those whose vectors are in the sum. */
  readonly survivors: readonly number[];
  readonly value: ResultValue;
  /** The coordinator's words about it. */
  readonly metrics: Readonly<Record<string, number>>;
}

/** Return the typed array of little-endian words of this many bits. */
function wordsOf(data: Bytes, bits: number): Words {
  const Type = Object.hasOwn(WORD_ARRAYS, bits) ? WORD_ARRAYS[bits as keyof typeof WORD_ARRAYS] : undefined;
  if (Type === undefined || data.length % Type.BYTES_PER_ELEMENT !== 0) {
    throw new FaultyServer(`the hub sent ${data.length} bytes, which are not whole words of ${bits} bits`);
  }
  return new Type(data.slice().buffer);
}

/**
 * Ask for a result; null if it is not published yet, and "never" if this hub publishes none.
 *
 * @param most - The most bytes of it.
 * @throws FaultyServer for anything that is not a result.
 */
export async function fetchResult(
  line: Line,
  question: number,
  wait: number,
  most: number,
): Promise<Result | null | "never"> {
  const answer = await download(line, { path: `/v1/results/${question}`, wait }, PART, most);
  if (answer.status === 404) {
    return problemOf(answer).name === "no-result" ? null : "never";
  }
  if (answer.status !== 200) {
    throw new FaultyServer(`the hub did not send a result (${inWords(answer)})`);
  }
  return resultIn(fieldsOf(answer.body), question, most);
}

/** Return the result that these fields are. */
function resultIn(fields: Fields, question: number, most: number): Result {
  const { survivors, metrics, value } = fields;
  const asked = numberOf(fields, "question", 0) === question;
  if (!asked || !isObject(value) || !isObject(metrics ?? {}) || !areIds(survivors)) {
    throw new FaultyServer("the hub's result is invalid or belongs to another question");
  }
  return { question, survivors, metrics: numbersIn(metrics), value: valueIn(value, most) };
}

function valueIn(value: Fields, most: number): ResultValue {
  if ("words" in value) {
    return { type: "words", words: wordsOf(fromBase64(textOf(value, "words"), most), numberOf(value, "bits", 8)) };
  }
  if ("arrays" in value) {
    const weight = value["weight"];
    if (typeof weight !== "number") {
      throw new FaultyServer("the hub's result has arrays but no weight");
    }
    return { type: "arrays", arrays: unpackArrays(fromBase64(textOf(value, "arrays"), most)), weight };
  }
  return { type: "statistics", report: value["report"], text: textOf(value, "text") };
}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function areIds(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((id) => Number.isSafeInteger(id) && id >= 0);
}

function numbersIn(metrics: unknown): Record<string, number> {
  const isNumber = (entry: [string, unknown]): entry is [string, number] => typeof entry[1] === "number";
  return Object.fromEntries(Object.entries(metrics ?? {}).filter(isNumber));
}
