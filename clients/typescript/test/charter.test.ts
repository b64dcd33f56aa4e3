/** Charters, lists and files of identities beyond the vectors; digests here are those of the Python package. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import fc from "fast-check";

import { fromHex, toHex } from "../src/bytes.js";
import { toBase64 } from "../src/charter/base64.js";
import { checkLabel } from "../src/charter/characters.js";
import { checkCurrent } from "../src/charter/charter.js";
import { parseIdentityFile, writeIdentityFile } from "../src/charter/identity-file.js";
import { admissionLine, parseAdmissionList } from "../src/charter/lists.js";
import { parseCharter } from "../src/charter/text.js";
import { underCharter } from "../src/config.js";
import { ConfigError } from "../src/errors.js";

const FILES = JSON.parse(readFileSync(new URL("../../../../vectors/charters.json", import.meta.url), "utf8")).charters;
const named = (name: string) => FILES.find((charter: { name: string }) => charter.name === name);
const PLAIN: string = FILES[0].text;
const LEARNING = PLAIN.replace("bits = 32", "bits = 64");

/** Return the text with one line changed. */
function changed(from: string, to: string, text = PLAIN): string {
  assert(text.includes(from), from);
  return text.replace(from, to);
}

async function digestOf(text: string): Promise<string> {
  return toHex((await parseCharter(text)).digest);
}

async function refused(text: string | Uint8Array, why?: RegExp): Promise<void> {
  await assert.rejects(
    parseCharter(text),
    (error) => error instanceof ConfigError && (why?.test(error.message) ?? true),
  );
}

/** A charter of twenty members, as it was planned with noise or for statistics. */
const PLANNED = `version = 2
serial = 1
expires = 2100-01-01T00:00:00Z
bits = 64
least_roster = 10
min_survivors = 12
${/members = \[.*?\n\]\n/s.exec(named("erdos-renyi").text)![0]}
[graph]
type = "complete"

[threshold]
type = "fixed"
t = 12

[certificate]
dropout = 0.05
collusion = 0.1
colluders = 2
around = 2
least_honest = 10
privacy_bits = 128.0
reliability_bits = 18.415714389328723
unreliable = -18.41571439791008
disconnected = -inf
exposed = -inf
unmaskable = -inf
`;

const NOISE = `
[privacy]
epsilon = 8.0
delta = 1e-06
rounds = 10
norm = 2.0
against = "follows"
honest = 10
dimension = 1000
variance = 37948
grid_bits = 6
bound = 1192
field_bits = 9
fails = -inf
`;

const SCHEMA = `
[statistics]
name = "stays in hospital"
max_records = 100000
group_by = ["ward"]
missing = ["NA"]
numbers = [
    {name = "temperature", lower = 30, upper = 45.0, places = 1, measures = ["count", "sum", "mean", "variance", "histogram", "quantiles"], edges = [36.0, 38, 39.5]},
    {name = "days", lower = -0.0, upper = 365.0},
]

[[statistics.categories]]
name = "ward"
values = ["medicine", "surgery"]

[[statistics.categories]]
name = "sex"
values = ["f", "m"]
`;
const RECORDS = SCHEMA.replace("group_by", 'least_group = 1\nprivacy_unit = "record"\ngroup_by');

const RECORD_NOISE = `
[privacy]
epsilon = 3.0
delta = 1e-06
rounds = 2
norm = 2.8284271247461903
honest = 10
dimension = 56
variance = 262144
grid_bits = 6
bound = 2965
field_bits = 64
fails = -inf
unit = "record"
`;

const SAME: readonly (readonly [what: string, text: string, digest: string])[] = [
  ["a fraction of a second", changed("00:00:00Z", "00:00:00.999Z"), FILES[0].digest],
  [
    "a table in braces",
    changed('[graph]\ntype = "complete"\n', "").replace("serial", "graph = {type = 'complete'}\nserial"),
    FILES[0].digest,
  ],
  [
    "a key with dots",
    changed('[graph]\ntype = "complete"\n', "").replace("serial", 'graph . type = "complete"\nserial'),
    FILES[0].digest,
  ],
  ["characters of a comment", `# a\u00a0b\u200b\n${PLAIN}`, FILES[0].digest],
  ...["0", "-0", "0.0", "-0.0", "1e-400"].map(
    (zero) =>
      [
        `zero as ${zero}`,
        changed("dropout = 0.1", `dropout = ${zero}`),
        "91c5035c405795257412a2663486476521ec1081244d2103fed137d33d3e04b8",
      ] as const,
  ),
  ["-1e20", changed("-20.25", "-1e20"), "61a60962a759bc6b1760007b88bb59c83dd16691945803758e468abcc85bc60f"],
  [
    "a name of 255 bytes",
    changed("client-1", "x".repeat(255)),
    "ba754f133127dfa966583d9798e939750ae87f0cc051a9edfda93286854b0cda",
  ],
  [
    "a name of 256 bytes",
    changed("client-1", "x".repeat(256)),
    "0a4438f4d4d5de280edc35e46f08fe37fd859affbee38169b12f31827d082943",
  ],
  [
    "a name of 65536 bytes",
    changed("client-1", "x".repeat(65536)),
    "15c94d224a61d2464213bc240cd2ac86bdb391a0c3630f7df9b6babf20406736",
  ],
  [
    "a metric of 100 characters of 4 bytes",
    `${LEARNING}[learning]\nmetrics = ["${"\u{20000}".repeat(100)}"]`,
    "a7e870e41210623ea47135f2914834e5b275d7d6bf02d527d900d280a18a8c74",
  ],
  [
    "16 metrics",
    `${LEARNING}[learning]\nmetrics = [${Array.from({ length: 16 }, (_, at) => `"m${at}"`)}]`,
    "3a25b85f382d1c49861b57eee51666fe5e662b4574b0d2fb9ab3fcbb6142369e",
  ],
  ["noise", PLANNED + NOISE, "5c9821be3fc6883e31b5ad6bdcc5a923e0c1397a8da0260d93f6fef4b0fd27dd"],
  [
    "statistics",
    PLANNED.replace("min_survivors = 12", "min_survivors = 10") + SCHEMA,
    "238b81668bc5cbe7b1781a85ede7dae8bc12b8fe66e17802899d02f11c63b0ef",
  ],
  [
    "statistics with noise",
    PLANNED + RECORD_NOISE + RECORDS,
    "fc884ef94ba6e00684abf74bea81e7fb4df0ff1c0a89fa87b8640e11624184bb",
  ],
  [
    "noise of learning, for a server that lies",
    `${PLANNED}${NOISE.replace("follows", "lies")}[learning]\n`,
    "62b91b36c9850deca5294c9facf688ec49c11b0a5d252ab611cb3aa0fa084707",
  ],
];

for (const [what, text, digest] of SAME) {
  test(`read: ${what}`, async () => assert.equal(await digestOf(text), digest));
}

const BAD: readonly (readonly [what: string, text: string | Uint8Array])[] = [
  ["an integer of more than 64 bits", changed("-20.25", "-100000000000000000000")],
  ["seconds as a float", changed("2100-01-01T00:00:00Z", "4102444800.0")],
  ["a day that there is not", changed("2100-01-01T00:00:00Z", "2100-02-30")],
  ["a day before 1970", changed("2100-01-01T00:00:00Z", "1969-12-31")],
  ["an integer beyond floats", changed("-20.25", `-${"9".repeat(400)}`)],
  ["no survivors", changed("min_survivors = 3\n", "")],
  ["no least roster", changed("least_roster = 3\n", "")],
  ["a count of 2^32", changed("least_honest = 2", "least_honest = 4294967296")],
  ["an empty key", `${PLAIN}"" = 1`],
  ["a key of objects", `${PLAIN}__proto__ = 1`],
  ["a key of objects, outside", `constructor = 1\n${PLAIN}`],
  ["two marks", `\ufeff\ufeff${PLAIN}`],
  ["half a surrogate", changed("client-1", "x\ud800")],
  ["bytes that are not UTF-8", new Uint8Array([...new TextEncoder().encode(PLAIN), 0x23, 0xff])],
  ["graph as a time", changed('[graph]\ntype = "complete"\n', "").replace("serial", "graph = 2100-01-01\nserial")],
  ["an escape that no name has", changed("client-1", "x\\u202E")],
  ["an integer for bits of strength as text", changed("128.0", '"128"')],
  ["a threshold that two groups reach", changed('"majority"', '"fixed"\nt = 2')],
  ["strength below 0", changed("128.0", "-1")],
  ["a slope above 1024", changed('"majority"', '"linear"\nslope = 1025\nbase = 0')],
  ["a base below 0", changed('"majority"', '"linear"\nslope = 0\nbase = -1')],
  ["a name of 101 characters", `${LEARNING}[learning]\nmetrics = ["${"\u{20000}".repeat(101)}"]`],
  ["noise in words of 32 bits", changed("bits = 64", "bits = 32", PLANNED) + NOISE],
  ["noise that promises more than it keeps", PLANNED + changed("variance = 37948", "variance = 30000", NOISE)],
  ["noise with a key too many", `${PLANNED}${NOISE}more = 1`],
  ["noise of an integer as a float", PLANNED + changed("rounds = 10", "rounds = 10.0", NOISE)],
  [
    "noise of more than survive, less those who collude",
    PLANNED.replace("min_survivors = 12", "min_survivors = 11") + NOISE,
  ],
  [
    "noise of more than are certified",
    PLANNED.replace("least_honest = 10", "least_honest = 9") + NOISE.replace("follows", "lies"),
  ],
  [
    "noise of more than are certified, where not everyone is everyone's neighbour",
    PLANNED.replace("least_honest = 10", "least_honest = 9").replace('"complete"', '"harary"\ndegree = 18') + NOISE,
  ],
  ["statistics in words of 32 bits", changed("bits = 64", "bits = 32", PLANNED) + SCHEMA],
  ["statistics and learning", `${PLANNED}${SCHEMA}[learning]\n`],
  ["statistics with noise about clients", PLANNED + changed('unit = "record"', "", RECORD_NOISE) + RECORDS],
  ["statistics without noise, with noise", PLANNED + RECORD_NOISE + SCHEMA],
  ["statistics with noise, without noise", PLANNED + RECORDS],
  [
    "statistics with small groups left out under noise",
    PLANNED + RECORD_NOISE + changed("least_group = 1\n", "", RECORDS),
  ],
  ["statistics with a default above its limit", PLANNED + changed("max_records = 100000", "max_records = 3", SCHEMA)],
  ["statistics with another norm", PLANNED + changed("461903", "461907", RECORD_NOISE) + RECORDS],
  ["statistics with another dimension", PLANNED + changed("dimension = 56", "dimension = 55", RECORD_NOISE) + RECORDS],
  ["statistics with other fields", PLANNED + changed("field_bits = 64", "field_bits = 63", RECORD_NOISE) + RECORDS],
  ["statistics of a category without values", PLANNED + changed('["f", "m"]', "[]", SCHEMA)],
  ["statistics of a value that is missing", PLANNED + changed('"NA"', '"f"', SCHEMA)],
  ["statistics with a key too many", `${PLANNED}${SCHEMA}more = 1\n`],
  ["noise of a record without statistics", `${PLANNED}${NOISE}unit = "record"\n`],
];

for (const [what, text] of BAD) {
  test(`refused: ${what}`, () => refused(text));
}

test("on a complete graph the survivors count, and not the certificate", async () => {
  await parseCharter(PLANNED.replace("least_honest = 10", "least_honest = 9") + NOISE);
});

test("rounds under a charter with noise or statistics have its length", async () => {
  const lengths = [
    [NOISE, 143],
    [SCHEMA, 64],
    [RECORD_NOISE + RECORDS, 56],
  ] as const;
  for (const [tables, length] of lengths) {
    const charter = await parseCharter(PLANNED + tables);
    const round = { seriesId: new Uint8Array(32), number: 0, accept: true };
    assert.equal(charter.length, length);
    assert.equal(underCharter(charter, { ...round, length }).length, length);
    assert.throws(() => underCharter(charter, { ...round, length: length - 1 }), ConfigError);
  }
  assert.equal((await parseCharter(PLAIN)).length, null);
});

test("a member's id is its place, and nobody else has one", async () => {
  const charter = await parseCharter(PLAIN);
  charter.members.forEach(({ key }, at) => assert.equal(charter.place(Uint8Array.from(key)), at));
  assert.throws(() => charter.place(new Uint8Array(32)), ConfigError);
  assert.throws(() => charter.place(charter.members[0]!.key.subarray(0, 31)), ConfigError);
});

test("a charter is good until the second at which it expires", async () => {
  const charter = await parseCharter(PLAIN);
  checkCurrent(charter, charter.expires - 0.001);
  checkCurrent(charter);
  for (const now of [charter.expires, charter.expires + 1, NaN]) {
    assert.throws(() => checkCurrent(charter, now), ConfigError);
  }
  const expired = await parseCharter(changed("2100-01-01T00:00:00Z", "2020-01-01"));
  assert.throws(() => checkCurrent(expired), ConfigError);
});

test("five thousand members are no burden", async () => {
  const rows = Array.from({ length: 5000 }, (_, at) => {
    const key = Uint8Array.from({ length: 32 }, (_, byte) => (byte < 2 ? at >> (8 * byte) : byte));
    return `["client-${at}", "${toBase64(key)}"],`;
  });
  const text = PLAIN.replace(/members = \[.*?\n\]\n/s, `members = [\n${rows.join("\n")}\n]\n`);
  const times: number[] = [];
  for (let repeat = 0; repeat < 3; repeat++) {
    const { user } = process.cpuUsage();
    assert.equal((await parseCharter(text)).members.length, 5000);
    times.push((process.cpuUsage().user - user) / 1e6);
  }
  // It is a few tenths of a second on a busy machine; the limit is for what grows with the square of the members.
  assert(Math.min(...times) < 2, `it took ${Math.min(...times)} s`);
});

const names = fc
  .string({ unit: "grapheme", minLength: 1, maxLength: 20 })
  .filter((name) => !name.startsWith("#") && !name.startsWith("ccesa-identity-") && !name.includes(" "))
  .filter((name) => {
    try {
      return checkLabel(name, "a name") === name && new TextEncoder().encode(name).length <= 128;
    } catch {
      return false;
    }
  });

test("what is written is read: files of identities and lines of lists", () => {
  const keys = fc.uint8Array({ minLength: 32, maxLength: 32 });
  fc.assert(
    fc.property(keys, names, (seed, name) => {
      assert.deepEqual(parseIdentityFile(writeIdentityFile(seed)), { seed: Uint8Array.from(seed), name: "" });
      assert.deepEqual(parseIdentityFile(writeIdentityFile(seed, name)), { seed: Uint8Array.from(seed), name });
      const key = fromHex(`02${toHex(seed).slice(2, 62)}11`);
      assert.deepEqual(parseAdmissionList(`${admissionLine(name, key, "x  y")}\n`), [{ name, key, comment: "x  y" }]);
      assert.deepEqual(parseAdmissionList(admissionLine(name, key)), [{ name, key, comment: "" }]);
    }),
  );
});

test("nothing is written that would not be read", () => {
  const seed = new Uint8Array(32);
  for (const name of ["a b", "#a", "ccesa-identity-1", "a\n", "x".repeat(129), "\u200b"]) {
    assert.throws(() => writeIdentityFile(seed, name), ConfigError);
  }
  assert.throws(() => writeIdentityFile(new Uint8Array(31)), ConfigError);
  assert.throws(() => admissionLine("a", seed), ConfigError, "a key of small order");
  const key = seed.fill(7);
  assert.throws(() => admissionLine("a b", key), ConfigError);
  assert.throws(() => admissionLine("", key), ConfigError);
  assert.throws(() => admissionLine("a", key, "b\nc"), ConfigError);
  assert.throws(() => admissionLine("a", key.subarray(1)), ConfigError);
});

test("files of identities: empty lines are skipped, and no others; bytes are UTF-8", () => {
  const line = writeIdentityFile(new Uint8Array(32).fill(7), "a");
  assert.equal(parseIdentityFile(`\n \r\n${line}\t\n\n`).name, "a");
  for (const text of [`# a\n${line}`, `${line}# a\n`, line + line, "", "\n"]) {
    assert.throws(() => parseIdentityFile(text), ConfigError);
  }
  const bytes = new TextEncoder().encode(line);
  assert.equal(parseIdentityFile(bytes).name, "a");
  assert.throws(() => parseIdentityFile(new Uint8Array([...bytes, 0xff])), ConfigError);
  assert.throws(() => parseAdmissionList(new Uint8Array([0x23, 0xff])), ConfigError);
});

test("no error says what a private key is", () => {
  const line = writeIdentityFile(new Uint8Array(32).fill(7));
  const secret = line.split(" ")[1]!.trim();
  for (const work of [
    () => parseAdmissionList(line),
    () => parseIdentityFile(`${line}x`),
    () => parseIdentityFile(`${line.trim()} # `),
  ]) {
    assert.throws(work, (error) => error instanceof ConfigError && !error.message.includes(secret));
  }
});

test("what a refused charter or list has in it breaks out of no line of an error", async () => {
  const odd = "\\u001b[2J\\nall is well";
  const files = [`"${odd}" = 1\n"${odd}" = 2`, `[members."${"x".repeat(10_000)}"]\n[members."${"x".repeat(10_000)}"]`];
  const line = (error: unknown): boolean => error instanceof ConfigError && /^[\x20-\x7e]{1,404}$/.test(error.message);
  for (const file of files) {
    await assert.rejects(parseCharter(file), line);
  }
  assert.throws(() => parseAdmissionList(`${"\u00e9".repeat(10_000)} key`), line);
});
