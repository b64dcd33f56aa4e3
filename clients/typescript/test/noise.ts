/** Noise for tests: ten rounds of eight numbers, of which fourteen honest clients are in every sum. */

import type { PrivacyTable } from "../src/privacy/table.js";

export const NOISE: PrivacyTable = {
  epsilon: 8,
  delta: 1e-6,
  rounds: 10,
  norm: 2,
  against: "follows",
  honest: 14,
  dimension: 8,
  variance: 17992,
  gridBits: 6,
  bound: 970,
  fieldBits: 10,
  fails: -Infinity,
};
