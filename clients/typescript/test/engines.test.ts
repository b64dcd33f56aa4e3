/** Engines agree with each other, in what they give and in what they refuse. */

import assert from "node:assert/strict";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import fc from "fast-check";
import { ascii, type Bytes, concat, fromHex, toHex } from "../src/bytes.js";
import { checked, checkKemKey } from "../src/crypto/checked.js";
import type { Engine } from "../src/crypto/engine.js";
import { firstThatHas, systemEngine } from "../src/crypto/engines.js";
import { checkPublicKey } from "../src/crypto/keys.js";
import { nobleEngine } from "../src/crypto/noble.js";
import { nodeEngine } from "../src/crypto/node.js";
import { type Part, PROBES } from "../src/crypto/probes.js";
import { checkIdentityKey, generateIdentity, identityFromSeed, verify } from "../src/crypto/signatures.js";
import { webEngine } from "../src/crypto/web.js";
import { CcesaError, Unsupported } from "../src/errors.js";
import { littleEndian } from "./vectors/check.js";
import { derivations } from "./vectors/derivations.js";
import { hybrid } from "./vectors/hybrid.js";
import { masks } from "./vectors/masks.js";
import { sealing } from "./vectors/sealing.js";
import { sharing } from "./vectors/sharing.js";

const web = webEngine();
const noble = nobleEngine();
const node = nodeEngine();
const ENGINES = [web, noble, node];
const PARTS = Object.keys(PROBES) as Part[];

const vectors = async (name: string) =>
  JSON.parse(await readFile(new URL(`../../../../vectors/${name}.json`, import.meta.url), "utf8"));

const octets = (minLength: number, maxLength = minLength): fc.Arbitrary<Bytes> =>
  fc.uint8Array({ minLength, maxLength }).map((data) => Uint8Array.from(data));

/** Return what an engine gives, or how it refuses; anything but an error of this package is a fault. */
async function outcome(work: () => Promise<unknown>): Promise<string> {
  try {
    return shown(await work());
  } catch (error) {
    assert.ok(error instanceof CcesaError, String(error));
    return error.name;
  }
}

function shown(value: unknown): string {
  return value instanceof Uint8Array
    ? toHex(value)
    : Array.isArray(value)
      ? value.map(shown).join()
      : String(JSON.stringify(value));
}

/** Throw unless all engines do the same with the inputs; those that lack the primitive are left out. */
async function agree(work: (engine: Engine) => Promise<unknown>): Promise<string> {
  const all = await Promise.all(ENGINES.map((engine) => outcome(() => work(engine))));
  const outcomes = new Set(all.filter((name) => name !== "Unsupported"));
  assert.equal(outcomes.size, 1, [...outcomes].join(" != "));
  return [...outcomes][0]!;
}

function property<T extends [unknown, ...unknown[]]>(
  name: string,
  numRuns: number,
  inputs: { [K in keyof T]: fc.Arbitrary<T[K]> },
  work: (engine: Engine, ...inputs: T) => Promise<unknown>,
): void {
  test(`${name}: engines agree`, () =>
    fc.assert(
      fc.asyncProperty(fc.tuple(...inputs) as unknown as fc.Arbitrary<T>, async (drawn) => {
        await agree((engine) => work(engine, ...drawn));
      }),
      { numRuns },
    ));
}

const short = octets(0, 100);
// Sizes around the right one, which all have to refuse alike.
const near = (size: number): fc.Arbitrary<Bytes> =>
  fc.oneof({ weight: 8, arbitrary: octets(size) }, octets(Math.max(0, size - 1)), octets(size + 1), octets(0));

property("sha256", 50, [octets(0, 300)], (e, data) => e.sha256(data));
property(
  "hkdf",
  50,
  [short, fc.oneof(short, octets(1000, 4000)), fc.integer({ min: 0, max: 8161 })],
  (e, secret, info, bytes) => e.hkdf(secret, info, bytes),
);
property("x25519PublicKey", 20, [near(32)], (e, key) => e.x25519PublicKey(key));
property("x25519", 20, [near(32), fc.array(near(32), { maxLength: 3 })], (e, key, keys) => e.x25519(key, keys));
property("ed25519PublicKey", 20, [near(32)], (e, seed) => e.ed25519PublicKey(seed));
property("ed25519Sign", 20, [near(32), short], (e, seed, text) => e.ed25519Sign(seed, text));
property("ed25519Verify of anything", 20, [near(32), short, near(64)], (e, ...inputs) => e.ed25519Verify(...inputs));
property("gcmSeal", 50, [near(16), near(12), short, short], (e, ...inputs) => e.gcmSeal(...inputs));
property("gcmOpen of anything", 30, [near(16), near(12), short, short], (e, ...inputs) => e.gcmOpen(...inputs));
property("aesBlocks", 30, [near(16), short], (e, key, blocks) => e.aesBlocks(key, blocks));
property("aesBlocks of many", 3, [octets(16), octets(16 * 300)], (e, key, blocks) => e.aesBlocks(key, blocks));
property(
  "aes128-ctr",
  50,
  [near(16), fc.oneof(fc.maxSafeNat(), fc.nat(300), fc.constant(2 ** 32 - 1)), fc.integer({ min: -1, max: 200 })],
  (e, key, block, bytes) => e.keystream("aes128-ctr", key, block, bytes),
);
property(
  "chacha20",
  50,
  [
    near(32),
    fc.oneof(fc.integer({ min: -1, max: 2 ** 32 }), fc.integer({ min: 2 ** 32 - 6, max: 2 ** 32 })),
    fc.nat(300),
  ],
  (e, key, block, bytes) => e.keystream("chacha20", key, block, bytes),
);

test("what one engine seals all others open, and nothing else", () =>
  fc.assert(
    fc.asyncProperty(octets(16), octets(12), short, short, fc.nat(), async (key, nonce, text, associated, bit) => {
      const sealed = await node.gcmSeal(key, nonce, text, associated);
      assert.equal(await agree((e) => e.gcmOpen(key, nonce, sealed, associated)), toHex(text));
      sealed[(bit >> 3) % sealed.length]! ^= 1 << (bit & 7);
      assert.equal(await agree((e) => e.gcmOpen(key, nonce, sealed, associated)), "SealBroken");
    }),
    { numRuns: 30 },
  ));

test("a signature with S not reduced is refused by all, and so is any other text", () =>
  fc.assert(
    fc.asyncProperty(octets(32), short, async (seed, text) => {
      const key = await node.ed25519PublicKey(seed);
      const signature = await noble.ed25519Sign(seed, text);
      assert.equal(await agree((e) => e.ed25519Verify(key, text, signature)), "true");
      assert.equal(await agree((e) => e.ed25519Verify(key, concat(text, text, Uint8Array.of(1)), signature)), "false");
      assert.equal(await agree((e) => e.ed25519Verify(key, text, concat(signature, new Uint8Array(1)))), "false");
      const order = 2n ** 252n + 27742317777372353535851937790883648493n;
      const s = BigInt(`0x${toHex(signature.slice(32).reverse())}`);
      const longer = concat(signature.subarray(0, 32), littleEndian(s + order, 32));
      assert.equal(await agree((e) => e.ed25519Verify(key, text, longer)), "false");
      const lax = { ...noble, ed25519Verify: async () => true };
      assert.equal(await outcome(() => verify(lax, key, text, longer)), "BadSignature");
      assert.equal(await outcome(() => verify(lax, key, text, signature)), "undefined");
    }),
    { numRuns: 10 },
  ));

test("signatures on which verifiers disagree", async () => {
  const { keys, signatures } = await vectors("signatures");
  for (const { name, public: key, error } of keys) {
    assert.equal(await outcome(async () => checkIdentityKey(fromHex(key))), error ?? "undefined", name);
  }
  for (const { name, public: key, text, signature, fits, error } of signatures) {
    const inputs = [key, text, signature].map(fromHex) as [Bytes, Bytes, Bytes];
    assert.equal(await agree((e) => verify(e, ...inputs)), error ?? "undefined", name);
    assert.equal(await noble.ed25519Verify(...inputs), fits.plain, name);
  }
  assert.equal(
    await agree((e) => verify(e, fromHex(keys[0].public), new Uint8Array(0), new Uint8Array(63))),
    "BadSignature",
  );
  assert.equal(await outcome(async () => checkIdentityKey(new Uint8Array(31).fill(9))), "ConfigError");
});

test("an agreement that gives zero is refused, whatever stands for the point", async () => {
  const { bad_public_keys: bad } = await vectors("derivations");
  const small = bad.filter(({ reason }: { reason: string }) => !/nine|all ones/.test(reason));
  assert.equal(small.length, 7);
  for (const { public: key } of small) {
    const own = web.random(32);
    const good = await node.x25519PublicKey(web.random(32));
    assert.equal(await agree((e) => e.x25519(own, [good, fromHex(key)])), "LowOrderKey");
  }
});

test("an engine that lets zero through is checked all the same", async () => {
  const careless = checked("careless", { x25519: async (_, keys) => keys.map(() => new Uint8Array(32)) });
  assert.equal(await outcome(() => careless.x25519(new Uint8Array(32), [new Uint8Array(32)])), "LowOrderKey");
});

test("keys and nonces of sizes that a platform would take are refused", async () => {
  const [key, long, nonce, text] = [16, 32, 12, 48].map((size) => new Uint8Array(size)) as [Bytes, Bytes, Bytes, Bytes];
  const refusals: ((engine: Engine) => Promise<unknown>)[] = [
    (e) => e.gcmSeal(long, nonce, text, text),
    (e) => e.gcmSeal(key, key, text, text),
    (e) => e.gcmOpen(long, nonce, text, text),
    (e) => e.gcmOpen(key, key, text, text),
    (e) => e.aesBlocks(long, text),
    (e) => e.keystream("aes128-ctr", long, 0, 16),
  ];
  for (const work of refusals) {
    assert.equal(await agree(work), "ConfigError");
  }
  assert.equal(await outcome(async () => checkPublicKey(new Uint8Array(31).fill(5))), "LowOrderKey");
  assert.equal(await outcome(async () => checkPublicKey(new Uint8Array(33).fill(5))), "LowOrderKey");
});

test("each of the 768 numbers of a key of ML-KEM-768 is checked", async () => {
  const publicKey = await noble.kemPublicKey(new Uint8Array(64));
  for (let number = 0; number < 768; number++) {
    for (const [value, refusal] of [
      [3328, "undefined"],
      [3329, "BadKey"],
    ] as const) {
      const key = publicKey.slice();
      const [at, shift] = [3 * (number >> 1), 12 * (number & 1)];
      const pair = key[at]! | (key[at + 1]! << 8) | (key[at + 2]! << 16);
      const changed = (pair & ~(0xfff << shift)) | (value << shift);
      key.set([changed, changed >> 8, changed >> 16], at);
      assert.equal(await outcome(async () => checkKemKey(key)), refusal);
    }
  }
});

test("sizes of ML-KEM-768 are refused by name", async () => {
  const seed = new Uint8Array(64);
  const publicKey = await noble.kemPublicKey(seed);
  const refusals: [string, () => Promise<unknown>][] = [
    ["ConfigError", () => noble.kemPublicKey(seed.subarray(1))],
    ["BadKey", () => noble.kemEncapsulate(publicKey.subarray(1))],
    ["ConfigError", () => noble.kemEncapsulate(publicKey, seed)],
    ["SealBroken", () => noble.kemDecapsulate(seed, new Uint8Array(1089))],
    ["ConfigError", () => noble.kemDecapsulate(seed.subarray(1), new Uint8Array(1088))],
  ];
  for (const [name, work] of refusals) {
    assert.equal(await outcome(work), name);
  }
});

test("encapsulations are fresh", async () => {
  const seed = web.random(64);
  const publicKey = await noble.kemPublicKey(seed);
  const [first, second] = [await noble.kemEncapsulate(publicKey), await noble.kemEncapsulate(publicKey)];
  assert.notEqual(toHex(first.ciphertext), toHex(second.ciphertext));
  assert.equal(toHex(await noble.kemDecapsulate(seed, first.ciphertext)), toHex(first.secret));
});

test("random bytes come in any number", () => {
  for (const engine of ENGINES) {
    const drawn = engine.random(200_000);
    assert.equal(drawn.length, 200_000);
    for (let at = 0; at < drawn.length; at += 20_000) {
      assert.ok(drawn.subarray(at, at + 20_000).some((byte) => byte !== 0));
    }
  }
  assert.throws(() => web.random(-1), { name: "ConfigError" });
});

for (const [engine, others] of [
  [web, noble],
  [noble, noble],
  [node, noble],
] as const) {
  test(`vectors hold for ${engine.name}`, async () => {
    const whole = { ...(await lackingFrom(engine, others)), random: engine.random, name: engine.name };
    for (const [name, replay] of Object.entries({ derivations, hybrid, masks, sealing, sharing })) {
      for (const vector of replay(await vectors(name))) {
        await vector.run(whole).catch((error: unknown) => assert.fail(`${name}, ${vector.name}: ${String(error)}`));
      }
    }
  });
}

/** Return the engine, with what it lacks from another. */
async function lackingFrom(engine: Engine, other: Engine): Promise<Engine> {
  const kem = await engine.kemPublicKey(new Uint8Array(64)).catch(() => other);
  const { kemPublicKey, kemEncapsulate, kemDecapsulate } = kem === other ? other : engine;
  const keystream: Engine["keystream"] = (...inputs) =>
    engine.keystream(...inputs).catch((error: unknown) => {
      assert.ok(error instanceof Unsupported);
      return other.keystream(...inputs);
    });
  return { ...engine, keystream, kemPublicKey, kemEncapsulate, kemDecapsulate };
}

test("an engine that errs in a primitive is passed over for it", async () => {
  const flipped = (value: unknown): unknown => {
    if (value instanceof Uint8Array) {
      return value.map((byte, at) => (at === 0 ? byte ^ 1 : byte));
    }
    if (Array.isArray(value)) {
      return value.map(flipped);
    }
    return typeof value === "object"
      ? Object.fromEntries(Object.entries(value!).map(([k, v]) => [k, flipped(v)]))
      : !value;
  };
  for (const part of PARTS) {
    const primitive = part === "aes128-ctr" || part === "chacha20" ? "keystream" : part;
    const honest = noble[primitive] as (...inputs: unknown[]) => Promise<unknown>;
    const liar = { ...noble, [primitive]: async (...inputs: unknown[]) => flipped(await honest(...inputs)) };
    assert.equal(await firstThatHas(part, [() => liar, () => noble]), noble, part);
    await assert.rejects(firstThatHas(part, [() => liar]), (error: Error) => {
      return error instanceof Unsupported && error.message.includes("npm install @noble/");
    });
  }
});

test("an engine that verifies by the cofactor is passed over", async () => {
  const { ed25519 } = await import("@noble/curves/ed25519.js");
  for (const zip215 of [true, false]) {
    const ed25519Verify: Engine["ed25519Verify"] = async (key, text, signature) =>
      ed25519.verify(signature, text, key, { zip215 });
    const lenient = { ...noble, ed25519Verify };
    assert.equal(await firstThatHas("ed25519Verify", [() => lenient, () => noble]), noble);
  }
});

test("without WebCrypto, as on http://, everything comes from @noble", async () => {
  Object.defineProperty(globalThis.crypto, "subtle", { value: undefined, configurable: true });
  try {
    assert.throws(webEngine, { name: "Unsupported" });
    for (const part of PARTS) {
      assert.equal((await firstThatHas(part, [webEngine, nobleEngine])).name, "@noble");
    }
    const identity = await generateIdentity(noble);
    await verify(noble, identity.publicKey, ascii("text"), await identity.sign(ascii("text")));
  } finally {
    delete (globalThis.crypto as { subtle?: unknown }).subtle;
  }
  assert.equal(webEngine().name, "WebCrypto");
});

test("without node:crypto nothing is lost", async () => {
  const before = process.getBuiltinModule;
  Object.assign(process, { getBuiltinModule: undefined });
  try {
    assert.throws(nodeEngine, { name: "Unsupported" });
  } finally {
    Object.assign(process, { getBuiltinModule: before });
  }
});

test("without a source of randomness nothing is drawn", () => {
  Object.defineProperty(globalThis.crypto, "getRandomValues", { value: undefined, configurable: true });
  try {
    assert.throws(() => noble.random(1), { name: "Unsupported" });
  } finally {
    delete (globalThis.crypto as { getRandomValues?: unknown }).getRandomValues;
  }
});

test("the system's engine has all, and from the platform what that has", async () => {
  const engine = await systemEngine();
  for (const part of PARTS) {
    assert.ok(await PROBES[part].holds(engine), part);
  }
  assert.equal((await engine.x25519(new Uint8Array(32), [])).length, 0);
  assert.equal(
    await outcome(() => engine.gcmSeal(new Uint8Array(15), new Uint8Array(12), ascii(""), ascii(""))),
    "ConfigError",
  );
});

test("where the packages are not installed, the refusal names them", async () => {
  const folder = await mkdtemp(join(tmpdir(), "ccesa-"));
  try {
    await cp(new URL("../src", import.meta.url), folder, { recursive: true });
    await writeFile(join(folder, "package.json"), '{"type": "module"}');
    const module = await import(pathToFileURL(join(folder, "crypto", "noble.js")).href);
    const alone: Engine = module.nobleEngine();
    const needed = {
      sha256: "hashes",
      aesBlocks: "ciphers",
      x25519PublicKey: "curves",
      kemPublicKey: "post-quantum",
    } as const;
    for (const [part, name] of Object.entries(needed)) {
      await assert.rejects(PROBES[part as Part].holds(alone), (error: Error) => {
        return error.name === "Unsupported" && error.message.includes(`npm install @noble/${name}`);
      });
    }
    const system = await import(pathToFileURL(join(folder, "crypto", "engines.js")).href);
    assert.equal((await (await system.systemEngine()).sha256(ascii("abc"))).length, 32);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("an identity signs what others verify, with a key that no script can read", async () => {
  const fresh = await generateIdentity(noble);
  const seeded = await identityFromSeed(web, new Uint8Array(32).fill(7));
  for (const identity of [fresh, seeded]) {
    const signature = await identity.sign(ascii("text"));
    assert.equal(await agree((e) => verify(e, identity.publicKey, ascii("text"), signature)), "undefined");
    assert.equal(await agree((e) => verify(e, identity.publicKey, ascii("texts"), signature)), "BadSignature");
  }
  assert.equal(toHex(seeded.publicKey), toHex(await noble.ed25519PublicKey(new Uint8Array(32).fill(7))));
});
