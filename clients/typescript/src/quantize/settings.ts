/** The settings that parties agree on before they lay floats into words, and their consequences (appendix A). */

import { ConfigError } from "../errors.js";

export type Rounding = "nearest" | "stochastic";

/** The agreed settings; at most one of `fieldBits`, `bits` and `precision`, and fields have 32 bits without any. */
export interface QuantizerSettings {
  /** The shape of each array, in order. */
  readonly shapes: readonly (readonly number[])[];
  /** The clients of the round. */
  readonly clients: number;
  /** A bound for the absolute value of all arrays, or one for each. */
  readonly clip: number | readonly number[];
  readonly rounding: Rounding;
  /** The largest weight of a client; 1 unless it is given. */
  readonly maxWeight?: number | undefined;
  /** Bits of a field. */
  readonly fieldBits?: number | undefined;
  /** Bits of a value. */
  readonly bits?: number | undefined;
  /** By how much a value of an unweighted mean may be off. */
  readonly precision?: number | undefined;
}

const MOST = 2 ** 52;
/** The loss of floats in a value, relative to its bound. */
const FLOATS = 2 ** -49;

function positive(value: number, what: string): number {
  if (!(Number.isFinite(value) && value > 0)) {
    throw new ConfigError(`${what} must be a finite number above 0, got ${value}`);
  }
  return value;
}

function whole(value: number, what: string, least: number, most: number): number {
  if (!(Number.isInteger(value) && least <= value && value <= most)) {
    throw new ConfigError(`${what} must be an integer in ${least} ... ${most}, got ${value}`);
  }
  return value;
}

/** Return how many values a shape has. */
export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((size, side) => size * whole(side, "a side of a shape", 0, Number.MAX_SAFE_INTEGER), 1);
}

/** Return the bound of each array. */
export function boundsOf(clip: number | readonly number[], arrays: number): readonly number[] {
  const bounds = typeof clip === "number" ? new Array<number>(arrays).fill(positive(clip, "clip")) : clip;
  if (bounds.length !== arrays) {
    throw new ConfigError(`expected one bound, or one for each of ${arrays} arrays, got ${bounds.length}`);
  }
  return bounds.map((bound) => positive(bound, "clip"));
}

/**
 * Return L, the largest absolute value of one client's number in a field.
 * @throws ConfigError for a width outside of 2 ... 64, or one that cannot add up this number of clients.
 */
export function levelsOf(fieldBits: number, clients: number): number {
  whole(fieldBits, "bits of a field", 2, 64);
  whole(clients, "clients", 1, Number.MAX_SAFE_INTEGER);
  const levels = (2n ** BigInt(fieldBits - 1) - 1n) / BigInt(clients);
  if (levels === 0n) {
    throw new ConfigError(`fields of ${fieldBits} bits are too small for the sum of ${clients} clients`);
  }
  return Math.min(Number(levels), MOST);
}

/** Return the levels that a value needs for a precision, beside the largest bound. */
function levelsForPrecision(precision: number, largest: number, rounding: Rounding): number {
  const share = precision / largest;
  if (!(share > FLOATS)) {
    throw new ConfigError(`precision ${precision} exceeds float64 for values up to ${largest}`);
  }
  return Math.max(1, Math.ceil((rounding === "stochastic" ? 1 : 0.5) / (share - FLOATS)));
}

/** Return the minimum width of a field for `clients` numbers of these levels; a word may not have it. */
function widthFor(levels: number, clients: number): number {
  if (levels > MOST) {
    throw new ConfigError("more than 2^52 levels: choose a larger precision");
  }
  return (BigInt(clients) * BigInt(levels)).toString(2).length + 1;
}

/**
 * Return the bits of a field that settings ask for: as given, from the bits of a value, from a precision, or 32.
 * @throws ConfigError for what appendix A refuses.
 */
export function fieldBitsOf(settings: QuantizerSettings, bounds: readonly number[]): number {
  const { clients, fieldBits, bits, precision, rounding } = settings;
  whole(clients, "clients", 1, Number.MAX_SAFE_INTEGER);
  if ([fieldBits, bits, precision].filter((given) => given !== undefined).length > 1) {
    throw new ConfigError("give at most one of fieldBits, bits and precision");
  }
  if (bits !== undefined) {
    return widthFor(2 ** (whole(bits, "bits of a value", 2, 53) - 1) - 1, clients);
  }
  if (precision !== undefined) {
    positive(precision, "precision");
    return widthFor(bounds.length === 0 ? 1 : levelsForPrecision(precision, Math.max(...bounds), rounding), clients);
  }
  return fieldBits ?? 32;
}

/** Refuse an unknown rounding or an invalid largest weight. */
export function checkRest(settings: QuantizerSettings): void {
  if (settings.rounding !== "nearest" && settings.rounding !== "stochastic") {
    throw new ConfigError(`rounding must be "nearest" or "stochastic", got ${String(settings.rounding)}`);
  }
  positive(settings.maxWeight ?? 1, "maxWeight");
}
