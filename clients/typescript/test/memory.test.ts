/** What is remembered is remembered once, by whoever comes first, and across starts. */

import assert from "node:assert/strict";
import { mkdtemp, readdir, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { type Bytes, concat, toHex } from "../src/bytes.js";
import { systemEngine } from "../src/crypto/engines.js";
import { CcesaError, ConfigError, DamagedLedger, OrderError } from "../src/errors.js";
import { fileMemory } from "../src/memory/files.js";
import { memoryInMemory } from "../src/memory/in-memory.js";
import { indexedDbMemory } from "../src/memory/indexed-db.js";
import { fileLedger, ledgerInMemory } from "../src/memory/ledgers.js";
import { type Entry, has, type Memory } from "../src/memory.js";
import { Ledger, type LedgerStore } from "../src/privacy/ledger.js";

const ROUND = new Uint8Array(36).fill(3);
const TASK = new Uint8Array(32).fill(4);
const OTHER = new Uint8Array(32).fill(5);

async function inFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "ccesa-memory-"));
  try {
    await work(folder);
  } finally {
    await rm(folder, { recursive: true });
    await rm(`${folder}.used`, { force: true });
  }
}

/** Ask as many times at once as could be, and count who got something. */
async function winners(ask: () => Promise<boolean>): Promise<number> {
  return (await Promise.all(Array.from({ length: 20 }, ask))).filter(Boolean).length;
}

const ROUNDS: Entry = { about: "round", key: ROUND, number: 0 };
const SENT: Entry = { about: "sent", key: TASK, number: 0 };

function vector(task: Bytes, number: number): Entry {
  return { about: "vector", key: concat(task, ROUND), number };
}

async function remembersOnce(first: Memory, second: Memory): Promise<void> {
  let turn = 0;
  const either = (): Memory => (turn++ % 2 === 0 ? first : second);
  for (const entry of [ROUNDS, SENT, vector(TASK, 0), vector(TASK, 4294967295), vector(OTHER, 0)]) {
    assert.equal(await winners(() => either().add(entry)), 1);
    assert.equal(await second.add(entry), false);
    assert.equal(await has(first, entry), true);
  }
  const found = async (task: Bytes): Promise<number[]> =>
    (await second.entries("vector", task))
      .map(({ key, number }) => {
        assert.deepEqual(key, concat(task, ROUND));
        return number;
      })
      .sort();
  assert.deepEqual(await found(TASK), [0, 4294967295]);
  assert.deepEqual(await found(OTHER), [0]);
  assert.deepEqual(await first.entries("release", TASK), []);
  assert.equal(await has(second, vector(TASK, 1)), false);
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
    assert.equal(await fileMemory(inside).add(ROUNDS), false);
    assert.equal(await fileMemory(inside).add(vector(TASK, 0)), false);
    assert.equal((await stat(inside)).mode & 0o777, 0o700);
    assert.equal((await readdir(inside)).length, 5);
  });
});

test("a folder that cannot be written to is an error and never a yes", async () => {
  await inFolder(async (folder) => {
    await writeFile(join(folder, "file"), "");
    await assert.rejects(fileMemory(join(folder, "file")).add(ROUNDS), CcesaError);
    const memory = fileMemory(join(folder, "gone"));
    await memory.add(ROUNDS);
    await rm(join(folder, "gone"), { recursive: true });
    await assert.rejects(memory.add(vector(TASK, 2)), CcesaError);
    await assert.rejects(memory.entries("vector", TASK), CcesaError);
  });
});

test("an entry that cannot be read is an error and never a yes, and what an earlier version wrote is read", async () => {
  await inFolder(async (folder) => {
    const memory = fileMemory(folder);
    await writeFile(join(folder, `vector-${toHex(TASK)}-1`), "");
    await writeFile(join(folder, `round-${toHex(ROUND)}`), "");
    assert.deepEqual(await memory.entries("vector", TASK), [{ about: "vector", key: TASK, number: 1 }]);
    assert.equal(await memory.add(ROUNDS), false);
    for (const name of ["what", "1e3", "01", "-1", "", "99999999999"]) {
      await writeFile(join(folder, `vector-${toHex(OTHER)}-${name}`), "");
      await assert.rejects(memory.entries("vector", OTHER), /has an unknown entry/);
      await rm(join(folder, `vector-${toHex(OTHER)}-${name}`));
    }
    assert.deepEqual(await memory.entries("vector", OTHER), []);
  });
});

test("a memory that is gone is not begun anew", async () => {
  await inFolder(async (folder) => {
    for (const inside of [join(folder, "memory"), `${join(folder, "other")}/`]) {
      await winners(() => fileMemory(inside).add(ROUNDS));
      assert.equal(await fileMemory(inside).add(SENT), true);
      await rm(inside, { recursive: true });
      await assert.rejects(fileMemory(inside).add(ROUNDS), /is gone, and its identity was used/);
      await assert.rejects(fileMemory(inside).entries("vector", TASK), ConfigError);
      await assert.rejects(readdir(inside));
    }
    assert.deepEqual((await readdir(folder)).sort(), ["memory.used", "other.used"]);
  });
});

test("a folder forgets rounds after a month, and never what has left", async () => {
  await inFolder(async (folder) => {
    const inside = join(folder, "memory");
    const entries = [
      ROUNDS,
      SENT,
      vector(TASK, 0),
      { ...vector(TASK, 0), about: "release" },
      { ...SENT, about: "table" },
    ] as const;
    for (const days of [29, 31]) {
      for (const entry of entries) {
        await fileMemory(inside).add(entry);
      }
      const then = Date.now() / 1000 - 86_400 * days;
      await Promise.all((await readdir(inside)).map((name) => utimes(join(inside, name), then, then)));
      const again = fileMemory(inside);
      const left = await Promise.all(entries.map((entry) => has(again, entry)));
      assert.deepEqual(left, days < 30 ? [true, true, true, true, true] : [false, true, true, true, true]);
    }
  });
});

test("where there is no IndexedDB its memory says so", async () => {
  await assert.rejects(indexedDbMemory("x").add(ROUNDS), { name: "Unsupported" });
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
    await store.append("{}", SEALS[1]!, 1);
    await store.append("{}", SEALS[2]!, 2);
    await writeFile(join(folder, "seal"), crashed); // by a process that was held up meanwhile
    assert.equal((await store.read()).seal, SEALS[2]);
    await writeFile(join(folder, "seal"), SEALS[2]!);
    await rm(join(folder, "line-000000002"));
    assert.equal((await store.read()).seal, SEALS[2]);
    await assert.rejects(ledger.spent(), DamagedLedger);
    await rm(join(folder, "seal"));
    assert.equal((await store.read()).seal, null);
    await rm(join(folder, "line-000000001"));
    await writeFile(join(folder, "seal"), crashed);
    await rename(join(folder, "line-000000000"), join(folder, "elsewhere"));
    await assert.rejects(ledger.spent(), DamagedLedger);
    await rename(join(folder, "elsewhere"), join(folder, "line-000000001"));
    await assert.rejects(ledger.spent(), DamagedLedger);
  });
});

test("a line that another process appends while a ledger in a folder is read is no damage", async () => {
  await inFolder(async (folder) => {
    const [store, other, engine] = [fileLedger(folder), fileLedger(folder), await systemEngine()];
    const ledger = await Ledger.create(engine, store, { epsilon: 1, delta: 1e-6 });
    const { lines, seal } = await other.read();
    for (const before of [0, 1]) {
      await meanwhile(before, () => other.append("{}", SEALS[before]!, lines.length + before));
      const read = await store.read();
      assert.equal(read.seal, read.lines.length === 1 ? seal : SEALS[read.lines.length - 2]);
    }
    await assert.rejects(ledger.spent(), DamagedLedger); // these seals are none
  });
});

/** See that something happens when a folder has been listed so many times, before its names are there. */
async function meanwhile(before: number, work: () => Promise<unknown>): Promise<void> {
  const files = process.getBuiltinModule("node:fs/promises");
  const { readdir } = files;
  let listed = 0;
  const late = async (folder: string): Promise<string[]> => {
    const names = await readdir(folder);
    if (listed++ === before) {
      files.readdir = readdir;
      await work();
    }
    return names;
  };
  files.readdir = late as unknown as typeof readdir;
}
