/** Masks against the sums that whole numbers give: whatever the words, the source, the length, the place in memory. */

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createCipheriv, randomBytes } from "node:crypto";
import { after, test } from "node:test";
import fc from "fast-check";

import type { Bytes } from "../src/bytes.js";
import { PIECE, plainSum, type Sum } from "../src/crypto/adding.js";
import { type Generator, KEY_BYTES } from "../src/crypto/engine.js";
import { systemEngine } from "../src/crypto/engines.js";
import { engineSource, type KeystreamSource, nodeSource, webSource } from "../src/crypto/keystreams.js";
import { addMasks, type Bits, type Mask, type Masker, maskHere } from "../src/crypto/masks.js";
import { nobleEngine } from "../src/crypto/noble.js";
import { vectorSum } from "../src/crypto/simd.js";
import { CcesaError, ConfigError, OrderError, VectorError } from "../src/errors.js";
import { Workers } from "../src/worker/host.js";

const BITS = [8, 16, 32, 64] as const;
const GENERATORS = ["aes128-ctr", "chacha20"] as const;
const RUNS = { numRuns: 60, seed: 1 };

const workers = new Workers(2);
after(() => workers.close());

/** Every source that this platform has for a generator. */
function sources(generator: Generator): (KeystreamSource | undefined)[] {
  const web = webSource(generator);
  return [nodeSource(generator)!, ...(web ? [web] : []), engineSource(nobleEngine()), undefined];
}

/** A word as a whole number. */
function word(from: Uint8Array, at: number, bits: Bits): bigint {
  return from.subarray(at, at + bits / 8).reduceRight((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
}

/** Throw unless the words at these bytes are those of the vector before plus all masks: slow, and plainly right. */
function assertSums(
  [before, after]: [Uint8Array, Uint8Array],
  places: readonly number[],
  bits: Bits,
  generator: Generator,
  masks: readonly Mask[],
): void {
  const streams = masks.map(({ key }) =>
    createCipheriv({ "aes128-ctr": "aes-128-ctr", chacha20: "chacha20" }[generator], key, Buffer.alloc(16)).update(
      new Uint8Array(before.length),
    ),
  );
  for (const at of places) {
    const sum = masks.reduce(
      (sum, { sign }, i) => sum + BigInt(sign) * word(streams[i]!, at, bits),
      word(before, at, bits),
    );
    assert.equal(word(after, at, bits), BigInt.asUintN(bits, sum), `${bits} bits, byte ${at}`);
  }
}

function places(bytes: number, bits: Bits): number[] {
  return Array.from({ length: (bytes * 8) / bits }, (_, at) => (at * bits) / 8);
}

const someBits = fc.constantFrom(...BITS);
const sign = fc.constantFrom(1 as const, -1 as const);
const bytes = (count: number): fc.Arbitrary<Bytes> =>
  fc.uint8Array({ minLength: count, maxLength: count }) as fc.Arbitrary<Bytes>;
const ordinary = fc.constantFrom(...GENERATORS).chain((generator) =>
  fc.record({
    generator: fc.constant(generator),
    bits: someBits,
    source: fc.constantFrom(...sources(generator)),
    content: fc.uint8Array({ maxLength: 1200 }),
    offset: fc.nat(9),
    masks: fc.array(fc.record({ key: bytes(KEY_BYTES[generator]), sign }), { maxLength: 6 }),
  }),
);

test("masks are added modulo the word, by every source, at any length and any place in memory", async () => {
  await fc.assert(
    fc.asyncProperty(ordinary, async ({ generator, bits, source, content, offset, masks }) => {
      const before = content.subarray(0, content.length - (content.length % (bits / 8)));
      const memory = new Uint8Array(offset + before.length + 9).fill(77);
      const vector = memory.subarray(offset, offset + before.length);
      vector.set(before);
      await addMasks(vector, bits, generator, masks, source ? { source } : {});
      assertSums([before, vector], places(before.length, bits), bits, generator, masks);
      assert.ok(
        memory.subarray(0, offset).every((byte) => byte === 77),
        "bytes before",
      );
      assert.ok(
        memory.subarray(offset + before.length).every((byte) => byte === 77),
        "bytes behind",
      );
    }),
    RUNS,
  );
});

function someMasks(generator: Generator, count: number): Mask[] {
  return Array.from({ length: count }, (_, at) => ({
    key: new Uint8Array(randomBytes(KEY_BYTES[generator])),
    sign: at % 3 === 0 ? -1 : 1,
  }));
}

/** Words at the edges of pieces and parts, and the last. */
function edges(bytes: number, bits: Bits): number[] {
  const around = Array.from({ length: Math.ceil(bytes / PIECE) }, (_, at) => [at * PIECE, (at + 1) * PIECE - bits / 8]);
  return [...around.flat(), bytes - bits / 8].filter((at) => at + bits / 8 <= bytes);
}

const MASKERS: Readonly<Record<string, Masker>> = { "this thread": maskHere, workers: workers.mask };
for (const [where, masker] of Object.entries(MASKERS)) {
  for (const generator of GENERATORS) {
    test(`a vector of many pieces is masked by ${generator} in ${where}`, async () => {
      for (const bits of BITS) {
        const masks = someMasks(generator, 3);
        const before = new Uint8Array(randomBytes((1 << 20) + 2 * PIECE + 24));
        const after = await masker(before.slice(), bits, generator, masks);
        assertSums([before, after], edges(before.length, bits), bits, generator, masks);
      }
    });
  }

  test(`progress of ${where} ends with everything`, async () => {
    const told: [number, number][] = [];
    const vector = new Uint8Array(3 << 20);
    await masker(vector, 32, "aes128-ctr", someMasks("aes128-ctr", 2), { progress: (...one) => void told.push(one) });
    assert.ok(told.length > 3);
    assert.deepEqual(told.at(-1), [vector.length, vector.length]);
    assert.deepEqual(
      told.map(([done]) => done),
      told.map(([done]) => done).toSorted((a, b) => a - b),
    );
  });

  test(`${where} refuses what cannot be masked, and leaves it as it is`, async () => {
    const vector = new Uint8Array(1 << 20).fill(5);
    const refused = (error: typeof VectorError | typeof ConfigError, ...wrong: unknown[]): Promise<void> =>
      assert.rejects((masker as (...asked: unknown[]) => Promise<Bytes>)(...wrong), error);
    const masks = someMasks("aes128-ctr", 2);
    await refused(VectorError, vector.subarray(1), 32, "aes128-ctr", masks);
    await refused(ConfigError, vector, 24, "aes128-ctr", masks);
    await refused(ConfigError, vector, 32, "toString", masks);
    await refused(ConfigError, vector, 32, "aes128-ctr", someMasks("chacha20", 2));
    await refused(ConfigError, vector, 32, "aes128-ctr", [...masks, { key: masks[0]!.key, sign: 2 }]);
    assert.ok(vector.every((byte) => byte === 5));
  });

  test(`what is stopped in ${where} leaves nothing that is masked in part`, async () => {
    const stop = new AbortController();
    const vector = new Uint8Array(4 << 20).fill(5);
    const asked = masker(vector, 32, "aes128-ctr", someMasks("aes128-ctr", 40), {
      progress: () => stop.abort(),
      signal: stop.signal,
    });
    await assert.rejects(asked, { name: "AbortError" });
    assert.ok(vector.every((byte) => byte === 0));
    const before = new Uint8Array(1 << 20);
    const masks = someMasks("aes128-ctr", 1);
    assertSums([before, await masker(before.slice(), 32, "aes128-ctr", masks)], [0], 32, "aes128-ctr", masks);
  });
}

test("a part starts where blocks of keystreams do", async () => {
  const [masks, vector] = [someMasks("chacha20", 2), new Uint8Array(randomBytes(640))];
  const whole = vector.slice();
  await addMasks(whole, 16, "chacha20", masks);
  await addMasks(vector.subarray(0, 192), 16, "chacha20", masks);
  await addMasks(vector.subarray(192), 16, "chacha20", masks, { from: 192 });
  assert.deepEqual(vector, whole);
  for (const from of [-64, 32, 1.5, NaN]) {
    await assert.rejects(addMasks(vector, 16, "chacha20", masks, { from }), ConfigError);
  }
});

test("without WebAssembly, Node's modules and workers the bytes are the same", async () => {
  const masks = someMasks("aes128-ctr", 3);
  const script = `
    delete globalThis.WebAssembly;
    delete process.getBuiltinModule;
    const { Workers } = await import("${new URL("../src/worker/host.js", import.meta.url).href}");
    const masks = ${JSON.stringify(masks.map(({ key, sign }) => ({ key: [...key], sign })))};
    const own = masks.map(({ key, sign }) => ({ key: new Uint8Array(key), sign }));
    const masked = await new Workers(2).mask(new Uint8Array(2 << 20), 64, "aes128-ctr", own);
    process.stdout.write(Buffer.from(masked));`;
  const found = execFileSync(process.execPath, ["--input-type=module", "--eval", script], { maxBuffer: 1 << 26 });
  assert.ok(found.equals(await workers.mask(new Uint8Array(2 << 20), 64, "aes128-ctr", masks)));
});

test("a platform whose ciphers give other keystreams is passed over", async () => {
  const url = (name: string): string => new URL(`../src/crypto/${name}.js`, import.meta.url).href;
  const script = `
    const { getBuiltinModule } = process;
    process.getBuiltinModule = (name) => {
      const own = getBuiltinModule(name);
      return name !== "node:crypto" ? own : { ...own, createCipheriv: () => ({ update: (text) => text.slice() }) };
    };
    delete globalThis.crypto.subtle.constructor.prototype.encrypt;
    const { addMasks } = await import("${url("masks")}");
    const { platformSource } = await import("${url("keystreams")}");
    const vector = new Uint8Array(64);
    for (const [generator, key] of [["aes128-ctr", 16], ["chacha20", 32]]) {
      await addMasks(vector, 8, generator, [{ key: new Uint8Array(key), sign: 1 }]);
      process.stdout.write(String((await platformSource(generator)) === undefined) + " ");
    }
    process.stdout.write(Buffer.from(vector).toString("hex"));`;
  const found = execFileSync(process.execPath, ["--input-type=module", "--eval", script], { encoding: "utf8" });
  const right = new Uint8Array(64);
  for (const generator of GENERATORS) {
    await addMasks(right, 8, generator, [{ key: new Uint8Array(KEY_BYTES[generator]), sign: 1 }]);
  }
  assert.equal(found, `true true ${Buffer.from(right).toString("hex")}`);
});

test("keys stay with the caller", async () => {
  const masks = someMasks("aes128-ctr", 2);
  const before = masks.map(({ key }) => key.slice());
  await workers.mask(new Uint8Array(1 << 20), 32, "aes128-ctr", masks);
  assert.deepEqual(
    masks.map(({ key }) => key),
    before,
  );
});

test("a job in a worker fails with the error that it would have here", async () => {
  const wrong = {
    part: new Uint8Array(3),
    from: 0,
    bits: 32,
    generator: "aes128-ctr",
    keys: new Uint8Array(0),
    signs: [],
  };
  await assert.rejects(workers.run("mask", wrong as never), VectorError);
});

test("a worker that gives back less than it got leaves nothing of the vector without masks", async () => {
  const own = new Workers(1);
  const [place] = (own as unknown as { places: { run: (order: { asked: { part: Bytes } }) => Promise<Bytes> }[] })
    .places;
  place!.run = async ({ asked: { part } }) => part.slice(0, 64);
  const vector = new Uint8Array(1 << 20).fill(7);
  await assert.rejects(own.mask(vector, 32, "aes128-ctr", someMasks("aes128-ctr", 1)), CcesaError);
  assert.ok(vector.every((byte) => byte === 0));
});

test("whoever throws while told of progress ends the job, and no other", async () => {
  const masks = someMasks("aes128-ctr", 4);
  const own = new Workers(1);
  for (const masker of [maskHere, own.mask]) {
    const vector = new Uint8Array(randomBytes(1 << 20));
    const progress = (): never => {
      throw new RangeError("the caller's own");
    };
    await assert.rejects(masker(vector, 32, "aes128-ctr", masks, { progress }), RangeError);
    assert.ok(vector.every((byte) => byte === 0));
    const before = new Uint8Array(1 << 20);
    assertSums([before, await masker(before.slice(), 32, "aes128-ctr", masks)], [0], 32, "aes128-ctr", masks);
  }
  own.close();
});

test("there is at least one worker", () => {
  for (const threads of [0, -1, 1.5, NaN, Infinity]) {
    assert.throws(() => new Workers(threads), ConfigError);
  }
});

test("closed workers take no more jobs, and end those that they have", async () => {
  const own = new Workers(1);
  const running = own.mask(new Uint8Array(8 << 20), 32, "aes128-ctr", someMasks("aes128-ctr", 40), {
    progress: () => own.close(),
  });
  await assert.rejects(running);
  await assert.rejects(own.mask(new Uint8Array(1 << 20), 8, "aes128-ctr", someMasks("aes128-ctr", 1)), OrderError);
});

test("WebAssembly and plain arrays add alike", async () => {
  const sums: Sum[] = [(await vectorSum(PIECE))!, plainSum()];
  const cases = fc.record({ bits: someBits, sign, stream: fc.uint8Array({ minLength: 8, maxLength: 999 }) });
  fc.assert(
    fc.property(fc.array(cases, { maxLength: 5 }), (all) => {
      const whole = all.map(({ stream, ...one }) => ({ ...one, stream: stream.subarray(0, stream.length & ~7) }));
      sums.forEach((sum) => sum.piece.fill(0));
      sums.forEach((sum) => whole.forEach(({ stream, bits, sign }) => sum.add(stream, bits, sign)));
      const least = Math.min(...whole.map(({ stream }) => stream.length)); // a step may run on, behind the stream
      assert.deepEqual(...(sums.map(({ piece }) => piece.slice(0, least)) as [Bytes, Bytes]));
    }),
    RUNS,
  );
});

test("an engine's keystreams are those of every source, from any block on", async () => {
  const engine = await systemEngine();
  for (const generator of GENERATORS) {
    for (const source of sources(generator).filter((one) => one !== undefined)) {
      for (const block of [0, 1, 1000, 2 ** 31 + 1]) {
        const key = new Uint8Array(randomBytes(KEY_BYTES[generator]));
        const stream = await source(generator, key, block);
        const read = [await stream.next(128), await stream.next(37)];
        const want = await engine.keystream(generator, key, block, 165);
        assert.deepEqual(Buffer.concat(read), Buffer.from(want));
      }
    }
  }
});
