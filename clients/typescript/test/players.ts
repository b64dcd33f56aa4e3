/** Clients in rounds that go well, for tests that want something to go wrong. */

import { readFileSync } from "node:fs";

import { type Bytes, fromHex } from "../src/bytes.js";
import type { Random } from "../src/crypto/engine.js";
import { systemEngine } from "../src/crypto/engines.js";
import type { RoundClient } from "../src/protocol/client.js";
import type { CommonOptions } from "../src/protocol/joining.js";
import { stream } from "./vectors/check.js";
import { join, type Party } from "./vectors/parties.js";

// From build/test, where tests run.
const FOLDER = new URL("../../../../vectors/", import.meta.url);

export const engine = await systemEngine();

/** A client, and all its requests with the replies to them. */
export interface Player {
  readonly party: Party;
  readonly requests: readonly Bytes[];
  readonly replies: readonly Bytes[];
}

/** Return the content of a file of vectors. */
export function vectors(file: string): any {
  return JSON.parse(readFileSync(new URL(file, FOLDER), "utf8"));
}

/** Return the party of this name in a file like refused.json. */
export function player(file: string, name: string): Player {
  const { exchanges, memory: _, ...party } = vectors(file).parties.find((each: { name: string }) => each.name === name);
  return {
    party,
    requests: exchanges.map(({ request }: { request: string }) => fromHex(request)),
    replies: exchanges.map(({ reply }: { reply: string }) => fromHex(reply)),
  };
}

/** Without *accept*; its vector goes with request 2. */
export const HARARY = player("refused.json", "harary");
/** With *accept*; its vector goes with request 3. */
export const ACCEPT = player("refused_accept.json", "accept");
/** With *accept*, under `active`; its vector goes with request 3. */
export const ACTIVE = player("refused_accept.json", "active, accept");
/** Without *accept*, under `active`; its vector goes with request 2. */
export const SIGNED = player("refused_active.json", "active, harary");
/** With *accept* and the hybrid agreement; its vector goes with request 3. */
export const HYBRID = player("hybrid_round.json", "hybrid");
/** With helpers; its vector goes with its only request. */
export const ASSISTED = player("refused_assisted.json", "member");

/** Join as a player, and answer so many requests. */
export async function played(
  { party, requests }: Player,
  after: number,
  given: Partial<CommonOptions> = {},
): Promise<RoundClient> {
  const client = await join(engine, party, given);
  for (const request of requests.slice(0, after)) {
    await client.receive(request);
  }
  return client;
}

/** Return a player's randomness, and all that was drawn from it: secrets, and to be overwritten. */
export async function watched({ party }: Player): Promise<{ random: Random; drawn: Bytes[] }> {
  const source = await stream(engine, party.seed, 1 << 12);
  const drawn: Bytes[] = [];
  const random: Random = (bytes) => {
    const secret = source(bytes);
    drawn.push(secret);
    return secret;
  };
  return { random, drawn };
}
