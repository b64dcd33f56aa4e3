/** What vectors cannot show of a client: calls that overlap, callers that fail, secrets that are gone. */

import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { type Bytes, concat, fromHex, toHex } from "../src/bytes.js";
import { parseCharter } from "../src/charter/text.js";
import { decodeConfig, type RoundConfig } from "../src/config.js";
import { type Masker, maskHere } from "../src/crypto/masks.js";
import { type Identity, identityFromSeed } from "../src/crypto/signatures.js";
import {
  BudgetSpent,
  ConfigError,
  FaultyNeighbour,
  FaultyServer,
  OrderError,
  TaskSpent,
  VectorError,
} from "../src/errors.js";
import type { Entry } from "../src/memory.js";
import type { PrivacyTable } from "../src/privacy/table.js";
import { ActiveClient, Client, type RoundClient } from "../src/protocol/client.js";
import { joinCurious, NO_TASK } from "../src/protocol/joining.js";
import { maskedVector, sumAhead } from "../src/protocol/masking.js";
import { decodeMessage, encodeMessage } from "../src/protocol/messages.js";
import type { Round } from "../src/protocol/round.js";
import type { Accepted } from "../src/protocol/states.js";
import {
  ACCEPT,
  ACTIVE,
  ASSISTED,
  engine,
  HARARY,
  HYBRID,
  type Player,
  played,
  SIGNED,
  vectors,
  watched,
} from "./players.js";
import { Told } from "./vectors/parties.js";

/** Noise that a round of nine words of 32 bits has no room for. */
const NOISE: PrivacyTable = {
  ...{ epsilon: 8, delta: 1e-6, rounds: 10, norm: 1, against: "follows", honest: 3, dimension: 9 },
  ...{ variance: 4096, gridBits: 4, bound: 100, fieldBits: 64, fails: -40 },
};

/** A charter with noise, and a round under it. */
const NOISY = vectors("charters.json").charters.find(({ name }: { name: string }) => name === "noise");

/** By player: the place of the request for the vector. */
const MASK: readonly (readonly [Player, number])[] = [
  [HARARY, 2],
  [ACCEPT, 3],
  [ACTIVE, 3],
  [ASSISTED, 0],
  [HYBRID, 3],
];

const vectorOf = ({ party }: Player): Bytes => fromHex(party.vector);
const taskOf = ({ party }: Player): Bytes => (party.task === undefined ? NO_TASK : fromHex(party.task));
const zero = (bytes: Uint8Array): boolean => bytes.every((byte) => byte === 0);

/** Return the digest of the charter that a player is under. */
async function charterOf({ party: { charter } }: Player): Promise<Bytes | undefined> {
  return charter === undefined ? undefined : (await parseCharter(charter, engine)).digest;
}

/** See that the client answers the player's request as in the vectors. */
async function answers(client: RoundClient, { requests, replies }: Player, at: number): Promise<void> {
  assert.equal(toHex(await client.receive(requests[at]!)), toHex(replies[at]!));
}

/** See that the client has left its round for good. */
async function gone(client: RoundClient, { requests }: Player): Promise<void> {
  for (const request of requests) {
    await assert.rejects(client.receive(request), OrderError);
  }
}

/** A promise, and what fulfils it. */
function later(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => undefined;
  const promise = new Promise<void>((done) => (resolve = done));
  return { promise, resolve };
}

test("calls that overlap are refused, and change nothing", async () => {
  for (const [player] of MASK) {
    const client = await played(player, 0);
    for (const at of player.requests.keys()) {
      const first = client.receive(player.requests[at]!);
      const others = [client.receive(player.requests[at]!), client.receive(new Uint8Array(3)), client.prepare()];
      const results = await Promise.allSettled(others);
      assert(results.every((result) => result.status === "rejected" && result.reason instanceof OrderError));
      const reply = toHex(await first);
      assert(reply === toHex(player.replies[at]!) || (player === HYBRID && at === 1)); // whose texts are always others
    }
    assert.equal(client.done, true);
    assert.equal(client.fault, null);
  }
});

test("bytes that the caller changes afterwards change nothing", async () => {
  const client = await played(ACCEPT, 0);
  for (const [at, request] of ACCEPT.requests.entries()) {
    const sent = request.slice();
    const answer = client.receive(sent);
    sent.fill(0);
    const reply = await answer;
    assert.equal(toHex(reply), toHex(ACCEPT.replies[at]!));
    reply.fill(0);
    if (at !== 3) {
      await answers(client, ACCEPT, at);
    }
  }
});

test("a Buffer of Node is bytes like others: neither a request nor a vector in one is shared", async () => {
  for (const [player, at] of MASK) {
    const vector = Buffer.from(player.party.vector, "hex");
    const client = await played(player, 0, { vector });
    for (const [step, request] of player.requests.entries()) {
      const sent = Buffer.from(request);
      const reply = await client.receive(sent);
      sent.fill(0);
      assert(toHex(reply) === toHex(player.replies[step]!) || (player === HYBRID && step === 1));
      if (step !== at) {
        assert.equal(toHex(await client.receive(Buffer.from(request))), toHex(reply));
      }
    }
    assert.equal(toHex(vector), player.party.vector);
  }
});

test("a vector is asked for when all checks have passed, and again where its function failed", async () => {
  for (const [player, at] of MASK) {
    let calls = 0;
    const vector = async (): Promise<Bytes> => {
      calls++;
      if (calls <= 2) {
        throw new RangeError("no data yet");
      }
      return calls === 3 ? new Uint8Array(1) : vectorOf(player);
    };
    const tasks = new Told();
    const client = await played(player, at, { vector, ...(zero(taskOf(player)) ? {} : { tasks }) });
    assert.equal(calls, 0);
    await assert.rejects(client.receive(player.requests[at]!), RangeError);
    await assert.rejects(client.receive(player.requests[at]!), RangeError);
    await assert.rejects(client.receive(player.requests[at]!), VectorError);
    assert.deepEqual(await tasks.counts(), [0, 0]);
    await answers(client, player, at);
    assert.equal(calls, 4);
    await assert.rejects(client.receive(player.requests[at]!), OrderError);
    assert.equal(calls, 4);
    if (!client.done) {
      await answers(client, player, at + 1);
    }
  }
});

test("no vector is made for a request that is refused", async () => {
  for (const [player, at] of MASK) {
    const vector = (): Bytes => assert.fail("a vector was asked for");
    const request = player.requests[at]!.slice();
    request[request.length - 1]! ^= 1; // of the task
    const client = await played(player, at, { vector });
    await assert.rejects(client.receive(request), FaultyServer);
    assert(client.fault instanceof FaultyServer);
    await gone(client, player);
    const other = await played(player, at, { vector, task: () => new Uint8Array(32).fill(9) });
    await assert.rejects(other.receive(player.requests[at]!), FaultyServer);
    await gone(other, player);
  }
});

test("a task that is made in time is checked as one that was there", async () => {
  for (const [player, at] of MASK) {
    const made = [new Uint8Array(31), null as unknown as Bytes, NO_TASK, taskOf(player)];
    const client = await played(player, at, { task: () => made.shift()!, tasks: new Told() });
    await assert.rejects(client.receive(player.requests[at]!), ConfigError);
    await assert.rejects(client.receive(player.requests[at]!), ConfigError);
    await assert.rejects(client.receive(player.requests[at]!), ConfigError);
    if (!zero(taskOf(player))) {
      await answers(client, player, at);
    }
  }
});

/** What an account has besides, where nothing goes wrong with the noise. */
const FRESH = { noise: NOISE, checkFresh: async () => undefined };

test("vectors are counted and charged before they are masked, and neither is taken back", async () => {
  for (const [player, at] of [
    [ACTIVE, 3],
    [SIGNED, 2],
    [ASSISTED, 0],
  ] as const) {
    const log: string[] = [];
    let full = true;
    const masker: Masker = (...given) => {
      log.push("mask");
      return maskHere(...given);
    };
    const account = {
      ...FRESH,
      charter: await charterOf(player),
      check: async () => void log.push("check"),
      charge: async (round: Bytes) => {
        log.push(`charge ${round.length}`);
        if (full) {
          throw new BudgetSpent("no room");
        }
      },
    };
    const tasks = {
      add: async ({ about, key }: Entry) => log.push(`${about} ${toHex(key).slice(0, 64)}`) > 0,
      entries: async () => [],
    };
    const client = await played(player, at, { masker, account, tasks, vector: () => vectorOf(player) });
    await assert.rejects(client.receive(player.requests[at]!), BudgetSpent);
    full = false;
    await answers(client, player, at);
    const entries = [`sent ${toHex(client.context)}`, `vector ${player.party.task}`];
    assert.deepEqual(log, [
      "check", // before keys are made
      ...["check", ...entries, "charge 36"],
      ...(at === 0 ? ["check"] : []),
      ...["check", ...entries, "charge 36"],
      "mask",
    ]);
  }
});

test("without room in the ledger step 0 is not answered, and no key is drawn", async () => {
  for (const player of [ACTIVE, ASSISTED]) {
    const { random, drawn } = await watched(player);
    let room = false;
    const account = {
      ...FRESH,
      charter: await charterOf(player),
      check: async () => {
        if (!room) {
          throw new BudgetSpent("no room");
        }
      },
      charge: async () => undefined,
    };
    const vector = (): Bytes => {
      assert(room);
      return vectorOf(player);
    };
    const client = await played(player, 0, { account, random, vector });
    await assert.rejects(client.receive(player.requests[0]!), BudgetSpent);
    assert.deepEqual(drawn, []);
    room = true;
    await answers(client, player, 0);
  }
});

test("a memory that fails is the caller's, and nothing is masked", async () => {
  let fails = true;
  const failing = async <T>(value: T): Promise<T> => {
    if (fails) {
      throw new RangeError("the disk is full");
    }
    return value;
  };
  const tasks = { add: () => failing(true), entries: () => failing([]) };
  const masker: Masker = (...given) => {
    assert(!fails);
    return maskHere(...given);
  };
  const client = await played(HARARY, 2, { tasks, masker });
  await assert.rejects(client.receive(HARARY.requests[2]!), RangeError);
  fails = false;
  await answers(client, HARARY, 2);
});

test("a vector that was counted leaves once or never, whatever fails", async () => {
  for (const [player, at] of MASK.slice(0, 4)) {
    const tasks = new Told();
    let vectors = 0;
    const vector = (): Bytes => {
      vectors++;
      return vectorOf(player);
    };
    const masker: Masker = (given) => {
      structuredClone(given, { transfer: [given.buffer] }); // as to another thread
      return Promise.reject(new RangeError("out of memory"));
    };
    const { random, drawn } = await watched(player);
    const client = await played(player, at, { tasks, vector, masker, random });
    await assert.rejects(client.receive(player.requests[at]!), RangeError);
    assert.deepEqual([...(await tasks.counts()), vectors], [1, 0, 1]);
    assert.equal(client.fault?.cause instanceof RangeError, true);
    assert(drawn.every(zero));
    await gone(client, player);
    assert.deepEqual([...(await tasks.counts()), vectors], [1, 0, 1]);
  }
});

test("a step that fails unexpectedly is an abort", async () => {
  for (const [player] of MASK) {
    const { random } = await watched(player);
    let left = player === ASSISTED ? 0 : 2; // enough for step 0 on a graph
    const client = await played(player, 0, {
      random: (bytes) => {
        if (left-- === 0) {
          throw new RangeError("no randomness");
        }
        return random(bytes);
      },
    });
    await assert.rejects(
      (async () => {
        await client.receive(player.requests[0]!);
        await client.receive(player.requests[1]!);
      })(),
      RangeError,
    );
    await gone(client, player);
  }
});

/** Join as the player under `active`, with an identity that fails on its n-th signature. */
async function signing(fails: number): Promise<RoundClient> {
  const { party } = ACTIVE;
  const charter = await parseCharter(party.charter!, engine);
  const own = await identityFromSeed(engine, fromHex(party.identity!));
  let calls = 0;
  const identity: Identity = {
    publicKey: own.publicKey,
    sign: async (text) => (++calls === fails ? Promise.reject(new RangeError("no card")) : own.sign(text)),
  };
  const config = decodeConfig(fromHex(party.config), charter);
  const { random } = await watched(ACTIVE);
  return ActiveClient.join({
    ...{ config, charter, identity, random, engine, now: 0 },
    ...{ vector: vectorOf(ACTIVE), task: taskOf(ACTIVE), tasks: null },
  });
}

test("an identity that does not sign is the caller's, but not once a vector is counted, nor about a second V3", async () => {
  const unsigned = await signing(1);
  await assert.rejects(unsigned.receive(ACTIVE.requests[0]!), RangeError);
  await unsigned.receive(ACTIVE.requests[0]!);
  for (const [fails, at] of [
    [2, 3],
    [3, 3],
    [4, 4],
  ] as const) {
    const client = await signing(fails);
    for (const request of ACTIVE.requests.slice(0, at)) {
      await client.receive(request);
    }
    await assert.rejects(client.receive(ACTIVE.requests[at]!), RangeError);
    await gone(client, ACTIVE);
  }
});

test("whoever leaves while a vector is made counts none", async () => {
  for (const [player, at] of MASK.slice(0, 4)) {
    const [asked, made] = [later(), later()];
    const tasks = new Told();
    const vector = async (): Promise<Bytes> => {
      asked.resolve();
      await made.promise;
      return vectorOf(player);
    };
    const client = await played(player, at, { vector, tasks });
    const answer = client.receive(player.requests[at]!);
    await asked.promise;
    client.leave();
    made.resolve();
    await assert.rejects(answer, OrderError);
    assert.deepEqual(await tasks.counts(), [0, 0]);
    assert.equal(client.fault, null);
    await gone(client, player);
  }
});

test("whoever leaves while a vector is masked sends none", async () => {
  for (const [player, at] of MASK) {
    const [asked, made] = [later(), later()];
    let signal: AbortSignal | undefined;
    const masker: Masker = async (...given) => {
      signal = given[4]?.signal;
      asked.resolve();
      await made.promise;
      return maskHere(given[0], given[1], given[2], given[3], { engine });
    };
    const client = await played(player, at, { masker });
    const answer = client.receive(player.requests[at]!);
    await asked.promise;
    client.leave();
    assert.equal(signal?.aborted, true);
    made.resolve();
    await assert.rejects(answer, OrderError);
    await gone(client, player);
  }
});

test("secrets are gone when they are not needed, and all of them after an abort", async () => {
  for (const [player, at] of MASK) {
    const { random, drawn } = await watched(player);
    const keys: Bytes[] = [];
    const masker: Masker = (vector, bits, generator, masks, options) => {
      keys.push(...masks.map(({ key }) => key));
      return maskHere(vector, bits, generator, masks, options);
    };
    const client = await played(player, at, { random, masker });
    // Without accept the keys are needed up to the mask. With helpers none has been drawn.
    assert.equal(drawn.every(zero), at !== 2);
    await client.receive(player.requests[at]!);
    assert(drawn.every(zero));
    assert(keys.length > 1 && keys.every(zero));

    for (const after of player.requests.keys()) {
      const other = await watched(player);
      const aborted = await played(player, after, { random: other.random });
      assert.equal(
        other.drawn.some((secret) => !zero(secret)),
        after === 1 || after === 2,
      );
      await assert.rejects(aborted.receive(new Uint8Array(3)), FaultyServer);
      assert(other.drawn.every(zero));
    }
  }
});

interface Exchange {
  readonly client: number;
  readonly request: string;
  readonly reply: string | null;
}

test("masks that are summed ahead give the same vector, and are summed once", async () => {
  const files = ["accept_round.json", "active_accept_round.json", "hybrid_round.json", "hybrid_active_round.json"];
  for (const round of files.flatMap((file) => vectors(file).rounds)) {
    for (const party of round.clients) {
      let masked = 0;
      const sums: Bytes[] = [];
      const masker: Masker = async (...given) => {
        masked++;
        const sum = await maskHere(...given);
        sums.push(sum);
        return sum;
      };
      const exchanges = round.steps.flatMap(({ step, exchanges }: { step: string; exchanges: Exchange[] }) =>
        exchanges.filter(({ client }) => client === party.client).map((exchange) => ({ ...exchange, step })),
      );
      const client = await played({ party: { ...round, ...party }, requests: [], replies: [] }, 0, { masker });
      for (const { step, request, reply } of exchanges.filter(({ reply }: Exchange) => reply !== null)) {
        await client.prepare();
        await client.prepare();
        assert.equal(masked, step === "mask" || step === "confirm" || step === "unmask" ? Math.max(masked, 1) : 0);
        const answer = await client.receive(fromHex(request));
        assert(step === "share" || toHex(answer) === reply, `${round.name}: ${step} of ${party.client}`);
        assert(step !== "mask" || zero(sums[0]!));
      }
      assert(masked <= 2); // the sum, and those who dropped out since
    }
  }
});

test("a request waits for the masks that are being summed", async () => {
  const [asked, made] = [later(), later()];
  let masked = 0;
  const masker: Masker = async (...given) => {
    masked++;
    asked.resolve();
    await made.promise;
    return maskHere(...given);
  };
  const client = await played(ACCEPT, 3, { masker });
  const [first, second] = [client.prepare(), client.prepare()];
  await asked.promise;
  const answer = client.receive(ACCEPT.requests[3]!);
  made.resolve();
  assert.equal(toHex(await answer), toHex(ACCEPT.replies[3]!));
  await Promise.all([first, second]);
  assert(masked <= 2); // the sum, and those who dropped out since
});

test("masks that could not be summed ahead are summed in time", async () => {
  let fails = true;
  const masker: Masker = (...given) => (fails ? Promise.reject(new RangeError("out of memory")) : maskHere(...given));
  const client = await played(ACCEPT, 3, { masker });
  await assert.rejects(client.prepare(), RangeError);
  const waiting = client.prepare();
  const answer = client.receive(ACCEPT.requests[3]!);
  await assert.rejects(waiting, RangeError);
  await assert.rejects(answer, RangeError);
  await gone(client, ACCEPT);
  const other = await played(ACCEPT, 3, { masker });
  await assert.rejects(other.prepare(), RangeError);
  fails = false;
  await answers(other, ACCEPT, 3);
});

test("whoever leaves while masks are summed keeps none of them", async () => {
  const [asked, made] = [later(), later()];
  let sum: Bytes | undefined;
  const masker: Masker = async (...given) => {
    asked.resolve();
    await made.promise;
    sum = await maskHere(given[0], given[1], given[2], given[3], { engine });
    return sum;
  };
  const client = await played(ACCEPT, 3, { masker });
  const ahead = client.prepare();
  await asked.promise;
  client.leave();
  made.resolve();
  await ahead;
  assert(sum !== undefined && zero(sum));
  await gone(client, ACCEPT);
});

test("whoever leaves hears nothing of masks that could not be summed", async () => {
  const asked = later();
  const masker: Masker = (_vector, _bits, _generator, _masks, options) =>
    new Promise((_, reject) => {
      options!.signal!.addEventListener("abort", () => reject(new RangeError("stopped")));
      asked.resolve();
    });
  const client = await played(ACCEPT, 3, { masker });
  const ahead = client.prepare();
  await asked.promise;
  client.leave();
  await ahead;
  await client.prepare();
  await gone(client, ACCEPT);
});

test("a client is what it was asked to be, or nothing", async () => {
  const config = decodeConfig(fromHex(HARARY.party.config));
  const options = { config, client: 3, vector: vectorOf(HARARY), task: taskOf(HARARY), engine };
  const client = await Client.join(options);
  assert.equal(client.client, 3);
  assert.equal(client.context.length, 32);
  client.context.fill(0);
  assert(!zero(client.context));
  for (const wrong of [new ArrayBuffer(60), undefined, "bytes"]) {
    await assert.rejects(client.receive(wrong as unknown as Bytes), ConfigError);
  }
  const refused: readonly (readonly [object, typeof ConfigError | typeof VectorError])[] = [
    [{ attempts: 0 }, ConfigError],
    [{ attempts: 1.5 }, ConfigError],
    [{ client: 0.5 }, ConfigError],
    [{ client: config.clients }, ConfigError],
    [{ config: { ...config, length: 0 } }, ConfigError],
    [{ floor: { degree: 7 } }, ConfigError],
    [{ vector: new Array(36).fill(0) }, VectorError],
    [{ task: new Array(32).fill(0) }, ConfigError],
    [{ usedRounds: { claim: async () => false } }, ConfigError],
    [
      { account: { ...FRESH, charter: undefined, check: async () => undefined, charge: async () => undefined } },
      ConfigError,
    ],
  ];
  for (const [given, error] of refused) {
    await assert.rejects(Client.join({ ...options, ...given } as typeof options), error);
  }
});

test("a round is claimed last, so that what is refused for another reason is not used up", async () => {
  const config = decodeConfig(fromHex(HARARY.party.config));
  const usedRounds = { claim: async (): Promise<boolean> => assert.fail("a round was claimed") };
  const options = { config, client: 3, vector: new Uint8Array(1), task: taskOf(HARARY), engine, usedRounds };
  await assert.rejects(Client.join(options), VectorError);
});

test("each guard has its own clients, and under active the charter has the last word", async () => {
  const { party } = ACTIVE;
  const charter = await parseCharter(party.charter!, engine);
  const identity = await identityFromSeed(engine, fromHex(party.identity!));
  const config = decodeConfig(fromHex(party.config), charter);
  const work = { vector: vectorOf(ACTIVE), task: taskOf(ACTIVE), tasks: null };
  const options = { config, charter, identity, ...work, engine, now: 0 };
  await assert.rejects(Client.join({ ...options, client: 0 }), ConfigError);
  const curious = decodeConfig(fromHex(ACCEPT.party.config));
  await assert.rejects(ActiveClient.join({ ...options, config: curious }), ConfigError);
  const another = { ...config, charter: new Uint8Array(32) };
  await assert.rejects(ActiveClient.join({ ...options, config: another }), ConfigError);
  await assert.rejects(ActiveClient.join({ ...options, now: charter.expires }), ConfigError);
  await assert.rejects(ActiveClient.join({ ...options, now: NaN }), ConfigError);
  const { tasks: _, ...uncounted } = options;
  await assert.rejects(ActiveClient.join(uncounted as typeof options), /limits the vectors of a task/);
  const free = { ...FRESH, check: async () => undefined, charge: async () => undefined };
  const noisy = await parseCharter(NOISY.text, engine);
  const round = {
    ...options,
    charter: noisy,
    config: decodeConfig(fromHex(NOISY.config), noisy),
    vector: () => work.vector,
  };
  await assert.rejects(ActiveClient.join(round), /pass an account of a ledger/);
  for (const other of [undefined, charter.digest]) {
    await assert.rejects(ActiveClient.join({ ...round, account: { ...free, charter: other } }), /not for the noise/);
  }
  const graph = { type: "complete", mask_p: null, mask_degree: null } as const;
  const other: RoundConfig = { ...config, minSurvivors: 2, graph };
  const [right, changed] = [await ActiveClient.join(options), await ActiveClient.join({ ...options, config: other })];
  assert.equal(toHex(changed.context), toHex(right.context));
});

test("a charter with helpers is for rounds with helpers, and keys are in time by the clock", async () => {
  const { party } = ASSISTED;
  const charter = await parseCharter(party.charter!, engine);
  const identity = await identityFromSeed(engine, fromHex(party.identity!));
  const config = decodeConfig(fromHex(party.config), charter);
  const options = {
    config,
    charter,
    identity,
    vector: vectorOf(ASSISTED),
    task: taskOf(ASSISTED),
    tasks: null,
    engine,
  };
  for (const guard of ["active", "curious"] as const) {
    await assert.rejects(ActiveClient.join({ ...options, config: { ...config, guard } }), ConfigError);
  }
  await assert.rejects(Client.join({ ...options, client: 0 }), ConfigError);
  const client = await ActiveClient.join(options); // long before the time of the vectors
  await assert.rejects(client.receive(ASSISTED.requests[0]!), /would stay for longer than key_days/);
  await gone(client, ASSISTED);
});

test("no bytes make a client do anything but answer, refuse or leave", async () => {
  const someone = fc.constantFrom(HARARY, ACCEPT, ACTIVE, ASSISTED);
  await fc.assert(
    fc.asyncProperty(someone, fc.nat(5), fc.nat(), fc.integer({ min: 1, max: 255 }), async (player, step, at, flip) => {
      const after = step % player.requests.length;
      const client = await played(player, after);
      const request = player.requests[after]!.slice();
      request[at % request.length]! ^= flip;
      const [answer] = await Promise.allSettled([client.receive(request)]);
      if (answer.status === "rejected") {
        assert(answer.reason instanceof FaultyServer, String(answer.reason));
        await gone(client, player);
      }
    }),
    { numRuns: 60, seed: 1 },
  );
});

test("masks ahead are the same in words of all sizes, over pieces of a vector", async () => {
  const { config } = await lone();
  for (const [bits, length] of [
    [8, 300_001],
    [16, 70_003],
    [32, 65_537],
    [64, 33_000],
  ] as const) {
    const { round, state } = await lone({ ...config, bits, length });
    const [v2, task] = [state.opened.slice(1), new Uint8Array(32)];
    const plain = await maskedVector(round, state, v2, task);
    const ahead = (await sumAhead(round, state)) as Accepted;
    assert.equal(await sumAhead(round, ahead), ahead);
    assert(Buffer.from(await maskedVector(round, ahead, v2, task)).equals(plain));
    assert(!Buffer.from(ahead.ahead!.sum).equals(plain));
  }
});

/** Return a round and a state after accept with three neighbours, one of them without masks. */
async function lone(config?: RoundConfig): Promise<{ round: Round; state: Accepted; config: RoundConfig }> {
  const given = config ?? decodeConfig(fromHex(ACCEPT.party.config));
  const vector = engine.random((given.length * given.bits) / 8);
  const { round } = await joinCurious({ config: given, client: 2, vector, task: NO_TASK, engine });
  const opened = [0, 1, 3, 5].map((client) => {
    const masked = client !== 3;
    return { client, masked, row: engine.random(64), maskKey: masked ? engine.random(16) : null };
  });
  const own = { work: { vector, task: NO_TASK }, selfSecret: engine.random(32), row: engine.random(64), threshold: 3 };
  const state: Accepted = { kind: "Accepted", ...own, opened, accused: [], ahead: null, secrets: [] };
  return { round: { ...round, signal: new AbortController().signal }, state, config: given };
}

test("a task of another size comes before a complaint under active, too", async () => {
  const charter = await parseCharter(SIGNED.party.charter!, engine);
  const config = decodeConfig(fromHex(SIGNED.party.config), charter);
  const name = "mask-among-at-once-request";
  const { context, client, fields } = decodeMessage(SIGNED.requests[2]!, name, config);
  const sealed = fields.sealed.map((byte, at) => (at === 0 ? byte ^ 1 : byte));
  const request = (task: Bytes): Bytes => encodeMessage(name, context, client, { ...fields, sealed, task });
  const complaining = await played(SIGNED, 2);
  await complaining.receive(request(new Uint8Array(32)));
  assert(complaining.fault instanceof FaultyNeighbour);
  await assert.rejects(complaining.receive(SIGNED.requests[2]!), FaultyNeighbour);
  const aborting = await played(SIGNED, 2);
  await assert.rejects(aborting.receive(request(new Uint8Array(31))), FaultyServer);
});

test("no field of a request has bytes behind its last one", async () => {
  const charter = await parseCharter(SIGNED.party.charter!, engine);
  const config = decodeConfig(fromHex(SIGNED.party.config), charter);
  const { context, client, fields } = decodeMessage(SIGNED.requests[1]!, "roster-request", config);
  for (const [field, bytes] of [
    ["keys", 1],
    ["keys", 64],
    ["root", 1],
    ["proof", 1],
    ["v1", 1],
  ] as const) {
    const longer = { ...fields, [field]: concat(fields[field], new Uint8Array(bytes)) };
    const lying = await played(SIGNED, 1);
    await assert.rejects(lying.receive(encodeMessage("roster-request", context, client, longer)), FaultyServer);
  }
});

test("a task that is spent is no abort", async () => {
  const other = { about: "vector", task: ACTIVE.party.task!, series_id: "00".repeat(32), number: 0 } as const;
  const tasks = await new Told().tell([other]);
  const client = await played(ACTIVE, 3, { tasks });
  await assert.rejects(client.receive(ACTIVE.requests[3]!), TaskSpent);
  assert.equal(client.fault, null);
  await tasks.tell([]);
  await answers(client, ACTIVE, 3);
  assert.deepEqual(await tasks.counts(), [1, 0]);
});
