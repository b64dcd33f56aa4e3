/** Draws from discrete Gaussians by inversion (15.4): uniform 128-bit numbers against exact thresholds. */

import { wipe } from "../bytes.js";
import type { Engine } from "../crypto/engine.js";
import { VectorError } from "../errors.js";
import type { Row, Thresholds } from "./thresholds.js";

/** Called between parts of long work with what is done of it, 0 to 1; may wait, so that a page stays alive. */
export type Pause = (done: number) => void | Promise<void>;

/** Draws whose keystream is made at a time: one megabyte. */
const CHUNK = 1 << 16;
const KEY = 16;
const LARGEST = 2n ** 62n;

/** Return how many thresholds of a row are at most u, given as its 32-bit quarters, the highest first. */
export function invert(row: Row, u0: number, u1: number, u2: number, u3: number): number {
  const { tops } = row;
  let [low, high] = [0, tops.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const top = tops[middle]!;
    if (top < u0 || (top === u0 && atMost(row.thresholds[middle]!, u0, u1, u2, u3))) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/** Tell whether a threshold is at most u; needed once in 2^32 / 100 draws. */
function atMost(threshold: bigint, ...quarters: readonly number[]): boolean {
  return threshold <= quarters.reduce((u, quarter) => (u << 32n) | BigInt(quarter), 0n);
}

/**
 * Replace numbers of fine steps by draws around them, with randomness that is given: for test vectors, and for what
 * has made a key that nobody has used before.
 *
 * @param fine Whole numbers f, replaced in place by draws around f / 2^p.
 */
export async function drawWith(
  engine: Engine,
  key: Uint8Array,
  thresholds: Thresholds,
  fine: Float64Array,
  pause?: Pause,
): Promise<void> {
  for (let start = 0; start < fine.length; start += CHUNK) {
    const part = fine.subarray(start, start + CHUNK);
    const stream = await engine.keystream("aes128-ctr", key, start, KEY * part.length);
    drawPart(thresholds, part, new DataView(stream.buffer, stream.byteOffset, stream.byteLength));
    wipe(stream);
    await pause?.(Math.min(1, (start + CHUNK) / fine.length));
  }
}

function drawPart(thresholds: Thresholds, fine: Float64Array, uniform: DataView): void {
  const cells = 2 ** thresholds.gridBits;
  for (let at = 0, byte = 0; at < fine.length; at++, byte += KEY) {
    if (!Number.isSafeInteger(fine[at])) {
      throw new VectorError(`cannot draw around ${fine[at]} fine steps`);
    }
    const whole = Math.floor(fine[at]! / cells);
    const row = thresholds.row(fine[at]! - whole * cells);
    // The high 64 bits come first, each half little-endian.
    const [u1, u0] = [uniform.getUint32(byte, true), uniform.getUint32(byte + 4, true)];
    const [u3, u2] = [uniform.getUint32(byte + 8, true), uniform.getUint32(byte + 12, true)];
    fine[at] = whole + row.first + invert(row, u0, u1, u2, u3);
  }
}

/** Replace numbers of fine steps by draws around them, with a fresh key that is then forgotten. */
export async function draw(engine: Engine, thresholds: Thresholds, fine: Float64Array, pause?: Pause): Promise<void> {
  await underFreshKey(engine, (key) => drawWith(engine, key, thresholds, fine, pause));
}

/** Use a fresh key once, and overwrite it. */
export async function underFreshKey<T>(engine: Engine, work: (key: Uint8Array) => Promise<T>): Promise<T> {
  const key = engine.random(KEY);
  try {
    return await work(key);
  } finally {
    wipe(key);
  }
}

/** Return draws around centres too large for floats: what is below a whole step goes through the draw. */
export async function drawLargeWith(
  engine: Engine,
  key: Uint8Array,
  thresholds: Thresholds,
  centres: readonly bigint[],
): Promise<bigint[]> {
  if (centres.some((centre) => centre > LARGEST || centre < -LARGEST)) {
    throw new VectorError("cannot draw around more than 2^62 fine steps");
  }
  const drawn = Float64Array.from(centres, (centre) => Number(BigInt.asUintN(thresholds.gridBits, centre)));
  await drawWith(engine, key, thresholds, drawn);
  return centres.map((centre, at) => (centre >> BigInt(thresholds.gridBits)) + BigInt(drawn[at]!));
}
