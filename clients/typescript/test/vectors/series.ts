/** Whole series, envelope by envelope: series.json and assisted_series.json. */

import { fromHex, toHex } from "../../src/bytes.js";
import { parseCharter } from "../../src/charter/text.js";
import { decodeConfig, encodeConfig } from "../../src/config.js";
import type { Engine } from "../../src/crypto/engine.js";
import { SeriesClient } from "../../src/protocol/series.js";
import { type Case, type Replay, refuses, same } from "./check.js";
import { join } from "./parties.js";

interface Member {
  readonly client: number;
  readonly identity?: string;
  readonly seeds: readonly string[];
  readonly vectors: readonly string[];
}

interface Envelope {
  readonly client: number;
  readonly request: string;
  readonly reply: string | null;
}

interface WholeSeries {
  readonly name: string;
  readonly config: string;
  readonly charter?: string;
  readonly now?: number;
  readonly tasks: readonly string[];
  readonly clients: readonly Member[];
  readonly exchanges: readonly { readonly envelopes: readonly Envelope[] }[];
}

/** Envelopes and what becomes of them; a number is that of one that the client has had. */
interface Scene {
  readonly series: string;
  readonly client: number;
  readonly reason: string;
  readonly after: number;
  readonly steps: readonly {
    readonly request: string | number;
    readonly reply?: string | number;
    readonly error?: string;
  }[];
}

async function clientOf(engine: Engine, series: WholeSeries, member: Member): Promise<SeriesClient> {
  const { charter, now = 0, tasks } = series;
  const terms = charter === undefined ? undefined : await parseCharter(charter, engine);
  const config = decodeConfig(fromHex(series.config), terms);
  return new SeriesClient({
    config,
    engine,
    client: (round) => {
      const place = round.number - config.number;
      const part = { task: tasks[place]!, seed: member.seeds[place]!, vector: member.vectors[place]! };
      const { client, identity } = member;
      const party = { config: toHex(encodeConfig(round)), client, now, ...part };
      return join(engine, charter === undefined ? party : { ...party, charter, identity: identity! });
    },
  });
}

/** Return the envelopes of a client, which hears nothing of an exchange that it is not asked in. */
function envelopesOf(series: WholeSeries, client: number): Envelope[] {
  return series.exchanges.flatMap(({ envelopes }) => envelopes.filter((envelope) => envelope.client === client));
}

/** A client sees nothing of an envelope that it misses. */
async function replay(client: SeriesClient, envelopes: readonly Envelope[]): Promise<void> {
  for (const [at, { request, reply }] of envelopes.entries()) {
    if (reply !== null) {
      same(reply, await client.receive(fromHex(request)), `envelope ${at}`);
    }
  }
}

async function play(engine: Engine, series: WholeSeries, scene: Scene): Promise<void> {
  const client = await clientOf(engine, series, series.clients.find((member) => member.client === scene.client)!);
  const envelopes = envelopesOf(series, scene.client);
  await replay(client, envelopes.slice(0, scene.after));
  for (const { request, reply, error } of scene.steps) {
    const data = fromHex(typeof request === "number" ? envelopes[request]!.request : request);
    if (error !== undefined) {
      await refuses(error, () => client.receive(data));
    } else {
      same(typeof reply === "number" ? envelopes[reply]!.reply! : reply!, await client.receive(data), "answer");
    }
  }
}

/** Replay whole series, and the envelopes that clients refuse. */
export const series: Replay = (data: { series: WholeSeries[]; refused: Scene[] }) => [
  ...data.series.flatMap((whole): Case[] => [
    ...whole.clients.map((member) => ({
      name: `${whole.name}: client ${member.client}`,
      run: async (engine: Engine) => replay(await clientOf(engine, whole, member), envelopesOf(whole, member.client)),
    })),
    { name: `${whole.name}: requests and sums`, side: "server", run: async () => undefined },
  ]),
  ...data.refused.map((scene): Case => {
    const whole = data.series.find(({ name }) => name === scene.series)!;
    const side = whole.clients.some(({ client }) => client === scene.client) ? "client" : "server"; // a helper's
    return { name: `${scene.series}: ${scene.reason}`, side, run: (engine) => play(engine, whole, scene) };
  }),
];
