/**
 * Tables from which discrete Gaussians are drawn (15.4): T_z = floor(2^128 F(z)) exactly, for each phase of the fine
 * grid. No float takes part. The rows of a draw are a secret, and a row takes long to make, so all are made before.
 */

import { ConfigError } from "../errors.js";
import { exponential } from "./fixed.js";

/** The thresholds of one phase. */
export interface Row {
  /** The value of a draw below all thresholds. */
  readonly first: number;
  readonly thresholds: readonly bigint[];
  /** The highest 32 bits of each threshold, which nearly always decide. */
  readonly tops: Uint32Array;
}

const LAST = 2n ** 128n - 1n;
const HALF = 2n ** 127n;
/** Digits of fractions at first, and further digits if those leave a threshold open. */
const DIGITS = 256;
/**
 * No sum of weights, divided by that of all, is off by more than 2^LOST units: exponentials are off by one unit each,
 * products of 26 of them by 2^6, ratios along a row of at most 1300 by 2^12, weights by 2^23, sums by 2^34.
 */
const LOST = 40;
const CACHED = 4;

/** The weights of a table: e^(-q k) for integers k, where q = 1 / (2 s^2 4^p). */
class Weights {
  readonly one: bigint;
  readonly digits: bigint;
  readonly #powers: readonly bigint[];

  constructor(variance: number, gridBits: number, digits: number) {
    const below = BigInt(variance) << BigInt(2 * gridBits);
    this.digits = BigInt(digits);
    this.one = 1n << this.digits;
    this.#powers = Array.from({ length: 2 * gridBits + 3 }, (_, at) => exponential(128n << BigInt(at), below, digits));
  }

  /** Return e^(-q k). */
  at(k: number): bigint {
    let weight = this.one;
    for (let rest = k, at = 0; rest > 0; rest = Math.floor(rest / 2), at++) {
      if (rest % 2 === 1) {
        weight = (weight * this.#powers[at]!) >> this.digits;
      }
    }
    return weight;
  }
}

/** List weights from a centre outwards, until they are below all digits: each is the last times a falling ratio. */
function outwards(weights: Weights, first: bigint, start: bigint, fall: bigint): bigint[] {
  const list: bigint[] = [];
  for (let weight = first, ratio = start; ; ratio = (ratio * fall) >> weights.digits) {
    weight = (weight * ratio) >> weights.digits;
    if (weight === 0n) {
      return list;
    }
    list.push(weight);
  }
}

/** Return the row of a phase up to the middle of the grid, or null where the digits do not decide a threshold. */
function rowWith(weights: Weights, phase: number, cells: number): [first: number, thresholds: bigint[]] | null {
  const centre = weights.at(phase ** 2);
  const fall = weights.at(2 * cells ** 2);
  const left = outwards(weights, centre, weights.at(cells ** 2 + 2 * cells * phase), fall);
  const right = outwards(weights, centre, weights.at(cells ** 2 - 2 * cells * phase), fall);
  const list = [...left.reverse(), centre, ...right];
  const total = list.reduce((sum, weight) => sum + weight, 0n);
  const guard = weights.digits - BigInt(LOST) - 128n;
  const inverse = (1n << (2n * weights.digits)) / total;
  const scale = 2n * weights.digits - 128n - guard;
  let sum = 0n;
  const all = list.map((weight) => {
    sum += weight;
    return (sum * inverse) >> scale;
  });
  // One F(z) is a whole number of 2^-128: in the middle of the grid half of all weight is up to 0, by symmetry.
  const half = 2 * phase === cells ? left.length : -1;
  const edge = (1n << guard) - 1n;
  if (all.some((value, at) => at !== half && undecided(value & edge, edge, value >> guard))) {
    return null;
  }
  const thresholds = all.map((value, at) => (at === half ? HALF : value >> guard));
  const begin = thresholds.findIndex((value) => value >= 1n);
  const end = thresholds.findIndex((value) => value >= LAST);
  return [begin - left.length, [...thresholds.slice(begin, end), LAST]];
}

/** Tell whether digits behind a threshold are so close to a whole number that an error could change it. */
function undecided(rest: bigint, edge: bigint, threshold: bigint): boolean {
  return (rest === 0n && threshold > 0n && threshold <= LAST) || (rest === edge && threshold < LAST);
}

/** Thresholds for one variance and one fine grid. */
export class Thresholds {
  readonly #rows: (Row | undefined)[];
  readonly #cells: number;
  #weights: Weights;

  /**
   * @param variance 256 s^2.
   * @param digits Of fractions at first; fewer give the same rows, after more attempts.
   * @throws ConfigError for numbers of which no table is made.
   */
  constructor(
    readonly variance: number,
    readonly gridBits: number,
    digits: number = DIGITS,
  ) {
    if (!(Number.isInteger(variance) && variance >= 256 && variance <= 2 ** 20)) {
      throw new ConfigError(`the variance must be in 256 ... 2^20, got ${variance}`);
    }
    if (!(Number.isInteger(gridBits) && gridBits >= 0 && gridBits <= 12)) {
      throw new ConfigError(`the grid must have 0 ... 12 bits, got ${gridBits}`);
    }
    this.#cells = 2 ** gridBits;
    this.#rows = new Array<Row | undefined>(this.#cells);
    this.#weights = new Weights(variance, gridBits, digits);
  }

  /** Digits of fractions by now: more than at first where those left a threshold open. */
  get digits(): number {
    return Number(this.#weights.digits);
  }

  /** Make all rows, so that the time of a draw does not show the server which rows are new. */
  makeAll(): this {
    for (let phase = 0; phase < this.#cells; phase++) {
      this.row(phase);
    }
    return this;
  }

  /** How many rows there are by now. */
  get made(): number {
    return this.#rows.filter((row) => row !== undefined).length;
  }

  /** Return the row of a phase, 0 ... 2^gridBits - 1. */
  row(phase: number): Row {
    this.#rows[phase] ??= this.#make(phase);
    return this.#rows[phase];
  }

  #make(phase: number): Row {
    const mirror = this.#cells - phase;
    if (phase > mirror) {
      // Above the middle is the mirror image of the other side, z and 1 - z.
      const { first, thresholds } = this.row(mirror);
      return rowOf(2 - first - thresholds.length, mirrored(thresholds));
    }
    return rowOf(...this.#decided(phase));
  }

  #decided(phase: number): [first: number, thresholds: bigint[]] {
    for (;;) {
      const row = rowWith(this.#weights, phase, this.#cells);
      if (row !== null) {
        return row;
      }
      this.#weights = new Weights(this.variance, this.gridBits, this.digits + 64);
    }
  }
}

function rowOf(first: number, thresholds: readonly bigint[]): Row {
  return { first, thresholds, tops: Uint32Array.from(thresholds, (value) => Number(value >> 96n)) };
}

/** Return T'_z = 2^128 - 1 - T_(-z), which is exact because no F(z) is a multiple of 2^-128; the last becomes 0. */
function mirrored(thresholds: readonly bigint[]): bigint[] {
  return [
    ...thresholds
      .slice(0, -1)
      .map((value) => LAST - value)
      .reverse(),
    LAST,
  ];
}

const cache = new Map<string, Thresholds>();

/** Return all thresholds for a variance and a grid, which are kept: rounds of one charter have the same. */
export function thresholdsFor(variance: number, gridBits: number): Thresholds {
  const key = `${variance} ${gridBits}`;
  const found = cache.get(key) ?? new Thresholds(variance, gridBits).makeAll();
  cache.delete(key);
  cache.set(key, found);
  if (cache.size > CACHED) {
    cache.delete(cache.keys().next().value!);
  }
  return found;
}
