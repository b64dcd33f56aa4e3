/** Copies of a client have its keys: one vector of a round leaves, whichever comes first, and shares after their entry. */

import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join as path } from "node:path";
import { test } from "node:test";

import { type Bytes, toHex } from "../src/bytes.js";
import { FaultyServer, OrderError } from "../src/errors.js";
import { fileMemory } from "../src/memory/files.js";
import { memoryInMemory } from "../src/memory/in-memory.js";
import { type Entry, has, type Memory } from "../src/memory.js";
import type { RoundClient } from "../src/protocol/client.js";
import { ACCEPT, ACTIVE, engine, type Player, player, SIGNED } from "./players.js";
import { join } from "./vectors/parties.js";

/** Of both guards, with the place of the request for the vector, all about a task. */
const REMEMBERING = player("refused_accept.json", "accept, remembering");
const PLAYERS: readonly (readonly [Player, number])[] = [
  [REMEMBERING, 3],
  [ACTIVE, 3],
];

const WORDS = { [ACTIVE.party.seed]: Uint16Array, [REMEMBERING.party.seed]: Uint32Array };

async function inFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(path(tmpdir(), "ccesa-copies-"));
  try {
    await work(path(folder, "memory"));
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** A copy of the client: its randomness, and so its keys, but what its own function gives for the vector. */
async function copy(from: Player, vector: Uint8Array, tasks: Memory | null): Promise<RoundClient> {
  const client = await join(engine, from.party, { vector: vector as Bytes, tasks, usedRounds: undefined });
  for (const request of from.requests.slice(0, from === ACTIVE || from === REMEMBERING ? 3 : 2)) {
    await client.receive(request);
  }
  return client;
}

/** Return what a server gets when two copies are asked for the vector, at the same moment. */
async function asked(
  from: Player,
  at: number,
  memories: readonly (Memory | null)[],
): Promise<PromiseSettledResult<Bytes>[]> {
  const Words = WORDS[from.party.seed]!;
  const length = from.party.vector.length / 2 / Words.BYTES_PER_ELEMENT;
  const vectors = [7, 1000].map((value) => new Uint8Array(new Words(length).fill(value).buffer));
  const copies = await Promise.all(vectors.map((vector, which) => copy(from, vector, memories[which]!)));
  return Promise.allSettled(copies.map((client) => client.receive(from.requests[at]!)));
}

/** The attack: the difference of two vectors under the same masks. */
function difference(from: Player, replies: readonly PromiseSettledResult<Bytes>[]): number[] | null {
  const sent = replies.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  if (sent.length < 2) {
    return null;
  }
  const Words = WORDS[from.party.seed]!;
  const bytes = from.party.vector.length / 2;
  const [first, second] = sent.map((reply) => new Words(reply.slice(-bytes).buffer));
  return Array.from(first!, (word, at) => Words.of(second![at]! - word)[0]!);
}

test("of two copies that share a memory one sends its vector, and the other drops its keys", async () => {
  for (const [from, at] of PLAYERS) {
    const memory = memoryInMemory();
    await inFolder(async (folder) => {
      for (const memories of [
        [memory, memory],
        [fileMemory(folder), fileMemory(folder)],
      ]) {
        const replies = await asked(from, at, memories);
        assert.equal(difference(from, replies), null);
        const refused = replies.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
        assert.equal(refused.length, 1);
        assert.ok(refused[0] instanceof OrderError, String(refused[0]));
        assert.match(refused[0].message, /another tab or process with this client's keys/);
      }
    });
  }
});

test("the twin: without a memory in common both send, and the difference is the plain one", async () => {
  for (const [from, at] of PLAYERS) {
    for (const memories of [
      [null, null],
      [memoryInMemory(), memoryInMemory()],
    ]) {
      const found = difference(from, await asked(from, at, memories));
      assert.ok(
        found?.every((word) => word === 993),
        String(found),
      );
    }
  }
});

test("a copy that comes later is out of the round, and answers nothing more", async () => {
  for (const [from, at] of PLAYERS) {
    const memory = memoryInMemory();
    const [first, second] = [await copy(from, bytesOf(from), memory), await copy(from, bytesOf(from), memory)];
    assert.equal(toHex(await first.receive(from.requests[at]!)), toHex(from.replies[at]!));
    await assert.rejects(second.receive(from.requests[at]!), OrderError);
    assert.ok(second.fault instanceof OrderError);
    await assert.rejects(second.receive(from.requests[at]!), OrderError);
    // The first goes on, to its end.
    for (let next = at + 1; next < from.requests.length; next++) {
      assert.equal(toHex(await first.receive(from.requests[next]!)), toHex(from.replies[next]!));
    }
  }
});

function bytesOf({ party }: Player): Uint8Array {
  return Uint8Array.from(Buffer.from(party.vector, "hex"));
}

test("entries are there before what they stand for leaves, and where one cannot be made nothing leaves", async () => {
  for (const [from, at] of PLAYERS) {
    const kept = memoryInMemory();
    let full: Entry["about"] | null = "sent";
    const memory: Memory = {
      add: async (entry) => {
        await new Promise((resolve) => setTimeout(resolve)); // a disk takes its time
        if (entry.about === full) {
          throw new RangeError("the disk is full");
        }
        return kept.add(entry);
      },
      entries: kept.entries,
    };
    const last = from.requests.length - 1;
    const client = await copy(from, bytesOf(from), memory);
    const count = async (about: Entry["about"]): Promise<number> =>
      (await kept.entries(about, new Uint8Array())).length;
    await assert.rejects(client.receive(from.requests[at]!), RangeError);
    assert.deepEqual([await count("sent"), await count("vector")], [0, 0]);
    full = "release";
    await client.receive(from.requests[at]!);
    assert.ok(await has(kept, { about: "sent", key: client.context, number: 0 }));
    assert.deepEqual([await count("vector"), await count("release")], [1, 0]);
    for (const request of from.requests.slice(at + 1, last)) {
      await client.receive(request);
    }
    await assert.rejects(client.receive(from.requests[last]!), RangeError);
    assert.equal(client.done, false);
    full = null;
    const shares = await client.receive(from.requests[last]!);
    assert.equal(await count("release"), 1);
    assert.equal(toHex(await client.receive(from.requests[last]!)), toHex(shares));
    assert.equal(await count("release"), 1);
  }
});

test("a later vector that comes while a confirmation or a release is asked for ends the round", async () => {
  for (const [from, at] of PLAYERS) {
    for (let ended = at + 1; ended < from.requests.length; ended++) {
      const memory = memoryInMemory();
      const client = await copy(from, bytesOf(from), memory);
      for (const request of from.requests.slice(at, ended)) {
        await client.receive(request);
      }
      const [own] = await memory.entries("vector", new Uint8Array());
      await memory.add({ ...own!, number: own!.number + 1 });
      await assert.rejects(client.receive(from.requests[ended]!), FaultyServer);
      await assert.rejects(client.receive(from.requests[ended]!), OrderError);
      assert.deepEqual(await memory.entries("release", new Uint8Array()), []);
    }
  }
});

test("a folder has one file per round, vector and release, and no more", async () => {
  await inFolder(async (folder) => {
    const client = await copy(ACTIVE, bytesOf(ACTIVE), fileMemory(folder));
    for (const request of ACTIVE.requests.slice(3)) {
      await client.receive(request);
    }
    const kinds = (await readdir(folder)).map((name) => name.split("-")[0]).sort();
    assert.deepEqual(kinds, ["release", "sent", "vector"]);
  });
});

test("without a memory of tasks nothing is remembered", async () => {
  for (const from of [ACCEPT, SIGNED]) {
    const client = await join(engine, from.party, { tasks: null });
    for (const [at, request] of from.requests.entries()) {
      assert.equal(toHex(await client.receive(request)), toHex(from.replies[at]!));
    }
  }
});
