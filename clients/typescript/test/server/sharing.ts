/** Joining and correction, which only a server does (docs/protocol.md, 5.3). */

import { FIELD } from "../../src/crypto/sharing.js";
import { TooManyWrong } from "../../src/errors.js";

/** Coefficients from the lowest on, without zeros at the end. */
type Polynomial = readonly number[];

const mod = (x: number): number => ((x % FIELD) + FIELD) % FIELD;
const times = (a: number, b: number): number => (a * b) % FIELD;

/** Return the inverse, by Fermat. */
function inverse(x: number): number {
  let [power, square] = [1, mod(x)];
  for (let rest = FIELD - 2; rest > 0; rest >>= 1) {
    power = rest & 1 ? times(power, square) : power;
    square = times(square, square);
  }
  return power;
}

const trimmed = (p: number[]): Polynomial => p.slice(0, p.findLastIndex((c) => c !== 0) + 1);
const multiply = (a: Polynomial, b: Polynomial): Polynomial => {
  const product = new Array<number>(a.length + b.length).fill(0);
  a.forEach((x, i) => b.forEach((y, j) => (product[i + j] = (product[i + j]! + times(x, y)) % FIELD)));
  return trimmed(product);
};
const add = (a: Polynomial, b: Polynomial, factor = 1): Polynomial =>
  trimmed(Array.from({ length: Math.max(a.length, b.length) }, (_, k) => mod((a[k] ?? 0) + factor * (b[k] ?? 0))));
const value = (p: Polynomial, x: number): number => p.reduceRight((sum, c) => (times(sum, x) + c) % FIELD, 0);

/** Return quotient and remainder. */
function divide(a: Polynomial, b: Polynomial): [Polynomial, Polynomial] {
  const [rest, quotient] = [[...a], new Array<number>(Math.max(0, a.length - b.length + 1)).fill(0)];
  const lead = inverse(b.at(-1)!);
  for (let at = rest.length - b.length; at >= 0; at--) {
    const factor = times(rest[at + b.length - 1]!, lead);
    quotient[at] = factor;
    b.forEach((c, k) => (rest[at + k] = mod(rest[at + k]! - times(factor, c))));
  }
  return [trimmed(quotient), trimmed(rest)];
}

/** Return the polynomial through the points. */
function through(xs: readonly number[], ys: readonly number[]): Polynomial {
  return xs.reduce<Polynomial>((sum, x, k) => {
    const others = xs.filter((_, l) => l !== k);
    const basis = others.reduce<Polynomial>((product, other) => multiply(product, [mod(-other), 1]), [1]);
    return add(sum, multiply(basis, [times(ys[k]!, inverse(value(basis, x)))]));
  }, []);
}

/** Return the secret of shares. */
export function join(xs: readonly number[], shares: readonly Uint16Array[]): Uint16Array {
  const factors = xs.map((x, k) =>
    xs.reduce((product, other, l) => (l === k ? product : times(times(product, other), inverse(other - x))), 1),
  );
  return shares[0]!.map((_, element) =>
    shares.reduce((sum, share, k) => (sum + times(share[element]!, factors[k]!)) % FIELD, 0),
  );
}

/** Return the secret and the places of the shares that were wrong. Throws TooManyWrong. */
export function correct(
  xs: readonly number[],
  shares: readonly Uint16Array[],
  threshold: number,
): { secret: Uint16Array; wrong: number[] } {
  const words = Array.from(shares[0]!, (_, element) => shares.map((share) => share[element]!));
  const decoded = words.map((ys) => decode(xs, ys, threshold));
  const wrong = xs.flatMap((x, k) => (decoded.some((p, element) => value(p, x) !== words[element]![k]) ? [k] : []));
  if (wrong.length > (xs.length - threshold) / 2) {
    throw new TooManyWrong(`${wrong.length} of ${xs.length} shares are wrong`);
  }
  return { secret: Uint16Array.from(decoded, (p) => p[0] ?? 0), wrong };
}

/** Return the polynomial with so many coefficients that most points are on (Gao's algorithm). */
function decode(xs: readonly number[], ys: readonly number[], threshold: number): Polynomial {
  let before: [Polynomial, Polynomial] = [xs.reduce<Polynomial>((all, x) => multiply(all, [mod(-x), 1]), [1]), []];
  let now: [Polynomial, Polynomial] = [through(xs, ys), [1]];
  while (now[0].length > 0 && 2 * (now[0].length - 1) >= xs.length + threshold) {
    const [quotient, rest] = divide(before[0], now[0]);
    [before, now] = [now, [rest, add(before[1], multiply(quotient, now[1]), -1)]];
  }
  const [decoded, rest] = divide(now[0], now[1]);
  if (xs.length < threshold || rest.length > 0 || decoded.length > threshold) {
    throw new TooManyWrong("an element cannot be decoded");
  }
  return decoded;
}
