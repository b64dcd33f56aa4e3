/** A participant at a hub that is played: whatever the hub says, it ends by name or goes on, and no vector leaves too often. */

import assert from "node:assert/strict";
import fc from "fast-check";
import { type Bytes, le32 } from "../src/bytes.js";
import { toBase64 } from "../src/charter/base64.js";
import { contextOf, encodeConfig, type RoundConfig } from "../src/config.js";
import { systemEngine } from "../src/crypto/engines.js";
import { identityFromSeed } from "../src/crypto/signatures.js";
import { CcesaError, ConfigError, FaultyServer, MalformedMessage, OrderError } from "../src/errors.js";
import { memoryInMemory } from "../src/memory/in-memory.js";
import { decodeMessage, encodeMessage, packEnvelope, unpackEnvelope } from "../src/protocol/messages.js";
import { HubAway, Stopped } from "../src/service/errors.js";
import type { Fault, Progress } from "../src/service/events.js";
import type { ParticipantOptions } from "../src/service/options.js";
import { Participant } from "../src/service/participant.js";
import { test } from "./at-once.js";
import { type Came, type Given, json, playing, problem } from "./service/played-hub.js";

const CONFIG: RoundConfig = {
  version: 2,
  seriesId: new Uint8Array(32).fill(9),
  number: 0,
  clients: 4,
  length: 5,
  bits: 32,
  graph: { type: "complete", mask_p: null, mask_degree: null },
  threshold: { type: "majority" },
  generator: "aes128-ctr",
  agreement: "x25519",
  accept: true,
  minSurvivors: 3,
  guard: "curious",
  charter: null,
};
const CLIENT = 2;
const TOKEN = "secret-token";

async function asking(config: RoundConfig, client = CLIENT): Promise<Bytes> {
  const context = await contextOf(await systemEngine(), config);
  return packEnvelope([encodeMessage("advertise-request", context, client, { number: le32(config.number) })]);
}

/** A federation of one series whose only exchange asks for keys; every part of it can be another. */
class Script {
  put: (call: Came) => Given = () => ({ status: 204 });
  exchange: (given: Given) => Given = (given) => given;
  federation: (fields: Record<string, unknown>) => Given = (fields) => json(fields);
  over = false;
  readonly replies: Buffer[] = [];

  answer = async (call: Came): Promise<Given> => {
    if (call.path === "/v1/federation") {
      return this.federation(this.fields());
    }
    if (call.headers.authorization !== `Bearer ${TOKEN}`) {
      return problem(401, "unauthorized");
    }
    if (call.method === "PUT") {
      this.replies.push(call.body);
      return this.put(call);
    }
    if (this.over || !call.path.endsWith("/exchanges")) {
      return this.over ? problem(410, "series-over") : problem(404, "not-found");
    }
    if (call.query === "after=-1") {
      return this.exchange({ status: 200, headers: { "Ccesa-Exchange": "0" }, body: await asking(CONFIG) });
    }
    this.over = true;
    return problem(410, "series-over");
  };

  fields(): Record<string, unknown> {
    return {
      name: "a test",
      guard: "curious",
      version: 1,
      charter: null,
      clients: 4,
      form: { type: "words", words: 5, bits: 32 },
      part_bytes: 1 << 20,
      state: this.over ? "over" : "running",
      series: 1,
      config: toBase64(encodeConfig(CONFIG)),
      closes: 0,
      next_start: 0,
      question: -1,
    };
  }
}

interface Played {
  readonly calls: readonly Came[];
  readonly progress: readonly Progress[];
  readonly faults: readonly Fault[];
  readonly outcome: string | Error;
}

async function play(script: Script, options: Partial<ParticipantOptions> = {}): Promise<Played> {
  return playing(script.answer, async (url, hub) => {
    const contribute = (): never => assert.fail("nobody asked for a vector");
    const site = new Participant({ url, token: TOKEN, contribute, patience: 1, wait: 1, silence: 1, ...options });
    const [progress, faults] = [[] as Progress[], [] as Fault[]];
    site.addEventListener("progress", ({ detail }) => void progress.push(detail));
    site.addEventListener("fault", ({ detail }) => void faults.push(detail));
    const outcome = await site.run().catch((error: Error) => error);
    return { calls: hub.calls, progress, faults, outcome };
  });
}

test("a round is joined, its request answered, and the end of the federation is the end", async () => {
  const script = new Script();
  const { outcome, progress, faults, calls } = await play(script);
  assert.equal(outcome, "over");
  assert.deepEqual(faults, []);
  assert.deepEqual(
    progress.map(({ stage }) => stage),
    ["connecting", "waiting", "joined", "sending", "over"],
  );
  const [message] = unpackEnvelope(new Uint8Array(script.replies[0]!));
  assert.equal(decodeMessage(message!, "advertise-reply", CONFIG).client, CLIENT);
  assert.ok(calls.filter(({ path }) => path === "/v1/federation").every((call) => !call.headers.authorization));
});

// What a hub announces

const other = (changes: Partial<RoundConfig>): string => toBase64(encodeConfig({ ...CONFIG, ...changes }));
const ANNOUNCED: Readonly<Record<string, (fields: Record<string, unknown>) => Given>> = {
  nothing: () => ({ status: 200 }),
  "a page": () => ({ status: 200, body: "<html>Please log in" }),
  "a list": () => json([]),
  "too much": (fields) => ({ status: 200, body: JSON.stringify(fields) + " ".repeat(1 << 20) }),
  elsewhere: () => ({ status: 302, headers: { Location: "http://127.0.0.1:1/" } }),
  "not here": () => problem(404, "not-found"),
  "no guard": ({ guard: _, ...fields }) => json(fields),
  "an unknown guard": (fields) => json({ ...fields, guard: "none" }),
  "another guard": (fields) => json({ ...fields, guard: "active" }),
  "no number": (fields) => json({ ...fields, series: "1" }),
  "a negative number": (fields) => json({ ...fields, series: -1 }),
  "a number beyond all": (fields) => json({ ...fields, series: 2 ** 53 }),
  "no question": (fields) => json({ ...fields, question: null }),
  "no state": (fields) => json({ ...fields, state: 1 }),
  "no configuration": (fields) => json({ ...fields, config: null }),
  "an empty configuration": (fields) => json({ ...fields, config: "" }),
  "no base64": (fields) => json({ ...fields, config: "%%%" }),
  bytes: (fields) => json({ ...fields, config: toBase64(new Uint8Array(40).fill(0xc1)) }),
  "a long configuration": (fields) => json({ ...fields, config: toBase64(new Uint8Array(5000)) }),
  "a round without accept": (fields) => json({ ...fields, config: other({ accept: false }) }),
  "other words": (fields) => json({ ...fields, config: other({ length: 6 }) }),
  "other bits": (fields) => json({ ...fields, config: other({ bits: 16 }) }),
  "vectors beyond all memory": (fields) =>
    json({ ...fields, form: { type: "words", words: 2 ** 29 }, config: other({ length: 2 ** 29 }) }),
  "no form": (fields) => json({ ...fields, form: null }),
  "an unknown form": (fields) => json({ ...fields, form: { type: "everything" } }),
  "a form of objects": (fields) => json({ ...fields, form: { type: "toString" } }),
  arrays: (fields) => json({ ...fields, form: { type: "arrays", clients: 4 } }),
  "arrays of others": (fields) =>
    json({ ...fields, form: { type: "arrays", clients: 5 }, config: other({ bits: 64 }) }),
  noise: (fields) =>
    json({ ...fields, form: { type: "arrays", clients: 4, privacy: {} }, config: other({ bits: 64 }) }),
};

test("what a hub announces is checked before anything is said to it", async () => {
  for (const [what, lie] of Object.entries(ANNOUNCED)) {
    const script = new Script();
    script.federation = lie;
    const { outcome, calls } = await play(script);
    const named = [ConfigError, FaultyServer, MalformedMessage, HubAway].some((type) => outcome instanceof type);
    assert.ok(named, `${what}: ${String(outcome)}`);
    assert.ok(
      calls.every(({ path, headers }) => path === "/v1/federation" && !headers.authorization),
      what,
    );
  }
});

test("a hub that has no series yet, and does not wait, is not asked in a loop", async () => {
  const script = new Script();
  script.federation = (fields) => json({ ...fields, series: 0, config: null });
  const ending = AbortSignal.timeout(1500);
  const { outcome, calls } = await play(script, { wait: 60, signal: ending });
  assert.equal(outcome, "stopped");
  assert.ok(calls.length >= 2 && calls.length <= 3, `${calls.length}`);
  assert.ok(calls.every(({ headers }) => headers["prefer"] === "wait=60"));
});

// Exchanges

const WRONG: Readonly<Record<string, (given: Given) => Given>> = {
  "no number": ({ headers: _, ...given }) => given,
  "a fraction": (given) => ({ ...given, headers: { "Ccesa-Exchange": "1.5" } }),
  "a negative number": (given) => ({ ...given, headers: { "Ccesa-Exchange": "-1" } }),
  "thousands of digits": (given) => ({ ...given, headers: { "Ccesa-Exchange": "9".repeat(5000) } }),
  "a task by its name": (given) => ({ ...given, headers: { ...given.headers, "Ccesa-Task": "the task" } }),
  "a short digest": (given) => ({ ...given, headers: { ...given.headers, "Ccesa-Task": "00".repeat(31) } }),
  created: (given) => ({ ...given, status: 201 }),
  "not here": () => problem(404, "not-found"),
  elsewhere: () => ({ status: 307, headers: { Location: "http://127.0.0.1:1/" } }),
  "too much": (given) => ({ ...given, body: new Uint8Array(1 << 20) }),
};

test("an answer that is no exchange ends it", async () => {
  for (const [what, lie] of Object.entries(WRONG)) {
    const script = new Script();
    script.exchange = lie;
    const { outcome } = await play(script);
    assert.ok(outcome instanceof (what === "elsewhere" ? HubAway : FaultyServer), `${what}: ${String(outcome)}`);
    assert.equal(script.replies.length, 0, what);
  }
});

test("a task larger than a site wants is not taken", async () => {
  for (const [most, ended] of [
    [99, FaultyServer],
    [100, null],
  ] as const) {
    const script = new Script();
    const honest = script.answer;
    script.exchange = (given) => ({ ...given, headers: { ...given.headers, "Ccesa-Task": "00".repeat(32) } });
    script.answer = async (call) =>
      call.path.startsWith("/v1/tasks/") ? { status: 200, body: new Uint8Array(100) } : honest(call);
    const { outcome } = await play(script, { maximumTaskBytes: most });
    assert.ok(ended === null ? outcome === "over" : outcome instanceof ended, String(outcome));
  }
});

test("an exchange that cannot be answered gets an empty envelope, or ends a strict site", async () => {
  const right = await asking(CONFIG);
  const flipped = right.slice();
  flipped[9]! ^= 1;
  const bodies: Record<string, Uint8Array> = {
    cut: right.subarray(0, -1),
    flipped: flipped,
    "another series": await asking({ ...CONFIG, seriesId: new Uint8Array(32) }),
    twice: new Uint8Array([...right, ...right]),
    zeros: new Uint8Array(9),
    four: new Uint8Array([...right, ...right, ...right, ...right]),
  };
  for (const [what, body] of Object.entries(bodies)) {
    for (const strict of [false, true]) {
      const script = new Script();
      script.exchange = (given) => ({ ...given, body });
      const { outcome, faults, progress } = await play(script, { strict });
      const out = progress.some(({ stage }) => stage === "out");
      assert.ok(out || faults.length === 1, what);
      assert.ok(out || (strict ? outcome instanceof CcesaError : outcome === "over"), `${what}: ${String(outcome)}`);
      assert.deepEqual(
        script.replies.map(({ length }) => length),
        strict && !out ? [] : [0],
        what,
      );
    }
  }
});

test("the end of a series is answered as it came", async () => {
  const script = new Script();
  script.exchange = (given) => ({ ...given, body: "" });
  const { outcome, faults } = await play(script);
  assert.deepEqual([outcome, faults.length, script.replies.map(({ length }) => length)], ["over", 0, [0]]);
});

test("rounds below the floor of a site are not joined", async () => {
  const script = new Script();
  const { outcome, faults } = await play(script, { floor: { survivors: 4 } });
  assert.equal(outcome, "over");
  assert.match(faults[0]!.reason, /survivors/);
  assert.deepEqual(
    script.replies.map(({ length }) => length),
    [0],
  );
});

test("a new start is out of the rounds that it was in", async () => {
  const memory = memoryInMemory();
  for (const replied of [true, false]) {
    const script = new Script();
    script.put = () => (replied ? { status: 204 } : problem(409, "conflict"));
    const { outcome, faults, progress } = await play(script, { memory, strict: true });
    assert.deepEqual([outcome, faults.length], ["over", 0]);
    assert.equal(
      progress.some(({ stage }) => stage === "out"),
      !replied,
    );
    assert.equal(script.replies[0]!.length > 0, replied);
  }
});

// Replies

test("a late reply costs a round, a faulty one is told, and a conflict ends it", async () => {
  const late = new Script();
  late.put = () => problem(410, "late", { next_start: 1 });
  const first = await play(late);
  assert.equal(first.outcome, "over");
  assert.ok(first.progress.some(({ stage, text }) => stage === "late" && text.includes("it is late")));
  const faulty = new Script();
  faulty.put = () => problem(422, "faulty");
  const second = await play(faulty);
  assert.equal(second.outcome, "over");
  assert.match(second.faults[0]!.reason, /rejected this client's reply/);
  const conflict = new Script();
  conflict.put = () => problem(409, "conflict");
  assert.ok((await play(conflict)).outcome instanceof OrderError);
});

test("a reply is sent again with the same bytes until it counts", async () => {
  const script = new Script();
  script.put = () => (script.replies.length < 3 ? problem(503, "unavailable") : { status: 204 });
  const { outcome, progress } = await play(script, { patience: 30 });
  assert.equal(outcome, "over");
  assert.equal(new Set(script.replies.map((reply) => reply.toString("hex"))).size, 1);
  assert.equal(progress.filter(({ stage }) => stage === "away").length, 2);
});

test("a token that the hub does not know is told to people", async () => {
  const { outcome } = await play(new Script(), { token: "another" });
  assert.match(String(outcome), /ConfigError: the hub refused this participant's token/);
});

// What a site brings

test("what does not go together is refused before anything is asked", async () => {
  const usual = { url: "https://hub.example", contribute: () => new Uint32Array() };
  const identity = await identityFromSeed(await systemEngine(), new Uint8Array(32));
  const memory = memoryInMemory();
  const wrong: Partial<ParticipantOptions>[] = [
    {},
    { charter: "" },
    { identity },
    { charter: "", identity },
    { charter: "", identity, memory, token: "x" },
    ...["", "a b", "a\n", "a\nb", "\u00e4", "x".repeat(5000)].map((token) => ({ token })),
    { token: "x", url: "http://hub.example" },
  ];
  for (const options of wrong) {
    assert.throws(() => new Participant({ ...usual, ...options }), ConfigError, JSON.stringify(options));
  }
  await assert.rejects(new Participant({ ...usual, charter: "", identity, memory }).run(), ConfigError);
});

test("one at a time takes part with a memory, and a participant runs once at a time", async () => {
  const memory = memoryInMemory();
  const script = new Script();
  script.federation = (fields) => json({ ...fields, series: 0, config: null });
  await playing(script.answer, async (url) => {
    const made = (): Participant =>
      new Participant({ url, token: TOKEN, memory, contribute: () => new Uint32Array(5) });
    const [first, second] = [made(), made()];
    const running = first.run();
    await assert.rejects(first.run(), /already running/);
    await assert.rejects(second.run(), /another participant uses this memory/);
    first.stop();
    assert.equal(await running, "stopped");
    second.addEventListener("progress", () => second.stop(), { once: true });
    assert.equal(await second.run(), "stopped");
  });
});

test("whoever has stopped before it runs does not begin", async () => {
  const { outcome, calls } = await play(new Script(), { signal: AbortSignal.abort() });
  assert.deepEqual([outcome, calls.length], ["stopped", 0]);
});

test("a listener that was taken away hears nothing more", () => {
  const site = new Participant({ url: "https://hub.example", token: TOKEN, contribute: () => new Uint32Array() });
  const heard: string[] = [];
  const listener = ({ detail }: CustomEvent<Progress>): void => void heard.push(detail.text);
  const say = (text: string): boolean => site.dispatchEvent(new CustomEvent("progress", { detail: { text } }));
  site.addEventListener("progress", listener);
  say("first");
  site.removeEventListener("progress", listener);
  say("second");
  assert.deepEqual(heard, ["first"]);
});

// Results

test("whoever waits for a result can stop waiting", async () => {
  const stop = new AbortController();
  const never = (): Given => {
    stop.abort();
    return problem(404, "no-result");
  };
  await playing(never, async (url) => {
    const options = { url, token: TOKEN, signal: stop.signal, contribute: () => new Uint32Array() };
    await assert.rejects(new Participant(options).result(0), Stopped);
  });
});

test("a result is waited for, and read by what it is", async () => {
  let asked = 0;
  const value = { words: toBase64(new Uint8Array([1, 0, 0, 0, 2, 0, 0, 0])), bits: 32 };
  const told = { question: 3, survivors: [0, 2], metrics: { accuracy: 0.5, text: "x" }, value };
  const answer = ({ path }: Came): Given =>
    path !== "/v1/results/3" ? problem(404, "not-found") : asked++ === 0 ? problem(404, "no-result") : json(told);
  await playing(answer, async (url) => {
    const site = new Participant({ url, token: TOKEN, wait: 0, contribute: () => new Uint32Array() });
    const result = await site.result(3);
    assert.deepEqual(result.value, { type: "words", words: new Uint32Array([1, 2]) });
    assert.deepEqual([result.survivors, result.metrics], [[0, 2], { accuracy: 0.5 }]);
    await assert.rejects(site.result(4), /publishes no results/);
  });
  const wrong = [
    {},
    [],
    { ...told, question: 2 },
    { ...told, survivors: [-1] },
    { ...told, value: [] },
    { ...told, value: {} },
  ];
  const values = [
    { words: "%", bits: 32 },
    { words: "AAAA", bits: 32 },
    { words: "AAAA", bits: 7 },
    { arrays: "AAAA", weight: 1 },
    { arrays: "kA==" },
  ];
  for (const given of [...wrong, ...values.map((one) => ({ ...told, value: one }))]) {
    await playing(
      () => json(given),
      async (url) => {
        const site = new Participant({ url, token: TOKEN, wait: 0, contribute: () => new Uint32Array() });
        await assert.rejects(site.result(3), CcesaError, JSON.stringify(given));
      },
    );
  }
});

test("results are asked for up to the question that is announced, whatever a hub has an answer to", async () => {
  for (const [last, over] of [
    [-1, true],
    [2, true],
    [2, false],
  ] as const) {
    const script = new Script();
    const honest = script.answer;
    script.over = over;
    const asked: number[] = [];
    script.federation = (fields) => json({ ...fields, question: last });
    script.answer = async (call) => {
      const question = /^\/v1\/results\/(\d+)$/.exec(call.path)?.[1];
      if (question === undefined) {
        return honest(call);
      }
      asked.push(Number(question));
      return json({ question: Number(question), survivors: [0], metrics: {}, value: { words: "AQ==", bits: 8 } });
    };
    const told: number[] = [];
    await playing(script.answer, async (url) => {
      const contribute = (): never => assert.fail("nobody asked for a vector");
      const site = new Participant({
        url,
        token: TOKEN,
        contribute,
        wait: 1,
        results: true,
        signal: AbortSignal.timeout(2500),
      });
      site.addEventListener("result", ({ detail }) => void told.push(detail.question));
      assert.equal(await site.run(), "over");
    });
    assert.deepEqual(
      told,
      Array.from({ length: told.length }, (_, at) => at),
    );
    // While it is not over, the next question may come to its end at any moment.
    assert.ok(over ? asked.length === last + 1 : asked.length <= last + 2, `${asked}`);
  }
});

// Whatever comes

const VALUES = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  fc.integer({ min: -2, max: 9 }),
  fc.string({ maxLength: 5 }),
  fc.constant("AAAA".repeat(8)),
);
const FIELDS = [
  "guard",
  "state",
  "series",
  "charter",
  "config",
  "form",
  "part_bytes",
  "question",
  "token",
  "type",
  "detail",
  "upload_offset",
];
const BODIES = fc.oneof(
  fc.uint8Array({ maxLength: 60 }),
  fc.dictionary(fc.constantFrom(...FIELDS), VALUES, { maxKeys: 8 }).map((value) => JSON.stringify(value)),
);
const HEADERS = fc.dictionary(
  fc.constantFrom("Ccesa-Exchange", "Ccesa-Task", "Content-Range", "Upload-Offset"),
  fc.oneof(fc.integer({ min: -2, max: 10 }).map(String), fc.constant("00".repeat(32)), fc.constant("bytes 0-9/10")),
);
const STATUSES = fc.constantFrom(200, 201, 204, 206, 301, 304, 400, 401, 404, 409, 410, 413, 416, 422, 503);
const ANYTHING = fc.record({ status: STATUSES, headers: HEADERS, body: BODIES });

test("whatever comes ends by name or goes on, and keys leave once", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.option(ANYTHING), { maxLength: 8 }), async (answers) => {
      const script = new Script();
      const honest = script.answer;
      script.answer = async (call) => {
        const answer = answers.shift() ?? (await honest(call));
        return [204, 304].includes(answer.status) ? { status: answer.status, headers: answer.headers ?? {} } : answer;
      };
      const { outcome } = await play(script, { wait: 0, patience: 0.1, signal: AbortSignal.timeout(800) });
      assert.ok(outcome instanceof CcesaError || outcome === "over" || outcome === "stopped", String(outcome));
      const keys = new Set(script.replies.filter(({ length }) => length > 0).map((reply) => reply.toString("hex")));
      assert.ok(keys.size <= 1);
    }),
    { numRuns: 60 },
  );
});
