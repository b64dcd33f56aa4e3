/** A known question and its answer for each primitive: a platform that errs in one is not asked for it again. */

import { ascii, equal, fromHex } from "../bytes.js";
import type { Engine, Generator, Primitives } from "./engine.js";

/** The wanted thing: a primitive, or one of the generators of `keystream`. */
export type Part = Exclude<keyof Primitives, "keystream"> | Generator;

interface Probe {
  /** The package to install if the platform lacks it. */
  readonly packages: string;
  /** Tell whether the engine gives the known answer; throws where it has none. */
  holds(engine: Engine): Promise<boolean>;
}

const is = (data: Uint8Array, answer: string): boolean => equal(data, fromHex(answer));
const zeros = (bytes: number): Uint8Array => new Uint8Array(bytes);

// RFC 7748, 5.2; RFC 8032, 7.1; FIPS 197, C.1.
const SCALAR = fromHex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4");
const POINT = fromHex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c");
const SEED = fromHex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
const AES_KEY = fromHex("000102030405060708090a0b0c0d0e0f");
const AES_BLOCK = fromHex("00112233445566778899aabbccddeeff");
const SEALED = "0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf";

// A key with a part of order 8: of these two signatures one fits, and the other only by the cofactor (13.1).
const MIXED_KEY = fromHex("44a286164bf8c0d3f245d3b0ad35ca35296543bbbca39c35eed8023cfcd5a562");
const MIXED_R = "f8d8b3591bf29577b192f8c458c7d48d1b6c6ac338829d3ea408bb6f6c1c20a1";
const FITS = fromHex(`${MIXED_R}84c304aa69e0ca4cfdfe1047ad6371c77a6fad2cdbbf319b113dcdb5e24c0506`);
const FITS_BY_COFACTOR = fromHex(`${MIXED_R}1d2cc253cc84a73a19b16cbf57647b9a7b64f10c93220c66a3356e911f694200`);

export const PROBES: Readonly<Record<Part, Probe>> = {
  sha256: {
    packages: "@noble/hashes",
    holds: async ({ sha256 }) =>
      is(await sha256(ascii("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
  },
  hkdf: {
    packages: "@noble/hashes",
    holds: async ({ hkdf }) =>
      is(
        await hkdf(zeros(22).fill(0x0b), zeros(0), 42),
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
      ),
  },
  x25519PublicKey: {
    packages: "@noble/curves",
    holds: async ({ x25519PublicKey }) =>
      is(await x25519PublicKey(SCALAR), "1c9fd88f45606d932a80c71824ae151d15d73e77de38e8e000852e614fae7019"),
  },
  x25519: {
    packages: "@noble/curves",
    holds: async ({ x25519 }) =>
      is((await x25519(SCALAR, [POINT]))[0]!, "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"),
  },
  ed25519PublicKey: {
    packages: "@noble/curves",
    holds: async ({ ed25519PublicKey }) =>
      is(await ed25519PublicKey(SEED), "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"),
  },
  ed25519Sign: {
    packages: "@noble/curves",
    // Some platforms sign with randomness, and may.
    holds: async ({ ed25519PublicKey, ed25519Sign, ed25519Verify }) =>
      ed25519Verify(await ed25519PublicKey(SEED), AES_BLOCK, await ed25519Sign(SEED, AES_BLOCK)),
  },
  ed25519Verify: {
    packages: "@noble/curves @noble/hashes",
    holds: async ({ ed25519Verify }) =>
      (await ed25519Verify(MIXED_KEY, ascii("text 12"), FITS)) &&
      !(await ed25519Verify(MIXED_KEY, ascii("text 0"), FITS_BY_COFACTOR)),
  },
  gcmSeal: {
    packages: "@noble/ciphers",
    holds: async ({ gcmSeal }) => is(await gcmSeal(zeros(16), zeros(12), zeros(16), zeros(0)), SEALED),
  },
  gcmOpen: {
    packages: "@noble/ciphers",
    holds: async ({ gcmOpen }) => equal(await gcmOpen(zeros(16), zeros(12), fromHex(SEALED), zeros(0)), zeros(16)),
  },
  aesBlocks: {
    packages: "@noble/ciphers",
    holds: async ({ aesBlocks }) => is(await aesBlocks(AES_KEY, AES_BLOCK), "69c4e0d86a7b0430d8cdb78070b4c55a"),
  },
  "aes128-ctr": {
    packages: "@noble/ciphers",
    holds: async ({ keystream }) =>
      is(await keystream("aes128-ctr", zeros(16), 1, 16), "58e2fccefa7e3061367f1d57a4e7455a"),
  },
  chacha20: {
    packages: "@noble/ciphers",
    holds: async ({ keystream }) =>
      is(await keystream("chacha20", zeros(32), 1, 16), "9f07e7be5551387a98ba977c732d080d"),
  },
  kemPublicKey: {
    packages: "@noble/post-quantum",
    holds: async ({ kemPublicKey }) =>
      is(
        (await kemPublicKey(zeros(64))).subarray(0, 32),
        "254a797885c63b1440aa389c65340ef33520cc039aa8d749ae7095ba8485a244",
      ),
  },
  kemEncapsulate: {
    packages: "@noble/post-quantum",
    holds: async ({ kemEncapsulate, kemPublicKey }) =>
      is(
        (await kemEncapsulate(await kemPublicKey(zeros(64)), zeros(32))).secret,
        "b4d29cd55bab43e16554b74b9098cdfce583996c968bcd2cfd1ad9455e351fbf",
      ),
  },
  kemDecapsulate: {
    packages: "@noble/post-quantum",
    holds: async ({ kemDecapsulate }) =>
      is(
        await kemDecapsulate(zeros(64), zeros(1088)),
        "0419c6fa226891f68d792ae5e5a2929f2876ecf86dc7bb27ee0b3563320adb8f",
      ),
  },
};
