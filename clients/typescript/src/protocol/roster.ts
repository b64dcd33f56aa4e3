/** The committed roster of the guard `active` (docs/protocol.md, 13.3), and the texts that are signed (13.4). */

import { ascii, type Bytes, concat, equal, frame, le32 } from "../bytes.js";
import type { Engine } from "../crypto/engine.js";
import { WrongProof } from "../errors.js";
import { hashed, LABELS, labelled } from "../labels.js";
import { unpackSet } from "./messages.js";

/** Bytes of a hash in a tree. */
const HASH = 32;
const NODE = frame(ascii(LABELS.rosterNode));

/** Return the leaf of a client with these keys. */
export function rosterLeaf(engine: Engine, context: Uint8Array, client: number, keys: Uint8Array): Promise<Bytes> {
  return hashed(engine, "rosterLeaf", context, le32(client), keys);
}

/** Return the node above two entries. */
export function rosterNode(engine: Engine, left: Uint8Array, right: Uint8Array): Promise<Bytes> {
  return engine.sha256(concat(NODE, left, right));
}

/** Return the root that commits to V1, a bitmap, and to the keys of all in it. */
export function committedRoot(engine: Engine, context: Uint8Array, v1: Uint8Array, top: Uint8Array): Promise<Bytes> {
  return hashed(engine, "committedRoster", context, v1, top);
}

/** Return the seed that the graph is drawn from (section 4), of the root of either guard. */
export function graphSeed(engine: Engine, context: Uint8Array, root: Uint8Array): Promise<Bytes> {
  return hashed(engine, "graphSeed", context, root);
}

/** The known part of one level: entries by their places. */
type Level = ReadonlyMap<number, Uint8Array>;

/**
 * Return the top of a tree of `size` leaves, from some of them at ascending places and the proof for these.
 *
 * @throws WrongProof for a proof of another size than the tree and the places need.
 */
export async function provedTop(
  engine: Engine,
  size: number,
  leaves: ReadonlyMap<number, Uint8Array>,
  proof: Uint8Array,
): Promise<Bytes> {
  const hashes = proofHashes(proof);
  let level: Level = leaves;
  for (let width = size; width > 1; width = Math.ceil(width / 2)) {
    level = await levelAbove(engine, level, width, hashes);
  }
  const top = level.get(0);
  if (hashes.length > 0 || top === undefined) {
    throw new WrongProof(`the proof has ${hashes.length} hashes too many, or is for places outside of the tree`);
  }
  return new Uint8Array(top);
}

/** Cut a proof into its hashes, the next one last. */
function proofHashes(proof: Uint8Array): Uint8Array[] {
  if (proof.length % HASH !== 0) {
    throw new WrongProof(`a proof consists of whole hashes, got ${proof.length} bytes`);
  }
  const hashes = Array.from({ length: proof.length / HASH }, (_, at) => proof.subarray(HASH * at, HASH * (at + 1)));
  return hashes.reverse();
}

async function levelAbove(engine: Engine, level: Level, width: number, hashes: Uint8Array[]): Promise<Level> {
  const above: [number, Bytes | Uint8Array | Promise<Bytes>][] = [];
  for (const [place, entry] of level) {
    const sibling = place % 2 === 0 ? place + 1 : place - 1;
    const parent = Math.floor(place / 2);
    if (sibling >= width) {
      above.push([parent, entry]);
    } else if (place % 2 === 0 || !level.has(sibling)) {
      const other = level.get(sibling) ?? next(hashes);
      above.push([parent, place < sibling ? rosterNode(engine, entry, other) : rosterNode(engine, other, entry)]);
    }
  }
  const entries = await Promise.all(above.map(([, entry]) => entry));
  return new Map(above.map(([place], at) => [place, entries[at]!]));
}

function next(hashes: Uint8Array[]): Uint8Array {
  const hash = hashes.pop();
  if (hash === undefined) {
    throw new WrongProof("a proof with too few hashes");
  }
  return hash;
}

/** The claims about a roster, and the members whose places are proved. */
export interface RosterClaim {
  readonly context: Uint8Array;
  readonly root: Uint8Array;
  /** V1 as a bitmap, and of how many clients. */
  readonly v1: Uint8Array;
  readonly clients: number;
  /** The keys of some members of V1, by their ids. */
  readonly keys: ReadonlyMap<number, Uint8Array>;
  readonly proof: Uint8Array;
}

/**
 * Check that a root commits to V1 and to these keys of members.
 *
 * @throws WrongProof for a proof of another size or another root, and for somebody who is not in V1; MalformedMessage
 *   for a V1 that is not a set.
 */
export async function checkRoster(engine: Engine, claim: RosterClaim): Promise<void> {
  const { context, root, v1, clients, keys, proof } = claim;
  const ranks = new Map(unpackSet(v1, clients).map((client, rank) => [client, rank]));
  const members = [...keys.keys()].sort((a, b) => a - b);
  if (members.length === 0 || members.some((client) => !ranks.has(client))) {
    throw new WrongProof("a proof for somebody who is not in V1");
  }
  const leaves = await Promise.all(members.map((client) => rosterLeaf(engine, context, client, keys.get(client)!)));
  const known = new Map(members.map((client, at) => [ranks.get(client)!, leaves[at]!]));
  const top = await provedTop(engine, ranks.size, known, proof);
  if (!equal(await committedRoot(engine, context, v1, top), root)) {
    throw new WrongProof("the root does not commit to these keys");
  }
}

/** Return the text that a client signs in step 0: these are my keys in this round. */
export function bundleText(context: Uint8Array, client: number, keys: Uint8Array): Bytes {
  return labelled("bundle", context, le32(client), keys);
}

/** The contents of the texts of steps 2 and 2c. */
export interface Signed {
  readonly context: Uint8Array;
  readonly root: Uint8Array;
  readonly v2: Uint8Array;
  readonly task: Uint8Array;
}

/** Return the text of the signature of step 2: I masked with all my neighbours in this V2, and worked on this. */
export function maskingText(engine: Engine, { context, root, v2, task }: Signed): Promise<Bytes> {
  return hashed(engine, "maskingAmong", context, root, v2, task);
}

/** Return the text of the receipt of step 2: and this is what I sent. */
export function receiptText(engine: Engine, { context, root, v2, task }: Signed, digest: Uint8Array): Promise<Bytes> {
  return hashed(engine, "handedOver", context, root, v2, task, digest);
}

/** Return the text of the signature of step 2c: and these survived. */
export function confirmedText(engine: Engine, { context, root, v2, task }: Signed, v3: Uint8Array): Promise<Bytes> {
  return hashed(engine, "confirmed", context, root, v2, task, v3);
}
