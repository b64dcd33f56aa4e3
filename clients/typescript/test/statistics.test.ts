import assert from "node:assert/strict";
import { before, test } from "node:test";
import fc from "fast-check";
import { Table } from "../src/charter/table.js";
import type { Engine } from "../src/crypto/engine.js";
import { systemEngine } from "../src/crypto/engines.js";
import { ConfigError, VectorError } from "../src/errors.js";
import type { PrivacyTable } from "../src/privacy/table.js";
import { type Cell, countRecords } from "../src/statistics/count.js";
import { decimalOf, floorDivide, inSteps, parseDecimal } from "../src/statistics/decimal.js";
import {
  dimensionOf,
  groupLabels,
  quantitiesOf,
  readSchema,
  type Schema,
  schemaLength,
} from "../src/statistics/schema.js";
import { readSums } from "../src/statistics/sums.js";
import { centresOf, tableVector } from "../src/statistics/vector.js";

let engine: Engine;
before(async () => {
  engine = await systemEngine();
});

function schemaOf(values: Record<string, unknown>): Schema {
  return readSchema(new Table({ name: "x", least_group: 1n, ...values }, "[statistics]"));
}

const COLUMN = { name: "a", lower: 0n, upper: 10n, places: 1n, measures: ["variance", "histogram"], edges: [2.5, 5n] };
const SCHEMA = {
  group_by: ["g"],
  numbers: [COLUMN],
  categories: [
    { name: "g", values: ["p", "q"] },
    { name: "c", values: ["r"] },
  ],
};

test("a column of which a group has few values is as good as none there, and nothing else changes", () => {
  const schema = schemaOf({ ...SCHEMA, least_group: 3n, missing: ["-"] });
  const value = fc.constantFrom("", "-", "1.5", "9", "11");
  const record = fc.record({ a: value, g: fc.constantFrom("p", "q"), c: fc.constantFrom("r", "s") });
  let left = 0;
  fc.assert(
    fc.property(fc.array(record, { maxLength: 12 }), (records) => {
      const known = (group: string): number =>
        records.filter(({ a, g }) => g === group && a !== "" && a !== "-").length;
      const without = records.map((one) => (known(one.g) < 3 ? { ...one, a: "" } : one));
      left += Number(records.some(({ a }, at) => a !== without[at]!.a && a !== "-"));
      assert.deepEqual(countRecords(schema, records), countRecords(schema, without));
    }),
  );
  assert.ok(left > 20);
});

test("an accent is the same in one character and in two, and a capital is another letter", () => {
  const [one, two] = ["Z\u00fcrich", "Zu\u0308rich"];
  for (const values of [[one], [two]]) {
    const schema = schemaOf({ categories: [{ name: "c", values }] });
    const records = [one, two, ` ${two}\u2003`, "z\u00fcrich", "Zurich"].map((c) => ({ c }));
    assert.deepEqual(countRecords(schema, records), [5n, 3n, 2n, 0n]);
  }
  assert.throws(() => schemaOf({ categories: [{ name: "c", values: [one, two] }] }), ConfigError);
});

test("a decimal is rounded half to even, without floats", () => {
  const one = fc.tuple(
    fc.bigInt(-(10n ** 20n), 10n ** 20n),
    fc.integer({ min: -25, max: 5 }),
    fc.integer({ min: 0, max: 9 }),
  );
  fc.assert(
    fc.property(one, ([digits, exponent, places]) => {
      const { steps, rest } = inSteps(parseDecimal(`${digits}e${exponent}`)!, places);
      const scale = 10n ** BigInt(Math.max(0, -(exponent + places)));
      const value = digits * 10n ** BigInt(Math.max(0, exponent + places));
      const twice = 2n * (value - steps * scale);
      assert.ok(-scale <= twice && twice <= scale);
      assert.ok((twice !== scale && twice !== -scale) || steps % 2n === 0n);
      assert.equal(rest, twice === 0n ? 0 : twice > 0n ? 1 : -1);
    }),
    { numRuns: 2000 },
  );
});

test("what is no decimal is none, and floats are what they are written as", () => {
  for (const text of ["", ".", "1.", "+1.5", "-.5", "1e3", "1E-3", "00.10"]) {
    assert.equal(parseDecimal(text) !== null, !["", "."].includes(text), text);
  }
  for (const text of ["1,5", "1e", "e1", "--1", "0x10", "1_000", "NaN", "Infinity", " 1", "1 ", "١"]) {
    assert.equal(parseDecimal(text), null, text);
  }
  assert.deepEqual(decimalOf(2.675), { digits: 2675n, exponent: -3 });
  assert.deepEqual(decimalOf(1e21), { digits: 1n, exponent: 21 });
  assert.equal(decimalOf(Infinity), null);
  const zeros = "0".repeat(1100);
  for (const text of [`5.${zeros}`, `5${zeros}e-1100`, `0.${zeros}5e1101`, `${zeros}5`]) {
    assert.deepEqual(inSteps(parseDecimal(text)!, 0), { steps: 5n, rest: 0 }, text.slice(0, 5));
    assert.deepEqual(inSteps(parseDecimal(`-${text}`)!, 0), { steps: -5n, rest: 0 }, text.slice(0, 5));
  }
  assert.deepEqual(inSteps(parseDecimal(`0.${zeros}5`)!, 9), { steps: 0n, rest: 1 });
  assert.ok(inSteps(parseDecimal(`5${zeros}`)!, 0).steps > 10n ** 999n);
  assert.deepEqual([floorDivide(-3n, 2n), floorDivide(-4n, 2n), floorDivide(3n, 2n)], [-2n, -2n, 1n]);
});

test("a table is counted as by hand", () => {
  const cell = fc.oneof(fc.double({ min: -3, max: 13, noNaN: true }), fc.constant(null));
  const word = fc.constantFrom("p", "q", "r", " r ", "", "elsewhere");
  const records = fc.array(fc.record({ a: cell, g: word, c: word }), { maxLength: 30 });
  fc.assert(
    fc.property(records, (rows) => {
      const schema = schemaOf(SCHEMA);
      const numbers = countRecords(schema, rows);
      let at = 0;
      const take = (size: number): bigint[] => {
        at += size;
        return numbers.slice(at - size, at);
      };
      const groups = [0, 1, 2, 3].map((group) => groupLabels(schema, group)[0]!);
      const labelOf = (text: string, values: string[]): string =>
        text.trim() === "" ? "missing" : values.includes(text.trim()) ? text.trim() : "other";
      const found = Object.fromEntries(
        quantitiesOf(schema).map(({ column, kind, size }) => [`${kind} ${column}`, take(4 * size)]),
      );
      groups.forEach((group, place) => {
        const own = rows.filter((row) => labelOf(row.g, ["p", "q"]) === group);
        const values = own.flatMap(({ a }) => (a === null ? [] : [Math.min(Math.max(a, 0), 10)]));
        assert.equal(found["records null"]![place], BigInt(own.length));
        assert.equal(found["present a"]![place], BigInt(values.length));
        const total = values.reduce((sum, value) => sum + Math.round(value * 10), 0);
        assert.ok(Math.abs(Number(found["total a"]![place]) - total) <= values.length * 0.51);
        const bins = found["bins a"]!.slice(3 * place, 3 * place + 3);
        assert.equal(
          bins.reduce((sum, bin) => sum + bin, 0n),
          BigInt(values.length),
        );
        const labels = ["r", "other", "missing"].map(
          (label) => own.filter((row) => labelOf(row.c, ["r"]) === label).length,
        );
        assert.deepEqual(found["values c"]!.slice(3 * place, 3 * place + 3), labels.map(BigInt));
      });
    }),
  );
});

test("one record moves the centres by no more than the bound", () => {
  const schema = schemaOf({ ...SCHEMA, privacy_unit: "record" });
  const bound = 1000;
  const cell = fc.oneof(fc.double({ min: -3, max: 13, noNaN: true }), fc.constantFrom<Cell>(null, 0, 10, 5, 2.5));
  const record = fc.record({ a: cell, g: fc.constantFrom("p", "q", ""), c: fc.constantFrom("r", "") });
  fc.assert(
    fc.property(fc.array(record, { maxLength: 20 }), record, (rows, one) => {
      const of = (list: typeof rows): bigint[] =>
        centresOf(schema, { bound } as PrivacyTable, countRecords(schema, list));
      const [without, with_] = [of(rows), of([...rows, one])];
      const moved = with_.reduce((sum, centre, at) => sum + (centre - without[at]!) ** 2n, 0n);
      assert.ok(moved > 0n && moved <= BigInt(bound) ** 2n);
    }),
  );
});

test("small groups are left out, and tables that cannot be counted refused, without a value in the text", () => {
  const schema = schemaOf({ ...SCHEMA, least_group: 3n, max_records: 5n });
  const row = { a: 1, g: "p", c: "r" };
  assert.ok(countRecords(schema, [row, row]).every((number) => number === 0n));
  assert.ok(countRecords(schema, [row, row, row]).some((number) => number > 0n));
  assert.throws(() => countRecords(schema, new Array(6).fill(row)), VectorError);
  for (const bad of [
    { ...row, a: "secret" },
    { ...row, a: Infinity },
    { g: "p", c: "r" },
    { a: 1, c: "r" },
  ]) {
    assert.throws(
      () => countRecords(schema, [bad as typeof row]),
      (error) => error instanceof VectorError && !error.message.includes("secret"),
    );
  }
  for (const name of ["constructor", "__proto__", "toString"]) {
    const odd = schemaOf({ categories: [{ name, values: ["r"] }] });
    assert.throws(() => countRecords(odd, [row]), VectorError, name);
    assert.equal(countRecords(odd, [JSON.parse(`{"${name}": "r"}`)])[1], 1n);
  }
  assert.deepEqual(
    countRecords(schema, [{ ...row, a: NaN }, row, row]),
    countRecords(schema, [{ ...row, a: null as never }, row, row]),
  );
});

test("sums of tables are the table of all records", async () => {
  const schema = schemaOf(SCHEMA);
  const rows = Array.from({ length: 30 }, (_, at) => ({ a: (at * 7) % 12, g: "pqr"[at % 3]!, c: at % 2 ? "r" : "" }));
  const sum = new BigUint64Array(schemaLength(schema));
  for (let member = 0; member < 3; member++) {
    const part = rows.slice(10 * member, 10 * member + 10);
    new BigUint64Array((await tableVector(engine, schema, null, part)).buffer).forEach(
      (word, at) => (sum[at]! += word),
    );
  }
  const found = readSums(schema, null, new Uint8Array(sum.buffer), 3).flatMap(({ numbers }) => numbers.flat());
  assert.deepEqual(found, countRecords(schema, rows));
});

test("with noise a table has other words every time, around the same numbers", async () => {
  const schema = schemaOf({ ...SCHEMA, privacy_unit: "record" });
  const privacy: PrivacyTable = {
    epsilon: 8,
    delta: 1e-6,
    rounds: 2,
    norm: Math.sqrt(quantitiesOf(schema).length),
    against: "follows",
    honest: 3,
    dimension: dimensionOf(schema),
    variance: 262144,
    gridBits: 6,
    bound: 3700,
    fieldBits: 64,
    fails: -60,
    unit: "record",
  };
  const rows = Array.from({ length: 5000 }, (_, at) => ({ a: at % 11, g: "p", c: "r" }));
  const words = await tableVector(engine, schema, privacy, rows);
  assert.notDeepEqual(await tableVector(engine, schema, privacy, rows), words);
  const exact = countRecords(schema, rows);
  let at = 0;
  for (const { quantity, numbers } of readSums(schema, privacy, words, 1)) {
    const share = 3700 / Math.sqrt(quantitiesOf(schema).length);
    const deviation = (32 * 64 * Number(quantity.largest)) / share;
    for (const number of numbers.flat()) {
      assert.ok(Math.abs(Number(number) - Number(exact[at++])) < 12 * deviation);
    }
  }
  const { unit: _unit, ...clients } = privacy;
  await assert.rejects(tableVector(engine, schema, null, rows), ConfigError);
  await assert.rejects(tableVector(engine, schema, clients, rows), ConfigError);
  await assert.rejects(tableVector(engine, schemaOf(SCHEMA), privacy, rows), ConfigError);
});
