/**
 * Check words: linear functions of a vector, so that those of a sum are the sum of everybody's (docs/protocol.md,
 * 19.4). They show an error in the sum. Their weights are public: they show nobody's lie.
 */

import { type Bytes, wipe } from "../bytes.js";
import { hashed } from "../labels.js";
import { turn } from "../platform.js";
import type { Bits } from "./adding.js";
import { type Engine, type Generator, KEY_BYTES } from "./engine.js";

/** The words of a row. All rows have the same weights of columns. */
const COLUMNS = 1 << 14;
/** So many milliseconds at a time; then the rest of the thread has its turn. */
const SLICE = 12;

type Numbers = Uint8Array<ArrayBuffer> | Uint16Array<ArrayBuffer> | Uint32Array<ArrayBuffer>;

/**
 * Adds the product of each word and its weight to a sum. From one word to the next go `step` numbers in the sums and
 * `stride` numbers in the weights.
 */
type AddProducts = (sums: Numbers, step: number, words: Numbers, weights: Numbers, stride: number) => void;

/** How words of a size are kept: in which array, and in how many of its numbers. */
interface Kind {
  readonly Words: new (buffer: ArrayBuffer | number, from?: number, length?: number) => Numbers;
  readonly numbers: 1 | 2;
  readonly addProducts: AddProducts;
}

const KINDS: Readonly<Record<Bits, Kind>> = {
  8: { Words: Uint8Array, numbers: 1, addProducts: addNarrow },
  16: { Words: Uint16Array, numbers: 1, addProducts: addNarrow },
  32: { Words: Uint32Array, numbers: 1, addProducts: addNarrow },
  64: { Words: Uint32Array, numbers: 2, addProducts: addWide },
};

/** The weights depend on the round. The signal stops the work on a vector. */
export interface Checked {
  readonly engine: Engine;
  readonly context: Bytes;
  readonly generator: Generator;
  readonly signal?: AbortSignal | undefined;
}

/** Return the number of check words. */
export function checkWordCount(bits: Bits): number {
  return Math.max(2, 64 / bits);
}

/** Return the check words of a vector of little-endian words, which lies where words may start. */
export async function checkWords(vector: Bytes, bits: Bits, round: Checked): Promise<Bytes> {
  const { Words, numbers, addProducts } = KINDS[bits];
  const bytes = bits / 8 / numbers;
  const words = new Words(vector.buffer, vector.byteOffset, vector.length / bytes);
  const row = Math.min(numbers * COLUMNS, words.length);
  const rows = numbers * Math.ceil(words.length / row);
  const found = new Words(numbers * checkWordCount(bits));
  const weights = new Words((await weightStream(round, bytes * (rows + found.length * (row / numbers)))).buffer);
  const [down, across] = [weights.subarray(0, rows), weights.subarray(rows)];
  makeOdd(down, numbers);
  makeOdd(across.subarray(0, row), numbers);
  const folded = new Words(row);
  let paused = performance.now();
  for (let at = 0; at < rows; at += numbers) {
    const start = (at / numbers) * row;
    addProducts(folded, numbers, words.subarray(start, start + row), down.subarray(at), 0);
    if (performance.now() > paused + SLICE) {
      await turn();
      round.signal?.throwIfAborted();
      paused = performance.now();
    }
  }
  for (let at = 0; at < found.length; at += numbers) {
    const start = (at / numbers) * row;
    addProducts(found.subarray(at), 0, across.subarray(start, start + row), folded, numbers);
  }
  wipe(folded);
  return new Uint8Array(found.buffer);
}

/** Return the bytes of all weights, in memory of their own: of rows, then of columns for each check word. */
async function weightStream({ engine, context, generator }: Checked, bytes: number): Promise<Bytes> {
  const key = (await hashed(engine, "checkWords", context)).subarray(0, KEY_BYTES[generator]);
  return new Uint8Array(await engine.keystream(generator, key, 0, bytes));
}

/** Set the lowest bit of each word. */
function makeOdd(weights: Numbers, numbers: number): void {
  for (let at = 0; at < weights.length; at += numbers) {
    weights[at]! |= 1;
  }
}

/** Words of one number: the array keeps the low bits. */
function addNarrow(sums: Numbers, step: number, words: Numbers, weights: Numbers, stride: number): void {
  for (let at = 0, sum = 0, weight = 0; at < words.length; at++, sum += step, weight += stride) {
    sums[sum] = (sums[sum]! + Math.imul(words[at]!, weights[weight]!)) | 0;
  }
}

/** Words of 64 bits as two numbers of 32; of the low ones the product has 64 bits. */
function addWide(sums: Numbers, step: number, words: Numbers, weights: Numbers, stride: number): void {
  for (let at = 0, sum = 0, weight = 0; at < words.length; at += 2, sum += step, weight += stride) {
    const a = words[at]! | 0;
    const b = weights[weight]! | 0;
    const first = Math.imul(a & 0xffff, b & 0xffff);
    const outer = Math.imul(a >>> 16, b & 0xffff);
    const inner = Math.imul(a & 0xffff, b >>> 16);
    const second = (first >>> 16) + (outer & 0xffff) + (inner & 0xffff);
    const low = (sums[sum]! + ((second << 16) | (first & 0xffff))) >>> 0;
    const high = Math.imul(a >>> 16, b >>> 16) + (outer >>> 16) + (inner >>> 16) + (second >>> 16);
    const crossed = Math.imul(a, weights[weight + 1]!) + Math.imul(words[at + 1]!, b);
    const carry = low < sums[sum]! ? 1 : 0;
    sums[sum] = low;
    sums[sum + 1] = (sums[sum + 1]! + high + crossed + carry) | 0;
  }
}
