/** Arrays in tasks: msgpack of a list of `[name, type, shape, bytes]`, with numpy's names of types, little-endian. */

import type { Bytes } from "../bytes.js";
import { MalformedMessage } from "../errors.js";
import { encode, Reader } from "../wire.js";

const TYPES = {
  "<f4": Float32Array,
  "<f8": Float64Array,
  "|i1": Int8Array,
  "|u1": Uint8Array,
  "<i2": Int16Array,
  "<u2": Uint16Array,
  "<i4": Int32Array,
  "<u4": Uint32Array,
  "<i8": BigInt64Array,
  "<u8": BigUint64Array,
} as const;

const MOST_ARRAYS = 1 << 16;
const MOST_SIDES = 32;

/** The numbers of an array, the last index running fastest. */
export type Numbers =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

/** An array with its shape. */
export interface NamedArray {
  readonly shape: readonly number[];
  readonly data: Numbers;
}

/** Arrays by name, in the order of the model that they are. */
export type Arrays = ReadonlyMap<string, NamedArray>;

/**
 * Return the arrays that a task has.
 *
 * @throws MalformedMessage for bytes that are not arrays, and for arrays that are at odds with themselves.
 */
export function unpackArrays(payload: Uint8Array): Arrays {
  // Entry by entry, so that nothing is made of a list that is not one: a byte of it would be an object of a hundred.
  const reader = new Reader(payload);
  const arrays = new Map<string, NamedArray>();
  for (let left = countOf(reader, MOST_ARRAYS); left > 0; left--) {
    const [name, array] = unpacked(reader);
    if (arrays.has(name)) {
      throw new MalformedMessage("a task has two arrays with the same name");
    }
    arrays.set(name, array);
  }
  reader.end();
  return arrays;
}

function unpacked(reader: Reader): [string, NamedArray] {
  if (reader.array() !== 4) {
    throw new MalformedMessage("an array of a task must be [name, type, shape, bytes]");
  }
  const [name, type] = [reader.text(), reader.text()];
  const shape = Array.from({ length: countOf(reader, MOST_SIDES) }, () => sideOf(reader));
  const data = reader.bytes();
  if (!Object.hasOwn(TYPES, type)) {
    throw new MalformedMessage(`the type of an array in a task must be one of ${Object.keys(TYPES).join(", ")}`);
  }
  const Type = TYPES[type as keyof typeof TYPES];
  const size = shape.reduce((product, side) => product * side, 1);
  // With a side of 0 the others might be anything; they are bounded as if it were 1.
  const bounded = shape.reduce((product, side) => product * Math.max(side, 1), 1);
  if (!Number.isSafeInteger(8 * bounded) || data.length !== size * Type.BYTES_PER_ELEMENT) {
    throw new MalformedMessage("the bytes of an array in a task do not match its shape");
  }
  return [name, { shape, data: new Type(data.buffer) }];
}

/** Read the head of a list of at most `most` entries. */
function countOf(reader: Reader, most: number): number {
  const count = reader.array();
  if (count > most) {
    throw new MalformedMessage(`a task has a list of ${count} entries; the maximum is ${most}`);
  }
  return count;
}

function sideOf(reader: Reader): number {
  const side = reader.integer();
  if (typeof side !== "number" || side < 0) {
    throw new MalformedMessage(`an array of a task has an invalid side, ${side}`);
  }
  return side;
}

/** Return arrays as a task has them: what a coordinator in this language would hand to a hub. */
export function packArrays(arrays: Arrays): Bytes {
  return encode(
    [...arrays].map(([name, { shape, data }]) => {
      const type = Object.entries(TYPES).find(([, Type]) => data instanceof Type)![0];
      return [name, type, shape, new Uint8Array(data.buffer, data.byteOffset, data.byteLength)];
    }),
  );
}
