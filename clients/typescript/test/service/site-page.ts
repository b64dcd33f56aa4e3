/** A site in a page: what tests call is put where they find it, and events are kept for them. */

import { indexedDbIdentity } from "../../src/memory/identity.js";
import { indexedDbMemory } from "../../src/memory/indexed-db.js";
import type { Participant } from "../../src/service/participant.js";
import { participant, type Said } from "./site.js";

const events: object[] = [];

async function start(said: Said & { readonly memory: string }): Promise<Participant<unknown>> {
  const site = await participant(said, indexedDbMemory(said.memory), (event) => events.push(event));
  const ended = (how: string, text?: string): void => void events.push({ event: "ended", with: how, ...(text && { text }) });
  site.run().then(ended, (error: Error) => ended(error.name, error.message));
  return site as Participant<unknown>;
}

Object.assign(globalThis, { events, indexedDbIdentity, indexedDbMemory, start });
