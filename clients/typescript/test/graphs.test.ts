import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { type Bytes, concat, le32 } from "../src/bytes.js";
import type { Graph } from "../src/config.js";
import type { Engine } from "../src/crypto/engine.js";
import { systemEngine } from "../src/crypto/engines.js";
import { type CcesaError, ConfigError, MalformedMessage, WrongProof } from "../src/errors.js";
import { neighbourhood } from "../src/graphs.js";
import { packSet } from "../src/protocol/messages.js";
import { checkRoster, committedRoot, type RosterClaim, rosterLeaf } from "../src/protocol/roster.js";
import { levelsOf, prove } from "./server/roster.js";

const engine = await systemEngine();
const SEED = Uint8Array.from({ length: 32 }, (_, at) => at);

/** Return the pairs of a graph as the page writes them: `03*` where the edge carries masks. */
async function pairs(graph: Graph, v1: number[]): Promise<string> {
  const all = await Promise.all(v1.map((client) => neighbourhood(engine, { graph }, SEED, v1, client)));
  return v1
    .flatMap((i, at) => all[at]!.neighbours.map((j, k) => ({ i, j, mask: all[at]!.masked[k] })))
    .filter(({ i, j }) => i < j)
    .map(({ i, j, mask }) => `${i}${j}${mask ? "*" : ""}`)
    .join(" ");
}

test("the graphs of the page's example", async () => {
  const byChance = await pairs({ type: "erdos-renyi", p: 0.5, mask_p: 0.25 }, [0, 1, 2, 3, 4, 5]);
  assert.equal(byChance, "02 03* 04* 05 12 13* 14 15 23 34* 35* 45");
  const circle = await pairs({ type: "harary", degree: 4, mask_degree: 2 }, [0, 1, 2, 3, 4, 6]);
  assert.equal(circle, "01 02 04* 06* 12 13* 16* 23* 24* 34 36 46");
});

/** An engine whose every block of AES is the same: draws that meet. */
function constantBlocks(word: bigint): Engine {
  const aesBlocks = async (_: Uint8Array, blocks: Uint8Array): Promise<Bytes> => {
    const view = new DataView(new ArrayBuffer(blocks.length));
    for (let at = 0; at < blocks.length; at += 16) {
      view.setBigUint64(at, word, true);
    }
    return new Uint8Array(view.buffer);
  };
  return { ...engine, aesBlocks };
}

test("equal circle words are ordered by rank", async () => {
  const v1 = [2, 3, 5, 7, 11, 13];
  const ring: Graph = { type: "harary", degree: 2, mask_degree: null };
  const ends = await neighbourhood(constantBlocks(7n), { graph: ring }, SEED, v1, 2);
  assert.deepEqual(ends, { neighbours: [3, 13], masked: [true, true] });
});

test("a pair word is below p if it is below the whole part of p 2^64", async () => {
  const edges = async (word: bigint, p: number): Promise<number> => {
    const graph: Graph = { type: "erdos-renyi", p, mask_p: null };
    return (await neighbourhood(constantBlocks(word), { graph }, SEED, [0, 1, 2], 0)).neighbours.length;
  };
  const cases: [bigint, number, number][] = [
    [0n, 2 ** -65, 0],
    [0n, 2 ** -64, 2],
    [1n, 1.5 * 2 ** -64, 0],
    [2n ** 63n - 1n, 0.5, 2],
    [2n ** 63n, 0.5, 0],
    [2n ** 64n - 1n, 1, 2],
    [2n ** 64n - 2048n, 1 - 2 ** -53, 0],
    [2n ** 64n - 2049n, 1 - 2 ** -53, 2],
  ];
  for (const [word, p, count] of cases) {
    assert.equal(await edges(word, p), count, `${word} below ${p}`);
  }
});

test("a client that is not in V1 has no neighbourhood", async () => {
  const graph: Graph = { type: "complete", mask_p: null, mask_degree: null };
  await assert.rejects(neighbourhood(engine, { graph }, SEED, [0, 1, 3], 2), ConfigError);
});

const CLIENTS = 20;
const CONTEXT = new Uint8Array(32).fill(7);

const claims = fc
  .tuple(
    fc.uniqueArray(fc.nat(CLIENTS - 1), { minLength: 1 }),
    fc.array(fc.boolean(), { minLength: CLIENTS, maxLength: CLIENTS }),
  )
  .map(([ids, chosen]) => {
    const v1 = ids.sort((a, b) => a - b);
    return { v1, places: v1.map((_, place) => place).filter((place) => place === 0 || chosen[place]) };
  });

function keysOf(client: number): Bytes {
  return concat(le32(client), new Uint8Array(60).fill(client));
}

async function claimOf(v1: number[], places: number[]): Promise<RosterClaim> {
  const leaves = await Promise.all(v1.map((client) => rosterLeaf(engine, CONTEXT, client, keysOf(client))));
  const bitmap = packSet(v1, CLIENTS);
  const top = (await levelsOf(engine, leaves)).at(-1)![0]!;
  // Backwards: the order in which keys are known does not matter.
  const keys = new Map(places.toReversed().map((place) => [v1[place]!, keysOf(v1[place]!)]));
  return {
    context: CONTEXT,
    root: await committedRoot(engine, CONTEXT, bitmap, top),
    v1: bitmap,
    clients: CLIENTS,
    keys,
    proof: await prove(engine, leaves, places),
  };
}

test("a proof holds for the keys it was made for", async () => {
  await fc.assert(
    fc.asyncProperty(claims, async ({ v1, places }) => checkRoster(engine, await claimOf(v1, places))),
    { numRuns: 50 },
  );
});

async function refused(claim: RosterClaim, kind: new () => CcesaError): Promise<void> {
  await assert.rejects(checkRoster(engine, claim), kind);
}

function flipped(data: Uint8Array, at: number): Bytes {
  const out = new Uint8Array(data);
  out[at % out.length]! ^= 1;
  return out;
}

test("a proof holds for nothing else", async () => {
  await fc.assert(
    fc.asyncProperty(claims, fc.nat(), async ({ v1, places }, at) => {
      const claim = await claimOf(v1, places);
      const client = v1[places[at % places.length]!]!;
      await refused({ ...claim, keys: new Map(claim.keys).set(client, flipped(keysOf(client), at)) }, WrongProof);
      await refused({ ...claim, root: flipped(claim.root, at) }, WrongProof);
      await refused({ ...claim, context: flipped(claim.context, at) }, WrongProof);
      await refused({ ...claim, proof: concat(claim.proof, new Uint8Array(32)) }, WrongProof);
      await refused({ ...claim, proof: concat(claim.proof, new Uint8Array(1)) }, WrongProof);
      await refused({ ...claim, v1: flipped(claim.v1, 0) }, WrongProof);
      await refused({ ...claim, v1: concat(claim.v1, new Uint8Array(1)) }, MalformedMessage);
      if (claim.proof.length > 0) {
        await refused({ ...claim, proof: flipped(claim.proof, at) }, WrongProof);
        await refused({ ...claim, proof: claim.proof.subarray(32) }, WrongProof);
      }
    }),
    { numRuns: 30 },
  );
});

test("nobody outside of V1 is proved to be in it", async () => {
  const claim = await claimOf([1, 2, 5], [0, 1]);
  for (const keys of [new Map([[3, keysOf(3)]]), new Map(claim.keys).set(3, keysOf(3)), new Map<number, Bytes>()]) {
    await assert.rejects(checkRoster(engine, { ...claim, keys }), /not in V1/);
  }
});
