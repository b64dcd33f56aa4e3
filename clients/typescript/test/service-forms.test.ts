/** Contributions become vectors by the charter's word, and what is of another form is refused. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import fc from "fast-check";

import { type Bytes, concat, toHex } from "../src/bytes.js";
import { toBase64 } from "../src/charter/base64.js";
import type { Charter } from "../src/charter/charter.js";
import { parseCharter } from "../src/charter/text.js";
import { encodeConfig, type RoundConfig, underCharter } from "../src/config.js";
import { systemEngine } from "../src/crypto/engines.js";
import { CcesaError, ConfigError, MalformedMessage, VectorError } from "../src/errors.js";
import { type Arrays, packArrays, unpackArrays } from "../src/service/arrays.js";
import { type Announcement, announcementIn } from "../src/service/federation.js";
import { formOf } from "../src/service/form-of.js";
import { arraysForm, type Form, WORDS } from "../src/service/forms.js";
import { encode, type Value } from "../src/wire.js";

const PARTICULARS = { seriesId: new Uint8Array(32), number: 0, accept: true };

/** Return the charters of a file of vectors. */
async function charters(file = "charters.json"): Promise<Charter[]> {
  const text = readFileSync(new URL(`../../../../vectors/${file}`, import.meta.url), "utf8");
  const { charters: all }: { charters: { text: string }[] } = JSON.parse(text);
  return Promise.all(all.map((each) => parseCharter(each.text)));
}

// Arrays

const ARRAY = fc
  .tuple(
    fc.array(fc.nat({ max: 4 }), { maxLength: 3 }),
    fc.constantFrom(Float32Array, Float64Array, Int8Array, Uint16Array, BigInt64Array),
  )
  .map(([shape, Type]) => ({ shape, data: new Type(shape.reduce((size, side) => size * side, 1)) }));
const MODELS = fc
  .dictionary(fc.string({ maxLength: 5 }), ARRAY, { maxKeys: 4 })
  .map((model): Arrays => new Map(Object.entries(model)));

test("arrays travel as they are", () => {
  fc.assert(
    fc.property(MODELS, (model) => {
      const payload = packArrays(model);
      assert.deepEqual(unpackArrays(payload), model);
      assert.deepEqual(packArrays(unpackArrays(payload)), payload);
    }),
  );
});

test("arrays that are at odds with themselves are refused, and so are other bytes", () => {
  const four = new Uint8Array(4);
  const none = new Uint8Array();
  const wrong: Value[] = [
    7,
    [7],
    [["a", "<f4", [2]]],
    [["a", "<f4", [2], four]],
    [["a", "|O", [1], new Uint8Array(8)]],
    [["a", "toString", [1], four]],
    [
      ["a", "<f4", [1], four],
      ["a", "<f4", [1], four],
    ],
    [["a", "<f4", [2 ** 52, 4], none]],
    [["a", "<f4", [0, 2 ** 52, 2 ** 52], none]],
    [["a", "<f4", [0, 2n ** 64n - 1n], none]],
    [["a", "<f4", [-1, -1], four]],
    [["a", "<f4", [-(2 ** 52), 0], none]],
    [["a", "<f4", new Array<number>(33).fill(1), four]],
    [[1, "<f4", [1], four]],
    Array.from({ length: 2 ** 16 + 1 }, (_, at) => [String(at), "<f4", [0], none]),
  ];
  for (const [at, list] of wrong.entries()) {
    assert.throws(() => unpackArrays(encode(list)), MalformedMessage, String(at));
  }
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (data) => {
      try {
        unpackArrays(data);
      } catch (error) {
        assert.ok(error instanceof MalformedMessage);
      }
    }),
  );
});

test("a task that is a long list of something else is refused at once, before anything is made of it", () => {
  const maps = new Uint8Array(2 ** 22).fill(0x80);
  for (const head of [
    [0xdd, 0, 0x40, 0, 0],
    [0x91, 0xdd, 0, 0x40, 0, 0],
  ]) {
    const list = Uint8Array.from(head);
    const began = performance.now();
    assert.throws(() => unpackArrays(concat(list, maps)), MalformedMessage);
    assert.ok(performance.now() - began < 2000, "it was read to its end");
  }
});

// Vectors

async function vectorOf(
  form: Form,
  contribution: unknown,
  config: Partial<RoundConfig>,
  payload: Bytes = new Uint8Array(),
): Promise<Bytes> {
  const engine = await systemEngine();
  return form
    .read(payload)
    .vector(contribution, { config: config as RoundConfig, context: new Uint8Array(32), engine });
}

test("words are taken as they are, and as a copy", async () => {
  const types = { 8: Uint8Array, 16: Uint16Array, 32: Uint32Array, 64: BigUint64Array } as const;
  for (const bits of [8, 16, 32, 64] as const) {
    const words = new types[bits](3);
    const vector = await vectorOf(WORDS, words, { bits, length: 3 });
    assert.equal(vector.length, (3 * bits) / 8);
    assert.notEqual(vector.buffer, words.buffer);
    for (const wrong of [new types[bits](2), new Float64Array(3), [1, 2, 3], "abc", null, undefined]) {
      await assert.rejects(vectorOf(WORDS, wrong, { bits, length: 3 }), VectorError);
    }
  }
});

test("arrays of other names, shapes or weights than the task's are refused", async () => {
  const form = arraysForm({ clients: 4, clip: 2, maxWeight: 8, fieldBits: 32 });
  const model: Arrays = new Map([["w", { shape: [2, 2], data: new Float32Array(4) }]]);
  const payload = packArrays(model);
  const config = { bits: 64, length: 3 } as const; // five numbers, two in each word
  assert.equal((await vectorOf(form, model, config, payload)).length, 24);
  const right = { w: { shape: [2, 2], data: new Float64Array(4) } };
  assert.deepEqual(await vectorOf(form, [right, 0], config, payload), new Uint8Array(24));
  const wrong: unknown[] = [
    ...[null, 7, "x", [], [right], [right, "1"], [right, 9], [right, -1], [right, NaN], [right, 1, 2], {}, new Map()],
    { v: right.w },
    { ...right, v: right.w },
    { w: right.w.data },
    { w: { shape: [4], data: right.w.data } },
    { w: { shape: [2, 2], data: new Float64Array(3) } },
    { w: { shape: [2, 2], data: [0, 0, 0, NaN] } },
    { w: { shape: [2, 2], data: new Float64Array(4).fill(Infinity) } },
  ];
  for (const [at, contribution] of wrong.entries()) {
    await assert.rejects(vectorOf(form, contribution, config, payload), VectorError, String(at));
  }
  await assert.rejects(vectorOf(form, model, { bits: 64, length: 4 }, payload), CcesaError);
  assert.throws(() => form.check({ bits: 32 } as RoundConfig), ConfigError);
  assert.throws(() => form.read(new Uint8Array([1])), MalformedMessage);
});

test("a task has room for all numbers of a vector, by default", async () => {
  const config = { bits: 64, length: 100 } as RoundConfig;
  const numbers = packArrays(new Map([["w", { shape: [200], data: new Float64Array(200) }]]));
  const arrays = arraysForm({ clients: 4, clip: 1, maxWeight: 1, fieldBits: 32 });
  assert.ok(arrays.maximumTaskBytes(config) >= numbers.length && arrays.maximumTaskBytes(config) < 2 ** 25);
  assert.equal(WORDS.maximumTaskBytes(config), 2 ** 24 + 1600);
  assert.equal(WORDS.maximumTaskBytes({ bits: 64, length: 2 ** 29 } as RoundConfig), 2 ** 30);
});

test("what the site's function does to its task changes nothing of what is expected back", async () => {
  const form = arraysForm({ clients: 4, clip: 1, maxWeight: 1, fieldBits: 32 });
  const array = { shape: [2], data: new Float64Array(2) };
  const reading = form.read(packArrays(new Map([["w", array]])));
  (reading.given as Map<string, unknown>).clear();
  const config = { bits: 64, length: 2 } as RoundConfig;
  const purpose = { config, context: new Uint8Array(32), engine: await systemEngine() };
  await assert.rejects(reading.vector({}, purpose), /expected 1 arrays, got 0/);
});

// Charters

test("a charter decides the form, whatever the hub announces", async () => {
  const seen = new Set<string>();
  for (const charter of await charters()) {
    const told = { form: { type: "words", words: 1, bits: 8 } } as Announcement;
    const expected = charter.statistics ? "statistics" : charter.privacy || charter.learning ? "arrays" : "words";
    assert.equal(formOf(charter, told).type, expected);
    seen.add(expected);
  }
  assert.ok(seen.has("words") && seen.has("arrays"), [...seen].join());
});

test("rounds under another charter than the member's are refused", async () => {
  const [own, other] = (await charters()).filter(({ length }) => length === null) as [Charter, Charter];
  const config = (charter: Charter): string =>
    toBase64(encodeConfig(underCharter(charter, { ...PARTICULARS, length: 5 })));
  const fields = {
    guard: "active",
    charter: toHex(own.digest),
    state: "running",
    series: 1,
    question: -1,
    config: config(own),
  };
  assert.equal(announcementIn(fields, own).config!.clients, own.members.length);
  const lies = [
    { charter: null },
    { charter: 7 },
    { charter: toHex(other.digest) },
    { charter: toHex(own.digest).toUpperCase() },
    { config: config(other) },
    { guard: "curious" },
  ];
  for (const lie of lies) {
    assert.throws(() => announcementIn({ ...fields, ...lie }, own), CcesaError, JSON.stringify(lie));
  }
  assert.throws(() => announcementIn(fields, null), ConfigError);
  assert.equal(announcementIn({ ...fields, state: "over", config: null }, own).over, true);
  for (const part of [0, -1, 1.5, "x", null, 2 ** 60]) {
    const { partBytes } = announcementIn({ ...fields, part_bytes: part }, own);
    assert.ok(partBytes >= 1 && partBytes <= 1 << 26);
  }
});

test("under a charter with helpers rounds are those of its guard, and have no step accept", async () => {
  const [own] = (await charters("assisted_messages.json")) as [Charter];
  const particulars = { ...PARTICULARS, length: 5, accept: false };
  const config = toBase64(encodeConfig(underCharter(own, particulars)));
  const digest = toHex(own.digest);
  const fields = { guard: "assisted", charter: digest, state: "running", series: 1, question: -1, config };
  assert.equal(announcementIn(fields, own).config!.helpers, own.helpers!.length);
  assert.throws(
    () => announcementIn({ ...fields, guard: "active" }, own),
    /not assisted: it has no charter, or another/,
  );
  const [active] = (await charters()).filter(({ length }) => length === null) as [Charter];
  assert.throws(() => announcementIn(fields, active), /use the guard assisted, not active/);
});
