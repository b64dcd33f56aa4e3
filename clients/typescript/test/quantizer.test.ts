import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { VectorError } from "../src/errors.js";
import { pack, unpack } from "../src/quantize/fields.js";
import { Quantizer, roundHalfEven } from "../src/quantize/quantizer.js";

const random = (bytes: number): Uint8Array<ArrayBuffer> => {
  const out = new Uint8Array(bytes);
  for (let at = 0; at < bytes; at += 65536) {
    crypto.getRandomValues(out.subarray(at, at + 65536));
  }
  return out;
};

test("numbers in fields are the sum of their multiples modulo 2^64, and are read back", () => {
  const numbers = (bits: number) => {
    const most = Math.min(2 ** (bits - 1) - 1, 2 ** 53 - 1);
    const number = fc.oneof(
      fc.maxSafeInteger().map((x) => (x % (most + 1)) + 0),
      fc.constantFrom(0, -1, 1, most, -most),
    );
    return fc.tuple(fc.constant(bits), fc.array(number, { minLength: 1, maxLength: 70 }));
  };
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 64 }).chain(numbers), ([bits, list]) => {
      const words = pack(Float64Array.from(list), bits);
      const perWord = Math.floor(64 / bits);
      const expected: bigint[] = new Array(Math.ceil(list.length / perWord)).fill(0n);
      list.forEach((z, at) => {
        expected[Math.floor(at / perWord)]! += BigInt(z) << BigInt(bits * (at % perWord));
      });
      const view = new BigUint64Array(words.buffer);
      assert.deepEqual(
        Array.from(view),
        expected.map((word) => BigInt.asUintN(64, word)),
      );
      const left: number[] = [];
      const back = unpack(words, bits, list.length, (word) => left.push(word));
      assert.deepEqual(
        Array.from(back, (x) => x + 0),
        list.map((x) => x + 0),
      );
      // A negative number above is borrowed from the bits that no field has, and that is nothing left.
      assert.deepEqual(left, []);
    }),
    { numRuns: 500 },
  );
});

test("words are read as if by whole numbers, whatever they are", () => {
  const one = fc.tuple(fc.integer({ min: 2, max: 64 }), fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }));
  fc.assert(
    fc.property(one, ([bits, word]) => {
      const perWord = Math.floor(64 / bits);
      let rest = BigInt.asIntN(64, word);
      const expected = Array.from({ length: perWord }, () => {
        const field = BigInt.asIntN(bits, rest);
        rest = BigInt.asIntN(64, rest - field) >> BigInt(bits);
        return Number(field);
      });
      let left = false;
      const words = new Uint8Array(BigUint64Array.of(word).buffer);
      assert.deepEqual(Array.from(unpack(words, bits, perWord, () => (left = true))), expected);
      assert.equal(left, rest !== 0n);
    }),
    { numRuns: 2000 },
  );
});

test("halves are rounded to even up to 2^52", () => {
  const cases: [number, number][] = [
    [0.5, 0],
    [1.5, 2],
    [2.5, 2],
    [-0.5, 0],
    [-1.5, -2],
    [0.49999999999999994, 0],
    [2 ** 51 + 0.5, 2 ** 51],
    [2 ** 51 + 1.5, 2 ** 51 + 2],
    [-(2 ** 51) - 0.5, -(2 ** 51)],
    [2 ** 52 - 0.5, 2 ** 52],
    [2 ** 52, 2 ** 52],
    [-(2 ** 52), -(2 ** 52)],
  ];
  for (const [x, rounded] of cases) {
    assert.equal(roundHalfEven(x) + 0, rounded, String(x));
  }
});

test("a mean of many clients is within the precision that was asked for", () => {
  for (const rounding of ["nearest", "stochastic"] as const) {
    const clients = 7;
    const coder = new Quantizer({ shapes: [[50], [3, 2]], clients, clip: [1, 4], rounding, precision: 1e-3 });
    const sum = new BigUint64Array(coder.length);
    const mean = new Float64Array(56);
    for (let client = 0; client < clients; client++) {
      const values = Array.from({ length: 56 }, (_, at) => Math.sin(7 * client + at));
      values.forEach((value, at) => (mean[at]! += value / clients));
      const words = new BigUint64Array(coder.encode([values.slice(0, 50), values.slice(50)], 1, random).buffer);
      words.forEach((word, at) => (sum[at] = sum[at]! + word));
    }
    const { arrays, weight } = coder.decode(new Uint8Array(sum.buffer));
    assert.equal(weight, clients);
    Float64Array.from([...arrays[0]!, ...arrays[1]!]).forEach((value, at) => {
      assert.ok(Math.abs(value - mean[at]!) <= 1e-3);
    });
  }
});

test("stochastic rounding is right on average", () => {
  const coder = new Quantizer({ shapes: [[20000]], clients: 1, clip: 7, rounding: "stochastic", fieldBits: 4 });
  const { arrays } = coder.decode(coder.encode([new Float64Array(20000).fill(0.25)], 1, random));
  const ups = arrays[0]!.filter((value) => value === 1).length;
  assert.ok(arrays[0]!.every((value) => value === 0 || value === 1));
  assert.ok(Math.abs(ups - 5000) < 7 * Math.sqrt(20000 * 0.1875)); // fails once in 10^11
});

test("a shape that is given is compared, flat values need only be as many", () => {
  const coder = new Quantizer({ shapes: [[2, 3]], clients: 3, clip: 1, rounding: "nearest" });
  const data = new Float32Array(6);
  assert.deepEqual(coder.encode([data], 1, random), coder.encode([{ shape: [2, 3], data }], 1, random));
  assert.throws(() => coder.encode([{ shape: [3, 2], data }], 1, random), VectorError);
  assert.throws(() => coder.encode([{ shape: [2, 3], data: new Float32Array(5) }], 1, random), VectorError);
});
