/** Public keys, and what is derived from a client's own secrets (docs/protocol.md, sections 6 and 9). */

import { type Bytes, fromHex, le32, toHex } from "../bytes.js";
import { LowOrderKey } from "../errors.js";
import { derived, hashed } from "../labels.js";
import { sized } from "./checked.js";
import { type Engine, type Generator, KEY_BYTES } from "./engine.js";

/** 2^255 - 19, as the bytes of a little-endian integer. */
export const PRIME: Bytes = fromHex("edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f");

const SMALL_ORDER: ReadonlySet<string> = new Set([
  "0000000000000000000000000000000000000000000000000000000000000000",
  "0100000000000000000000000000000000000000000000000000000000000000",
  "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
  "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
]);

/** A key pair of X25519. */
export interface KeyPair {
  readonly privateKey: Bytes;
  readonly publicKey: Bytes;
}

/** Refuse a public key that is not reduced or of small order (6). Throws LowOrderKey. */
export function checkPublicKey(key: Uint8Array): void {
  sized(key, 32, "a public key", LowOrderKey);
  if (!below(key, PRIME)) {
    throw new LowOrderKey("a public key is not below 2^255 - 19");
  }
  if (SMALL_ORDER.has(toHex(key))) {
    throw new LowOrderKey("a public key is of small order");
  }
}

/** Tell whether the one little-endian integer is below the other, of the same size; of public values only. */
export function below(a: Uint8Array, b: Uint8Array): boolean {
  const at = a.findLastIndex((byte, place) => byte !== b[place]);
  return at >= 0 && a[at]! < b[at]!;
}

/** Return σ(i, j), the sign of the pair mask of i and j in the vector of i (6.2). */
export function maskSign(client: number, neighbour: number): 1 | -1 {
  return client < neighbour ? 1 : -1;
}

/** Return the two ids as frames have them, the smaller one first. */
export function ascending(client: number, neighbour: number): [Bytes, Bytes] {
  return [le32(Math.min(client, neighbour)), le32(Math.max(client, neighbour))];
}

/** Return the key pair s_i of its secret. */
export async function maskKeyPair(
  engine: Engine,
  secret: Uint8Array,
  context: Uint8Array,
  client: number,
): Promise<KeyPair> {
  const privateKey = await derived(engine, secret, 32, "maskKeyPair", context, le32(client));
  return { privateKey, publicKey: await engine.x25519PublicKey(privateKey) };
}

/** Return the commitment to b_i. */
export function commitment(engine: Engine, secret: Uint8Array, context: Uint8Array, client: number): Promise<Bytes> {
  return hashed(engine, "commitment", context, le32(client), secret);
}

/** Return the key of the self mask of i, from b_i. */
export function selfMaskKey(
  engine: Engine,
  secret: Uint8Array,
  context: Uint8Array,
  client: number,
  generator: Generator,
): Promise<Bytes> {
  return derived(engine, secret, KEY_BYTES[generator], "selfMask", context, le32(client));
}

/** Return the key of the pair mask of i and j, from what s_i agrees on with S_j, or from the pair secret of 6.4. */
export function pairMaskKey(
  engine: Engine,
  secret: Uint8Array,
  context: Uint8Array,
  client: number,
  neighbour: number,
  generator: Generator,
): Promise<Bytes> {
  return derived(engine, secret, KEY_BYTES[generator], "pairMask", context, ...ascending(client, neighbour));
}

/** Return the digest of a masked vector (13.6). */
export function vectorDigest(engine: Engine, vector: Uint8Array, context: Uint8Array, client: number): Promise<Bytes> {
  return hashed(engine, "maskedVector", context, le32(client), vector);
}

/** Return the tag of a masked vector, a checksum that anyone can make (9). */
export async function vectorTag(
  engine: Engine,
  vector: Uint8Array,
  context: Uint8Array,
  client: number,
): Promise<Bytes> {
  const key = await hashed(engine, "maskedVector", context, le32(client));
  return engine.gcmSeal(key.subarray(0, 16), new Uint8Array(12), new Uint8Array(0), vector);
}

/** Return the digest of V2 as i knows it: packed ids under `curious` (9), a set under `active` (13.6). */
export function amongDigest(engine: Engine, known: Uint8Array, context: Uint8Array, client: number): Promise<Bytes> {
  return hashed(engine, "maskedAmong", context, le32(client), known);
}
