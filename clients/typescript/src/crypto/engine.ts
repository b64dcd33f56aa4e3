/**
 * An engine has the primitives. WebCrypto has most of them; what an engine's platform lacks comes from `@noble/*`,
 * if that is installed. Nothing outside of the files beside this one calls a cryptographic library.
 */

import type { Bytes } from "../bytes.js";

/** The names of mask generators (6.2). */
export type Generator = "aes128-ctr" | "chacha20";

/** Returns this many random bytes. */
export type Random = (bytes: number) => Bytes;

/** The primitives and where they come from. Inputs of another size are a ConfigError, unless it says otherwise. */
export interface Engine extends Primitives {
  /** For people: which platform's primitives these are. */
  readonly name: string;
  /** Random bytes of the system, as many as are asked for. */
  readonly random: Random;
}

/** The primitives, all of them asynchronous because WebCrypto is; Unsupported where an engine lacks one. */
export interface Primitives {
  sha256(data: Uint8Array): Promise<Bytes>;
  /** HKDF-SHA256 without salt. */
  hkdf(secret: Uint8Array, info: Uint8Array, bytes: number): Promise<Bytes>;

  /** The public key of a private one of 32 bytes, clamped at use. */
  x25519PublicKey(privateKey: Uint8Array): Promise<Bytes>;
  /**
   * Return the agreement of a private key with each of the public ones: engines take long to read a private key, and
   * every step uses one for all neighbours. Throws LowOrderKey if it is zero; the checks of section 6 come before.
   */
  x25519(privateKey: Uint8Array, publicKeys: readonly Uint8Array[]): Promise<Bytes[]>;

  ed25519PublicKey(seed: Uint8Array): Promise<Bytes>;
  ed25519Sign(seed: Uint8Array, text: Uint8Array): Promise<Bytes>;
  /** By 13.1 but for points of small order, which the caller refuses: no cofactor, S below the order. Never throws. */
  ed25519Verify(publicKey: Uint8Array, text: Uint8Array, signature: Uint8Array): Promise<boolean>;

  /** AES-128-GCM with its tag of 16 bytes at the end. */
  gcmSeal(key: Uint8Array, nonce: Uint8Array, text: Uint8Array, associated: Uint8Array): Promise<Bytes>;
  /** Throws SealBroken. */
  gcmOpen(key: Uint8Array, nonce: Uint8Array, sealed: Uint8Array, associated: Uint8Array): Promise<Bytes>;

  /** AES-128 of each block of 16 bytes by itself: pair words and circle words of section 4. */
  aesBlocks(key: Uint8Array, blocks: Uint8Array): Promise<Bytes>;
  /** So many bytes of a keystream, from a block on (6.2). */
  keystream(generator: Generator, key: Uint8Array, block: number, bytes: number): Promise<Bytes>;

  /** ML-KEM-768. The seed has 64 bytes d || z, the public key 1184. */
  kemPublicKey(seed: Uint8Array): Promise<Bytes>;
  /** Fresh encapsulation; `randomness` of 32 bytes is for test vectors alone. Throws BadKey (6.4). */
  kemEncapsulate(publicKey: Uint8Array, randomness?: Uint8Array): Promise<{ secret: Bytes; ciphertext: Bytes }>;
  /** Never fails on 1088 bytes, as another ciphertext gives another secret; otherwise throws SealBroken. */
  kemDecapsulate(seed: Uint8Array, ciphertext: Uint8Array): Promise<Bytes>;
}

/** The size of a generator's key: k in 2.1. */
export const KEY_BYTES: Readonly<Record<Generator, number>> = { "aes128-ctr": 16, chacha20: 32 };

/** The size of a block of a generator's keystream: B in 6.2. */
export const BLOCK_BYTES: Readonly<Record<Generator, number>> = { "aes128-ctr": 16, chacha20: 64 };
