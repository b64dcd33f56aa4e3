import assert from "node:assert/strict";
import { before, test } from "node:test";
import type { Bytes } from "../src/bytes.js";
import type { Engine } from "../src/crypto/engine.js";
import { systemEngine } from "../src/crypto/engines.js";
import { BudgetSpent, ConfigError, DamagedLedger } from "../src/errors.js";
import { Ledger, type LedgerStore } from "../src/privacy/ledger.js";
import { NOISE } from "./noise.js";

let engine: Engine;
before(async () => {
  engine = await systemEngine();
});

const BUDGET = { epsilon: 8, delta: 1e-6 };

class Kept implements LedgerStore {
  lines: string[] = [];
  seal: string | null = null;

  async read() {
    return { lines: [...this.lines], seal: this.seal };
  }

  async append(line: string, seal: string, after: number) {
    if (this.lines.length !== after) {
      return false;
    }
    this.lines.push(line);
    this.seal = seal;
    return true;
  }
}

function round(number: number): Bytes {
  return new Uint8Array(36).fill(number);
}

test("vectors are charged until as many have left as were agreed on", async () => {
  const ledger = await Ledger.create(engine, new Kept(), BUDGET);
  const account = await ledger.account(NOISE);
  assert.deepEqual(await ledger.spent(), { vectors: 0, epsilon: 0, budget: BUDGET });
  for (let number = 0; number < 10; number++) {
    await account.check();
    await account.charge(round(number));
  }
  const { vectors, epsilon } = await ledger.spent();
  assert.equal(vectors, 10);
  assert.ok(epsilon > 7.9 && epsilon <= 8);
  await assert.rejects(account.check(), BudgetSpent);
  await assert.rejects(account.charge(round(10)), BudgetSpent);
  // Another charter with the same noise counts its own rounds, and there is nothing left for it.
  await assert.rejects((await ledger.account(NOISE, new Uint8Array(32))).charge(round(10)), BudgetSpent);
});

test("a smaller budget ends earlier, whatever a charter says", async () => {
  const store = new Kept();
  const ledger = await Ledger.create(engine, store, { epsilon: 4, delta: 1e-6 });
  const account = await ledger.account(NOISE, new Uint8Array(32));
  let left = 0;
  await assert.rejects(async () => {
    for (; ; left++) {
      await account.charge(round(left));
    }
  }, BudgetSpent);
  assert.ok(left > 0 && left < 10);
  assert.equal(store.lines.length, left + 1);
  assert.ok((await ledger.spent()).epsilon <= 4);
});

test("of two who charge the last vector at once one is refused", async () => {
  const ledger = await Ledger.create(engine, new Kept(), BUDGET);
  const once = { ...NOISE, rounds: 1 };
  const charges = [0, 1, 2].map(async (number) => (await ledger.account(once)).charge(round(number)));
  const outcomes = await Promise.allSettled(charges);
  assert.equal(outcomes.filter(({ status }) => status === "fulfilled").length, 1);
  for (const outcome of outcomes) {
    assert.ok(outcome.status === "fulfilled" || outcome.reason instanceof BudgetSpent);
  }
});

test("a ledger that is not as it was written lets nothing leave", async () => {
  const damages: ((store: Kept) => void)[] = [
    (store) => store.lines.pop(),
    (store) => store.lines.splice(1, 1),
    (store) => store.lines.splice(0),
    (store) => (store.seal = null),
    (store) => (store.lines[0] = store.lines[0]!.replace("8", "9")),
    (store) => (store.lines[1] = store.lines[1]!.replace("970", "97")),
    (store) => store.lines.push(store.lines[1]!),
    (store) => store.lines.reverse(),
  ];
  for (const damage of damages) {
    const store = new Kept();
    const ledger = await Ledger.create(engine, store, BUDGET);
    const account = await ledger.account(NOISE);
    await account.charge(round(0));
    await account.charge(round(1));
    damage(store);
    const lines = store.lines.length;
    await assert.rejects(account.check(), DamagedLedger);
    await assert.rejects(account.charge(round(2)), DamagedLedger);
    await assert.rejects(ledger.spent(), DamagedLedger);
    assert.equal(store.lines.length, lines);
  }
});

test("lines that nobody wrote are refused even under their seal", async () => {
  const lines = ["nothing", "null", "{}", JSON.stringify({ round: "00", scope: "00", noise: {} })];
  const entry = { round: "00".repeat(36), scope: "00".repeat(32) };
  for (const line of [...lines, JSON.stringify({ ...entry, noise: null }), JSON.stringify({ ...entry, noise: {} })]) {
    const store = new Kept();
    const ledger = await Ledger.create(engine, store, BUDGET);
    const text = new TextEncoder().encode(`${store.seal}\n${line}`);
    await store.append(line, Buffer.from(await engine.sha256(text)).toString("hex"), 1);
    await assert.rejects(ledger.spent(), DamagedLedger);
  }
});

test("a budget that nobody wrote is refused even under its seal", async () => {
  for (const line of ['{"epsilon":99,"delta":1e-6}', '{"epsilon":8,"delta":2}', "{}", "null"]) {
    const store = new Kept();
    const text = new TextEncoder().encode(`\n${line}`);
    await store.append(line, Buffer.from(await engine.sha256(text)).toString("hex"), 0);
    await assert.rejects(new Ledger(engine, store).spent(), DamagedLedger);
  }
});

test("a ledger is about clients or about records", async () => {
  const ledger = await Ledger.create(engine, new Kept(), BUDGET);
  await (await ledger.account(NOISE)).charge(round(0));
  const records = await ledger.account({ ...NOISE, unit: "record" });
  await assert.rejects(records.check(), ConfigError);
  await assert.rejects(records.charge(round(1)), ConfigError);
});

test("a ledger is begun once, with a budget that is one, for noise that keeps its promise", async () => {
  const store = new Kept();
  for (const budget of [
    { epsilon: 0 },
    { epsilon: 51 },
    { epsilon: NaN },
    { delta: 1 },
    { delta: 1e-13 },
    { delta: NaN },
  ]) {
    await assert.rejects(Ledger.create(engine, store, { ...BUDGET, ...budget }), ConfigError);
  }
  const ledger = await Ledger.create(engine, store, BUDGET);
  await assert.rejects(Ledger.create(engine, store, BUDGET), ConfigError);
  await assert.rejects(ledger.account({ ...NOISE, honest: 13 }), ConfigError);
  await assert.rejects(new Ledger(engine, new Kept()).spent(), DamagedLedger);
});
