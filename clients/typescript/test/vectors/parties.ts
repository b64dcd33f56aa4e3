/** Clients as the files describe them. */

import { type Bytes, fromHex, toHex } from "../../src/bytes.js";
import { parseCharter } from "../../src/charter/text.js";
import { decodeConfig } from "../../src/config.js";
import type { Engine } from "../../src/crypto/engine.js";
import { identityFromSeed } from "../../src/crypto/signatures.js";
import type { Floor } from "../../src/floor.js";
import { memoryInMemory } from "../../src/memory/in-memory.js";
import type { About, Entry, Memory, UsedRounds } from "../../src/memory.js";
import { ActiveClient, Client, type RoundClient } from "../../src/protocol/client.js";
import { type CommonOptions, NO_TASK } from "../../src/protocol/joining.js";
import { equals, same, stream } from "./check.js";

/** A client with its configuration, as `parties`, `clients` and `joining` have them. */
export interface Party {
  readonly config: string;
  readonly client?: number;
  readonly charter?: string;
  readonly identity?: string;
  readonly seed: string;
  readonly vector: string;
  readonly task?: string;
  readonly floor?: Readonly<Record<string, number>>;
  /** What its memory of tasks has in it; without one nothing is remembered. */
  readonly memory?: readonly Noted[];
  readonly used_rounds?: readonly string[];
  readonly now?: number;
  /** A helper, which this package does not have. */
  readonly helps?: boolean;
}

/** Compares a reply with the one in the file. */
export type Compare = (expected: string, reply: Uint8Array, what: string) => void;

/** By the first bytes of a reply of a client below 128: how many follow from its seed, with context, client and key. */
const BEFORE_TEXTS: Readonly<Record<string, number>> = {
  "95ab73686172652d7265706c79": 13 + 34 + 1 + 34 + 3, // share-reply
  "99b0626f7865642d6d61736b2d7265706c79": 18 + 34 + 1 + 34, // boxed-mask-reply
};

/** Compare all but what follows from encapsulations, each of which a client of the hybrid agreement makes anew. */
export const butTexts: Compare = (expected, reply, what) => {
  const before = Object.entries(BEFORE_TEXTS).find(([front]) => expected.startsWith(front))?.[1];
  const most = before ?? reply.length;
  equals(expected.length, 2 * reply.length, `${what}: length`);
  same(expected.slice(0, 2 * most), reply.subarray(0, most), what);
};

/** An entry of a memory of tasks as the files have it. */
export interface Noted {
  readonly about: "sent" | "vector" | "release" | "counted";
  readonly context?: string;
  readonly task?: string;
  readonly series_id?: string;
  readonly number?: number;
}

/** A memory of tasks that has in it what a file says. */
export class Told implements Memory {
  #kept = memoryInMemory();

  /** Have these entries, and no others. */
  async tell(noted: readonly Noted[]): Promise<this> {
    this.#kept = memoryInMemory();
    for (const { about, context = "", task = "", series_id = "", number = 0 } of noted) {
      // What was counted in no series is a vector of a task alone.
      await this.add({
        about: about === "counted" ? "vector" : about,
        key: fromHex(context + task + series_id),
        number,
      });
    }
    return this;
  }

  add(entry: Entry): Promise<boolean> {
    return this.#kept.add(entry);
  }

  entries(about: About, start: Bytes): Promise<readonly Entry[]> {
    return this.#kept.entries(about, start);
  }

  /** Return how many vectors have left, and in how many rounds shares were released. */
  async counts(): Promise<readonly [vectors: number, releases: number]> {
    const none = new Uint8Array();
    return [(await this.entries("vector", none)).length, (await this.entries("release", none)).length];
  }
}

/** Join as a party, with what is given in place of its own. */
export async function join(engine: Engine, party: Party, given: Partial<CommonOptions> = {}): Promise<RoundClient> {
  const common = {
    engine,
    vector: fromHex(party.vector),
    task: party.task === undefined ? NO_TASK : fromHex(party.task),
    random: await stream(engine, party.seed, 1 << 12),
    usedRounds: usedRounds(party.used_rounds),
    ...given,
  };
  if (party.charter === undefined || party.identity === undefined) {
    const config = decodeConfig(fromHex(party.config));
    return Client.join({ ...common, config, client: party.client!, floor: floorOf(party.floor) });
  }
  const charter = await parseCharter(party.charter, engine);
  const config = decodeConfig(fromHex(party.config), charter);
  const identity = await identityFromSeed(engine, fromHex(party.identity));
  return ActiveClient.join({ ...common, tasks: given.tasks ?? null, config, charter, identity, now: party.now ?? 0 });
}

function usedRounds(used: readonly string[] | undefined): UsedRounds | undefined {
  const rounds = new Set(used);
  return used && { claim: async (round) => !rounds.has(toHex(round)) };
}

/** Return limits by the package's names: `mask_degree` is `maskDegree`. */
function floorOf(floor: Readonly<Record<string, number>> = {}): Partial<Floor> {
  const name = (key: string): string => key.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(floor).map(([key, limit]) => [name(key), limit]));
}
