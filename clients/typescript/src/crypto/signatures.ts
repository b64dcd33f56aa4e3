/** Identities and signatures (docs/protocol.md, 13.1). */

import { type Bytes, fromHex, toHex, wipe } from "../bytes.js";
import { BadSignature, ConfigError, Unsupported } from "../errors.js";
import { sized, systemRandom } from "./checked.js";
import type { Engine } from "./engine.js";
import { below, PRIME } from "./keys.js";

/** A signer. Its private key may be a seed, a key that no script can read, or on another device. */
export interface Identity {
  readonly publicKey: Bytes;
  /** Return the signature of a text, 64 bytes; the same text may have others each time. */
  sign(text: Uint8Array): Promise<Bytes>;
}

/** The y-coordinates of the points of order 1, 2, 4 and 8. */
const SMALL_ORDER: ReadonlySet<string> = new Set([
  "0000000000000000000000000000000000000000000000000000000000000000",
  "0100000000000000000000000000000000000000000000000000000000000000",
  "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
]);

/** p and p + 1: two of them again, not reduced. */
const NOT_REDUCED: ReadonlySet<string> = new Set([
  "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]);

/** The order of the base point, as the bytes of a little-endian integer. */
const ORDER: Bytes = fromHex("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");

/** Return the identity of a seed of 32 bytes, which it keeps. */
export async function identityFromSeed(engine: Engine, seed: Uint8Array): Promise<Identity> {
  const own = Uint8Array.from(seed);
  const publicKey = await engine.ed25519PublicKey(own);
  return { publicKey, sign: (text) => engine.ed25519Sign(own, text) };
}

/** Return the identity of a key pair of WebCrypto, such as one that a page keeps in IndexedDB. */
export async function identityFromKeyPair(pair: CryptoKeyPair): Promise<Identity> {
  if (pair.privateKey.algorithm.name !== "Ed25519") {
    throw new ConfigError(`expected a key pair of Ed25519, got one of ${pair.privateKey.algorithm.name}`);
  }
  const { subtle } = globalThis.crypto;
  const publicKey = new Uint8Array(await subtle.exportKey("raw", pair.publicKey));
  const sign = async (text: Uint8Array): Promise<Bytes> =>
    new Uint8Array(await subtle.sign("Ed25519", pair.privateKey, text as Bytes));
  return { publicKey, sign };
}

/**
 * Return a new key pair whose private key no script can read.
 *
 * @throws Unsupported where WebCrypto has no Ed25519; `generateIdentity` works there, too.
 */
export async function generateKeyPair(): Promise<CryptoKeyPair> {
  try {
    return (await globalThis.crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"])) as CryptoKeyPair;
  } catch (cause) {
    throw new Unsupported("this platform has no WebCrypto with Ed25519", { cause });
  }
}

/** Return a new identity. Where the platform can do so, no script can read its private key. */
export async function generateIdentity(engine: Engine): Promise<Identity> {
  try {
    return await identityFromKeyPair(await generateKeyPair());
  } catch (error) {
    if (!(error instanceof Unsupported)) {
      throw error;
    }
  }
  const seed = systemRandom(32);
  const identity = await identityFromSeed(engine, seed);
  wipe(seed);
  return identity;
}

/** Refuse a public key for which anyone can sign, or that is not reduced. Throws ConfigError. */
export function checkIdentityKey(key: Uint8Array): void {
  sized(key, 32, "a public key of an identity");
  const y = coordinate(key);
  if (!below(y, PRIME)) {
    throw new ConfigError("the identity's public key is not reduced");
  }
  if (SMALL_ORDER.has(toHex(y))) {
    throw new ConfigError("the identity's public key has small order");
  }
}

/** Refuse a signature that does not verify (13.1) with a key that `checkIdentityKey` let pass. Throws BadSignature. */
export async function verify(
  engine: Engine,
  publicKey: Uint8Array,
  text: Uint8Array,
  signature: Uint8Array,
): Promise<void> {
  const y = toHex(coordinate(signature.subarray(0, 32)));
  if (SMALL_ORDER.has(y) || NOT_REDUCED.has(y)) {
    throw new BadSignature("a signature has a point of small order");
  }
  // Engines refuse it themselves, but not all always have; with it a signature could be changed by anybody.
  if (!below(signature.subarray(32), ORDER)) {
    throw new BadSignature("a signature has a number that is not below the order of the base point");
  }
  if (!(await engine.ed25519Verify(publicKey, text, signature))) {
    throw new BadSignature("a signature does not verify");
  }
}

/** Return the y of an encoded point: its first 255 bits, whatever the top bit is. */
function coordinate(point: Uint8Array): Bytes {
  const y = Uint8Array.from(point);
  y[31]! &= 0x7f;
  return y;
}
