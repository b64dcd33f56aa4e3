/** The derivations of the agreement `x25519-mlkem768` (docs/protocol.md, 6.4). */

import { type Bytes, concat, le32, wipe } from "../bytes.js";
import { derived, hashed } from "../labels.js";
import type { Engine } from "./engine.js";
import { ascending } from "./keys.js";
import { type Binding, bindingParts, ONE_TIME_BYTES, sealOnce } from "./sealing.js";

const NOTHING = new Uint8Array(0);

/** Return R_ij, the seed that i gives j, from the secret of s_i. */
export function pairSeed(
  engine: Engine,
  secret: Uint8Array,
  context: Uint8Array,
  giver: number,
  receiver: number,
): Promise<Bytes> {
  return derived(engine, secret, 32, "pairSeed", context, le32(giver), le32(receiver));
}

/** Return P_ij, the commitment to the seed that i gives j. */
export function seedCommitment(
  engine: Engine,
  seed: Uint8Array,
  context: Uint8Array,
  giver: number,
  receiver: number,
): Promise<Bytes> {
  return hashed(engine, "seedCommitment", context, le32(giver), le32(receiver), seed);
}

/** Return the one-time key of a sealed text; all that the text is bound to enters it. */
export async function hybridSealingKey(
  engine: Engine,
  agreed: Uint8Array,
  encapsulated: Uint8Array,
  bound: Binding,
  ciphertext: Uint8Array,
  promised: Uint8Array,
): Promise<Bytes> {
  const secret = concat(agreed, encapsulated);
  const parts = [...bindingParts(bound), ciphertext, promised];
  const key = await derived(engine, secret, ONE_TIME_BYTES, "hybridSealing", ...parts);
  wipe(secret);
  return key;
}

/** Return the pair secret of i and j, from what s_i agrees on with S_j and both seeds, that of the smaller id first. */
export async function pairSecret(
  engine: Engine,
  agreed: Uint8Array,
  seeds: Uint8Array,
  context: Uint8Array,
  ends: readonly { readonly client: number; readonly maskKey: Bytes }[],
): Promise<Bytes> {
  const [first, second] = [...ends].sort((a, b) => a.client - b.client);
  const secret = concat(agreed, seeds);
  const ids = ascending(first!.client, second!.client);
  const pair = await derived(engine, secret, 32, "pairSecret", context, ...ids, first!.maskKey, second!.maskKey);
  wipe(secret);
  return pair;
}

/** Return the deposit of i of the seed that j gave it. */
export async function makeDeposit(
  engine: Engine,
  secret: Uint8Array,
  seed: Uint8Array,
  context: Uint8Array,
  client: number,
  neighbour: number,
): Promise<Bytes> {
  const key = await derived(engine, secret, ONE_TIME_BYTES, "deposit", context, le32(client), le32(neighbour));
  const deposit = await sealOnce(engine, key, seed, NOTHING);
  wipe(key);
  return deposit;
}
