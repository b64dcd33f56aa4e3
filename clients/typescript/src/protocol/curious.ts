/** The steps of a client of the guard `curious` (docs/protocol.md, section 9). */

import { type Bytes, equal, le32 } from "../bytes.js";
import { maskRules } from "../config.js";
import type { Neighbour, OwnKeys } from "../crypto/agreements.js";
import { amongDigest, vectorTag } from "../crypto/keys.js";
import { deal } from "./dealing.js";
import { maskedVector, released, rowsOf } from "./masking.js";
import { type Fields, packIds, unpackIds } from "./messages.js";
import { checkNeighbours, without } from "./neighbours.js";
import { complaint, type Opening, openAll, presentOf } from "./opening.js";
import { callers, honest, type Round, sized, TASK_BYTES } from "./round.js";
import type { Advertised, Dealt, Joined, Opened, Partner, Usable } from "./states.js";
import { type Answer, answered, holding, step } from "./step.js";

// Step 0: the client makes two key pairs and sends their public keys

export const advertise = step("Joined", "advertise-request", async (round, state, fields) => {
  const own = await ownKeys(round, fields);
  return answered(round, advertised(state, own), "advertise-reply", { keys: own.keys });
});

/** Check the request under either guard, and make the keys of this round; only with room in the ledger. */
export async function ownKeys(round: Round, { number }: Fields<"advertise-request">): Promise<OwnKeys> {
  const { agreement, engine, random, context, client, config, account } = round;
  honest(equal(number, le32(config.number)), "the request has the wrong round number");
  await callers(round, () => account?.check());
  return agreement.makeKeys(engine, random, context, client);
}

/** Return the state after step 0. */
export function advertised({ work }: Joined, own: OwnKeys): Advertised {
  return { kind: "Advertised", work, own, secrets: [own.sealingKey, own.maskSecret, own.maskKey, own.kemSeed] };
}

// Step 1: shares for the neighbours that the server names

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

// Step 1a: the shares of neighbours are opened before anything is masked with them

export const accept = step("Shared", "accept-request", async (round, state, fields) => {
  const { opening, reply } = await accepted(round, state, sharedOf(round, state, fields), fields);
  return answered(round, { kind: "Accepted", ...opening.usable, secrets: opening.secrets }, "accept-reply", reply);
});

/** Return the neighbours that have shared, by point 1 under either guard. */
export function sharedOf(round: Round, { neighbours }: Dealt, { dropped }: Fields<"accept-request">): Partner[] {
  return without(neighbours, unpackIds(dropped, round.config.clients));
}

/** Open the texts under either guard. */
export async function accepted(
  round: Round,
  state: Dealt,
  shared: readonly Partner[],
  fields: Fields<"accept-request">,
): Promise<{ readonly opening: Opening; readonly reply: Fields<"accept-reply"> }> {
  const opening = await openAll(round, state, shared, fields);
  return { opening, reply: { accused: packIds(opening.usable.accused), deposits: opening.deposits } };
}

// Step 2: the masked vector, or a complaint if the shares come with the request

export const mask = step("Accepted", "mask-request", async (round, state, { dropped, task }) => {
  const v2 = presentOf(state, unpackIds(dropped, round.config.clients));
  return masked(round, state, v2, task);
});

export const maskAtOnce = step("Shared", "mask-at-once-request", async (round, state, fields) => {
  const v2 = without(state.neighbours, unpackIds(fields.dropped, round.config.clients));
  sized(fields.task, TASK_BYTES, "task");
  const { usable, fresh } = await openAll(round, state, v2, fields);
  return holding(fresh, () =>
    usable.accused.length > 0 ? complaint(round, usable) : masked(round, usable, usable.opened, fields.task),
  );
});

async function masked(round: Round, state: Usable, v2: readonly Opened[], task: Bytes): Promise<Answer> {
  const { engine, context, client } = round;
  const vector = await maskedVector(round, state, v2, task);
  const next = { kind: "Holding", ...rowsOf(round, state, v2, task) } as const;
  const ids = packIds(next.rows.map((held) => held.client));
  const among = await amongDigest(engine, ids, context, client);
  const tag = await vectorTag(engine, vector, context, client);
  return answered(round, next, "mask-reply", { tag, among, task, vector }, false);
}

// Step 3: one share for each, once

export const unmask = step("Holding", "unmask-request", async (round, state, { dropped }) => {
  const left = without(state.rows, unpackIds(dropped, round.config.clients));
  const survivors = left.filter(({ client }) => client !== round.client);
  honest(survivors.length < left.length, "this client is said to have dropped out");
  const shares = await released(round, state, survivors);
  return answered(round, { kind: "Done", secrets: [] }, "unmask-reply", { shares });
});
