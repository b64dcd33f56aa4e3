import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { fromHex, toHex } from "../src/bytes.js";
import * as config from "../src/config.js";
import { ConfigError, MalformedMessage } from "../src/errors.js";
import { checkFloor, DEFAULT_FLOOR, type Floor, floorOf } from "../src/floor.js";

/** What is the same in all configurations with helpers. */
const HELPED = {
  guard: "assisted",
  accept: false,
  graph: config.NO_GRAPH,
  threshold: config.NO_THRESHOLD,
} as const;

const digest = fc.uint8Array({ minLength: 32, maxLength: 32 });
const fraction = fc.double({ min: 0, minExcluded: true, max: 1, noNaN: true });
const maybe = <T>(one: fc.Arbitrary<T>): fc.Arbitrary<T | null> => fc.option(one, { nil: null });

function graphs(clients: number, narrow: boolean): fc.Arbitrary<config.Graph> {
  const nothing = fc.constant(null);
  const half = (high: number): fc.Arbitrary<number> => fc.integer({ min: 1, max: Math.floor(high / 2) });
  const even = (high: number): fc.Arbitrary<number> => half(high).map((k) => 2 * k);
  const least = <T>(one: fc.Arbitrary<T>): fc.Arbitrary<T | null> => (narrow ? maybe(one) : nothing);
  return fc.oneof(
    fc
      .tuple(fraction, least(fraction))
      .map(([p, q]) => ({ type: "erdos-renyi" as const, p, mask_p: q === null ? null : p * q || p })),
    even(Math.min(clients - 1, 65519)).chain((degree) =>
      least(even(degree)).map((mask_degree) => ({ type: "harary" as const, degree, mask_degree })),
    ),
    least(fraction).map((mask_p) => ({ type: "complete" as const, mask_p, mask_degree: null })),
    least(even(clients - 1)).map((mask_degree) => ({ type: "complete" as const, mask_p: null, mask_degree })),
  );
}

const thresholds: fc.Arbitrary<config.Threshold> = fc.oneof(
  fc.constant({ type: "majority" as const }),
  fc.tuple(fc.nat(1024), fc.nat(100)).map(([slope, base]) => ({ type: "linear" as const, slope, base })),
  fc.integer({ min: 2, max: 1000 }).map((t) => ({ type: "fixed" as const, t })),
);

const withGraph: fc.Arbitrary<config.RoundConfig> = fc
  .tuple(fc.integer({ min: 3, max: 2000 }), fc.constantFrom<config.Guard>("curious", "active"))
  .chain(([clients, guard]) =>
    fc.record(
      {
        version: fc.constant(2 as const),
        seriesId: digest as fc.Arbitrary<Uint8Array<ArrayBuffer>>,
        number: fc.nat(2 ** 31 - 1).map((half) => 2 * half + 1),
        clients: fc.constant(clients),
        length: fc.integer({ min: 1, max: 2 ** 29 - 1 }),
        bits: fc.constantFrom<config.Bits>(8, 16, 32, 64),
        graph: graphs(clients, guard === "curious"),
        threshold: thresholds,
        generator: fc.constantFrom("aes128-ctr" as const, "chacha20" as const),
        agreement: fc.constantFrom<config.AgreementName>("x25519", "x25519-mlkem768"),
        accept: fc.boolean(),
        minSurvivors: fc.integer({ min: 2, max: clients }),
        guard: fc.constant(guard),
        charter: (guard === "active" ? digest : fc.constant(null)) as fc.Arbitrary<Uint8Array<ArrayBuffer> | null>,
      },
      { noNullPrototype: true },
    ),
  )
  .filter(holds);

const configs: fc.Arbitrary<config.RoundConfig> = fc.oneof(
  { arbitrary: withGraph, weight: 2 },
  fc.tuple(withGraph, digest, fc.integer({ min: 2, max: 16 })).map(([one, charter, helpers]) => ({
    ...one,
    ...HELPED,
    charter: charter as Uint8Array<ArrayBuffer>,
    helpers,
    length: Math.ceil(one.length / 2), // leaves room for check words
  })),
);

function holds(one: config.RoundConfig): boolean {
  try {
    config.checkConfig(one);
    return true;
  } catch (error) {
    assert(error instanceof ConfigError, String(error));
    return false;
  }
}

function termsOf(one: config.RoundConfig): config.Terms | undefined {
  const members = Array.from({ length: one.clients });
  const helpers = one.helpers === undefined ? null : Array.from({ length: one.helpers });
  return one.charter === null ? undefined : { ...one, digest: one.charter, members, helpers };
}

const PLAIN: config.RoundConfig = {
  version: 2,
  seriesId: new Uint8Array(32),
  number: 0,
  clients: 10,
  length: 4,
  bits: 32,
  graph: { type: "complete", mask_p: null, mask_degree: null },
  threshold: { type: "majority" },
  generator: "aes128-ctr",
  agreement: "x25519",
  accept: false,
  minSurvivors: 3,
  guard: "curious",
  charter: null,
};
const ACTIVE: config.RoundConfig = { ...PLAIN, guard: "active", charter: new Uint8Array(32) };
const ASSISTED: config.RoundConfig = { ...ACTIVE, ...HELPED, helpers: 3 };

test("a configuration that is read is the one that was written", () => {
  fc.assert(
    fc.property(configs, (one) => {
      const encoding = config.encodeConfig(one);
      assert.deepEqual(config.decodeConfig(encoding, termsOf(one)), one);
    }),
  );
});

test("other bytes are refused, or the encoding of another configuration", () => {
  fc.assert(
    fc.property(configs, fc.nat(), fc.integer({ min: 1, max: 255 }), (one, where, flip) => {
      const data = config.encodeConfig(one);
      data[where % data.length]! ^= flip;
      try {
        assert.equal(toHex(config.encodeConfig(config.decodeConfig(data, termsOf(one)))), toHex(data));
      } catch (error) {
        const wanted = one.guard === "curious" ? [MalformedMessage] : [ConfigError, MalformedMessage];
        assert(
          wanted.some((kind) => error instanceof kind),
          String(error),
        );
      }
    }),
    { numRuns: 500 },
  );
});

test("values outside of the limits are refused", () => {
  const wrong: Partial<Record<keyof config.RoundConfig, unknown[]>> = {
    version: [1, 3, "2", undefined],
    seriesId: [new Uint8Array(31), new Uint8Array(33), "0".repeat(32), null],
    number: [-1, 2 ** 32, 0.5, "0", 0n, NaN],
    clients: [2, 2 ** 32, 65521, 9.5, "10"],
    length: [0, 2 ** 30, 1.5, "4", Infinity],
    bits: [7, 24, 128, "32"],
    graph: [
      null,
      undefined,
      "complete",
      {},
      { type: "constructor" },
      { type: "complete" },
      { type: "complete", mask_p: null },
      { type: "complete", mask_p: null, mask_degree: undefined },
      { type: "complete", mask_p: null, mask_degree: null, p: 1 },
      { type: "complete", mask_p: null, mask_degree: 10 },
      { type: "complete", mask_p: null, mask_degree: 0 },
      { type: "complete", mask_p: NaN, mask_degree: null },
      { type: "complete", mask_p: 0, mask_degree: null },
      { type: "complete", mask_p: "0.5", mask_degree: null },
      { type: "complete", mask_p: 0.5, mask_degree: 2 },
      { type: "erdos-renyi", p: 0, mask_p: null },
      { type: "erdos-renyi", p: 1.5, mask_p: null },
      { type: "erdos-renyi", p: 0.5, mask_p: 0.75 },
      { type: "erdos-renyi", p: NaN, mask_p: null },
      { type: "erdos-renyi", p: 0.5 },
      { type: "harary", degree: 10, mask_degree: null },
      { type: "harary", degree: 3, mask_degree: null },
      { type: "harary", degree: 4, mask_degree: 6 },
      { type: "harary", degree: 4, mask_degree: 1 },
      { type: "harary", degree: "4", mask_degree: null },
    ],
    threshold: [
      null,
      "majority",
      { type: "toString" },
      { type: "majority", t: 2 },
      { type: "linear", slope: 1025, base: 0 },
      { type: "linear", slope: -1, base: 0 },
      { type: "linear", slope: 0.5, base: 0 },
      { type: "linear", slope: 0, base: 11 },
      { type: "linear", slope: 0, base: -1 },
      { type: "linear", slope: 0 },
      { type: "fixed", t: 11 },
      { type: "fixed", t: 5 },
      { type: "fixed", t: 1 },
      { type: "fixed", t: 7.5 },
    ],
    generator: ["aes256-ctr", "toString", null],
    agreement: ["x448", "toString", null, "x25519-mlkem768"],
    accept: [0, null, "false"],
    minSurvivors: [1, 11, 2.5],
    guard: ["none", "active", "assisted", null],
    charter: [new Uint8Array(32), undefined],
    helpers: [3, 0, null],
  };
  assert(holds(PLAIN) && holds(ACTIVE));
  for (const [field, values] of Object.entries(wrong)) {
    for (const value of values) {
      assert(!holds({ ...PLAIN, [field]: value } as config.RoundConfig), `${field} = ${JSON.stringify(value, String)}`);
    }
  }
  assert(!holds({ ...PLAIN, accept: true, agreement: "x448" as "x25519" }));
  assert.throws(() => config.encodeConfig({ ...PLAIN, minSurvivors: 1 }), ConfigError);
  assert.throws(() => config.underCharter(termsOf(ACTIVE)!, { ...ACTIVE, length: 0 }), ConfigError);
  assert(!holds(null as unknown as config.RoundConfig) && !holds(7 as unknown as config.RoundConfig));
});

test("the largest values are allowed", () => {
  const allowed: Partial<config.RoundConfig>[] = [
    { number: 2 ** 32 - 1 },
    { clients: 2 ** 32 - 1, graph: { type: "harary", degree: 2, mask_degree: null } },
    { length: 2 ** 32 - 1, bits: 8 },
    { length: (2 ** 32 - 8) / 8, bits: 64 },
    { clients: 65520 },
    { threshold: { type: "fixed", t: 10 } },
    { threshold: { type: "linear", slope: 0, base: 10 } },
    { agreement: "x25519-mlkem768", accept: true },
    { minSurvivors: 10 },
    { minSurvivors: 2 },
  ];
  for (const fields of allowed) {
    assert(holds({ ...PLAIN, ...fields }), JSON.stringify(fields));
  }
});

test("under active a client's own share does not count, and masks run on every edge", () => {
  for (const [t, fits] of [
    [9, true],
    [10, false],
  ] as const) {
    assert.equal(holds({ ...ACTIVE, threshold: { type: "fixed", t } }), fits);
    assert.equal(holds({ ...ACTIVE, threshold: { type: "linear", slope: 0, base: t } }), fits);
  }
  const thin: config.Graph[] = [
    { type: "complete", mask_p: 0.5, mask_degree: null },
    { type: "complete", mask_p: null, mask_degree: 4 },
    { type: "harary", degree: 6, mask_degree: 6 },
    { type: "erdos-renyi", p: 0.5, mask_p: 0.5 },
  ];
  for (const graph of thin) {
    assert(holds({ ...PLAIN, graph }) && !holds({ ...ACTIVE, graph }), JSON.stringify(graph));
  }
  assert(!holds({ ...ACTIVE, charter: null }) && !holds({ ...ACTIVE, charter: new Uint8Array(31) }));
});

test("with helpers there is no graph to agree on, and check words follow the vector", () => {
  const most = { length: 2 ** 30 - 3, clients: 2 ** 32 - 1, agreement: "x25519-mlkem768", helpers: 16 } as const;
  assert(holds({ ...ASSISTED, ...most, minSurvivors: 2 ** 32 - 1 }) && holds({ ...ASSISTED, helpers: 2 }));
  const wrong: Partial<Record<keyof config.RoundConfig, unknown[]>> = {
    helpers: [undefined, null, 0, 1, 17, 2.5, "3"],
    accept: [true],
    charter: [null, new Uint8Array(31)],
    graph: [
      { type: "harary", degree: 4, mask_degree: null },
      { type: "complete", mask_p: null, mask_degree: 4 },
    ],
    threshold: [{ type: "fixed", t: 9 }],
    length: [0, 2 ** 30 - 2],
    guard: ["active", "curious"],
  };
  for (const [field, values] of Object.entries(wrong)) {
    for (const value of values) {
      assert(!holds({ ...ASSISTED, [field]: value } as config.RoundConfig), `${field} = ${JSON.stringify(value)}`);
    }
  }
  const masked = ([8, 16, 32, 64] as const).map((bits) => config.maskedBytes({ ...ASSISTED, bits, length: 7 }));
  assert.deepEqual(masked, [15, 22, 36, 72]);
  assert.equal(config.maskedBytes({ ...ACTIVE, length: 7 }), 28);
});

test("each guard refuses the other's configurations, and active those of other charters", () => {
  const terms = termsOf(ACTIVE)!;
  assert.throws(() => config.decodeConfig(config.encodeConfig(ACTIVE)), MalformedMessage);
  assert.throws(() => config.decodeConfig(config.encodeConfig(PLAIN), terms), MalformedMessage);
  const other = { ...ACTIVE, charter: new Uint8Array(32).fill(1) };
  assert.throws(() => config.decodeConfig(config.encodeConfig(other), terms), ConfigError);
});

test("more bytes than a configuration has are refused before they are read", () => {
  assert.throws(() => config.decodeConfig(new Uint8Array(1025)), /at most 1024 bytes, got 1025/);
  assert.throws(() => config.decodeConfig(new Uint8Array(1024)), /1023 bytes too many/);
});

test("under a charter integers outside of their limits are values, and anything else is another type", () => {
  const terms = termsOf(ACTIVE)!;
  const plain = toHex(config.encodeConfig(ACTIVE));
  const read = (number: string): unknown =>
    config.decodeConfig(fromHex(plain.replace("6e756d62657200", `6e756d626572${number}`)), terms);
  assert.deepEqual(read("07"), { ...ACTIVE, number: 7 });
  for (const integer of ["ff", "d080", "d1ff00", "d3ffffffff00000000", "cf0000000100000000", "cfffffffffffffffff"]) {
    assert.throws(() => read(integer), ConfigError, integer);
  }
  for (const other of ["d005", "d0ff", "cf0000000000000005", "c3", "cb4014000000000000", "c0", "a0", "c400", "90"]) {
    assert.throws(() => read(other), MalformedMessage, other);
  }
});

test("a round of a series differs in its number alone", () => {
  assert.deepEqual(config.numbered(PLAIN, 7), { ...PLAIN, number: 7 });
  assert.throws(() => config.numbered(PLAIN, 2 ** 32), ConfigError);
});

test("a linear threshold grows by at most one with each neighbour, and stays a majority", () => {
  fc.assert(
    fc.property(fc.nat(1024), fc.nat(65520), fc.nat(65518), (slope, base, degree) => {
      const at = (d: number): number => config.thresholdAt({ type: "linear", slope, base }, d);
      return at(degree + 1) - at(degree) <= 1 && 2 * at(degree) > degree + 1;
    }),
  );
});

test("a configuration below one limit of a client is refused", () => {
  const have: Floor = { clients: 10, degree: 9, maskDegree: 4, threshold: 6, thresholdRatio: 6 / 9, survivors: 3 };
  const narrow: config.RoundConfig = { ...PLAIN, graph: { type: "complete", mask_p: null, mask_degree: 4 } };
  checkFloor(narrow, floorOf(have));
  for (const [limit, value] of Object.entries(have)) {
    assert.throws(() => checkFloor(narrow, floorOf({ [limit]: value + 1e-9 })), ConfigError, limit);
  }
  const byChance: config.RoundConfig = { ...PLAIN, graph: { type: "erdos-renyi", p: 0.5, mask_p: 0.25 } };
  checkFloor(byChance, floorOf({ degree: 4.5, maskDegree: 2.25, threshold: 3, thresholdRatio: 3 / 4 }));
  for (const limits of [{ degree: 4.6 }, { maskDegree: 2.3 }, { threshold: 4 }, { thresholdRatio: 0.76 }]) {
    assert.throws(() => checkFloor(byChance, floorOf(limits)), ConfigError);
  }
});

test("limits that are not set stay at their defaults, and those that do not exist are refused", () => {
  assert.deepEqual(floorOf(), { clients: 3, degree: 1, maskDegree: 1, threshold: 2, thresholdRatio: 0, survivors: 2 });
  assert.deepEqual(floorOf({ degree: 5 }), { ...DEFAULT_FLOOR, degree: 5 });
  for (const wrong of [{ mask_degree: 3 }, { degree: NaN }, { degree: "5" }, { degree: null }, { toString: 1 }]) {
    assert.throws(() => floorOf(wrong as Partial<Floor>), ConfigError);
  }
  assert.throws(() => checkFloor(PLAIN, { ...DEFAULT_FLOOR, degree: NaN }), ConfigError);
});
