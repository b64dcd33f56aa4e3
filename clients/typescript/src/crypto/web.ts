/** The primitives of WebCrypto: browsers in secure contexts, Node, and others that follow the standard. */

import { ascii, type Bytes, concat, fromHex, wipe } from "../bytes.js";
import { LowOrderKey, SealBroken, Unsupported } from "../errors.js";
import { checked } from "./checked.js";
import type { Engine, Primitives } from "./engine.js";

/** Private keys are read as PKCS#8 only: this stands before their 32 bytes. */
export const PKCS8 = {
  X25519: fromHex("302e020100300506032b656e04220420"),
  Ed25519: fromHex("302e020100300506032b657004220420"),
} as const;

/** The base point: what a private key agrees on with it is its public key. */
export const BASE_POINT: Bytes = Uint8Array.of(9, ...new Uint8Array(31));

/** Node's WebCrypto refuses a longer info, and the hybrid agreement has one. */
const INFO_BYTES = 1024;

/** Calls under way at a time; each is one block of AES. */
const CALLS = 256;

/** Return the engine of WebCrypto. Throws Unsupported in an insecure context (`http://`), which has none. */
export function webEngine(): Engine {
  const subtle = globalThis.crypto?.subtle;
  if (subtle === undefined) {
    throw new Unsupported("this platform has no WebCrypto. Pages have it only over https:// and on localhost");
  }
  return checked("WebCrypto", { ...hashes(subtle), ...curves(subtle), ...ciphers(subtle) });
}

/** Return the private key of PKCS#8, of which no other copy stays. */
async function privateKey(
  subtle: SubtleCrypto,
  curve: keyof typeof PKCS8,
  secret: Uint8Array,
  usage: KeyUsage,
  extractable = false,
): Promise<CryptoKey> {
  const encoded = concat(PKCS8[curve], secret);
  try {
    return await subtle.importKey("pkcs8", encoded, curve, extractable, [usage]);
  } finally {
    wipe(encoded);
  }
}

function hashes(subtle: SubtleCrypto): Pick<Primitives, "sha256" | "hkdf"> {
  return {
    async sha256(data) {
      return new Uint8Array(await subtle.digest("SHA-256", data as Bytes));
    },
    async hkdf(secret, info, bytes) {
      if (info.length > INFO_BYTES || bytes === 0) {
        return hkdfByHmac(subtle, secret, info, bytes);
      }
      const key = await subtle.importKey("raw", secret as Bytes, "HKDF", false, ["deriveBits"]);
      const how = { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(0), info: info as Bytes };
      return new Uint8Array(await subtle.deriveBits(how, key, 8 * bytes));
    },
  };
}

/** Return what HKDF gives, from its definition (RFC 5869). */
async function hkdfByHmac(subtle: SubtleCrypto, secret: Uint8Array, info: Uint8Array, bytes: number): Promise<Bytes> {
  const hmac = async (key: Bytes, text: Uint8Array): Promise<Bytes> => {
    const own = await subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    return new Uint8Array(await subtle.sign("HMAC", own, text as Bytes));
  };
  const extracted = await hmac(new Uint8Array(32), secret);
  const blocks: Bytes[] = [];
  for (let k = 1; 32 * (k - 1) < bytes; k++) {
    blocks.push(await hmac(extracted, concat(blocks.at(-1) ?? new Uint8Array(0), info, Uint8Array.of(k))));
  }
  const out = concat(...blocks).slice(0, bytes);
  wipe(extracted, ...blocks);
  return out;
}

function curves(
  subtle: SubtleCrypto,
): Pick<Primitives, "x25519" | "x25519PublicKey" | "ed25519PublicKey" | "ed25519Sign" | "ed25519Verify"> {
  /** Throws LowOrderKey: a conforming WebCrypto refuses an agreement that gives zero, and nothing else of this size. */
  async function agree(own: CryptoKey, other: Uint8Array): Promise<Bytes> {
    const key = await subtle.importKey("raw", other as Bytes, "X25519", false, []);
    try {
      return new Uint8Array(await subtle.deriveBits({ name: "X25519", public: key }, own, 256));
    } catch (cause) {
      throw new LowOrderKey("an agreement gives zero: the public key is of small order", { cause });
    }
  }
  return {
    async x25519PublicKey(secret) {
      return agree(await privateKey(subtle, "X25519", secret, "deriveBits"), BASE_POINT);
    },
    async x25519(secret, publicKeys) {
      const own = await privateKey(subtle, "X25519", secret, "deriveBits");
      return Promise.all(publicKeys.map((key) => agree(own, key)));
    },
    async ed25519PublicKey(seed) {
      const key = await privateKey(subtle, "Ed25519", seed, "sign", true);
      return fromBase64Url((await subtle.exportKey("jwk", key)).x!);
    },
    async ed25519Sign(seed, text) {
      const key = await privateKey(subtle, "Ed25519", seed, "sign");
      return new Uint8Array(await subtle.sign("Ed25519", key, text as Bytes));
    },
    async ed25519Verify(publicKey, text, signature) {
      try {
        const key = await subtle.importKey("raw", publicKey as Bytes, "Ed25519", false, ["verify"]);
        return await subtle.verify("Ed25519", key, signature as Bytes, text as Bytes);
      } catch {
        return false; // the 32 bytes are not a point
      }
    },
  };
}

function ciphers(subtle: SubtleCrypto): Pick<Primitives, "gcmSeal" | "gcmOpen" | "aesBlocks" | "keystream"> {
  const aes = (name: string, key: Uint8Array, usage: KeyUsage): Promise<CryptoKey> =>
    subtle.importKey("raw", key as Bytes, name, false, [usage]);
  const gcm = (nonce: Uint8Array, associated: Uint8Array): AesGcmParams => ({
    name: "AES-GCM",
    iv: nonce as Bytes,
    additionalData: associated as Bytes,
  });
  const counted = (counter: Uint8Array): AesCtrParams => ({
    name: "AES-CTR",
    counter: counter as Bytes,
    length: 128,
  });
  return {
    async gcmSeal(key, nonce, text, associated) {
      const own = await aes("AES-GCM", key, "encrypt");
      return new Uint8Array(await subtle.encrypt(gcm(nonce, associated), own, text as Bytes));
    },
    async gcmOpen(key, nonce, sealed, associated) {
      const own = await aes("AES-GCM", key, "decrypt");
      try {
        return new Uint8Array(await subtle.decrypt(gcm(nonce, associated), own, sealed as Bytes));
      } catch (cause) {
        throw new SealBroken("a sealed text does not open", { cause });
      }
    },
    async aesBlocks(key, blocks) {
      const own = await aes("AES-CTR", key, "encrypt");
      const zeros = new Uint8Array(16);
      const out = new Uint8Array(blocks.length);
      for (let at = 0; at < blocks.length; at += 16 * CALLS) {
        const starts = Array.from({ length: Math.min(CALLS, (blocks.length - at) / 16) }, (_, k) => at + 16 * k);
        await Promise.all(
          starts.map(async (start) => {
            const counter = blocks.slice(start, start + 16);
            out.set(new Uint8Array(await subtle.encrypt(counted(counter), own, zeros)), start);
          }),
        );
      }
      return out;
    },
    async keystream(generator, key, block, bytes) {
      if (generator !== "aes128-ctr") {
        throw new Unsupported(`WebCrypto has no ${generator}`);
      }
      const own = await aes("AES-CTR", key, "encrypt");
      return new Uint8Array(await subtle.encrypt(counted(ctrBlock(block)), own, new Uint8Array(bytes)));
    },
  };
}

/** Return the number of a block as AES-CTR counts them: 16 bytes, big-endian. */
export function ctrBlock(block: number): Bytes {
  const counter = new Uint8Array(16);
  new DataView(counter.buffer).setBigUint64(8, BigInt(block));
  return counter;
}

/** Return the bytes of base64 with the alphabet of RFC 4648, section 5, as keys have them in JSON. */
export function fromBase64Url(text: string): Bytes {
  return ascii(atob(text.replaceAll("-", "+").replaceAll("_", "/")));
}
