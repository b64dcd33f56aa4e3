/** With an account a vector leaves whatever the caller's function does; and noise hides nothing twice. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { type Bytes, fromHex, toHex } from "../src/bytes.js";
import { Table } from "../src/charter/table.js";
import { parseCharter } from "../src/charter/text.js";
import { BudgetSpent, ConfigError, DamagedLedger, FaultyServer, TaskSpent, VectorError } from "../src/errors.js";
import { ledgerInMemory } from "../src/memory/ledgers.js";
import { Ledger } from "../src/privacy/ledger.js";
import type { PrivacyTable } from "../src/privacy/table.js";
import type { RoundClient } from "../src/protocol/client.js";
import type { Source } from "../src/protocol/round.js";
import { ContributionFailed, Stopped } from "../src/service/errors.js";
import { InTime } from "../src/service/in-time.js";
import { readSchema } from "../src/statistics/schema.js";
import { tableVector } from "../src/statistics/vector.js";
import { NOISE as OTHERS } from "./noise.js";
import { engine, type Player, vectors } from "./players.js";
import { join } from "./vectors/parties.js";

/** A round of two words of 64 bits under a charter, of which everyone stays. */
const ROUND = vectors("active_round.json").rounds.find(
  ({ name }: { name: string }) => name === "complete; everyone stays",
);
const NOISE: PrivacyTable = { ...OTHERS, dimension: 2, fieldBits: 64, honest: 14 };
const MASK = 2;

function player(client: number): Player {
  const { config, charter, task, clients, steps } = ROUND;
  const own = steps.map(({ exchanges }: any) => exchanges.find((one: any) => one.client === client));
  const messages = (name: string): Bytes[] => own.map((exchange: any) => fromHex(exchange[name]));
  return {
    party: { config, charter, task, ...clients[client] },
    requests: messages("request"),
    replies: messages("reply"),
  };
}

const VICTIM = player(0);
const charged: string[] = [];

async function client(vector: Source, more: object = {}): Promise<RoundClient> {
  charged.length = 0;
  const { digest } = await parseCharter(VICTIM.party.charter!, engine);
  const account = {
    charter: digest,
    noise: NOISE,
    check: async () => undefined,
    checkFresh: async () => undefined,
    charge: async (round: Bytes) => void charged.push(toHex(round)),
    ...more,
  };
  const made = await join(engine, VICTIM.party, { vector, account });
  for (const request of VICTIM.requests.slice(0, MASK)) {
    await made.receive(request);
  }
  return made;
}

/** What was added to the masks in place of the vector in the file. */
function added(reply: Uint8Array): bigint[] {
  const words = (bytes: Uint8Array): BigInt64Array => new BigInt64Array(bytes.slice(-16).buffer);
  const [found, expected, own] = [reply, VICTIM.replies[MASK]!, fromHex(VICTIM.party.vector)].map(words);
  return [0, 1].map((at) => BigInt.asIntN(64, found![at]! - expected![at]! + own![at]!));
}

const raises = (error: unknown) => (): never => {
  throw error;
};
const SCHEMA = readSchema(
  new Table({ name: "x", max_records: 2n, numbers: [{ name: "a", lower: 0n, upper: 9n }], least_group: 1n }, "x"),
);
const counts = (records: Iterable<any>) => () => tableVector(engine, SCHEMA, null, records);
const deep = (): Bytes => deep();
const forever = function* () {
  for (;;) {
    yield { a: 1 };
  }
};
const WAYS: Readonly<Record<string, () => any>> = {
  "an exception": raises(new Error("patient 7 is 200 years old")),
  "something that is no error": raises("patient 7"),
  "nothing at all": raises(undefined),
  "what cannot be shown": raises({ toString: raises(new Error("no")) }),
  "an error of this package": raises(new VectorError("patient 7")),
  "what a client says of a server": raises(new FaultyServer("patient 7")),
  "what a memory says": raises(new TaskSpent("patient 7")),
  "what a ledger says": raises(new BudgetSpent("patient 7")),
  "what a broken ledger says": raises(new DamagedLedger("patient 7")),
  "too deep": deep,
  "a promise that fails": async () => raises(new Error("later"))(),
  nothing: () => undefined,
  null: () => null,
  numbers: () => [1, 2],
  floats: () => new Float64Array(2),
  "words in place of their bytes": () => new BigUint64Array(2),
  "a word too few": () => new Uint8Array(8),
  "a word too many": () => new Uint8Array(24),
  "bytes that have gone to a worker": () => {
    const bytes = new Uint8Array(16);
    structuredClone(bytes, { transfer: [bytes.buffer] });
    return bytes;
  },
  "a table with a word for a number": counts([{ a: "seven" }]),
  "a table without a column": counts([{ b: 1 }]),
  "too many records": counts([{ a: 1 }, { a: 1 }, { a: 1 }]),
  "a table that never ends": counts(forever()),
  "a record that is none": counts([null]),
};

for (const [way, vector] of Object.entries(WAYS)) {
  test(`with noise nobody sees that the function gives ${way}`, async () => {
    const made = await client(vector);
    assert.equal(made.failure, null);
    const reply = await made.receive(VICTIM.requests[MASK]!);
    assert.equal(reply.length, VICTIM.replies[MASK]!.length);
    const most = 12n * BigInt(Math.ceil(Math.sqrt(NOISE.variance / 256)));
    assert.ok(
      added(reply).every((draw) => -most < draw && draw < most),
      `${added(reply)}`,
    );
    assert.equal(charged.length, 1);
    const { failure } = made as { failure: Error | null };
    assert.ok(failure !== null && failure.message.length > 0);
    assert.equal(toHex(await made.receive(VICTIM.requests[MASK + 1]!)).length > 0, true);
  });

  test(`without noise it is the caller's to know that the function gives ${way}`, async () => {
    const made = await join(engine, VICTIM.party, { vector });
    for (const request of VICTIM.requests.slice(0, MASK)) {
      await made.receive(request);
    }
    const outcome = await made.receive(VICTIM.requests[MASK]!).then(
      () => "sent",
      () => "nothing was sent",
    );
    assert.equal(outcome, "nothing was sent");
    assert.equal(made.failure, null);
  });
}

test("noise around zeros is drawn anew each time, and a vector that is there leaves as it is", async () => {
  const own = fromHex(VICTIM.party.vector);
  const right = await client(() => own);
  assert.equal(
    toHex((await right.receive(VICTIM.requests[MASK]!)).slice(-16)),
    toHex(VICTIM.replies[MASK]!.slice(-16)),
  );
  assert.equal(right.failure, null);
  const seen = new Set<string>();
  for (let again = 0; again < 20; again++) {
    seen.add(`${added(await (await client(raises(1))).receive(VICTIM.requests[MASK]!))}`);
  }
  assert.ok(seen.size > 5);
});

test("a vector that is ready has its noise already, and is refused where it is charged", async () => {
  await assert.rejects(client(fromHex(VICTIM.party.vector)), /pass a function/);
});

test("an account that cannot charge is seen, as it tells nothing of the data", async () => {
  const made = await client(raises(1), { charge: raises(new BudgetSpent("no room")) });
  await assert.rejects(made.receive(VICTIM.requests[MASK]!), BudgetSpent);
});

test("a client that leaves while its function is at work sends nothing, and charges nothing", async () => {
  const made = await client(async () => {
    made.leave();
    throw new Error("stopped");
  });
  await assert.rejects(made.receive(VICTIM.requests[MASK]!));
  assert.deepEqual(charged, []);
});

test("a vector of another round is known by its ledger, where it is long enough", async () => {
  const ledger = await Ledger.create(engine, ledgerInMemory(), { epsilon: 8, delta: 1e-6 });
  const vector = new Uint8Array(16);
  for (const dimension of [63, 64]) {
    const account = await ledger.account({ ...OTHERS, dimension, variance: 262144 });
    const other = await ledger.account({ ...OTHERS, dimension, variance: 262144 }, new Uint8Array(32));
    const twice = async (): Promise<void> => {
      await account.checkFresh(vector);
      await other.checkFresh(vector.slice());
    };
    await (dimension < 64 ? twice() : assert.rejects(twice(), VectorError));
    await account.checkFresh(Uint8Array.of(dimension));
  }
});

// Time

test("a vector leaves after the same time, whenever it is ready", async () => {
  const { signal } = new AbortController();
  for (const seconds of [0, 0.02]) {
    const began = performance.now();
    const made = async (): Promise<Bytes> => {
      await new Promise((wait) => setTimeout(wait, 1000 * seconds));
      return new Uint8Array(1);
    };
    assert.equal((await new InTime(0.1).run(made, signal)).length, 1);
    assert.ok(performance.now() - began >= 95);
  }
  const began = performance.now();
  await assert.rejects(
    new InTime(0.1).run(async () => raises(new VectorError("early"))(), signal),
    /early/,
  );
  assert.ok(performance.now() - began >= 95);
});

test("a function that takes too long is not called again before it ends", async () => {
  const { signal } = new AbortController();
  const inTime = new InTime(0.01);
  let [calls, end] = [0, (): void => undefined];
  const slow = async (): Promise<Bytes> => {
    calls++;
    await new Promise<void>((resolve) => (end = resolve));
    return new Uint8Array(1);
  };
  await assert.rejects(inTime.run(slow, signal), ContributionFailed);
  await assert.rejects(inTime.run(slow, signal), ContributionFailed);
  assert.equal(calls, 1);
  end();
  await new Promise((wait) => setTimeout(wait));
  assert.equal((await inTime.run(async () => new Uint8Array(1), signal)).length, 1);
});

test("whoever stops waits for no time, and a time that is none is refused", async () => {
  const stop = new AbortController();
  const running = new InTime(600).run(async () => new Uint8Array(1), stop.signal);
  stop.abort();
  await assert.rejects(running, Stopped);
  for (const seconds of [0, -1, NaN, Infinity]) {
    assert.throws(() => new InTime(seconds), ConfigError);
  }
});
