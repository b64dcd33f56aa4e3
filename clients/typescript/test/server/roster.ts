/** A server's half of the committed roster (docs/protocol.md, 13.3): proofs from all leaves. */

import { type Bytes, join } from "../../src/bytes.js";
import type { Engine } from "../../src/crypto/engine.js";
import { rosterNode } from "../../src/protocol/roster.js";

/** Return all levels of a tree, from its leaves to its top. */
export async function levelsOf(engine: Engine, leaves: readonly Uint8Array[]): Promise<Uint8Array[][]> {
  const levels: Uint8Array[][] = [[...leaves]];
  for (let level = levels[0]!; level.length > 1; level = levels.at(-1)!) {
    const pairs = Array.from({ length: Math.ceil(level.length / 2) }, (_, at) => level.slice(2 * at, 2 * at + 2));
    levels.push(
      await Promise.all(pairs.map(([left, right]) => (right === undefined ? left! : rosterNode(engine, left!, right)))),
    );
  }
  return levels;
}

/** Return the proof that the leaves at some places are in a tree. */
export async function prove(engine: Engine, leaves: readonly Uint8Array[], places: readonly number[]): Promise<Bytes> {
  const proof: Uint8Array[] = [];
  let known = new Set(places);
  for (const level of await levelsOf(engine, leaves)) {
    const siblings = [...known].map((place) => place ^ 1);
    const missing = siblings.filter((place) => place < level.length && !known.has(place)).sort((a, b) => a - b);
    proof.push(...missing.map((place) => level[place]!));
    known = new Set([...known].map((place) => place >> 1));
  }
  return join(proof);
}
