/**
 * The primitives of Node's own module, which work without a thread's round trip: sealing for a neighbour takes a third
 * of WebCrypto's time, raw blocks of AES a hundredth, and it has ChaCha20.
 */

import { type Bytes, concat, wipe } from "../bytes.js";
import { LowOrderKey, SealBroken, Unsupported } from "../errors.js";
import { builtin } from "../platform.js";
import { checked } from "./checked.js";
import type { Engine, Generator, Primitives } from "./engine.js";
import { BASE_POINT, ctrBlock, fromBase64Url, PKCS8 } from "./web.js";

/** The used part of `node:crypto`; browsers' types do not have it. */
interface NodeCrypto {
  createHash(name: "sha256"): Hashing;
  createHmac(name: "sha256", key: Uint8Array): Hashing;
  createPrivateKey(key: { key: Uint8Array; format: "der"; type: "pkcs8" }): KeyObject;
  createPublicKey(key: KeyObject | { key: Jwk; format: "jwk" }): KeyObject;
  diffieHellman(keys: { privateKey: KeyObject; publicKey: KeyObject }): Uint8Array;
  sign(hash: null, text: Uint8Array, key: KeyObject): Uint8Array;
  verify(hash: null, text: Uint8Array, key: KeyObject, signature: Uint8Array): boolean;
  createCipheriv(name: string, key: Uint8Array, iv: Uint8Array | null): Cipher;
  createDecipheriv(name: string, key: Uint8Array, iv: Uint8Array): Cipher;
}

interface Hashing {
  update(data: Uint8Array): Hashing;
  digest(): Uint8Array;
}

interface Cipher {
  setAAD(associated: Uint8Array): void;
  setAuthTag(tag: Uint8Array): void;
  getAuthTag(): Uint8Array;
  update(data: Uint8Array): Uint8Array;
  final(): Uint8Array;
}

interface KeyObject {
  export(how: { format: "jwk" }): Jwk;
}

interface Jwk {
  kty: "OKP";
  crv: keyof typeof PKCS8;
  x: string;
}

/**
 * Node's name of a generator, and the nonce with which a keystream begins at a block. For ChaCha20 OpenSSL's nonce is
 * the counter, 4 bytes little-endian, and then the 12 of RFC 8439.
 */
export const NODE_CIPHERS: Readonly<Record<Generator, { name: string; start: (block: number) => Bytes }>> = {
  "aes128-ctr": { name: "aes-128-ctr", start: ctrBlock },
  chacha20: { name: "chacha20", start: (block) => ctrBlock(block).reverse() },
};

/** Return the engine of `node:crypto`. Throws Unsupported outside of Node 20.16 and later, and what has its modules. */
export function nodeEngine(): Engine {
  const node = builtin<NodeCrypto>("node:crypto");
  if (node === undefined) {
    throw new Unsupported("this platform has no node:crypto");
  }
  return checked("node:crypto", { ...hashes(node), ...curves(node), ...ciphers(node) });
}

function hashes(node: NodeCrypto): Pick<Primitives, "sha256" | "hkdf"> {
  const hmac = (key: Uint8Array, ...parts: Uint8Array[]): Uint8Array =>
    parts.reduce((hashing, part) => hashing.update(part), node.createHmac("sha256", key)).digest();
  return {
    async sha256(data) {
      return bytes(node.createHash("sha256").update(data).digest());
    },
    // Node's own takes as long as four HMACs, and refuses an empty secret.
    async hkdf(secret, info, length) {
      const extracted = hmac(new Uint8Array(32), secret);
      const blocks: Uint8Array[] = [];
      for (let k = 1; 32 * (k - 1) < length; k++) {
        blocks.push(hmac(extracted, blocks.at(-1) ?? new Uint8Array(0), info, Uint8Array.of(k)));
      }
      const out = concat(...blocks).slice(0, length);
      wipe(extracted, ...blocks);
      return out;
    },
  };
}

function curves(
  node: NodeCrypto,
): Pick<Primitives, "x25519" | "x25519PublicKey" | "ed25519PublicKey" | "ed25519Sign" | "ed25519Verify"> {
  // A private key is read from bytes, which can be overwritten; a public one from text, in a tenth of the time.
  const own = (crv: keyof typeof PKCS8, secret: Uint8Array): KeyObject => {
    const key = concat(PKCS8[crv], secret);
    try {
      return node.createPrivateKey({ key, format: "der", type: "pkcs8" });
    } finally {
      wipe(key);
    }
  };
  const other = (crv: keyof typeof PKCS8, key: Uint8Array): KeyObject =>
    node.createPublicKey({ key: { kty: "OKP", crv, x: toBase64Url(key) }, format: "jwk" });
  const agree = (privateKey: KeyObject, key: Uint8Array): Bytes => {
    const publicKey = other("X25519", key);
    try {
      return bytes(node.diffieHellman({ privateKey, publicKey }));
    } catch (cause) {
      throw new LowOrderKey("an agreement gives zero: the public key is of small order", { cause });
    }
  };
  return {
    async x25519PublicKey(secret) {
      return agree(own("X25519", secret), BASE_POINT);
    },
    async x25519(secret, publicKeys) {
      const privateKey = own("X25519", secret);
      return publicKeys.map((key) => agree(privateKey, key));
    },
    async ed25519PublicKey(seed) {
      return fromBase64Url(node.createPublicKey(own("Ed25519", seed)).export({ format: "jwk" }).x);
    },
    async ed25519Sign(seed, text) {
      return bytes(node.sign(null, text, own("Ed25519", seed)));
    },
    async ed25519Verify(publicKey, text, signature) {
      return node.verify(null, text, other("Ed25519", publicKey), signature);
    },
  };
}

function ciphers(node: NodeCrypto): Pick<Primitives, "gcmSeal" | "gcmOpen" | "aesBlocks" | "keystream"> {
  return {
    async gcmSeal(key, nonce, text, associated) {
      const cipher = node.createCipheriv("aes-128-gcm", key, nonce);
      cipher.setAAD(associated);
      const sealed = [cipher.update(text), cipher.final()];
      return concat(...sealed, cipher.getAuthTag());
    },
    async gcmOpen(key, nonce, sealed, associated) {
      const cipher = node.createDecipheriv("aes-128-gcm", key, nonce);
      cipher.setAAD(associated);
      cipher.setAuthTag(sealed.subarray(-16));
      const text = cipher.update(sealed.subarray(0, -16));
      try {
        return concat(text, cipher.final());
      } catch (cause) {
        throw new SealBroken("a sealed text does not open", { cause });
      } finally {
        wipe(text);
      }
    },
    async aesBlocks(key, blocks) {
      return bytes(node.createCipheriv("aes-128-ecb", key, null).update(blocks));
    },
    async keystream(generator, key, block, length) {
      const { name, start } = NODE_CIPHERS[generator];
      return bytes(node.createCipheriv(name, key, start(block)).update(new Uint8Array(length)));
    },
  };
}

/** Return Node's bytes as such: theirs are of a class of its own, and may share one buffer. */
function bytes(data: Uint8Array): Bytes {
  const whole = data.byteOffset === 0 && data.byteLength === data.buffer.byteLength;
  return whole ? new Uint8Array(data.buffer as ArrayBuffer) : new Uint8Array(data);
}

function toBase64Url(data: Uint8Array): string {
  const text = btoa(String.fromCharCode(...data));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
