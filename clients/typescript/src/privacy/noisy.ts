/** Floats to words with noise and back (15.3 to 15.5), one vector of a client at a time. */

import { type Bytes, wipe } from "../bytes.js";
import type { Engine } from "../crypto/engine.js";
import { ConfigError, VectorError } from "../errors.js";
import { pack, unpack } from "../quantize/fields.js";
import { flatten, roundHalfEven, type Tensor, unflatten, type Values } from "../quantize/quantizer.js";
import { sizeOf } from "../quantize/settings.js";
import { draw, drawWith, type Pause } from "./draw.js";
import { rotate, rotateBack } from "./rotation.js";
import { checkPrivacy, type PrivacyTable, privacyLength } from "./table.js";
import { thresholdsFor } from "./thresholds.js";

const ROUNDINGS = 4;
/** Numbers whose squares are added up in float64 before the sum goes to a bigint. */
const EXACT = 1 << 16;
const QUARTER = 2 ** 16;

/** How a vector became one on the fine grid. */
export interface Fine {
  /** Whole numbers of fine steps, whose squares add up to at most bound^2. */
  readonly numbers: Float64Array;
  /** Whether the vector was longer than the norm allows. */
  readonly clipped: boolean;
}

/** Return the sum of the squares of whole numbers below 2^33, exactly. */
export function sumOfSquares(numbers: Float64Array): bigint {
  let sum = 0n;
  for (let start = 0; start < numbers.length; start += EXACT) {
    let [high, middle, low] = [0, 0, 0];
    for (let at = start, end = Math.min(start + EXACT, numbers.length); at < end; at++) {
      const above = Math.floor(numbers[at]! / QUARTER);
      const below = numbers[at]! - above * QUARTER;
      high += above * above;
      middle += above * below;
      low += below * below;
    }
    sum += (BigInt(high) << 32n) + (BigInt(middle) << 17n) + BigInt(low);
  }
  return sum;
}

/** Write values one after the other; their largest absolute value comes back. */
function copy(arrays: readonly Values[], into: Float64Array): number {
  let [at, largest] = [0, 0];
  for (const values of arrays) {
    for (let place = 0; place < values.length; place++, at++) {
      const value = values[place]!;
      if (!Number.isFinite(value)) {
        throw new VectorError(`a vector with noise cannot contain ${value}`);
      }
      into[at] = value;
      largest = Math.max(largest, Math.abs(value));
    }
  }
  return largest;
}

/** Scale a vector to fine steps, and to a length of at most B'; tell whether that shortened it. */
function clip(vector: Float64Array, largest: number, { bound, dimension, norm }: PrivacyTable): boolean {
  if (largest === 0) {
    return false;
  }
  let squares = 0;
  for (let at = 0; at < vector.length; at++) {
    vector[at] = vector[at]! / largest; // squares of float64 would overflow or vanish without it
    squares += vector[at]! ** 2;
  }
  const most = Math.sqrt(Math.max(0, bound ** 2 - dimension / 12));
  const length = Math.sqrt(squares);
  const scale = (bound / norm) * largest;
  const clipped = !(scale * length <= most);
  const factor = clipped ? most / length : scale;
  for (let at = 0; at < vector.length; at++) {
    vector[at] = vector[at]! * factor;
  }
  return clipped;
}

/** Round a rotated vector, and shorten it until it is within the bound in whole numbers; zero if it never is. */
export function toGrid(rotated: Float64Array, bound: number): Float64Array {
  const most = BigInt(bound) ** 2n;
  const fine = new Float64Array(rotated.length);
  for (let rounding = 0; rounding < ROUNDINGS; rounding++) {
    for (let at = 0; at < fine.length; at++) {
      // Nothing else is a whole number that the draw could stand around: not even a float gone astray.
      fine[at] = Math.abs(rotated[at]!) < 2 ** 32 ? roundHalfEven(rotated[at]!) : bound;
    }
    const squares = sumOfSquares(fine);
    if (squares <= most) {
      return fine;
    }
    const shorter = (bound ** 2 / Number(squares)) * (1 - 1 / bound);
    for (let at = 0; at < rotated.length; at++) {
      rotated[at] = rotated[at]! * shorter;
    }
  }
  return fine.fill(0);
}

/** The options of an encoding. */
export interface NoisyOptions {
  /** Called between parts of the work, which takes about a second for a million numbers. */
  readonly pause?: Pause | undefined;
}

/** Lays arrays of floats with noise into words, and reads the mean off a sum of them. */
export class NoisyQuantizer {
  /** Words of a vector: the length of the round. */
  readonly length: number;

  /**
   * @param shapes The shape of each array, in order.
   * @throws ConfigError for a table that is refused, noise for records, or shapes with another number of values.
   */
  constructor(
    readonly engine: Engine,
    readonly table: PrivacyTable,
    readonly shapes: readonly (readonly number[])[],
  ) {
    checkPrivacy(table);
    if (table.unit !== undefined) {
      throw new ConfigError(
        "the noise hides one record: use it for statistics. Arrays need noise that hides a whole client",
      );
    }
    const values = shapes.reduce((sum, shape) => sum + sizeOf(shape), 0);
    if (values !== table.dimension) {
      throw new ConfigError(`the noise is for ${table.dimension} numbers, but the arrays have ${values}`);
    }
    this.length = privacyLength(table);
  }

  /**
   * Return the words of one client's arrays, with fresh noise. They are for one round and leave once.
   *
   * @param context Of the round, 32 bytes.
   * @throws VectorError for other arrays than agreed, NaN and infinity.
   */
  async encode(arrays: readonly Tensor[], context: Uint8Array, options: NoisyOptions = {}): Promise<Bytes> {
    const { numbers } = await toFine(this, arrays, context, part(options.pause, 0, 0.4));
    const thresholds = thresholdsFor(this.table.variance, this.table.gridBits);
    await draw(this.engine, thresholds, numbers, part(options.pause, 0.4, 1));
    return packed(numbers, this.table);
  }

  /**
   * Return the mean of survivors' arrays, noise included.
   * @throws VectorError for a sum of another length, or without survivors.
   */
  async decode(sum: Uint8Array, context: Uint8Array, survivors: number): Promise<readonly Float64Array[]> {
    if (!(Number.isInteger(survivors) && survivors >= 1)) {
      throw new VectorError(
        survivors === 0 ? "cannot average: no survivors" : `cannot average over ${survivors} survivors`,
      );
    }
    const { fieldBits, dimension, norm, gridBits, bound } = this.table;
    const sums = unpack(sum, fieldBits, dimension);
    await rotateBack(this.engine, context, sums);
    const step = (norm * 2 ** gridBits) / (bound * survivors);
    return unflatten(
      sums.map((value) => value * step),
      this.shapes,
    );
  }
}

function part(pause: Pause | undefined, from: number, to: number): Pause | undefined {
  return pause && ((done) => pause(from + done * (to - from)));
}

function packed(numbers: Float64Array, { fieldBits }: PrivacyTable): Bytes {
  const words = pack(numbers, fieldBits);
  numbers.fill(0);
  return words;
}

/** Return a client's arrays clipped, rotated and rounded to the fine grid: what noise is drawn around. */
export async function toFine(
  quantizer: NoisyQuantizer,
  arrays: readonly Tensor[],
  context: Uint8Array,
  pause?: Pause,
): Promise<Fine> {
  const vector = new Float64Array(quantizer.table.dimension);
  const clipped = clip(vector, copy(flatten(arrays, quantizer.shapes), vector), quantizer.table);
  await rotate(quantizer.engine, context, vector, pause);
  const numbers = toGrid(vector, quantizer.table.bound);
  vector.fill(0);
  return { numbers, clipped };
}

/** Return the words of arrays with the noise of a given key: for test vectors alone. */
export async function encodeWithKey(
  quantizer: NoisyQuantizer,
  arrays: readonly Tensor[],
  context: Uint8Array,
  key: Bytes,
): Promise<Bytes> {
  const { numbers } = await toFine(quantizer, arrays, context);
  const { variance, gridBits } = quantizer.table;
  await drawWith(quantizer.engine, key, thresholdsFor(variance, gridBits), numbers);
  wipe(key);
  return packed(numbers, quantizer.table);
}
