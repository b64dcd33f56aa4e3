/**
 * The promise of noise: delta at a given epsilon, by (11) of docs/privacy.md. All that decides is computed in whole
 * numbers to 640 binary digits and rounded up, so that nobody has to trust the tails of a float's error function.
 */

import { exponential, fixed, squareRoot } from "./fixed.js";

/** Those of the agreed numbers on which the promise rests (15.1). */
export interface Noise {
  readonly honest: number;
  readonly dimension: number;
  readonly variance: number;
  readonly gridBits: number;
  readonly bound: number;
  readonly fails: number;
}

/** So many vectors with one noise. */
export interface Release {
  readonly noise: Noise;
  readonly vectors: number;
}

/** Digits of all fractions here. A tail of 20 standard deviations is below 2^-290, and its series adds up to 2^290. */
export const DIGITS = 640;
const D = BigInt(DIGITS);
const ONE = 1n << D;
const DIGITS_OF_PI =
  31415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253421170679n;
const PI = (DIGITS_OF_PI * ONE) / 10n ** 100n;
const ROOT_OF_TWO_PI = squareRoot((2n * PI) << D);
const FAR = 20n << D;
/** The variance of the draw behind which a Gaussian is disguised, r^2 = 1.75^2, in 256ths. */
const DISGUISE = 784n;
/** More than floats lose in what is far below the promise. */
const UP = 1 + 2 ** -40;

/** Return the probability that a standard normal variable is above x, within 2^-250. */
export function tail(x: bigint): bigint {
  if (x < 0n) {
    return ONE - tail(-x);
  }
  if (x >= FAR) {
    return 0n;
  }
  // 1/2 - density(x) (x + x^3 / 3 + x^5 / (3 5) + ...): all terms are above zero, so nothing cancels out.
  const square = (x * x) >> D;
  let [sum, term] = [0n, x];
  for (let n = 3n; term !== 0n; n += 2n) {
    sum += term;
    term = (term * square) / (n << D);
  }
  const density = (exponential(square, 2n * ONE, DIGITS) << D) / ROOT_OF_TWO_PI;
  return ONE / 2n - ((density * sum) >> D);
}

/** Return the delta of a Gaussian mechanism at an epsilon, by (9). */
export function gaussianDelta(mu: bigint, epsilon: bigint): bigint {
  const ratio = (epsilon << D) / mu;
  const growth = (ONE << D) / exponential(epsilon, ONE, DIGITS);
  return tail(ratio - mu / 2n) - ((growth * tail(ratio + mu / 2n)) >> D);
}

/** Return a bound on what the density sums up to over the integers beside 1: 2x / (1 - x) by (1), as a logarithm. */
function excess(variance: number): number {
  const x = Math.exp(-2 * Math.PI ** 2 * variance * (1 - 2 ** -40));
  const eta = (2 * x) / (1 - x);
  return -Math.log1p(-eta) * UP;
}

/** Return L of one vector: by how much the sum of draws differs from a disguised Gaussian, by (4) to (6). */
export function slackOf({ honest, dimension, variance }: Noise): number {
  const square = variance / 256;
  let between = 0;
  const terms = Math.min(honest - 1, 63);
  for (let k = 1; k <= terms; k++) {
    // Terms fall with k: the 63rd stands for all that follow.
    between += excess(square * (k / (k + 1))) * (k === 63 ? honest - 63 : 1);
  }
  return dimension * (honest * excess(square) + between + excess(1.75 ** 2)) * UP;
}

/** Return a bound on half the length of a row of thresholds (15.4). */
function mostDistance(variance: number): bigint {
  return squareRoot((7n * 192n * BigInt(variance)) / 1280n) + 1n;
}

/** Return mu^2 of releases, by (8). */
function muSquared(releases: readonly Release[]): bigint {
  return releases.reduce((sum, { noise, vectors }) => {
    const above = (BigInt(vectors) * BigInt(noise.bound) ** 2n * 256n) << D;
    const below = (BigInt(noise.honest) * BigInt(noise.variance) - DISGUISE) << BigInt(2 * noise.gridBits);
    return sum + above / below + 1n;
  }, 0n);
}

/** Return the distance of all draws of releases from their distribution, by (10). */
function distance(releases: readonly Release[]): bigint {
  return releases.reduce((sum, { noise, vectors }) => {
    const draws = BigInt(vectors) * BigInt(noise.honest) * BigInt(noise.dimension);
    return sum + ((draws * (2n * mostDistance(noise.variance) + 3n)) << (D - 129n));
  }, 0n);
}

/**
 * Return what releases together keep as delta at an epsilon, by (11), rounded up: a fraction of 2^-640.
 *
 * @param epsilon Above 0, at most 50.
 * @param claimed The epsilon that is promised in the end, at which the distance of draws counts.
 */
export function deltaOf(releases: readonly Release[], epsilon: number, claimed: number = epsilon): bigint {
  const slack = releases.reduce((sum, { noise, vectors }) => sum + vectors * slackOf(noise) * UP, 0);
  const left = fixed(epsilon, DIGITS) - 2n * fixed(slack, DIGITS);
  if (!(slack < 1) || left <= 0n) {
    return ONE;
  }
  const mu = squareRoot(muSquared(releases) << D) + 1n;
  const stretched = (gaussianDelta(mu, left) << D) / exponential(fixed(slack, DIGITS), ONE, DIGITS);
  const growth = (ONE << D) / exponential(fixed(claimed, DIGITS), ONE, DIGITS);
  const drawn = ((ONE + growth) * distance(releases)) >> D;
  const graphs = releases.reduce((sum, { noise, vectors }) => sum + vectors * 2 ** noise.fails * UP, 0);
  return stretched + drawn + fixed(graphs, DIGITS) + (1n << (D - 200n));
}

/** Return the least epsilon, rounded up, at which releases together keep a delta; infinity if it is not claimed. */
export function epsilonOf(releases: readonly Release[], delta: number, claimed: number): number {
  const most = fixed(delta, DIGITS);
  if (releases.length === 0 || deltaOf(releases, claimed) > most) {
    return releases.length === 0 ? 0 : Infinity;
  }
  let [low, high] = [0, claimed];
  while (high - low > high * 2 ** -40) {
    const middle = (low + high) / 2;
    [low, high] = deltaOf(releases, middle, claimed) > most ? [middle, high] : [low, middle];
  }
  return high;
}
