/** What vectors cannot show of a series: calls that overlap, rounds that cannot be joined, ends in the middle. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { type Bytes, concat, fromHex, le32, toHex } from "../src/bytes.js";
import { contextOf, decodeConfig, encodeConfig, numbered, type RoundConfig } from "../src/config.js";
import { type Masker, maskHere } from "../src/crypto/masks.js";
import { CcesaError, ConfigError, FaultyServer, MalformedMessage, OrderError } from "../src/errors.js";
import type { RoundClient } from "../src/protocol/client.js";
import type { CommonOptions } from "../src/protocol/joining.js";
import { encodeMessage, packEnvelope, unpackEnvelope } from "../src/protocol/messages.js";
import { roundKey } from "../src/protocol/round.js";
import { SeriesClient, type SeriesOptions } from "../src/protocol/series.js";
import { engine, vectors } from "./players.js";
import { join } from "./vectors/parties.js";

const SERIES = vectors("series.json").series[0]; // of the guard curious, from number 7 on
const MEMBER = SERIES.clients[1]; // who misses nothing
const CONFIG = decodeConfig(fromHex(SERIES.config));
const ENVELOPES: { request: Bytes; reply: string }[] = SERIES.exchanges.map(
  ({ envelopes }: { envelopes: { client: number; request: string; reply: string }[] }) => {
    const { request, reply } = envelopes.find(({ client }) => client === MEMBER.client)!;
    return { request: fromHex(request), reply };
  },
);

/** Join a round of the series, with what is given for its number. */
function joined(config: RoundConfig, given: Partial<CommonOptions> = {}): Promise<RoundClient> {
  const place = config.number - CONFIG.number;
  const [seed, vector, task] = [MEMBER.seeds[place], MEMBER.vectors[place], SERIES.tasks[place]];
  return join(engine, { config: toHex(encodeConfig(config)), client: MEMBER.client, seed, vector, task }, given);
}

function member(given: Partial<SeriesOptions> = {}): SeriesClient {
  return new SeriesClient({ config: CONFIG, client: (config) => joined(config), engine, ...given });
}

/** Answer so many envelopes, each as in the vectors. */
async function played(client: SeriesClient, after: number): Promise<SeriesClient> {
  for (const { request, reply } of ENVELOPES.slice(0, after)) {
    assert.equal(toHex(await client.receive(request)), reply);
  }
  return client;
}

function namesIn(envelope: Bytes): string[] {
  const name = (message: Bytes): string => new TextDecoder().decode(message.subarray(2, 2 + (message[1]! & 31)));
  return unpackEnvelope(envelope).map(name);
}

test("envelopes that overlap are refused, and change nothing", async () => {
  const client = member();
  for (const { request, reply } of ENVELOPES) {
    const first = client.receive(request);
    await assert.rejects(client.receive(request), OrderError);
    assert.equal(toHex(await first), reply);
  }
  assert.equal(client.faults.size, 0);
});

test("rounds in flight are known by their numbers, and masks are summed ahead", async () => {
  let masked = 0;
  const masker: Masker = (...given) => {
    masked++;
    return maskHere(...given);
  };
  const client = member({ client: (config) => joined(config, { masker }) });
  const flying: number[][] = [];
  const sums: number[] = [];
  for (const { request, reply } of ENVELOPES) {
    assert.equal(toHex(await client.receive(request)), reply);
    flying.push([...client.rounds]);
    await client.prepare();
    sums.push(masked);
  }
  assert.deepEqual(flying.slice(0, 5), [[7], [7], [7, 8], [7, 8], [7, 8, 9]]);
  assert.deepEqual(flying.at(-1), [9]);
  assert.equal(sums[2], 1); // by the time of the mask of round 7
});

test("a round that was used is not joined, and the others go on", async () => {
  const claimed: string[] = [];
  const usedRounds = {
    claim: async (round: Bytes) => {
      claimed.push(toHex(round));
      return !toHex(round).endsWith("08000000");
    },
  };
  const client = await played(member({ usedRounds }), 2);
  assert.deepEqual(namesIn(await client.receive(ENVELOPES[2]!.request)), ["accept-reply"]);
  assert(client.faults.get(8) instanceof ConfigError);
  assert.deepEqual(client.rounds, [7]);
  assert.deepEqual(
    claimed,
    [7, 8].map((number) => toHex(roundKey(numbered(CONFIG, number)))),
  );
  await client.receive(ENVELOPES[2]!.request);
  assert.equal(claimed.length, 2); // there is no second try for a number
});

test("a round that cannot be joined is its own affair", async () => {
  const wrong: ((config: RoundConfig) => Promise<RoundClient>)[] = [
    () => Promise.reject(new RangeError("no data")),
    () => joined(CONFIG), // of another round
  ];
  for (const join of wrong) {
    const joining = (config: RoundConfig): Promise<RoundClient> => (config.number === 8 ? join : joined)(config);
    const client = await played(member({ client: joining }), 2);
    assert.deepEqual(namesIn(await client.receive(ENVELOPES[2]!.request)), ["accept-reply"]);
    assert(client.faults.get(8) instanceof CcesaError);
    assert.deepEqual(client.rounds, [7]);
  }
});

test("a vector that cannot be made ends its round alone", async () => {
  const vector = (): Bytes => {
    throw new RangeError("no data");
  };
  const client = await played(member({ client: (config) => joined(config, config.number === 7 ? { vector } : {}) }), 3);
  assert.deepEqual(namesIn(await client.receive(ENVELOPES[3]!.request)), ["share-reply"]);
  assert.deepEqual(client.rounds, [8]);
  assert(client.faults.get(7)?.cause instanceof RangeError);
});

test("a series that is stopped answers nothing more, not even what was under way", async () => {
  const stopped = await played(member(), 3);
  stopped.stop();
  assert.equal(stopped.over, true);
  assert.deepEqual(stopped.rounds, []);
  await assert.rejects(stopped.receive(ENVELOPES[3]!.request), OrderError);
  await assert.rejects(stopped.receive(new Uint8Array(1)), OrderError);
  assert.equal((await stopped.receive(new Uint8Array(0))).length, 0);

  const clients: RoundClient[] = [];
  const client: SeriesClient = member({
    client: async (config) => {
      const vector = (): Bytes => {
        client.stop();
        return new Uint8Array(2);
      };
      const round = await joined(config, config.number === 7 ? { vector } : {});
      clients.push(round);
      return round;
    },
  });
  await played(client, 3);
  await assert.rejects(client.receive(ENVELOPES[3]!.request), OrderError);
  for (const round of clients) {
    await assert.rejects(round.receive(new Uint8Array(1)), OrderError);
  }

  const late: SeriesClient = member({
    client: async (config) => {
      late.stop();
      return joined(config);
    },
  });
  await assert.rejects(late.receive(ENVELOPES[0]!.request), OrderError);
  assert.deepEqual(late.rounds, []);
});

test("a series has accept, and no round before its first", async () => {
  assert.throws(() => member({ config: { ...CONFIG, accept: false } }), ConfigError);
  assert.throws(() => member({ config: { ...CONFIG, length: 0 } }), ConfigError);
  const context = await contextOf(engine, numbered(CONFIG, 6));
  const before = encodeMessage("advertise-request", context, MEMBER.client, { number: le32(6) });
  await assert.rejects(member().receive(packEnvelope([before])), FaultyServer);
});

test("an envelope has its messages, or is none", () => {
  const messages = [Uint8Array.of(1), Uint8Array.of(2, 3), new Uint8Array(300)];
  assert.deepEqual(unpackEnvelope(packEnvelope(messages)), messages);
  assert.deepEqual(unpackEnvelope(packEnvelope([])), []);
  const whole = packEnvelope(messages.slice(0, 1));
  for (const wrong of [le32(0), whole.subarray(0, 4), whole.subarray(0, 3), concat(whole, whole, whole, whole)]) {
    assert.throws(() => unpackEnvelope(wrong as Bytes), MalformedMessage);
  }
});
