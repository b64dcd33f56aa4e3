/** Adding keystreams to words modulo 2^bits, little-endian: with WebAssembly where that may run, else without. */

import { builtin } from "../platform.js";
import { vectorSum } from "./simd.js";

export const BITS = [8, 16, 32, 64] as const;

/** How many bits a word has. */
export type Bits = (typeof BITS)[number];

/**
 * So many bytes of a vector are summed at a time: what is read and written meanwhile stays in the cache. In a browser
 * every keystream costs a promise besides, so that larger ones are worth a larger cache.
 */
export const PIECE = builtin("node:crypto") === undefined ? 1 << 19 : 1 << 18;

/** A piece of a vector, to which streams of as many bytes are added. */
export interface Sum {
  /** Where the piece is: it can be laid in and taken out. */
  readonly piece: Uint8Array;
  /** Add a stream to the first bytes of the piece, or take it away. */
  add(stream: Uint8Array, bits: Bits, sign: 1 | -1): void;
  /** Overwrite everything. */
  wipe(): void;
}

const spare: Sum[] = [];

/** Return a sum that nobody else has: the fastest kind that this platform allows. */
export async function takeSum(): Promise<Sum> {
  return spare.pop() ?? (await vectorSum(PIECE)) ?? plainSum();
}

/** Wipe a sum and keep it for the next one who needs it. */
export function giveBack(sum: Sum): void {
  sum.wipe();
  spare.push(sum);
}

/** Return a sum that needs nothing but arrays. */
export function plainSum(): Sum {
  const piece = new Uint8Array(PIECE);
  const copy = new Uint8Array(PIECE); // starts where words may start, wherever the stream does
  return {
    piece,
    add(stream, bits, sign) {
      copy.set(stream);
      ADDERS[bits](piece.buffer, copy.buffer, stream.length, sign);
    },
    wipe() {
      piece.fill(0);
      copy.fill(0);
    },
  };
}

type Adder = (sum: ArrayBuffer, stream: ArrayBuffer, bytes: number, sign: 1 | -1) => void;
type Words = Uint8Array | Uint16Array | Int32Array;

const ADDERS: Readonly<Record<Bits, Adder>> = {
  8: (sum, stream, bytes, sign) => addNarrow(new Uint8Array(sum, 0, bytes), new Uint8Array(stream), sign),
  16: (sum, stream, bytes, sign) => addNarrow(new Uint16Array(sum, 0, bytes / 2), new Uint16Array(stream), sign),
  32: (sum, stream, bytes, sign) => addNarrow(new Int32Array(sum, 0, bytes / 4), new Int32Array(stream), sign),
  64: (sum, stream, bytes, sign) => addWide(new Uint32Array(sum, 0, bytes / 4), new Uint32Array(stream), sign),
};

function addNarrow(sum: Words, stream: Words, sign: 1 | -1): void {
  for (let at = 0; at < sum.length; at++) {
    sum[at] = (sum[at]! + sign * stream[at]!) | 0; // the array keeps the low bits
  }
}

/** Words of 64 bits as two of 32: the high one takes what the low one carries or borrows. */
function addWide(sum: Uint32Array, stream: Uint32Array, sign: 1 | -1): void {
  for (let at = 0; at < sum.length; at += 2) {
    const low = sum[at]! + sign * stream[at]!;
    sum[at] = low;
    sum[at + 1] = sum[at + 1]! + sign * stream[at + 1]! + Math.floor(low / 2 ** 32);
  }
}
