/**
 * Whole-number arithmetic for what must not depend on floats: a fraction x is kept as the integer x 2^bits, rounded
 * down after each operation, so that errors can be counted.
 */

/** Return a finite float64 as a fraction of 2^-bits, rounded down; exact unless it is smaller than that. */
export function fixed(x: number, bits: number): bigint {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, x);
  const raw = view.getBigUint64(0);
  const exponent = Number((raw >> 52n) & 0x7ffn);
  const digits = (raw & 0xfffffffffffffn) | (exponent > 0 ? 1n << 52n : 0n);
  const shift = bits + Math.max(exponent, 1) - 1075;
  const signed = x < 0 ? -digits : digits;
  return shift >= 0 ? signed << BigInt(shift) : signed >> BigInt(-shift);
}

/** Return a fraction as the nearest float64, or one beside it. */
export function toFloat(x: bigint, bits: number): number {
  const spare = Math.max(x.toString(2).length - 64, 0);
  return Number(x >> BigInt(spare)) * 2 ** (spare - bits);
}

/** Return the largest integer whose square is at most x. */
export function squareRoot(x: bigint): bigint {
  if (x < 2n) {
    return x;
  }
  let root = 1n << BigInt(Math.ceil(x.toString(2).length / 2));
  for (;;) {
    const next = (root + x / root) >> 1n;
    if (next >= root) {
      return root;
    }
    root = next;
  }
}

/**
 * Return e^(-numerator / denominator), for both at least 0 and above 0, within 2^-bits.
 *
 * The argument is halved until it is below 1/2, where 40 terms or so suffice, and the result squared as often; the
 * guard digits are more than the squares lose.
 */
export function exponential(numerator: bigint, denominator: bigint, bits: number): bigint {
  const halvings = Math.max(0, numerator.toString(2).length - denominator.toString(2).length + 2);
  const guard = BigInt(bits + halvings + 16);
  const x = (numerator << guard) / (denominator << BigInt(halvings));
  let [sum, term] = [0n, 1n << guard];
  for (let n = 1n; term !== 0n; n++) {
    sum += n % 2n === 1n ? term : -term;
    term = (term * x) / (n << guard);
  }
  for (let at = 0; at < halvings; at++) {
    sum = (sum * sum) >> guard;
  }
  return sum >> (guard - BigInt(bits));
}
