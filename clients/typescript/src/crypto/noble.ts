/**
 * The primitives of `@noble/*`, in JavaScript alone: for older engines, for pages without WebCrypto, and for what
 * WebCrypto lacks. The packages are optional and are loaded when they are first needed.
 */

import { type Bytes, concat, equal, wipe } from "../bytes.js";
import { LowOrderKey, SealBroken, Unsupported } from "../errors.js";
import { checked } from "./checked.js";
import type { Engine, Primitives } from "./engine.js";
import { ctrBlock } from "./web.js";

// Bundlers know an import that may fail by the `try` around it; webpack stops at one that only has a `.catch`.
const curves = async () => {
  try {
    return await import("@noble/curves/ed25519.js");
  } catch (cause) {
    throw missing("@noble/curves", cause);
  }
};
const sha2 = async () => {
  try {
    return await import("@noble/hashes/sha2.js");
  } catch (cause) {
    throw missing("@noble/hashes", cause);
  }
};
const hkdf = async () => {
  try {
    return await import("@noble/hashes/hkdf.js");
  } catch (cause) {
    throw missing("@noble/hashes", cause);
  }
};
const aes = async () => {
  try {
    return await import("@noble/ciphers/aes.js");
  } catch (cause) {
    throw missing("@noble/ciphers", cause);
  }
};
const chacha = async () => {
  try {
    return await import("@noble/ciphers/chacha.js");
  } catch (cause) {
    throw missing("@noble/ciphers", cause);
  }
};
const kem = async () => {
  try {
    return await import("@noble/post-quantum/ml-kem.js");
  } catch (cause) {
    throw missing("@noble/post-quantum", cause);
  }
};

/** Return the engine of `@noble/*`. Its primitives throw Unsupported where a package is not installed. */
export function nobleEngine(): Engine {
  return checked("@noble", { ...HASHES, ...CURVES, ...CIPHERS, ...KEMS });
}

function missing(name: string, cause: unknown): Unsupported {
  return new Unsupported(`${name} is needed and cannot be loaded: npm install ${name}`, { cause });
}

const HASHES: Pick<Primitives, "sha256" | "hkdf"> = {
  async sha256(data) {
    return (await sha2()).sha256(data) as Bytes;
  },
  async hkdf(secret, info, bytes) {
    const [{ sha256 }, derivation] = await Promise.all([sha2(), hkdf()]);
    return derivation.hkdf(sha256, secret, undefined, info, bytes) as Bytes;
  },
};

const CURVES: Pick<Primitives, "x25519" | "x25519PublicKey" | "ed25519PublicKey" | "ed25519Sign" | "ed25519Verify"> = {
  async x25519PublicKey(privateKey) {
    return (await curves()).x25519.getPublicKey(privateKey) as Bytes;
  },
  async x25519(privateKey, publicKeys) {
    const { x25519 } = await curves();
    try {
      return publicKeys.map((key) => x25519.getSharedSecret(privateKey, key) as Bytes);
    } catch (cause) {
      throw new LowOrderKey("an agreement gives zero: the public key is of small order", { cause });
    }
  },
  async ed25519PublicKey(seed) {
    return (await curves()).ed25519.getPublicKey(seed) as Bytes;
  },
  async ed25519Sign(seed, text) {
    return (await curves()).ed25519.sign(text, seed) as Bytes;
  },
  // Its own `verify` multiplies by the cofactor, strict or not, and so accepts what 13.1 refuses.
  async ed25519Verify(publicKey, text, signature) {
    const [{ ed25519 }, { sha512 }] = await Promise.all([curves(), sha2()]);
    const { Point } = ed25519;
    const r = signature.subarray(0, 32);
    const s = fromLittleEndian(signature.subarray(32));
    if (s >= Point.Fn.ORDER || !ed25519.utils.isValidPublicKey(publicKey, true)) {
      return false;
    }
    const h = fromLittleEndian(sha512(concat(r, publicKey, text))) % Point.Fn.ORDER;
    const hA = Point.fromBytes(publicKey, true).multiplyUnsafe(h);
    return equal(Point.BASE.multiplyUnsafe(s).subtract(hA).toBytes(), r);
  },
};

const CIPHERS: Pick<Primitives, "gcmSeal" | "gcmOpen" | "aesBlocks" | "keystream"> = {
  async gcmSeal(key, nonce, text, associated) {
    return (await aes()).gcm(key, nonce, associated).encrypt(text) as Bytes;
  },
  async gcmOpen(key, nonce, sealed, associated) {
    const { gcm } = await aes();
    try {
      return gcm(key, nonce, associated).decrypt(sealed) as Bytes;
    } catch (cause) {
      throw new SealBroken("a sealed text does not open", { cause });
    }
  },
  async aesBlocks(key, blocks) {
    return (await aes()).ecb(key, { disablePadding: true }).encrypt(blocks) as Bytes;
  },
  async keystream(generator, key, block, bytes) {
    const zeros = new Uint8Array(bytes);
    if (generator === "aes128-ctr") {
      return (await aes()).ctr(key, ctrBlock(block)).encrypt(zeros) as Bytes;
    }
    return (await chacha()).chacha20(key, new Uint8Array(12), zeros, undefined, block) as Bytes;
  },
};

const KEMS: Pick<Primitives, "kemPublicKey" | "kemEncapsulate" | "kemDecapsulate"> = {
  async kemPublicKey(seed) {
    const pair = (await kem()).ml_kem768.keygen(seed);
    wipe(pair.secretKey);
    return pair.publicKey as Bytes;
  },
  async kemEncapsulate(publicKey, randomness) {
    const made = (await kem()).ml_kem768.encapsulate(publicKey, randomness);
    return { secret: made.sharedSecret as Bytes, ciphertext: made.cipherText as Bytes };
  },
  async kemDecapsulate(seed, ciphertext) {
    const { ml_kem768 } = await kem();
    const pair = ml_kem768.keygen(seed);
    const secret = ml_kem768.decapsulate(ciphertext, pair.secretKey) as Bytes;
    wipe(pair.secretKey);
    return secret;
  },
};

function fromLittleEndian(data: Uint8Array): bigint {
  return data.reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
}
