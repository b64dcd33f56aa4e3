/** Checks of all engines: sizes, keys and zeros are checked in one place, so that no two engines can differ. */

import { type Bytes, wipe } from "../bytes.js";
import { BadKey, ConfigError, LowOrderKey, SealBroken, Unsupported } from "../errors.js";
import { BLOCK_BYTES, type Engine, KEY_BYTES, type Primitives } from "./engine.js";

/** The sizes of ML-KEM-768. */
export const KEM = { seed: 64, publicKey: 1184, ciphertext: 1088 } as const;

const KEM_MODULUS = 3329;
const KEM_NUMBERS = 1152; // bytes of 768 numbers of 12 bits; the other 32 bytes are a seed

/** Return an engine of a platform's primitives: it refuses what none of them should see, and says what it lacks. */
export function checked(name: string, has: Partial<Primitives>): Engine {
  const raw = all(name, has);
  return {
    name,
    random: systemRandom,
    sha256: raw.sha256,
    async hkdf(secret, info, bytes) {
      inRange(bytes, 0, 255 * 32, "bytes of HKDF");
      return raw.hkdf(secret, info, bytes);
    },
    async x25519PublicKey(privateKey) {
      sized(privateKey, 32, "a private key");
      return raw.x25519PublicKey(privateKey);
    },
    async x25519(privateKey, publicKeys) {
      sized(privateKey, 32, "a private key");
      publicKeys.forEach((key) => sized(key, 32, "a public key", LowOrderKey));
      return refuseZero(await raw.x25519(privateKey, publicKeys));
    },
    async ed25519PublicKey(seed) {
      sized(seed, 32, "a seed");
      return raw.ed25519PublicKey(seed);
    },
    async ed25519Sign(seed, text) {
      sized(seed, 32, "a seed");
      return raw.ed25519Sign(seed, text);
    },
    async ed25519Verify(publicKey, text, signature) {
      return publicKey.length === 32 && signature.length === 64 && raw.ed25519Verify(publicKey, text, signature);
    },
    async gcmSeal(key, nonce, text, associated) {
      sized(key, 16, "a key");
      sized(nonce, 12, "a nonce");
      return raw.gcmSeal(key, nonce, text, associated);
    },
    async gcmOpen(key, nonce, sealed, associated) {
      sized(key, 16, "a key");
      sized(nonce, 12, "a nonce");
      if (sealed.length < 16) {
        throw new SealBroken(`a sealed text has at least 16 bytes, got ${sealed.length}`);
      }
      return raw.gcmOpen(key, nonce, sealed, associated);
    },
    async aesBlocks(key, blocks) {
      sized(key, 16, "a key");
      sized(blocks, blocks.length - (blocks.length % 16), "blocks of 16 bytes");
      return blocks.length === 0 ? new Uint8Array(0) : raw.aesBlocks(key, blocks);
    },
    async keystream(generator, key, block, bytes) {
      sized(key, KEY_BYTES[generator], `a key of ${generator}`);
      inRange(bytes, 0, Number.MAX_SAFE_INTEGER, "bytes of a keystream");
      // ChaCha20 counts in 32 bits, and numbers are whole up to 2^53.
      const blocks = generator === "chacha20" ? 2 ** 32 - 1 : Number.MAX_SAFE_INTEGER;
      inRange(block, 0, blocks - Math.ceil(bytes / BLOCK_BYTES[generator]), "the first block of a keystream");
      return bytes === 0 ? new Uint8Array(0) : raw.keystream(generator, key, block, bytes);
    },
    async kemPublicKey(seed) {
      sized(seed, KEM.seed, "a seed of ML-KEM-768");
      return raw.kemPublicKey(seed);
    },
    async kemEncapsulate(publicKey, randomness = systemRandom(32)) {
      checkKemKey(publicKey);
      sized(randomness, 32, "the randomness of an encapsulation");
      return raw.kemEncapsulate(publicKey, randomness);
    },
    async kemDecapsulate(seed, ciphertext) {
      sized(seed, KEM.seed, "a seed of ML-KEM-768");
      sized(ciphertext, KEM.ciphertext, "a ciphertext of ML-KEM-768", SealBroken);
      return raw.kemDecapsulate(seed, ciphertext);
    },
  };
}

/** Refuse an invalid ML-KEM-768 public key (FIPS 203, 7.2). */
export function checkKemKey(key: Uint8Array): void {
  sized(key, KEM.publicKey, "a public key of ML-KEM-768", BadKey);
  for (let at = 0; at < KEM_NUMBERS; at += 3) {
    const pair = key[at]! | (key[at + 1]! << 8) | (key[at + 2]! << 16);
    if ((pair & 0xfff) >= KEM_MODULUS || pair >>> 12 >= KEM_MODULUS) {
      throw new BadKey(`not a valid ML-KEM-768 public key: a number at byte ${at} is not below ${KEM_MODULUS}`);
    }
  }
}

/** Refuse bytes of another size; a mistake of the caller, unless it says otherwise. */
export function sized(
  data: Uint8Array,
  bytes: number,
  what: string,
  Refusal: new (text: string) => Error = ConfigError,
): void {
  if (data.length !== bytes) {
    throw new Refusal(`${what}: expected ${bytes} bytes, got ${data.length}`);
  }
}

/** Refuse anything but an integer from `least` to `most`. */
export function inRange(value: number, least: number, most: number, what: string): void {
  if (!Number.isSafeInteger(value) || value < least || value > most) {
    throw new ConfigError(`${what}: expected ${least} to ${most}, got ${value}`);
  }
}

/** Return random bytes of the system, which gives 65,536 at a time. */
export function systemRandom(bytes: number): Bytes {
  inRange(bytes, 0, Number.MAX_SAFE_INTEGER, "random bytes");
  if (typeof globalThis.crypto?.getRandomValues !== "function") {
    throw new Unsupported("this platform has no crypto.getRandomValues, and nothing else may stand in for it");
  }
  const out = new Uint8Array(bytes);
  for (let at = 0; at < bytes; at += 65_536) {
    globalThis.crypto.getRandomValues(out.subarray(at, at + 65_536));
  }
  return out;
}

/** Return what was agreed, unless one of it is zero: then somebody's key is of small order. */
function refuseZero(agreed: Bytes[]): Bytes[] {
  if (agreed.some((secret) => secret.reduce((bits, byte) => bits | byte, 0) === 0)) {
    wipe(...agreed);
    throw new LowOrderKey("an agreement gives zero: the public key is of small order");
  }
  return agreed;
}

/** Return all primitives; those that are not there say so when they are called. */
function all(name: string, has: Partial<Primitives>): Primitives {
  const lacking = (primitive: string) => async () => {
    throw new Unsupported(`${name} has no ${primitive}`);
  };
  const get = (_: unknown, primitive: string): unknown => has[primitive as keyof Primitives] ?? lacking(primitive);
  return new Proxy(has, { get }) as Primitives;
}
