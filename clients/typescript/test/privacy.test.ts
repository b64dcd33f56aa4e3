import assert from "node:assert/strict";
import { before, test } from "node:test";
import fc from "fast-check";
import { type Bytes, fromHex, toHex } from "../src/bytes.js";
import { Table } from "../src/charter/table.js";
import type { Engine } from "../src/crypto/engine.js";
import { systemEngine } from "../src/crypto/engines.js";
import { ConfigError, VectorError } from "../src/errors.js";
import { DIGITS, deltaOf, epsilonOf, gaussianDelta, tail } from "../src/privacy/accounting.js";
import { draw, drawLargeWith, invert } from "../src/privacy/draw.js";
import { exponential, fixed, squareRoot, toFloat } from "../src/privacy/fixed.js";
import { NoisyQuantizer, sumOfSquares, toGrid } from "../src/privacy/noisy.js";
import { rotate, rotateBack, signBits } from "../src/privacy/rotation.js";
import { checkNoisyRound, checkPrivacy, type PrivacyTable, readPrivacy } from "../src/privacy/table.js";
import { Thresholds, thresholdsFor } from "../src/privacy/thresholds.js";
import { NOISE } from "./noise.js";

let engine: Engine;
before(async () => {
  engine = await systemEngine();
});

const TABLE: PrivacyTable = { ...NOISE, fails: -40 };
const ONE = 1n << BigInt(DIGITS);

/** Return a decimal number as a fraction. */
function decimal(text: string): bigint {
  const [digits = "", exponent = "0"] = text.split("e");
  const [whole = "", behind = ""] = digits.split(".");
  const scale = 10n ** BigInt(behind.length - Number(exponent));
  return (BigInt(whole + behind) * ONE) / scale;
}

function near(found: bigint, expected: bigint, digits: number): void {
  const off = found > expected ? found - expected : expected - found;
  const most = expected / 10n ** BigInt(digits) + (1n << BigInt(DIGITS - 300));
  assert.ok(off <= most, `${toFloat(found, DIGITS)} is not ${toFloat(expected, DIGITS)}`);
}

test("tails are those of the normal distribution, to 35 digits", () => {
  // mpmath, 50 digits: erfc(x / sqrt(2)) / 2
  const known = [
    ["0.1", "0.4601721627229710185345953817608179169859"],
    ["0.5", "0.3085375387259868963622953893916622601164"],
    ["1", "0.1586552539314570514147674543679620775221"],
    ["2.5", "0.006209665325776135166978104574192221127898"],
    ["5", "0.0000002866515718791939116737523328746453538544"],
    ["8.125", "2.236812064444105046680011607495226752797e-16"],
    ["12", "1.776482112077678997696171001845557092393e-33"],
    ["19.9", "2.034643208782672122747274128393621823036e-88"],
  ] as const;
  for (const [x, expected] of known) {
    near(tail(decimal(x)), decimal(expected), 35);
    assert.equal(tail(decimal(x)) + tail(-decimal(x)), ONE);
  }
  assert.equal(tail(decimal("20")), 0n);
});

test("the delta of a Gaussian is the exact one", () => {
  // mpmath, 50 digits
  const known = [
    [1.53, 8, "0.000000970551901382743413385818954546"],
    [0.01, 0.05, "5.48144020074687256140056206199e-10"],
    [3, 1, "0.787600741360384533592877632289"],
    [0.5, 3, "3.40091173567352882417679680915e-10"],
    [6, 50, "0.0000000249534465662533778559458818878"],
  ] as const;
  for (const [mu, epsilon, expected] of known) {
    near(gaussianDelta(fixed(mu, DIGITS), fixed(epsilon, DIGITS)), decimal(expected), 26);
  }
});

test("tails fall", () => {
  const float = fc.double({ min: 0, max: 25, noNaN: true });
  fc.assert(
    fc.property(float, float, (a, b) => {
      const [low, high] = a < b ? [a, b] : [b, a];
      assert.ok(tail(fixed(low, DIGITS)) >= tail(fixed(high, DIGITS)));
    }),
  );
});

test("exponentials are within their last digit, and roots exact", () => {
  fc.assert(
    fc.property(fc.bigInt(0n, 10n ** 12n), fc.bigInt(1n, 10n ** 9n), (a, b) => {
      const [coarse, exact] = [exponential(a, b, 128), exponential(a, b, 256) >> 128n];
      assert.ok(coarse === exact || coarse === exact - 1n || coarse === exact + 1n);
      const root = squareRoot(a);
      assert.ok(root * root <= a && (root + 1n) ** 2n > a);
    }),
  );
  for (const x of [0, 0.25, 1, 7.5, 50]) {
    const found = toFloat(exponential(fixed(x, 64), 1n << 64n, 256), 256);
    assert.ok(Math.abs(found / Math.exp(-x) - 1) < 1e-14);
  }
});

test("floats are fractions without loss", () => {
  fc.assert(
    fc.property(fc.double({ min: 1e-150, max: 1e30, noNaN: true }), (x) => {
      assert.equal(toFloat(fixed(x, 600), 600), x);
    }),
  );
  assert.equal(fixed(-0.75, 2), -3n);
  assert.equal(fixed(5e-324, 1074), 1n);
});

test("a promise is kept by what was planned, and not by a little less noise", () => {
  checkPrivacy(TABLE);
  const less: Partial<PrivacyTable>[] = [
    { variance: 17736 },
    { bound: 972 },
    { rounds: 11 },
    { honest: 13 },
    { epsilon: 7.9 },
    { delta: 9e-7 },
    { fails: -19 },
  ];
  for (const change of less) {
    assert.throws(() => checkPrivacy({ ...TABLE, ...change }), ConfigError);
  }
  assert.throws(() => checkPrivacy({ ...TABLE, unit: "client" as never }), ConfigError);
  const release = [{ noise: TABLE, vectors: 10 }];
  const kept = epsilonOf(release, 1e-6, 8);
  assert.ok(deltaOf(release, kept, 8) <= fixed(1e-6, DIGITS));
  assert.ok(deltaOf(release, kept * (1 - 1e-9), 8) > fixed(1e-6, DIGITS));
  assert.ok(epsilonOf([{ noise: TABLE, vectors: 5 }], 1e-6, 8) < kept);
  assert.equal(epsilonOf([{ noise: TABLE, vectors: 100 }], 1e-6, 8), Infinity);
});

test("draws count in the promise: so many of them that their distance does", () => {
  // Everything else about this table is fine: it has next to no signal.
  const huge = {
    ...TABLE,
    honest: 2 ** 32,
    dimension: 2 ** 34,
    rounds: 1e9,
    variance: 262144,
    bound: 1,
    fails: -Infinity,
  };
  checkPrivacy({ ...huge, epsilon: 0.5 });
  assert.throws(() => checkPrivacy({ ...huge, epsilon: 50 }), ConfigError);
});

test("a table is read key by key, with its default and nothing else", () => {
  const toml = {
    epsilon: 8n,
    delta: 1e-6,
    rounds: 10n,
    norm: 2.0,
    honest: 14n,
    dimension: 8n,
    variance: 17992n,
    grid_bits: 6n,
    bound: 970n,
    field_bits: 10n,
    fails: -40.0,
  };
  assert.deepEqual(readPrivacy(new Table(toml, "[privacy]")), TABLE);
  assert.deepEqual(readPrivacy(new Table({ ...toml, unit: "record" }, "[privacy]")), { ...TABLE, unit: "record" });
  const changes = [{ unit: "client" }, { more: 1n }, { rounds: 10.0 }, { against: "both" }, { epsilon: "8" }];
  for (const change of changes) {
    assert.throws(() => readPrivacy(new Table({ ...toml, ...change }, "[privacy]")), ConfigError);
  }
});

test("a round that noise is not for is refused", () => {
  const round = { length: 2, bits: 64, minSurvivors: 14 };
  checkNoisyRound(TABLE, round);
  for (const change of [{ length: 3 }, { bits: 32 }, { minSurvivors: 13 }]) {
    assert.throws(() => checkNoisyRound(TABLE, { ...round, ...change }), ConfigError);
  }
});

test("thresholds are the same with few digits, which leave many of them open at first", () => {
  for (const [variance, gridBits] of [
    [1240, 2],
    [17992, 4],
    [262144, 1],
  ] as const) {
    const [few, many] = [new Thresholds(variance, gridBits, 172), new Thresholds(variance, gridBits, 512)];
    for (let phase = 0; phase < 2 ** gridBits; phase++) {
      assert.deepEqual(few.row(phase), many.row(phase));
    }
    assert.deepEqual([few.digits > 172, many.digits], [true, 512]);
  }
});

test("no row is made in the middle of a draw, where the time that it takes would tell of the numbers", async () => {
  const thresholds = thresholdsFor(1241, 5);
  assert.equal(thresholds.made, 32);
  assert.equal(thresholdsFor(1241, 5), thresholds);
});

test("a uniform number draws by the thresholds at most as large, to the last of 128 bits", () => {
  const row = new Thresholds(2304, 6).row(17);
  const quarters = (u: bigint): [number, number, number, number] => [
    Number(u >> 96n),
    Number(BigInt.asUintN(32, u >> 64n)),
    Number(BigInt.asUintN(32, u >> 32n)),
    Number(BigInt.asUintN(32, u)),
  ];
  const candidates = row.thresholds.flatMap((value) => [value - 1n, value, value + 1n]).filter((u) => u < 1n << 128n);
  for (const u of [0n, ...candidates]) {
    const expected = row.thresholds.filter((value) => value <= u).length;
    assert.equal(invert(row, ...quarters(u)), expected, String(u));
  }
});

test("draws have the mean and the variance of the discrete Gaussian, and centres do not matter", async () => {
  const [count, variance] = [40_000, 2304 / 256];
  const fine = new Float64Array(count).fill(64 * 100 + 17);
  await draw(engine, new Thresholds(2304, 6), fine);
  const mean = fine.reduce((sum, y) => sum + y, 0) / count;
  const spread = fine.reduce((sum, y) => sum + (y - mean) ** 2, 0) / count;
  assert.ok(Math.abs(mean - (100 + 17 / 64)) < 7 * Math.sqrt(variance / count)); // fails once in 10^11
  assert.ok(Math.abs(spread - variance) < 7 * variance * Math.sqrt(2 / count));
});

test("every draw has a key of its own, which is overwritten", async () => {
  const keys: Bytes[] = [];
  const seen: string[] = [];
  const spied: Engine = {
    ...engine,
    random: (bytes) => {
      const key = engine.random(bytes);
      keys.push(key);
      seen.push(toHex(key));
      return key;
    },
    keystream: (generator, key, block, bytes) => engine.keystream(generator, key, block, bytes),
  };
  const thresholds = new Thresholds(2304, 6);
  const [first, second] = [new Float64Array(500), new Float64Array(500)];
  await draw(spied, thresholds, first);
  await draw(spied, thresholds, second);
  assert.equal(new Set(seen).size, 2);
  assert.ok(keys.every((key) => key.every((byte) => byte === 0)));
  assert.notDeepEqual(first, second);
});

test("nothing is drawn around what is no whole number, or too large", async () => {
  const thresholds = new Thresholds(2304, 6);
  for (const value of [0.5, NaN, Infinity, 2 ** 53]) {
    await assert.rejects(draw(engine, thresholds, Float64Array.of(value)), VectorError);
  }
  await assert.rejects(drawLargeWith(engine, new Uint8Array(16), thresholds, [2n ** 62n + 1n]), VectorError);
});

test("the rotation of the page, and back", async () => {
  const context = Uint8Array.from({ length: 32 }, (_, at) => at);
  const vector = Float64Array.of(1, 10, 100, 1000, 10000);
  await rotate(engine, context, vector);
  assert.deepEqual(Array.from(vector), [555.5, 4822.25, -5722.25, -4732.25, 4723.25]);
  await rotateBack(engine, context, vector);
  assert.deepEqual(Array.from(vector), [1, 10, 100, 1000, 10000]);
});

test("a rotation by blocks has the bits of one without", async () => {
  const [size, context] = [2 ** 15, fromHex("00".repeat(32))];
  const found = Float64Array.from({ length: size }, (_, at) => Math.sin(at));
  const expected = new Float64Array(size);
  await rotate(engine, context, found);
  const plain = Float64Array.from({ length: size }, (_, at) => Math.sin(at));
  const bits = await signBits(engine, context, size);
  plain.forEach((value, at) => {
    expected[at] = (((bits[at >> 3]! >> (at & 7)) & 1) === 1 ? -value : value) * (1 / Math.sqrt(size));
  });
  for (let distance = 1; distance < size; distance *= 2) {
    for (let at = 0; at < size; at++) {
      if ((at & distance) === 0) {
        const [a, b] = [expected[at]!, expected[at + distance]!];
        [expected[at], expected[at + distance]] = [a + b, a - b];
      }
    }
  }
  assert.deepEqual(found, expected);
});

test("squares are added up exactly", () => {
  const list = fc.array(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }), { maxLength: 50 });
  fc.assert(
    fc.property(list, (numbers) => {
      const expected = numbers.reduce((sum, number) => sum + BigInt(number) ** 2n, 0n);
      assert.equal(sumOfSquares(Float64Array.from(numbers)), expected);
    }),
  );
  assert.equal(sumOfSquares(new Float64Array(200_000).fill(-(2 ** 31))), 200_000n * 2n ** 62n);
});

test("whatever floats did, the vector on the grid is within the bound", () => {
  const numbers = fc.array(fc.double(), { minLength: 1, maxLength: 40 });
  fc.assert(
    fc.property(numbers, fc.integer({ min: 1, max: 2 ** 31 }), (rotated, bound) => {
      const fine = toGrid(Float64Array.from(rotated), bound);
      assert.ok(fine.every(Number.isInteger));
      assert.ok(sumOfSquares(fine) <= BigInt(bound) ** 2n);
    }),
    { numRuns: 1000 },
  );
  // Half a step each, all rounded up: too long, so shortened; and what cannot be shortened becomes zero.
  assert.ok(sumOfSquares(toGrid(new Float64Array(100).fill(1.51), 16)) > 0n);
  assert.ok(toGrid(new Float64Array(5).fill(0.9), 1).every((value) => value === 0));
});

test("a vector goes to words with fresh noise, in parts that say how far they are", async () => {
  const coder = new NoisyQuantizer(engine, { ...TABLE, dimension: 8 }, [[2], [3, 2]]);
  const context = engine.random(32);
  const arrays = [[0.5, 0.5], new Float64Array(6)];
  const done: number[] = [];
  const first = await coder.encode(arrays, context, { pause: (share) => void done.push(share) });
  assert.equal(first.length, 8 * coder.length);
  assert.ok(done.length > 0 && done.every((share, at) => share <= 1 && (at === 0 || share >= done[at - 1]!)));
  assert.notDeepEqual(await coder.encode(arrays, context), first);
  const [two, six] = await coder.decode(first, context, 1);
  assert.deepEqual([two!.length, six!.length], [2, 6]);
});

test("many vectors with noise have about their mean", async () => {
  const coder = new NoisyQuantizer(engine, TABLE, [[8]]);
  const context = engine.random(32);
  const values = [0.5, -0.5, 0.1, 0, 0.3, -0.2, 0.7, 0.25];
  const sum = new BigUint64Array(coder.length);
  for (let client = 0; client < 14; client++) {
    const words = new BigUint64Array((await coder.encode([values], context)).buffer);
    words.forEach((word, at) => (sum[at]! += word));
  }
  const [mean] = await coder.decode(new Uint8Array(sum.buffer), context, 14);
  const deviation = 4.139253186 / 14;
  mean!.forEach((value, at) => assert.ok(Math.abs(value - values[at]!) < 8 * deviation));
});

test("noise for another number of values, or another sum, is refused", async () => {
  assert.throws(() => new NoisyQuantizer(engine, TABLE, [[7]]), ConfigError);
  assert.throws(() => new NoisyQuantizer(engine, { ...TABLE, unit: "record" }, [[8]]), ConfigError);
  assert.throws(() => new NoisyQuantizer(engine, { ...TABLE, honest: 13 }, [[8]]), ConfigError);
  const coder = new NoisyQuantizer(engine, TABLE, [[8]]);
  await assert.rejects(coder.decode(new Uint8Array(16), new Uint8Array(32), 0), VectorError);
  await assert.rejects(coder.decode(new Uint8Array(8), new Uint8Array(32), 1), VectorError);
  await assert.rejects(coder.encode([[1, 2, 3, 4, 5, 6, 7, NaN]], new Uint8Array(32)), VectorError);
});
