/** Masks against the sums that whole numbers give, whatever the words, lengths and places in memory. */

import assert from "node:assert/strict";
import { createCipheriv } from "node:crypto";
import { test } from "node:test";
import fc from "fast-check";

import type { Bytes } from "../src/bytes.js";
import type { Engine, Generator } from "../src/crypto/engine.js";
import { addMasks, MASK_KEY_BYTES, type Bits, type Mask } from "../src/crypto/masks.js";

const CIPHERS: Readonly<Record<Generator, { cipher: string; nonce: number; block: number }>> = {
  "aes128-ctr": { cipher: "aes-128-ctr", nonce: 16, block: 16 },
  chacha20: { cipher: "chacha20", nonce: 16, block: 64 },
};

/** Keystreams by another library than the package's. */
function keystream(generator: Generator, key: Uint8Array, block: number, bytes: number): Bytes {
  const { cipher, nonce } = CIPHERS[generator];
  const start = Buffer.alloc(nonce);
  if (generator === "chacha20") start.writeUInt32LE(block, 0);
  else start.writeUInt32BE(block, 12);
  return new Uint8Array(createCipheriv(cipher, key, start).update(new Uint8Array(bytes)));
}

const engine = {
  keystream: (...asked: Parameters<typeof keystream>) => Promise.resolve(keystream(...asked)),
} as unknown as Engine;

/** The words of the sum as whole numbers: slow, and plainly right. */
function expected(vector: Uint8Array, bits: Bits, generator: Generator, masks: readonly Mask[]): Bytes {
  const streams = masks.map(({ key }) => keystream(generator, key, 0, vector.length));
  const out = new Uint8Array(vector.length);
  const bytes = bits / 8;
  const word = (from: Uint8Array, at: number): bigint =>
    from.subarray(at, at + bytes).reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  for (let at = 0; at < vector.length; at += bytes) {
    let sum = word(vector, at);
    masks.forEach(({ sign }, i) => (sum += BigInt(sign) * word(streams[i]!, at)));
    for (let byte = 0; byte < bytes; byte++) out[at + byte] = Number((sum >> BigInt(8 * byte)) & 255n);
  }
  return out;
}

const someMasks = (generator: Generator): fc.Arbitrary<Mask[]> =>
  fc.array(
    fc.record({
      key: fc.uint8Array({ minLength: MASK_KEY_BYTES[generator], maxLength: MASK_KEY_BYTES[generator] }) as fc.Arbitrary<Bytes>,
      sign: fc.constantFrom(1 as const, -1 as const),
    }),
    { maxLength: 6 },
  );

const cases = fc
  .record({
    bits: fc.constantFrom<Bits>(8, 16, 32, 64),
    generator: fc.constantFrom<Generator>("aes128-ctr", "chacha20"),
    words: fc.oneof(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 32_000, max: 33_000 })),
    offset: fc.integer({ min: 0, max: 9 }),
  })
  .chain((one) => fc.record({ ...fixed(one), masks: someMasks(one.generator), fill: fc.uint8Array({ minLength: 1 }) }));

function fixed<T extends object>(one: T): { [K in keyof T]: fc.Arbitrary<T[K]> } {
  return Object.fromEntries(Object.entries(one).map(([name, value]) => [name, fc.constant(value)])) as never;
}

test("masks are added modulo the word, at any length and any place in memory", async () => {
  await fc.assert(
    fc.asyncProperty(cases, async ({ bits, generator, words, offset, masks, fill }) => {
      const vector = new Uint8Array(offset + (words * bits) / 8 + 3).subarray(offset, offset + (words * bits) / 8);
      vector.forEach((_, at) => (vector[at] = fill[at % fill.length]! + at));
      const want = expected(vector, bits, generator, masks);
      await addMasks(vector, bits, generator, masks, { engine });
      assert.deepEqual(Buffer.from(vector), Buffer.from(want));
    }),
    { numRuns: 100, seed: 1 },
  );
});
