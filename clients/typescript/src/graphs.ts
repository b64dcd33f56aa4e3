/** The assignment graph as one client draws it (docs/protocol.md, section 4). */

import type { Bytes } from "./bytes.js";
import { maskRules, type RoundConfig } from "./config.js";
import type { Engine } from "./crypto/engine.js";
import { ConfigError } from "./errors.js";

/** A client's neighbours in ascending order, and for each whether the edge carries masks. */
export interface Neighbourhood {
  readonly neighbours: number[];
  readonly masked: boolean[];
}

/** Tells by the rank of another member whether there is an edge. */
type Test = (rank: number) => boolean;

type Pair = readonly [number, number];

const every: Test = () => true;

/** Return E(key, x, y) of pairs (x, y). */
async function words(engine: Engine, key: Uint8Array, pairs: readonly Pair[]): Promise<bigint[]> {
  const blocks = new DataView(new ArrayBuffer(16 * pairs.length));
  pairs.forEach(([x, y], at) => {
    blocks.setUint32(16 * at, x, true);
    blocks.setUint32(16 * at + 8, y, true);
  });
  const out: Bytes = await engine.aesBlocks(key, new Uint8Array(blocks.buffer));
  const view = new DataView(out.buffer, out.byteOffset, out.byteLength);
  return pairs.map((_, at) => view.getBigUint64(16 * at, true));
}

/** Return the place of each rank on the circle. */
async function circlePositions(engine: Engine, seed: Uint8Array, size: number): Promise<Uint32Array> {
  const ranks = Array.from({ length: size }, (_, rank) => rank);
  const drawn = await words(
    engine,
    seed.subarray(16),
    ranks.map((rank) => [rank, rank]),
  );
  const position = new Uint32Array(size);
  // Sorting is stable: equal words stay in the order of their ranks.
  ranks
    .sort((a, b) => Number(drawn[a]! > drawn[b]!) - Number(drawn[a]! < drawn[b]!))
    .forEach((rank, place) => (position[rank] = place));
  return position;
}

/** Return the first pair word that is not below p; the product is exact. */
function bound(p: number): bigint {
  return BigInt(Math.floor(p * 2 ** 64));
}

/**
 * Return the neighbours of a client in the graph over V1, ascending ids, that follows from a seed of 32 bytes.
 *
 * @throws ConfigError if the client is not in V1.
 */
export async function neighbourhood(
  engine: Engine,
  { graph }: Pick<RoundConfig, "graph">,
  seed: Uint8Array,
  v1: readonly number[],
  client: number,
): Promise<Neighbourhood> {
  const own = v1.indexOf(client);
  if (own < 0) {
    throw new ConfigError(`client ${client} is not in V1`);
  }
  const { p, degree } = { p: null, degree: null, ...graph };
  const { mask_p, mask_degree } = maskRules(graph);
  const below = p === null && mask_p === null ? undefined : await belowTest(engine, seed, v1, client);
  const near = degree === null && mask_degree === null ? undefined : await nearTest(engine, seed, v1.length, own);
  const edge = p !== null ? below!(p) : degree !== null && v1.length > degree + 1 ? near!(degree) : every;
  const mask = mask_p !== null ? below!(mask_p) : mask_degree !== null ? near!(mask_degree) : every;
  const ranks = [...v1.keys()].filter((rank) => rank !== own && edge(rank));
  return { neighbours: ranks.map((rank) => v1[rank]!), masked: ranks.map(mask) };
}

/** Return the tests of pair words, which are drawn by ids. */
async function belowTest(
  engine: Engine,
  seed: Uint8Array,
  v1: readonly number[],
  client: number,
): Promise<(p: number) => Test> {
  const pairs = v1.map((other) => [Math.min(client, other), Math.max(client, other)] as const);
  const drawn = await words(engine, seed.subarray(0, 16), pairs);
  return (p) => {
    const limit = bound(p);
    return (rank) => drawn[rank]! < limit;
  };
}

/** Return the tests of circle distances, which are drawn by ranks. */
async function nearTest(
  engine: Engine,
  seed: Uint8Array,
  size: number,
  own: number,
): Promise<(degree: number) => Test> {
  const position = await circlePositions(engine, seed, size);
  return (degree) => (rank) => {
    const apart = Math.abs(position[rank]! - position[own]!);
    return Math.min(apart, size - apart) <= degree / 2;
  };
}
