/** A site in a page: what tests call is put where they find it, and events are kept for them. */

import { fromHex, toHex } from "../../src/bytes.js";
import { systemEngine } from "../../src/crypto/engines.js";
import { indexedDbIdentity } from "../../src/memory/identity.js";
import { indexedDbMemory } from "../../src/memory/indexed-db.js";
import type { Participant } from "../../src/service/participant.js";
import { join, type Party } from "../vectors/parties.js";
import { participant, type Said } from "./site.js";

const events: object[] = [];

async function start(said: Said & { readonly memory: string }): Promise<Participant<unknown>> {
  const site = await participant(said, indexedDbMemory(said.memory), (event) => events.push(event));
  const ended = (how: string, text?: string): void =>
    void events.push({ event: "ended", with: how, ...(text && { text }) });
  site.run().then(ended, (error: Error) => ended(error.name, error.message));
  return site as Participant<unknown>;
}

/** A copy of a client, with all its keys, which has answered these requests; return what answers the next one. */
async function copyOf(
  party: Party,
  requests: readonly string[],
  memory: string,
): Promise<(next: string) => Promise<string>> {
  const client = await join(await systemEngine(), party, { tasks: indexedDbMemory(memory) });
  for (const request of requests) {
    await client.receive(fromHex(request));
  }
  return (next) => client.receive(fromHex(next)).then(toHex, (error: Error) => error.name);
}

Object.assign(globalThis, { copyOf, events, indexedDbIdentity, indexedDbMemory, start });
