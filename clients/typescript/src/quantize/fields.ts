/**
 * Signed numbers in fields of 64-bit words (appendix A). Words are handled as two halves of 32 bits, because a bigint
 * for each number would take ten times as long.
 */

import type { Bytes } from "../bytes.js";
import { VectorError } from "../errors.js";

const HALF = 2 ** 32;

/** Return the number of fields of this many bits in a word. */
export function fieldsPerWord(fieldBits: number): number {
  return Math.floor(64 / fieldBits);
}

/** Return the number of words for this many numbers. */
export function wordsFor(numbers: number, fieldBits: number): number {
  return Math.ceil(numbers / fieldsPerWord(fieldBits));
}

/** Return integers, each below 2^53 in absolute value, in fields of words; what is too large for its field wraps. */
export function pack(numbers: Float64Array, fieldBits: number): Bytes {
  const perWord = fieldsPerWord(fieldBits);
  const words = new Uint8Array(8 * wordsFor(numbers.length, fieldBits));
  const view = new DataView(words.buffer);
  const shares = Float64Array.from({ length: perWord }, (_, field) => 2 ** (fieldBits * field - 32));
  for (let at = 0, byte = 0; at < numbers.length; byte += 8) {
    let low = 0;
    let high = 0;
    const fields = Math.min(perWord, numbers.length - at);
    for (let field = 0; field < fields; field++, at++) {
      const number = numbers[at]!;
      const shift = fieldBits * field;
      if (shift < 32) {
        low += (number << shift) >>> 0; // a sum of up to 16 halves: exact
        high += Math.floor(number * shares[field]!);
      } else {
        high += number << (shift - 32);
      }
    }
    view.setUint32(byte, low, true);
    view.setUint32(byte + 4, high + Math.floor(low / HALF), true);
  }
  return words;
}

/**
 * Return the numbers in the fields of words, from the lowest field up. Above 2^53 they are rounded to float64.
 *
 * @param left Called with the place of each word in which something is left above its fields or behind the last number.
 * @throws VectorError for another number of words than these numbers take.
 */
export function unpack(
  words: Uint8Array,
  fieldBits: number,
  count: number,
  left?: (word: number) => void,
): Float64Array {
  const expected = 8 * wordsFor(count, fieldBits);
  if (words.length !== expected) {
    throw new VectorError(`expected ${expected} bytes of words, got ${words.length}`);
  }
  const numbers = new Float64Array(count);
  const view = new DataView(words.buffer, words.byteOffset, words.byteLength);
  const read = fieldBits > 32 ? readWide : readNarrow;
  for (let word = 0, byte = 0; byte < expected; word++, byte += 8) {
    if (!read(view.getUint32(byte, true), view.getInt32(byte + 4, true), fieldBits, numbers, word)) {
      left?.(word);
    }
  }
  return numbers;
}

/** Read a word that is one field of more than 32 bits; tell whether nothing is left. */
function readWide(low: number, high: number, fieldBits: number, numbers: Float64Array, word: number): boolean {
  const field = (high << (64 - fieldBits)) >> (64 - fieldBits);
  numbers[word] = field * HALF + low;
  return field === high;
}

/** Read a word of two fields or more; tell whether nothing is left. */
function readNarrow(lower: number, upper: number, fieldBits: number, numbers: Float64Array, word: number): boolean {
  let low = lower;
  let high = upper;
  const perWord = fieldsPerWord(fieldBits);
  const start = word * perWord;
  const end = Math.min(start + perWord, numbers.length);
  const spare = 32 - fieldBits;
  for (let at = start; at < end; at++) {
    const field = (low << spare) >> spare;
    numbers[at] = field;
    // The rest is subtracted from, then shifted; the borrow or carry is the part that leaves the lower half.
    const rest = low - field;
    high = (high + Math.floor(rest / HALF)) | 0;
    low = fieldBits === 32 ? high >>> 0 : ((rest >>> fieldBits) | (high << spare)) >>> 0;
    high = fieldBits === 32 ? high >> 31 : high >> fieldBits;
  }
  return (low | high) === 0;
}
