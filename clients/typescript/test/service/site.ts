/** A site that tests drive from Python, in Node or in a page: what it contributes follows from its number and the task. */

import { type Bytes, fromHex, toHex } from "../../src/bytes.js";
import { systemEngine } from "../../src/crypto/engines.js";
import { identityFromSeed } from "../../src/crypto/signatures.js";
import { memoryInMemory } from "../../src/memory/in-memory.js";
import { ledgerInMemory } from "../../src/memory/ledgers.js";
import type { Memory } from "../../src/memory.js";
import { Ledger } from "../../src/privacy/ledger.js";
import type { Arrays, NamedArray } from "../../src/service/arrays.js";
import type { ParticipantEvents } from "../../src/service/events.js";
import type { ParticipantOptions } from "../../src/service/options.js";
import { Participant } from "../../src/service/participant.js";
import type { TableRecord } from "../../src/statistics/count.js";
import type { Schema } from "../../src/statistics/schema.js";

/** What a test says, in JSON. */
export interface Said {
  readonly url: string;
  readonly client: number;
  readonly words?: number;
  readonly token?: string;
  readonly charter?: string;
  /** The seed, in hexadecimal. */
  readonly identity?: string;
  readonly partBytes?: number;
  readonly results?: boolean;
  readonly wait?: number;
  readonly strict?: boolean;
  /** Rounds in which its own function fails. */
  readonly fails?: readonly number[];
  /** What it counts, under a charter with statistics. */
  readonly records?: readonly TableRecord[];
  /** Its budget, under a charter with noise. */
  readonly budget?: { readonly epsilon: number; readonly delta: number };
}

/** Return what a client contributes to a task; tests/typescript/sites.py has the same in Python. */
export function contribution(client: number, task: Bytes, words: number): Uint32Array {
  const seed = task.reduce((sum, byte) => (Math.imul(sum, 31) + byte) >>> 0, client + 1);
  return Uint32Array.from({ length: words }, (_, at) => Math.imul(seed + at, 2654435761));
}

/** Return arrays of the task's shapes, each full of a tenth of the client's number, and its number as their weight. */
function averaged(client: number, task: Arrays): [Arrays, number] {
  const full = ([name, { shape, data }]: [string, NamedArray]): [string, NamedArray] => [
    name,
    { shape, data: new Float64Array(data.length).fill((client + 1) / 10) },
  ];
  return [new Map([...task].map(full)), client + 1];
}

function contributes(said: Said): ParticipantOptions<Bytes | Arrays | Schema>["contribute"] {
  return (task, round) => {
    if (said.fails?.includes(round)) {
      throw new Error("no data today");
    }
    if (task instanceof Uint8Array) {
      return contribution(said.client, task, said.words ?? 0);
    }
    if (task instanceof Map) {
      const [arrays, weight] = averaged(said.client, task as Arrays);
      return said.budget === undefined ? [arrays, weight] : arrays;
    }
    return said.records ?? [];
  };
}

/** Make a participant; each event is said as a line of JSON. */
export async function participant(
  said: Said,
  memory: Memory | undefined,
  line: (event: Readonly<Record<string, unknown>>) => void,
): Promise<Participant<Bytes | Arrays | Schema>> {
  const { url, token, charter, identity, partBytes, results, wait, strict, budget } = said;
  const engine = await systemEngine();
  const who =
    charter === undefined || identity === undefined
      ? { token: token ?? "" }
      : { charter, identity: await identityFromSeed(engine, fromHex(identity)), memory: memory ?? memoryInMemory() };
  const site = new Participant({
    url,
    ...who,
    ...(memory === undefined ? {} : { memory }),
    ...(partBytes === undefined ? {} : { partBytes }),
    ...(budget === undefined ? {} : { ledger: await Ledger.create(engine, ledgerInMemory(), budget) }),
    results: results ?? false,
    strict: strict ?? false,
    wait: wait ?? 10,
    contribute: contributes(said),
  });
  for (const name of ["progress", "sent", "fault", "result"] as const) {
    site.addEventListener(name, ({ detail }) => line({ event: name, ...plain(detail) }));
  }
  return site;
}

function plain(detail: ParticipantEvents[keyof ParticipantEvents]): Record<string, unknown> {
  return JSON.parse(JSON.stringify(detail, (_, value: unknown) => shownOf(value))) as Record<string, unknown>;
}

function shownOf(value: unknown): unknown {
  if (value instanceof Uint8Array) {
    return toHex(value);
  }
  if (value instanceof Map) {
    return Object.fromEntries(value);
  }
  return ArrayBuffer.isView(value) ? Array.from(value as Uint32Array) : value;
}
