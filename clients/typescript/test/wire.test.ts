import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { fromHex, join, toHex } from "../src/bytes.js";
import { ConfigError, MalformedMessage } from "../src/errors.js";
import { decode, encode, Float, type Value } from "../src/wire.js";

const integers = fc.oneof(
  fc.constantFrom(0, 127, 128, 255, 256, 65535, 65536, 2 ** 32 - 1, 2 ** 32, Number.MAX_SAFE_INTEGER),
  fc.constantFrom(-1, -32, -33, -128, -129, -32768, -32769, -(2 ** 31), -(2 ** 31) - 1, -(2n ** 63n)),
  fc.maxSafeInteger(),
  fc.bigInt(2n ** 53n, 2n ** 64n - 1n),
  fc.bigInt(-(2n ** 63n), -(2n ** 53n)),
);
const texts = fc.oneof(
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.constantFrom("\ufeffmarked", "\u{1f600}".repeat(70)),
);
const leaves = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  integers,
  texts,
  fc.uint8Array({ maxLength: 300 }),
  fc.double({ noNaN: true }).map((value) => new Float(value)),
);
const values: fc.Arbitrary<Value> = fc.letrec<{ value: Value }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, depthSize: "small" },
    leaves,
    fc.array(tie("value"), { maxLength: 20 }),
    fc.array(fc.tuple(texts, tie("value")), { maxLength: 20 }).map((entries) => new Map(entries)),
  ),
})).value;

test("what is read is what was written", () => {
  fc.assert(fc.property(values, (value) => assert.deepEqual(decode(encode(value)), value)));
});

test("bytes that are read are the encoding of their value", () => {
  const mutated = fc
    .tuple(values, fc.nat(), fc.nat(255), fc.constantFrom("change", "insert", "remove", "cut", "append"))
    .map(([value, at, byte, how]) => mutate(encode(value), at, byte, how));
  fc.assert(
    fc.property(fc.oneof(mutated, fc.uint8Array({ maxLength: 40 })), (data) => {
      const value = readOrRefused(data);
      return value === undefined || toHex(encode(value)) === toHex(data);
    }),
    { numRuns: 2000 },
  );
});

function mutate(data: Uint8Array, where: number, byte: number, how: string): Uint8Array {
  const at = where % data.length;
  const [before, after] = [data.subarray(0, at), data.subarray(at + 1)];
  const one = Uint8Array.of(byte);
  switch (how) {
    case "change":
      return join([before, one, after]);
    case "insert":
      return join([before, one, data.subarray(at)]);
    case "remove":
      return join([before, after]);
    case "cut":
      return before;
    default:
      return join([data, one]);
  }
}

function readOrRefused(data: Uint8Array): Value | undefined {
  try {
    return decode(data);
  } catch (error) {
    assert(error instanceof MalformedMessage, String(error));
    return undefined;
  }
}

// Each header that could have been shorter, at the largest size for which it is not.
const LONGER = [
  ...["cc7f", "cd00ff", "ce0000ffff", "cf00000000ffffffff"],
  ...["d0e0", "d1ff80", "d2ffff8000", "d3ffffffff80000000"],
  ...[`d91f${"61".repeat(31)}`, `da00ff${"61".repeat(255)}`, `db0000ffff${"61".repeat(65535)}`],
  ...[`c500ff${"00".repeat(255)}`, `c60000ffff${"00".repeat(65535)}`],
  ...[`dc000f${"c0".repeat(15)}`, `dd0000ffff${"c0".repeat(65535)}`],
  `de000f${Array.from({ length: 15 }, (_, at) => `a1${(97 + at).toString(16)}c0`).join("")}`,
];
const OTHERS = {
  "nothing at all": "",
  "the byte that msgpack never uses": "c1",
  "a signed integer": "d005",
  "signed integers": "d07f",
  "a float of 32 bits": "ca3f800000",
  "an extension": "d40105",
  "a float that is not a number": "cb7ff8000000000000",
  "a float that ends too early": "cb3ff00000000000",
  "an integer that ends too early": "cd01",
  "a text that is not UTF-8": "a1ff",
  "a surrogate in UTF-8": "a3eda080",
  "a key that is not text": "8101c0",
  "a key twice": "82a161c0a161c0",
  "a byte too many": "c0c0",
  "an array that claims too many": "ddffffffff",
  "a text that claims too many": "dbffffffff61",
  "nine levels": `${"91".repeat(9)}c0`,
};

test("longer forms and other bytes are refused", () => {
  for (const hex of [...LONGER, ...Object.values(OTHERS)]) {
    assert.throws(() => decode(fromHex(hex)), MalformedMessage, hex.slice(0, 40));
  }
  assert.deepEqual(decode(fromHex(`${"91".repeat(8)}c0`)), [[[[[[[[null]]]]]]]]);
});

test("what has no encoding is refused", () => {
  const numbers = [0.5, NaN, Infinity, 2 ** 53, -(2 ** 53), -(2n ** 63n) - 1n, 2n ** 64n];
  for (const value of [...numbers, "\ud800", undefined, {}, Symbol.iterator]) {
    assert.throws(() => encode(value as Value), ConfigError, String(value));
  }
});

test("byte strings that were read are copies, of Node's buffers, too", () => {
  const data = Buffer.from("93c40101c40102c40103", "hex");
  const read = decode(data);
  data.fill(0xff);
  assert.deepEqual(read, [Uint8Array.of(1), Uint8Array.of(2), Uint8Array.of(3)]);
});
