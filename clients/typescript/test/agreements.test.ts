/** Two clients come to the same secrets, and what was changed on the way is noticed. */

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { type Bytes, concat, le32, toHex } from "../src/bytes.js";
import { type Agreement, agreementOf, type OwnKeys } from "../src/crypto/agreements.js";
import type { Engine } from "../src/crypto/engine.js";
import { systemEngine } from "../src/crypto/engines.js";
import { maskKeyPair, pairMaskKey } from "../src/crypto/keys.js";
import { openOnce } from "../src/crypto/sealing.js";
import { drawElements, toBytes } from "../src/crypto/sharing.js";
import { derived } from "../src/labels.js";

const engine = await systemEngine();
const context = engine.random(32);

const asNeighbour = (own: OwnKeys, masked: boolean) => ({ client: own.client, keys: own.keys, masked });

/** One edge: both ends, and what the first has sealed for the second. */
async function edge(way: Agreement, ids: readonly [number, number], masked = true) {
  const [a, b] = await Promise.all(ids.map((id) => way.makeKeys(engine, engine.random, context, id)));
  const [commitment, row] = [engine.random(32), toBytes(drawElements(engine.random, 32))];
  const [secret] = await way.sealingSecrets(engine, a!, [asNeighbour(b!, masked)]);
  const [other] = await way.sealingSecrets(engine, b!, [asNeighbour(a!, masked)]);
  const sealed = await way.seal(engine, a!, asNeighbour(b!, masked), secret!, commitment, row);
  return { a: a!, b: b!, commitment, row, secret: secret!, other: other!, sealed, masked };
}

const ids = fc.tuple(fc.nat(2 ** 32 - 1), fc.nat(2 ** 32 - 1)).filter(([a, b]) => a !== b) as fc.Arbitrary<
  [number, number]
>;

const generators = fc.constantFrom("aes128-ctr" as const, "chacha20" as const);

for (const name of ["x25519", "x25519-mlkem768"] as const) {
  const way = agreementOf(name);

  test(`${name}: keys are as large as they should be, their parts differ, and they pass`, async () => {
    const own = await way.makeKeys(engine, engine.random, context, 3);
    assert.equal(own.keys.length, way.keyBytes);
    const parts = way.publicKeys(own.keys);
    assert.deepEqual(concat(...parts), own.keys);
    assert.equal(new Set(parts.map(toHex)).size, parts.length);
    way.checkKeys(own.keys);
    const { publicKey, privateKey } = await maskKeyPair(engine, own.maskSecret, context, 3);
    assert.deepEqual([parts[1], own.maskKey], [publicKey, privateKey]);
    assert.throws(() => way.checkKeys(own.keys.slice(1)), { name: "ConfigError" });
  });

  test(`${name}: each bad key in a client's keys is refused`, async () => {
    const { keys } = await way.makeKeys(engine, engine.random, context, 3);
    let at = 0;
    for (const part of way.publicKeys(keys)) {
      const bad = keys.slice();
      bad.fill(0xff, at, at + part.length);
      assert.throws(() => way.checkKeys(bad), { name: part.length === 32 ? "LowOrderKey" : "BadKey" });
      at += part.length;
    }
  });

  test(`${name}: what one end seals the other opens, and both mask with the same keys`, () =>
    fc.assert(
      fc.asyncProperty(ids, fc.boolean(), generators, async (pair, masked, generator) => {
        const { a, b, commitment, row, secret, other, sealed } = await edge(way, pair, masked);
        assert.equal(sealed.length, way.sealedBytes);
        const [toA, toB] = [asNeighbour(b, masked), asNeighbour(a, masked)];
        const opened = await way.open(engine, b, toB, other, commitment, sealed);
        assert.deepEqual(opened.row, row);
        assert.equal(opened.deposit.length, way.depositBytes);
        const back = await way.seal(engine, b, toB, other, commitment, row);
        const openedBack = await way.open(engine, a, toA, secret, commitment, back);
        assert.deepEqual(openedBack.seeds, opened.seeds);
        const [key] = await way.pairMaskKeys(engine, a, generator, [{ neighbour: toA, seeds: openedBack.seeds }]);
        const [same] = await way.pairMaskKeys(engine, b, generator, [{ neighbour: toB, seeds: opened.seeds }]);
        assert.deepEqual(key, same);
        assert.equal(key!.length, generator === "chacha20" ? 32 : 16);
      }),
      { numRuns: 6 },
    ));

  test(`${name}: a changed byte, or anything else that the text is bound to, is noticed`, async () => {
    const { a, b, commitment, other, sealed } = await edge(way, [7, 3]);
    const from = asNeighbour(a, true);
    const refused = (sender = from, recipient = b, committed = commitment, text = sealed) =>
      assert.rejects(way.open(engine, recipient, sender, other, committed, text), { name: "SealBroken" });
    for (let at = 0; at < sealed.length; at += name === "x25519" ? 1 : 41) {
      const changed = sealed.slice();
      changed[at]! ^= 1 << (at & 7);
      await refused(from, b, commitment, changed);
    }
    const flipped = (data: Bytes): Bytes => data.map((byte, at) => (at === data.length - 1 ? byte ^ 1 : byte));
    await refused({ ...from, masked: false });
    await refused({ ...from, keys: flipped(a.keys) });
    await refused({ ...from, client: 8 });
    await refused(from, { ...b, keys: flipped(b.keys) });
    await refused(from, { ...b, client: 2 });
    await refused(from, { ...b, context: flipped(context) });
    await refused(from, b, flipped(commitment));
    await refused(from, b, commitment, sealed.slice(1));
    await refused(from, b, commitment, concat(sealed, Uint8Array.of(0)));
    await way.open(engine, b, from, other, commitment, sealed);
  });

  test(`${name}: a row with a word outside of the field is refused, though it opens`, async () => {
    const { a, b, commitment, secret, other, row } = await edge(way, [1, 2]);
    const bad = row.slice();
    bad.fill(0xff, 62);
    const sealed = await way.seal(engine, a, asNeighbour(b, true), secret, commitment, bad);
    const opening = way.open(engine, b, asNeighbour(a, true), other, commitment, sealed);
    await assert.rejects(opening, { name: "OutsideField" });
  });

  test(`${name}: many neighbours are as one by one, in order`, async () => {
    const own = await way.makeKeys(engine, engine.random, context, 5);
    const others = await Promise.all([9, 2, 7].map((id) => way.makeKeys(engine, engine.random, context, id)));
    const neighbours = others.map((other) => asNeighbour(other, true));
    const together = await way.sealingSecrets(engine, own, neighbours);
    const single = await Promise.all(neighbours.map((one) => way.sealingSecrets(engine, own, [one])));
    assert.deepEqual(together, single.flat());
    const pairs = neighbours.map((neighbour) => ({ neighbour, seeds: new Uint8Array(0) }));
    const keys = await way.pairMaskKeys(engine, own, "chacha20", pairs);
    const singleKeys = await Promise.all(pairs.map((pair) => way.pairMaskKeys(engine, own, "chacha20", [pair])));
    assert.deepEqual(keys, singleKeys.flat());
  });

  test(`${name}: what agreements leave behind on the way is overwritten`, async () => {
    const seen: Bytes[] = [];
    const watching: Engine = {
      ...engine,
      x25519: async (...inputs) => {
        const agreed = await engine.x25519(...inputs);
        seen.push(...agreed);
        return agreed;
      },
    };
    const { a, b } = await edge(way, [1, 2]);
    const seeds = new Uint8Array(0);
    await way.pairMaskKeys(watching, a, "aes128-ctr", [{ neighbour: asNeighbour(b, true), seeds }]);
    if (name === "x25519") {
      await way.sealingSecrets(watching, a, [asNeighbour(b, true)]); // of the other they are what is asked for
      assert.equal(seen.length, 2);
    }
    assert.ok(seen.length > 0 && seen.every((secret) => secret.every((byte) => byte === 0)));
  });
}

test("x25519-mlkem768: a deposit opens with the secret of s_i, and holds the neighbour's seed", async () => {
  const way = agreementOf("x25519-mlkem768");
  const { a, b, commitment, other, sealed } = await edge(way, [1, 2]);
  const opened = await way.open(engine, b, asNeighbour(a, true), other, commitment, sealed);
  const key = await derived(engine, b.maskSecret, 28, "deposit", context, le32(2), le32(1));
  const seed = await openOnce(engine, key, opened.deposit, new Uint8Array(0));
  assert.deepEqual(seed, opened.seeds.slice(0, 32));
});

test("x25519-mlkem768: the masks rest on both seeds as well as on the agreement", async () => {
  const way = agreementOf("x25519-mlkem768");
  const { a, b } = await edge(way, [1, 2]);
  const neighbour = asNeighbour(b, true);
  const seeds = engine.random(64);
  const keys = await way.pairMaskKeys(engine, a, "chacha20", [
    { neighbour, seeds },
    { neighbour, seeds: concat(seeds.subarray(32), seeds.subarray(0, 32)) },
    { neighbour, seeds: seeds.map((byte, at) => (at === 63 ? byte ^ 1 : byte)) },
  ]);
  const [agreed] = await engine.x25519(a.maskKey, [b.keys.subarray(32, 64)]);
  const plain = await pairMaskKey(engine, agreed!, context, 1, 2, "chacha20");
  assert.equal(new Set([...keys, plain].map(toHex)).size, 4);
});

test("an agreement that is none is refused", () => {
  assert.throws(() => agreementOf("x448"), { name: "ConfigError" });
  assert.throws(() => agreementOf("__proto__"), { name: "ConfigError" });
});
