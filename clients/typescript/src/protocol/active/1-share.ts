/** Step 1 of the guard `active`: the client derives its neighbours and checks their keys against the root. */

import type { Bytes } from "../../bytes.js";
import type { Neighbour } from "../../crypto/agreements.js";
import { neighbourhood } from "../../graphs.js";
import { deal } from "../dealing.js";
import type { Fields } from "../messages.js";
import { checkNeighbours } from "../neighbours.js";
import { bundleText, checkRoster, graphSeed } from "../roster.js";
import { honest, type Round, sized } from "../round.js";
import { unpackSet } from "../sets.js";
import { answered, step } from "../step.js";
import { checkSignatures, cut, memberOf } from "./member.js";

const ROOT_BYTES = 32;

export const share = step("Advertised", "roster-request", async (round, state, fields) => {
  const neighbours = await neighboursOf(round, fields);
  const bundles = neighbours.map(({ client, keys }) => ({ client, text: bundleText(round.context, client, keys) }));
  await checkSignatures(round, bundles, fields.signatures);
  await checkProof(round, state.own.keys, neighbours, fields);
  const threshold = checkNeighbours(round, state.own.keys, neighbours, neighbours.length);
  const { dealt, reply } = await deal(round, state, neighbours, threshold);
  const roster = { v1: fields.v1, root: fields.root };
  return answered(round, { kind: "Rostered", ...dealt, roster }, "share-reply", reply);
});

/** Points 1 to 5: V1, and Adj(i) as it follows from the root; masks run on every edge. */
async function neighboursOf(round: Round, { v1, root, keys }: Fields<"roster-request">): Promise<Neighbour[]> {
  const { engine, context, config, client, agreement } = round;
  const members = unpackSet(v1, config.clients);
  honest(members.includes(client), "V1 must contain this client");
  const least = Math.max(config.minSurvivors, memberOf(round).charter.leastRoster);
  honest(members.length >= least, `V1 must have at least ${least} clients, got ${members.length}`);
  sized(root, ROOT_BYTES, "root");
  const seed = await graphSeed(engine, context, root);
  const { neighbours } = await neighbourhood(engine, config, seed, members, client);
  sized(keys, agreement.keyBytes * neighbours.length, "keys");
  return neighbours.map((other, at) => ({ client: other, masked: true, keys: cut(keys, agreement.keyBytes, at) }));
}

/** Point 7: the root has these keys, and of this client those that it has made. */
function checkProof(
  { engine, context, client, config }: Round,
  own: Bytes,
  neighbours: readonly Neighbour[],
  { v1, root, proof }: Fields<"roster-request">,
): Promise<void> {
  const keys = new Map([[client, own], ...neighbours.map((other) => [other.client, other.keys] as const)]);
  return checkRoster(engine, { context, root, v1, clients: config.clients, keys, proof });
}
