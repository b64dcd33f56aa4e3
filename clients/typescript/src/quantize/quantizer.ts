/** Floats to words and back (appendix A), as all parties have agreed. */

import type { Bytes } from "../bytes.js";
import type { Random } from "../crypto/engine.js";
import { VectorError } from "../errors.js";
import { fieldsPerWord, pack, unpack, wordsFor } from "./fields.js";
import { boundsOf, checkRest, fieldBitsOf, levelsOf, type QuantizerSettings, sizeOf } from "./settings.js";

/** Numbers in C order, the last index fastest. */
export type Values = Float32Array | Float64Array | readonly number[];
/** An array: its values, which then are taken to have the agreed shape, or values with a shape to be compared. */
export type Tensor = Values | { readonly shape: readonly number[]; readonly data: Values };

/** The contents of a sum: the weighted mean of each array, and the sum of the weights. */
export interface Mean {
  readonly arrays: readonly Float64Array[];
  readonly weight: number;
}

const UNIT = 2 ** 24;
const WHOLE = 2 ** 52;
/** Random numbers that are made at a time, from 8 bytes each. */
const CHUNK = 8192;

/** Round to the nearest integer, half to even; exact up to 2^52, where every float64 is an integer. */
export function roundHalfEven(x: number): number {
  return x < 0 ? WHOLE - (WHOLE - x) : x + WHOLE - WHOLE;
}

/** Return the values of arrays one after the other, once their number and shapes are those agreed. */
export function flatten(arrays: readonly Tensor[], shapes: readonly (readonly number[])[]): readonly Values[] {
  if (arrays.length !== shapes.length) {
    throw new VectorError(`expected ${shapes.length} arrays, got ${arrays.length}`);
  }
  return arrays.map((array, at) => {
    const [shape, values] = "data" in array ? [array.shape, array.data] : [null, array];
    const agreed = shapes[at]!;
    if (values.length !== sizeOf(agreed) || (shape !== null && shape.join() !== agreed.join())) {
      throw new VectorError(`array ${at} does not have the agreed shape ${agreed.join(" x ")}`);
    }
    return values;
  });
}

/** Return flat numbers as arrays of the agreed sizes. */
export function unflatten(numbers: Float64Array, shapes: readonly (readonly number[])[]): readonly Float64Array[] {
  let end = 0;
  return shapes.map((shape) => {
    const begin = end;
    end += sizeOf(shape);
    return numbers.slice(begin, end);
  });
}

/** Lays arrays of floats with a weight into words, and reads the mean off a sum of them. */
export class Quantizer {
  /** Bits of a field. */
  readonly fieldBits: number;
  /** Fields of a word. */
  readonly perWord: number;
  /** The largest absolute value of one client's number, L. */
  readonly levels: number;
  /** Digits of a weight, K. */
  readonly digits: number;
  /** Words of a vector: the length of the round. */
  readonly length: number;
  readonly #bounds: readonly number[];
  readonly #maxWeight: number;
  readonly #values: number;

  /** @throws ConfigError for settings that appendix A refuses. */
  constructor(readonly settings: QuantizerSettings) {
    checkRest(settings);
    this.#maxWeight = settings.maxWeight ?? 1;
    this.#bounds = boundsOf(settings.clip, settings.shapes.length);
    this.#values = settings.shapes.reduce((sum, shape) => sum + sizeOf(shape), 0);
    this.fieldBits = fieldBitsOf(settings, this.#values === 0 ? [] : this.#bounds);
    this.levels = levelsOf(this.fieldBits, settings.clients);
    this.perWord = fieldsPerWord(this.fieldBits);
    this.digits = 1;
    for (let reach = this.levels + 1; reach <= UNIT; reach *= this.levels + 1) {
      this.digits++;
    }
    this.length = wordsFor(this.#values + this.digits, this.fieldBits);
  }

  /**
   * Return the words of one client's arrays.
   *
   * @param weight In 0 ... maxWeight.
   * @param random Where stochastic rounding draws from; an engine's `random`.
   * @throws VectorError for other arrays than agreed, NaN, infinity, or such a weight.
   */
  encode(arrays: readonly Tensor[], weight: number, random: Random): Bytes {
    const flat = flatten(arrays, this.settings.shapes);
    if (!(weight >= 0 && weight <= this.#maxWeight)) {
      throw new VectorError(`the weight must be in 0 ... ${this.#maxWeight}, got ${weight}`);
    }
    const units = roundHalfEven((weight / this.#maxWeight) * UNIT);
    const numbers = new Float64Array(this.#values + this.digits);
    let at = 0;
    flat.forEach((values, array) => {
      scale(values, this.#bounds[array]!, (this.levels * units) / UNIT, numbers.subarray(at, at + values.length));
      at += values.length;
    });
    this.#round(numbers.subarray(0, at), random);
    for (let rest = units; at < numbers.length; at++, rest = Math.floor(rest / (this.levels + 1))) {
      numbers[at] = rest % (this.levels + 1);
    }
    const words = pack(numbers, this.fieldBits);
    numbers.fill(0);
    return words;
  }

  #round(numbers: Float64Array, random: Random): void {
    const levels = this.levels;
    if (this.settings.rounding === "stochastic") {
      roundAtRandom(numbers, random);
    } else {
      for (let at = 0; at < numbers.length; at++) {
        numbers[at] = roundHalfEven(numbers[at]!);
      }
    }
    for (let at = 0; at < numbers.length; at++) {
      numbers[at] = Math.min(Math.max(numbers[at]!, -levels), levels);
    }
  }

  /**
   * Return the mean that a sum of words says.
   * @throws VectorError for a sum that the agreed clients cannot have, or one without any weight.
   */
  decode(sum: Uint8Array): Mean {
    const sums = unpack(sum, this.fieldBits, this.#values + this.digits, (word) => {
      throw new VectorError(`word ${word} of the sum is larger than the clients can produce`);
    });
    this.#checkSums(sums, sum);
    const units = this.#units(sums.subarray(this.#values));
    const arrays = unflatten(sums, this.settings.shapes);
    arrays.forEach((values, array) => {
      const [share, step] = [UNIT / units, this.#bounds[array]! / this.levels];
      for (let at = 0; at < values.length; at++) {
        values[at] = values[at]! * share * step;
      }
      if (!values.every(Number.isFinite)) {
        throw new VectorError("the mean does not fit into float64: the weights are too small for the values");
      }
    });
    return { arrays, weight: (units / UNIT) * this.#maxWeight };
  }

  /** Refuse a number beyond what all clients together can have. */
  #checkSums(sums: Float64Array, words: Uint8Array): void {
    const most = BigInt(this.settings.clients) * BigInt(this.levels);
    const surely = Number(most) * (1 - 2 ** -40);
    for (let at = 0; at < sums.length; at++) {
      // Only close to the limit do the last digits matter, which float64 does not have in a field of 64 bits.
      if (Math.abs(sums[at]!) > surely && beyond(this.#exact(sums[at]!, words, at), most)) {
        throw new VectorError(`sum ${at} is larger than ${this.settings.clients} clients can produce`);
      }
    }
  }

  #exact(sum: number, words: Uint8Array, at: number): bigint {
    return this.perWord > 1
      ? BigInt(sum)
      : new DataView(words.buffer, words.byteOffset, words.byteLength).getBigInt64(8 * at, true);
  }

  /** Return the sum of the weights in units, U, from the sums of their digits. */
  #units(digits: Float64Array): number {
    if (digits.some((digit) => digit < 0)) {
      throw new VectorError("a digit of the weight has a negative sum, which clients cannot produce");
    }
    const base = BigInt(this.levels) + 1n;
    const units = digits.reduceRight((rest, digit) => rest * base + BigInt(digit), 0n);
    if (units === 0n || units > BigInt(this.settings.clients) * BigInt(UNIT)) {
      throw new VectorError(
        units === 0n ? "cannot average: all weights are 0" : "the weight is larger than the clients can have",
      );
    }
    return Number(units);
  }
}

function beyond(sum: bigint, most: bigint): boolean {
  return sum > most || sum < -most;
}

/** Write values in steps of one level, clipped to their bound. */
function scale(values: Values, bound: number, steps: number, into: Float64Array): void {
  for (let at = 0; at < into.length; at++) {
    const value = values[at]!;
    if (!Number.isFinite(value)) {
      throw new VectorError(`value ${at} of an array is ${value}`);
    }
    into[at] = (Math.min(Math.max(value, -bound), bound) / bound) * steps;
  }
}

/** Round each number down, or up with the probability of its fraction. */
function roundAtRandom(numbers: Float64Array, random: Random): void {
  for (let start = 0; start < numbers.length; start += CHUNK) {
    const end = Math.min(start + CHUNK, numbers.length);
    const bytes = random(8 * (end - start));
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let at = start, byte = 0; at < end; at++, byte += 8) {
      const draw = ((view.getUint32(byte, true) >>> 6) + (view.getUint32(byte + 4, true) >>> 5) * 2 ** 26) * 2 ** -53;
      const below = Math.floor(numbers[at]!);
      numbers[at] = draw < numbers[at]! - below ? below + 1 : below;
    }
    bytes.fill(0);
  }
}
