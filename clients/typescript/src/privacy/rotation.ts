/** The rotation that spreads a vector over all its numbers (15.2), the same for all clients of a round. */

import { type Bytes, wipe } from "../bytes.js";
import type { Engine } from "../crypto/engine.js";
import { hashed } from "../labels.js";
import type { Pause } from "./draw.js";

/** Numbers in the cache of a core, within which butterflies of one distance stay as long as they can. */
const BLOCK = 1 << 13;

/** Return the size of a pass: the largest power of two that is at most d. */
function passSize(d: number): number {
  return 2 ** Math.floor(Math.log2(d));
}

/** Return where the passes over d numbers start: one if d is a power of two, else two that overlap. */
function starts(d: number): number[] {
  const h = passSize(d);
  return h === d ? [0] : [0, d - h];
}

/** Return the bits of the signs of all passes over d numbers; bit j is bit j mod 8 of byte floor(j / 8). */
export async function signBits(engine: Engine, context: Uint8Array, d: number): Promise<Bytes> {
  const key = (await hashed(engine, "rotation", context)).slice(0, 16);
  return engine.keystream("aes128-ctr", key, 0, Math.ceil((starts(d).length * passSize(d)) / 8));
}

/** Multiply numbers by their signs, from a bit of the stream on. */
function turn(numbers: Float64Array, bits: Uint8Array, from: number): void {
  for (let at = 0; at < numbers.length; at++) {
    const bit = from + at;
    if ((bits[bit >>> 3]! >>> (bit & 7)) & 1) {
      numbers[at] = -numbers[at]!;
    }
  }
}

/** Replace pairs at a distance by their sums and differences. */
function butterflies(numbers: Float64Array, distance: number): void {
  for (let start = 0; start < numbers.length; start += 2 * distance) {
    for (let at = start; at < start + distance; at++) {
      const [a, b] = [numbers[at]!, numbers[at + distance]!];
      numbers[at] = a + b;
      numbers[at + distance] = a - b;
    }
  }
}

/** Replace numbers by their scaled Walsh-Hadamard transform; the order of blocks does not change a bit of it. */
async function transform(numbers: Float64Array, pause?: Pause): Promise<void> {
  const scale = 1 / Math.sqrt(numbers.length);
  for (let at = 0; at < numbers.length; at++) {
    numbers[at] = numbers[at]! * scale;
  }
  for (let start = 0; start < numbers.length; start += BLOCK) {
    if (start % (16 * BLOCK) === 0) {
      await pause?.((0.5 * start) / numbers.length);
    }
    const block = numbers.subarray(start, start + BLOCK);
    for (let distance = 1; distance < block.length; distance *= 2) {
      butterflies(block, distance);
    }
  }
  for (let distance = BLOCK; distance < numbers.length; distance *= 2) {
    await pause?.(0.5 + distance / numbers.length);
    butterflies(numbers, distance);
  }
}

/** Rotate a vector in place. */
export async function rotate(engine: Engine, context: Uint8Array, vector: Float64Array, pause?: Pause): Promise<void> {
  const bits = await signBits(engine, context, vector.length);
  const h = passSize(vector.length);
  for (const [pass, start] of starts(vector.length).entries()) {
    const part = vector.subarray(start, start + h);
    turn(part, bits, pass * h);
    await transform(part, pause);
  }
  wipe(bits);
}

/** Rotate a vector back in place: the last pass first, each the transform and then the signs. */
export async function rotateBack(engine: Engine, context: Uint8Array, vector: Float64Array): Promise<void> {
  const bits = await signBits(engine, context, vector.length);
  const h = passSize(vector.length);
  for (const [pass, start] of [...starts(vector.length).entries()].reverse()) {
    const part = vector.subarray(start, start + h);
    await transform(part);
    turn(part, bits, pass * h);
  }
}
