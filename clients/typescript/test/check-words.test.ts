/** What vectors cannot show of check words: that they are linear, and that one wrong word is always found. */

import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { type Bytes, toHex } from "../src/bytes.js";
import { type Bits, giveBack, takeSum } from "../src/crypto/adding.js";
import { checkWordCount, checkWords } from "../src/crypto/check-words.js";
import { engine } from "./players.js";

const ROUND = { engine, context: new Uint8Array(32).fill(7), generator: "aes128-ctr" } as const;
const BITS: readonly Bits[] = [8, 16, 32, 64];

/** Words of a size, some of them in more than one row. */
const vectors = fc
  .tuple(fc.constantFrom(...BITS), fc.oneof(fc.integer({ min: 1, max: 40 }), fc.constantFrom(16384, 16385, 30_000)))
  .map(([bits, length]) => ({ bits, one: drawn(bits, length), other: drawn(bits, length) }));

function drawn(bits: Bits, length: number): Bytes {
  return engine.random((length * bits) / 8);
}

async function sumOf(bits: Bits, one: Bytes, other: Bytes): Promise<Bytes> {
  const sum = await takeSum();
  sum.piece.set(one);
  sum.add(other, bits, 1);
  const found = sum.piece.slice(0, one.length) as Bytes;
  giveBack(sum);
  return found;
}

test("check words of a sum are the sum of everybody's", async () => {
  await fc.assert(
    fc.asyncProperty(vectors, async ({ bits, one, other }) => {
      const apart = await sumOf(bits, await checkWords(one, bits, ROUND), await checkWords(other, bits, ROUND));
      assert.equal(apart.length, (checkWordCount(bits) * bits) / 8);
      assert.equal(toHex(await checkWords(await sumOf(bits, one, other), bits, ROUND)), toHex(apart));
    }),
    { numRuns: 40 },
  );
});

test("one wrong word changes the first check word, whichever bit of it is wrong", async () => {
  await fc.assert(
    fc.asyncProperty(vectors, fc.nat(), async ({ bits, one }, place) => {
      const size = bits / 8;
      const right = (await checkWords(one, bits, ROUND)).subarray(0, size);
      one[Math.floor(place / 8) % one.length]! ^= 1 << (place % 8);
      assert.notEqual(toHex((await checkWords(one, bits, ROUND)).subarray(0, size)), toHex(right));
    }),
    { numRuns: 40 },
  );
});

test("a client that leaves stops the work on a long vector", async () => {
  const leaving = new AbortController();
  leaving.abort(new RangeError("left"));
  const long = new Uint8Array(1 << 28);
  await assert.rejects(checkWords(long, 8, { ...ROUND, signal: leaving.signal }), /left/);
});
