/** Any threshold of shares joins to the secret, fewer say nothing, and draws are uniform by rejection. */

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { concat } from "../src/bytes.js";
import { systemRandom } from "../src/crypto/checked.js";
import { drawElements, FIELD, fromBytes, MOST_HOLDERS, split, toBytes } from "../src/crypto/sharing.js";
import { correct, join } from "./server/sharing.js";

const element = fc.oneof({ weight: 3, arbitrary: fc.nat(FIELD - 1) }, fc.constantFrom(0, 1, FIELD - 1));

/** A secret, its coefficients, the threshold and the holders. */
const splits = fc
  .record({ width: fc.integer({ min: 1, max: 5 }), holders: fc.integer({ min: 1, max: 12 }) })
  .chain(({ width, holders }) =>
    fc.integer({ min: 1, max: holders }).chain((threshold) =>
      fc.record({
        holders: fc.constant(holders),
        threshold: fc.constant(threshold),
        secret: fc.array(element, { minLength: width, maxLength: width }),
        coefficients: fc.array(element, { minLength: width * (threshold - 1), maxLength: width * (threshold - 1) }),
        order: fc.shuffledSubarray(
          Array.from({ length: holders }, (_, at) => at + 1),
          { minLength: threshold },
        ),
      }),
    ),
  );

test("any shares, as many as the threshold, join to the secret", () =>
  fc.assert(
    fc.property(splits, ({ holders, threshold, secret, coefficients, order }) => {
      const shares = split(Uint16Array.from(secret), Uint16Array.from(coefficients), threshold, holders);
      assert.equal(shares.length, holders);
      const xs = order.slice(0, threshold);
      assert.deepEqual(
        [
          ...join(
            xs,
            xs.map((x) => shares[x - 1]!),
          ),
        ],
        secret,
      );
    }),
  ));

test("as many wrong shares as the page says are corrected and named", () =>
  fc.assert(
    fc.property(
      splits,
      fc.integer({ min: 1, max: FIELD - 1 }),
      ({ holders, threshold, secret, coefficients, order }, off) => {
        const shares = split(Uint16Array.from(secret), Uint16Array.from(coefficients), threshold, holders);
        const wrong = order.slice(0, (holders - threshold) >> 1).map((x) => x - 1);
        wrong.forEach((at) => (shares[at]![0] = (shares[at]![0]! + off) % FIELD));
        const corrected = correct(
          shares.map((_, at) => at + 1),
          shares,
          threshold,
        );
        assert.deepEqual([...corrected.secret], secret);
        assert.deepEqual(
          corrected.wrong,
          wrong.sort((a, b) => a - b),
        );
      },
    ),
    { numRuns: 50 },
  ));

test("a split is the polynomial's value, by whole numbers of any size", () =>
  fc.assert(
    fc.property(fc.array(element, { minLength: 1, maxLength: 6 }), (polynomial) => {
      const [secret, ...coefficients] = polynomial;
      // The largest x makes the largest products.
      const shares = split(Uint16Array.of(secret!), Uint16Array.from(coefficients), polynomial.length, MOST_HOLDERS);
      for (const x of [1, 2, 32768, 65519, 65520]) {
        const value = polynomial.reduceRight((sum, a) => (sum * BigInt(x) + BigInt(a)) % BigInt(FIELD), 0n);
        assert.equal(shares[x - 1]![0], Number(value));
      }
    }),
    { numRuns: 10 },
  ));

test("splits that make no sense are refused", () => {
  const row = new Uint16Array(4);
  for (const [coefficients, threshold, holders] of [
    [4, 0, 3],
    [12, 4, 3],
    [0, 1, 0],
    [4, 2, 65521],
    [3, 2, 3],
    [8, 2, 3],
    [4, 1.5, 3],
  ] as const) {
    assert.throws(() => split(row, new Uint16Array(coefficients), threshold, holders), { name: "ConfigError" });
  }
});

test("elements come back from their bytes, and others are refused", () =>
  fc.assert(
    fc.property(fc.array(fc.nat(65535), { maxLength: 40 }), (words) => {
      const data = concat(...words.map((word) => Uint8Array.of(word, word >> 8)));
      if (words.some((word) => word >= FIELD)) {
        assert.throws(() => fromBytes(data), { name: "OutsideField" });
      } else {
        assert.deepEqual([...fromBytes(data)], words);
        assert.deepEqual(toBytes(Uint16Array.from(words)), data);
      }
      assert.throws(() => fromBytes(concat(data, Uint8Array.of(0))), { name: "OutsideField" });
    }),
  ));

test("words outside of the field are drawn again, and no more than are missing", () =>
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.nat(65535), fc.integer({ min: 65515, max: 65535 })), { minLength: 60, maxLength: 60 }),
      (words) => {
        const given = [...words, ...new Array<number>(20).fill(7)];
        const inField = given.filter((word) => word < FIELD);
        let at = 0;
        const kept = drawElements((bytes) => {
          const missing = 20 - given.slice(0, at).filter((word) => word < FIELD).length;
          assert.equal(bytes, 2 * missing);
          at += missing;
          return concat(...given.slice(at - missing, at).map((word) => Uint8Array.of(word, word >> 8)));
        }, 20);
        assert.deepEqual([...kept], inField.slice(0, 20));
      },
    ),
  ));

test("what was drawn is overwritten in the source's bytes", () => {
  let drawn = new Uint8Array(0);
  drawElements((bytes) => (drawn = systemRandom(bytes)), 16);
  assert.ok(drawn.length > 0 && drawn.every((byte) => byte === 0));
});
