/** A site that tests drive from Python, in Node or in a page: what it contributes follows from its number and the task. */

import { systemEngine } from "../../src/crypto/engines.js";
import { identityFromSeed } from "../../src/crypto/signatures.js";
import { fromHex, toHex, type Bytes } from "../../src/bytes.js";
import { memoryInMemory } from "../../src/memory/in-memory.js";
import type { Memory } from "../../src/memory.js";
import type { ParticipantEvents } from "../../src/service/events.js";
import { Participant } from "../../src/service/participant.js";

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
}

/** Return what a client contributes to a task; tests/typescript/sites.py has the same in Python. */
export function contribution(client: number, task: Bytes, words: number): Uint32Array {
  const seed = task.reduce((sum, byte) => (Math.imul(sum, 31) + byte) >>> 0, client + 1);
  return Uint32Array.from({ length: words }, (_, at) => Math.imul(seed + at, 2654435761));
}

/** Make a participant; each event is said as a line of JSON. */
export async function participant(
  said: Said,
  memory: Memory | undefined,
  line: (event: Readonly<Record<string, unknown>>) => void,
): Promise<Participant<Bytes>> {
  const { url, client, words = 0, token, charter, identity, partBytes, results, wait } = said;
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
    results: results ?? false,
    wait: wait ?? 10,
    contribute: (task) => contribution(client, task, words),
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
  return ArrayBuffer.isView(value) ? Array.from(value as Uint32Array) : value;
}

