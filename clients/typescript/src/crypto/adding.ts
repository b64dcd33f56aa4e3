/** Adding keystreams to words, modulo 2 to the bits of a word: little-endian, as every engine of today is. */

/** How many bits a word has. */
export type Bits = 8 | 16 | 32 | 64;

/** Adds a stream to a sum of the same bytes, in place, with a sign. */
type Adder = (sum: Uint8Array, stream: Uint8Array, sign: 1 | -1) => void;

const ADDERS: Readonly<Record<Bits, Adder>> = {
  8: (sum, stream, sign) => addNarrow(sum, stream, sign),
  16: (sum, stream, sign) => addNarrow(as(Uint16Array, sum), as(Uint16Array, stream), sign),
  32: (sum, stream, sign) => addNarrow(as(Int32Array, sum), as(Int32Array, stream), sign),
  64: (sum, stream, sign) => addWide(as(Uint32Array, sum), as(Uint32Array, stream), sign),
};

/** Add a stream to a sum of as many bytes; both start where a word may start in memory, as fresh arrays do. */
export function addStream(sum: Uint8Array, stream: Uint8Array, bits: Bits, sign: 1 | -1): void {
  ADDERS[bits](sum, stream, sign);
}

type Words = Uint8Array | Uint16Array | Int32Array | Uint32Array;

function as<W extends Words>(
  type: { new (buffer: ArrayBufferLike, offset: number, length: number): W; BYTES_PER_ELEMENT: number },
  bytes: Uint8Array,
): W {
  return new type(bytes.buffer, bytes.byteOffset, bytes.byteLength / type.BYTES_PER_ELEMENT);
}

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
