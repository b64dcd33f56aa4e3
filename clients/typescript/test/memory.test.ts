/** What is remembered is remembered once, by whoever comes first, and across starts. */

import assert from "node:assert/strict";
import { mkdtemp, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { CcesaError, DamagedLedger, OrderError } from "../src/errors.js";
import { systemEngine } from "../src/crypto/engines.js";
import { fileLedger, ledgerInMemory } from "../src/memory/ledgers.js";
import { Ledger, type LedgerStore } from "../src/privacy/ledger.js";
import { fileMemory } from "../src/memory/files.js";
import { memoryInMemory } from "../src/memory/in-memory.js";
import { indexedDbMemory } from "../src/memory/indexed-db.js";
import type { Memory } from "../src/memory.js";

const ROUND = new Uint8Array(36).fill(3);
const TASK = new Uint8Array(32).fill(4);
const OTHER = new Uint8Array(32).fill(5);

async function inFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "ccesa-memory-"));
  try {
    await work(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** Ask as many times at once as could be, and count who got something. */
async function winners(ask: () => Promise<boolean>): Promise<number> {
  return (await Promise.all(Array.from({ length: 20 }, ask))).filter(Boolean).length;
}

async function remembersOnce(first: Memory, second: Memory): Promise<void> {
  let turn = 0;
  const either = (): Memory => (turn++ % 2 === 0 ? first : second);
  assert.equal(await winners(() => either().usedRounds.claim(ROUND)), 1);
  assert.equal(await winners(() => either().tasks.spend(TASK, 3)), 3);
  assert.equal(await second.tasks.spend(TASK, 3), false);
  assert.equal(await first.tasks.spend(TASK, 4), true);
  assert.equal(await first.tasks.spend(OTHER, 1), true);
  assert.equal(await first.usedRounds.claim(new Uint8Array(36)), true);
}

test("a memory in memory gives each thing once", async () => {
  const memory = memoryInMemory();
  await remembersOnce(memory, memory);
  const release = await memory.hold!();
  await assert.rejects(memory.hold!(), OrderError);
  release();
  (await memory.hold!())();
});

test("a memory in a folder gives each thing once, to whichever process comes first, and for good", async () => {
  await inFolder(async (folder) => {
    const inside = join(folder, "deep", "memory");
    await remembersOnce(fileMemory(inside), fileMemory(inside));
    assert.equal(await fileMemory(inside).usedRounds.claim(ROUND), false);
    assert.equal(await fileMemory(inside).tasks.spend(TASK, 4), false);
    assert.equal((await stat(inside)).mode & 0o777, 0o700);
    assert.equal((await readdir(inside)).length, 2 + 4 + 1);
  });
});

test("a folder that cannot be written to is an error and never a yes", async () => {
  await inFolder(async (folder) => {
    await writeFile(join(folder, "file"), "");
    await assert.rejects(fileMemory(join(folder, "file")).usedRounds.claim(ROUND), CcesaError);
    const memory = fileMemory(join(folder, "gone"));
    await memory.usedRounds.claim(ROUND);
    await rm(join(folder, "gone"), { recursive: true });
    await assert.rejects(memory.tasks.spend(TASK, 2), CcesaError);
  });
});

test("where there is no IndexedDB its memory says so", async () => {
  await assert.rejects(indexedDbMemory("x").usedRounds.claim(ROUND), { name: "Unsupported" });
});

// Ledgers

const SEALS = ["a", "b", "c"].map((one) => one.repeat(64));

async function appendsInOrder(first: LedgerStore, second: LedgerStore): Promise<void> {
  assert.deepEqual(await first.read(), { lines: [], seal: null });
  const begun = await Promise.all([first, second, first].map((store, at) => store.append(`begun ${at}`, SEALS[0]!, 0)));
  assert.equal(begun.filter(Boolean).length, 1);
  assert.equal(await second.append("too late", SEALS[1]!, 0), false);
  assert.equal(await second.append("too early", SEALS[1]!, 2), false);
  assert.equal(await second.append('{"a":\n1}', SEALS[1]!, 1), true);
  const { lines, seal } = await first.read();
  assert.deepEqual([lines.length, lines[1], seal], [2, '{"a":\n1}', SEALS[1]]);
}

test("a ledger grows by one line at a time, whoever appends", async () => {
  const store = ledgerInMemory();
  await appendsInOrder(store, store);
  await inFolder(async (folder) => appendsInOrder(fileLedger(folder), fileLedger(folder)));
});

test("lines of a ledger in a folder that are missing are noticed, and a crash in between is none", async () => {
  await inFolder(async (folder) => {
    const [store, engine] = [fileLedger(folder), await systemEngine()];
    const ledger = await Ledger.create(engine, store, { epsilon: 1, delta: 1e-6 });
    const crashed = (await store.read()).seal!;
    await rm(join(folder, "seal"));
    assert.equal((await ledger.spent()).vectors, 0);
    await writeFile(join(folder, "seal"), crashed);
    await rename(join(folder, "line-000000000"), join(folder, "elsewhere"));
    await assert.rejects(ledger.spent(), DamagedLedger);
    await rename(join(folder, "elsewhere"), join(folder, "line-000000001"));
    await assert.rejects(ledger.spent(), DamagedLedger);
  });
});
