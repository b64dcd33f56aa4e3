/** Sealed shares under the agreement `x25519` (docs/protocol.md, 6.1). */

import { type Bytes, le32 } from "../bytes.js";
import { derived, labelled } from "../labels.js";
import type { Engine } from "./engine.js";
import { ascending } from "./keys.js";

/** The size of a one-time key: 16 bytes of key, 12 of nonce. */
export const ONE_TIME_BYTES = 28;

/** The data that a sealed text is bound to: its sender, its recipient, and their knowledge of each other. */
export interface Binding {
  readonly context: Bytes;
  readonly sender: number;
  readonly recipient: number;
  readonly senderKeys: Bytes;
  readonly recipientKeys: Bytes;
  /** Whether masks run between the two. */
  readonly masked: boolean;
  /** The sender's, to its b_i. */
  readonly commitment: Bytes;
}

/** Return both directions' one-time keys of i and j, from what c_i agrees on with C_j. */
export function sealingKeys(
  engine: Engine,
  agreed: Uint8Array,
  context: Uint8Array,
  client: number,
  neighbour: number,
): Promise<Bytes> {
  return derived(engine, agreed, 2 * ONE_TIME_BYTES, "sealing", context, ...ascending(client, neighbour));
}

/** Return the one-time key from one to the other. */
export function oneTimeKey(keys: Bytes, sender: number, recipient: number): Bytes {
  const at = sender < recipient ? 0 : ONE_TIME_BYTES;
  return keys.subarray(at, at + ONE_TIME_BYTES);
}

/** Return the associated data of sealed shares. */
export function associatedData(bound: Binding): Bytes {
  return labelled("sealedShares", ...bindingParts(bound));
}

/** Return what a sealed text is bound to, part by part. */
export function bindingParts(bound: Binding): Bytes[] {
  const { context, sender, recipient, senderKeys, recipientKeys, masked, commitment } = bound;
  const flag = Uint8Array.of(masked ? 1 : 0);
  return [context, le32(sender), le32(recipient), senderKeys, recipientKeys, flag, commitment];
}

/** Seal a text with a one-time key. */
export function sealOnce(engine: Engine, key: Uint8Array, text: Uint8Array, associated: Uint8Array): Promise<Bytes> {
  return engine.gcmSeal(key.subarray(0, 16), key.subarray(16), text, associated);
}

/** Open a text with a one-time key. Throws SealBroken. */
export function openOnce(engine: Engine, key: Uint8Array, sealed: Uint8Array, associated: Uint8Array): Promise<Bytes> {
  return engine.gcmOpen(key.subarray(0, 16), key.subarray(16), sealed, associated);
}
