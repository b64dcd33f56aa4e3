/** TOML 1.0: what is read, what is refused, and that a library reads the same where both read it. */

import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";
import { parse, TomlDate, TomlError } from "smol-toml";

import { parseToml } from "../src/charter/toml.js";
import { TomlTime } from "../src/charter/toml-values.js";
import { ConfigError } from "../src/errors.js";

const VALUES: readonly (readonly [string, unknown])[] = [
  ["1", 1n],
  ["+1_000", 1000n],
  ["-0", 0n],
  ["9223372036854775807", 9223372036854775807n],
  ["-9223372036854775808", -9223372036854775808n],
  ["0x7fffffffffffffff", 9223372036854775807n],
  ["0xDEAD_beef", 0xdeadbeefn],
  ["0o17", 15n],
  ["0b101", 5n],
  ["1.0", 1],
  ["-0.0", -0],
  ["1e06", 1e6],
  ["6.626e-34", 6.626e-34],
  ["1e308", 1e308],
  ["1e-400", 0],
  ["-inf", -Infinity],
  ["+nan", NaN],
  ["true", true],
  ["false # said so", false],
  [String.raw`"a\tb\u00e9\U0001F600\\\""`, 'a\tb\u00e9\u{1f600}\\"'],
  [String.raw`'C:\n'`, String.raw`C:\n`],
  ['"""\na\\\n   \n  b\n"c""""', 'ab\n"c"'],
  ["'''\n'a'\\'''", "'a'\\"],
  ['[1, ["a"], # two\n 2.5,\n]', [1n, ["a"], 2.5]],
  ["[]", []],
  ["2100-01-01", new TomlTime("date", 4102444800)],
  ["2000-02-29", new TomlTime("date", 951782400)],
  ["2100-01-01T01:00:00.999+01:00", new TomlTime("offset date-time", 4102444800)],
  ["2100-01-01T00:00:00.123456789Z", new TomlTime("offset date-time", 4102444800)],
  ["2100-01-01T23:59:00+23:59", new TomlTime("offset date-time", 4102444800)],
  ["2099-12-31 22:30:00-01:30", new TomlTime("offset date-time", 4102444800)],
  ["2100-01-01t00:00:00z", new TomlTime("offset date-time", 4102444800)],
  ["2100-01-01T00:00:00", new TomlTime("local date-time", 4102444800)],
  ["12:00:01", new TomlTime("time", 43201)],
];

for (const [text, value] of VALUES) {
  test(`value: ${text}`, () => assert.deepStrictEqual(parseToml(`a = ${text}`)["a"], value));
}

const BAD_VALUES = [
  "",
  "x",
  "True",
  "truex",
  "01",
  "1__0",
  "_1",
  "1_",
  "+0x1",
  "0X1",
  "1.",
  ".5",
  "1.e5",
  "1e",
  "1 2",
  "Inf",
  // Beyond what all readers have in common.
  "9223372036854775808",
  "-9223372036854775809",
  "0x8000000000000000",
  "1e309",
  "-1e309",
  "[1, 99999999999999999999]",
  "2100-01-01T00:00:00.1234567890Z",
  "00:00:00.1234567890",
  // Of TOML 1.1.
  String.raw`"\e"`,
  String.raw`"\x41"`,
  "12:00",
  "2100-01-01T00:00Z",
  "{b = 1,}",
  "{b = 1,\n c = 2}",
  "{\n}",
  // Strings.
  '"a',
  '"a\nb"',
  '"a\rb"',
  '"\u0000"',
  '"\u007f"',
  "'\u001f'",
  '"""\u0001"""',
  "'''\u0001'''",
  '"""a',
  '"""a"""""" ',
  String.raw`"\u00e"`,
  String.raw`"\uD800"`,
  String.raw`"\U00110000"`,
  String.raw`"\q"`,
  '"""\\ a"""',
  '"""\\u00\\\n41"""',
  '"\ud800"',
  // Days and times that there are not.
  "2100-02-29",
  "2100-02-30",
  "2100-04-31T00:00:00Z",
  "2100-13-01",
  "2100-00-01",
  "2100-01-00",
  "24:00:00",
  "23:60:00",
  "23:59:60",
  "2100-01-01T00:00:00+24:00",
  "2100-01-01T00:00:00+00:60",
  "2100-1-1",
  // Arrays and tables.
  "[1 2]",
  "[,]",
  "[1,,2]",
  "[1",
  "{b = 1 c = 2}",
  "{b = 1, b = 2}",
  "{b.c = 1, b = 2}",
  "{b = {c = 1}, b.d = 2}",
  "{,}",
  "{b = 1",
  "[".repeat(100_000),
] as const;

for (const text of BAD_VALUES) {
  test(`no value: ${JSON.stringify(text.slice(0, 40))}`, () =>
    assert.throws(() => parseToml(`a = ${text}`), ConfigError));
}

const DOCUMENTS: readonly (readonly [string, object])[] = [
  ["", {}],
  ["# c\n\n \t\r\n", {}],
  ["[a]\nb = 1\r\n[a.c]\n[d]", { a: { b: 1n, c: {} }, d: {} }],
  ["[a.b.c]\n[a]\nd = 1", { a: { b: { c: {} }, d: 1n } }],
  ["[a.b.c]\n[a]\nb.d = 1", { a: { b: { c: {}, d: 1n } } }],
  ["a.b = 1\na . 'c d' = 2", { a: { b: 1n, "c d": 2n } }],
  ["[a]\nb.c = 1\n[a.b.d]", { a: { b: { c: 1n, d: {} } } }],
  ["[[a]]\nb = 1\n[a.c]\n[[a]]\n[[a.d]]", { a: [{ b: 1n, c: {} }, { d: [{}] }] }],
  ["a = {b.c = 1, b.d = {}, '' = [\n]}", { a: { b: { c: 1n, d: {} }, "": [] } }],
  ["__proto__ = 1\nconstructor.x = 2", JSON.parse('{"__proto__": "1n", "constructor": {"x": "2n"}}')],
];

/** A value in JSON, with bigint as text. */
function shown(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (_, each) => (typeof each === "bigint" ? `${each}n` : each)));
}

for (const [text, tables] of DOCUMENTS) {
  test(`document: ${JSON.stringify(text)}`, () => assert.deepStrictEqual(shown(parseToml(text)), shown(tables)));
}

const BAD_DOCUMENTS = [
  "a",
  "a =",
  "= 1",
  "a = 1 b = 2",
  "a = 1\r",
  "a = 1\rb = 2",
  "\u00e9 = 1",
  "a b = 1",
  "a. = 1",
  ".a = 1",
  '"""a""" = 1',
  "a = 1\na = 2",
  "a = 1\n'a' = 2",
  "a = 1\na.b = 2",
  "a.b = 1\na = 2",
  "[a]\n[a]",
  "[a]\n[[a]]",
  "[[a]]\n[a]",
  "a = 1\n[a]",
  "a = 1\n[a.b]",
  "a = {}\n[a]",
  "a = {}\n[a.b]",
  "a = {}\na.b = 1",
  "a = {b = {}}\n[a.b.c]",
  "a = []\n[[a]]",
  "a = [{}]\n[[a]]",
  "a = [{}]\n[a.b]",
  "a = [{}]\na.b = 1",
  "[a.b]\n[[a]]",
  "[a.b.c]\n[a]\nb.c.d = 1",
  "[[a.b]]\n[a]\nb.c = 1",
  "a.b = 1\n[a]",
  "[a]\nb.c = 1\n[a.b]",
  "[a.b.c]\n[a]\nb.d = 1\n[a.b]",
  "[a",
  "[a]]",
  "[[a]",
  "[ [a]]",
  "[]",
  "[a] b = 1",
  "# \u0000",
  "# \u007f",
  "# a\rb",
  "\ufeffa = 1",
  "a = 1 \u00a0",
] as const;

for (const text of BAD_DOCUMENTS) {
  test(`no document: ${JSON.stringify(text)}`, () => assert.throws(() => parseToml(text), ConfigError));
}

test("errors name the line", () => {
  assert.throws(() => parseToml("a = 1\n\nb"), /line 3/);
});

/** What both readers say, in one form. */
function form(value: unknown): unknown {
  if (value instanceof TomlDate) {
    const ofDay = value.getUTCHours() * 3600 + value.getUTCMinutes() * 60 + value.getUTCSeconds();
    return `seconds ${value.isTime() ? ofDay : Math.floor(value.getTime() / 1000)}`;
  }
  if (value instanceof TomlTime) {
    return `seconds ${value.seconds}`;
  }
  if (typeof value !== "object" || value === null) {
    return typeof value === "bigint" ? `${value}n` : value;
  }
  return Array.isArray(value) ? value.map(form) : Object.entries(value).map(([key, each]) => [key, form(each)]);
}

/** Return what is read, or undefined where it is refused. */
function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    assert(error instanceof ConfigError || error instanceof TomlError, String(error));
    return undefined;
  }
}

test("a library reads the same where both read it", () => {
  const keys = fc.constantFrom("a", "b", "a.b", "b.a", "a.b.c", "'a'", '"b" . c', "c");
  const values = fc.constantFrom(
    ...VALUES.map(([text]) => text),
    ...BAD_VALUES.slice(0, 40),
    "{a = 1}",
    "{b.c = 1}",
    "[{}]",
  );
  const lines = fc.oneof(
    fc.tuple(keys, values).map(([key, value]) => `${key} = ${value}`),
    keys.map((key) => `[${key}]`),
    keys.map((key) => `[[${key}]]`),
    fc.constantFrom("", "# c", "\t"),
  );
  let both = 0;
  fc.assert(
    fc.property(fc.array(lines, { maxLength: 5 }), fc.constantFrom("\n", "\r\n"), (all, end) => {
      const text = all.join(end);
      // The library keeps CR LF in strings of several lines.
      const [ours, others] = [
        attempt(() => parseToml(text)),
        attempt(() => parse(text.replaceAll("\r\n", "\n"), { integersAsBigInt: true })),
      ];
      if (ours !== undefined && others !== undefined) {
        both++;
        assert.deepStrictEqual(form(ours), form(others));
      }
    }),
    { numRuns: 3000, seed: 1 },
  );
  assert(both > 300, `${both} documents were read`);
});
