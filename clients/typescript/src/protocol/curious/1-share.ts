/** Step 1 of the guard `curious`: shares for the neighbours that the server names. */

import type { Bytes } from "../../bytes.js";
import { maskRules } from "../../config.js";
import type { Neighbour } from "../../crypto/agreements.js";
import { deal } from "../dealing.js";
import { type Fields, unpackIds } from "../messages.js";
import { checkNeighbours } from "../neighbours.js";
import { honest, type Round, sized } from "../round.js";
import { answered, step } from "../step.js";

export const share = step("Advertised", "share-request", async (round, state, fields) => {
  const neighbours = neighboursOf(round, fields);
  const threshold = checkNeighbours(round, state.own.keys, neighbours, neighbours.length + 1);
  checkLimits(round, neighbours, threshold);
  const { dealt, reply } = await deal(round, state, neighbours, threshold);
  return answered(round, { kind: "Shared", ...dealt }, "share-reply", reply);
});

/** Points 1 and 2: who they are, and on which edges masks run. */
function neighboursOf(round: Round, { neighbours, keys, masked }: Fields<"share-request">): Neighbour[] {
  const { config, client, agreement } = round;
  const ids = unpackIds(neighbours, config.clients);
  honest(!ids.includes(client), "a client cannot be its own neighbour");
  sized(keys, agreement.keyBytes * ids.length, "keys");
  sized(masked, ids.length, "masked");
  honest(
    masked.every((flag) => flag <= 1),
    "expected flags of 0 or 1",
  );
  checkFlags(round, masked);
  const keysOf = (at: number): Bytes => keys.slice(agreement.keyBytes * at, agreement.keyBytes * (at + 1));
  return ids.map((other, at) => ({ client: other, keys: keysOf(at), masked: masked[at] === 1 }));
}

function checkFlags({ config }: Round, masked: Uint8Array): void {
  const { mask_p, mask_degree } = maskRules(config.graph);
  if (mask_p === null) {
    const all = Math.min(mask_degree ?? Infinity, masked.length);
    honest(sum(masked) === all, `expected masks on ${all} edges, got ${sum(masked)}`);
  }
}

/** Point 7: the limits of 3.3, on what this client was dealt. */
function checkLimits({ config, floor }: Round, neighbours: readonly Neighbour[], threshold: number): void {
  const { mask_p } = maskRules(config.graph);
  const degree = neighbours.length;
  honest(
    threshold / degree >= floor.thresholdRatio,
    "the threshold is below the client's limit for this many neighbours",
  );
  if (config.graph.type === "erdos-renyi") {
    return; // degrees vary by the seed: the means have been checked
  }
  const masks = neighbours.filter(({ masked }) => masked).length;
  honest(degree >= floor.degree, "there are fewer neighbours than the client's limit");
  honest(threshold >= floor.threshold, "the threshold is below the client's limit");
  honest(mask_p !== null || masks >= floor.maskDegree, "there are fewer masks than the client's limit");
}

function sum(flags: Uint8Array): number {
  return flags.reduce((total, flag) => total + flag, 0);
}
