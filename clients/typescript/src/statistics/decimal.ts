/** Decimal numbers as whole numbers of a step 10^-places, without floats (16.1, 16.2). */

/** A decimal number: digits 10^exponent. */
export interface Decimal {
  readonly digits: bigint;
  readonly exponent: number;
}

const FORM = /^([+-]?)(?:([0-9]+)\.?([0-9]*)|\.([0-9]+))(?:[eE]([+-]?[0-9]+))?$/;
/** Beyond 10^FAR every number is above every bound, and below 10^-FAR it is close to zero. */
const FAR = 1000;

/** Return what a decimal form stands for, or null for what is none. */
export function parseDecimal(text: string): Decimal | null {
  const found = FORM.exec(text);
  if (found === null) {
    return null;
  }
  const [, sign = "", whole = "", behind = "", only = "", exponent = "0"] = found;
  const digits = BigInt(`${sign}1`) * BigInt(whole + behind + only);
  const size = Number(exponent) - behind.length - only.length;
  // How large it is, to a factor of ten: zeros at either end are of its text, and not of its value.
  const reach = size + String(digits).length;
  if (digits === 0n || Math.abs(reach) <= FAR) {
    return { digits, exponent: digits === 0n ? 0 : size };
  }
  // Farther than anybody compares: what is left is its sign, and on which side of 1 it is.
  return { digits: digits < 0n ? -1n : 1n, exponent: reach > 0 ? FAR : -FAR };
}

/** Return the decimal that a float64 stands for: its shortest form. */
export function decimalOf(x: number): Decimal | null {
  return parseDecimal(String(x));
}

/** Return a decimal in steps of 10^-places, rounded half to even, and whether that was exact. */
export function inSteps({ digits, exponent }: Decimal, places: number): { steps: bigint; rest: -1 | 0 | 1 } {
  const shift = exponent + places;
  if (shift >= 0) {
    return { steps: digits * 10n ** BigInt(shift), rest: 0 };
  }
  const unit = 10n ** BigInt(-shift);
  const below = floorDivide(digits, unit);
  const twice = 2n * (digits - below * unit);
  const up = twice > unit || (twice === unit && below % 2n !== 0n);
  return { steps: up ? below + 1n : below, rest: twice === 0n ? 0 : up ? -1 : 1 };
}

/** Return the largest integer that is at most a / b, for b above 0. */
export function floorDivide(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return a % b < 0n ? quotient - 1n : quotient;
}
