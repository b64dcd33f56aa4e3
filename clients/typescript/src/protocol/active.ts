/** The steps of a client of the guard `active` (docs/protocol.md, 13.6). */

import type { Bytes } from "../bytes.js";
import type { Neighbour } from "../crypto/agreements.js";
import { amongDigest, vectorDigest } from "../crypto/keys.js";
import { neighbourhood } from "../graphs.js";
import { accepted, advertised, ownKeys, sharedOf } from "./curious.js";
import { deal } from "./dealing.js";
import { maskedVector, released, rowsOf } from "./masking.js";
import { memberOf, SIGNATURE_BYTES, verifies } from "./members.js";
import { type Fields, unpackSet } from "./messages.js";
import { checkNeighbours } from "./neighbours.js";
import { complaint, openAll, presentOf } from "./opening.js";
import { bundleText, checkRoster, confirmedText, graphSeed, maskingText, receiptText } from "./roster.js";
import { callers, honest, pieces, type Round, sized, TASK_BYTES } from "./round.js";
import { checkLatest } from "./spending.js";
import type { Confirmed, Held, Opened, Signed, Usable } from "./states.js";
import { type Answer, answered, holding, step } from "./step.js";

// Step 0: the keys of this round, signed

export const advertise = step("Joined", "advertise-request", async (round, state, fields) => {
  const next = advertised(state, await ownKeys(round, fields));
  const { keys } = next.own;
  return holding(next.secrets, async () => {
    const text = bundleText(round.context, round.client, keys);
    const signature = await callers(round, () => memberOf(round).identity.sign(text));
    return answered(round, next, "signed-advertise-reply", { keys, signature });
  });
});

// Step 1: the client derives its neighbours and checks their keys against the root

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
  const least = Math.max(config.minSurvivors, memberOf(round).charter.leastRoster ?? 0);
  honest(members.length >= least, `V1 must have at least ${least} clients, got ${members.length}`);
  sized(root, ROOT_BYTES, "root");
  const seed = await graphSeed(engine, context, root);
  const { neighbours } = await neighbourhood(engine, config, seed, members, client);
  const each = pieces(keys, agreement.keyBytes, neighbours.length, "keys");
  return neighbours.map((other, at) => ({ client: other, masked: true, keys: each[at]! }));
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

// Step 1a: what the server says here is compared with V2 in step 2

export const accept = step("Rostered", "accept-request", async (round, state, fields) => {
  const shared = sharedOf(round, state, fields);
  const { opening, reply } = await accepted(round, state, shared, fields);
  const { roster } = state;
  const absent = state.neighbours.filter((neighbour) => !shared.includes(neighbour)).map(({ client }) => client);
  const next = { kind: "AcceptedAmong", ...opening.usable, roster, absent, secrets: opening.secrets } as const;
  return answered(round, next, "accept-reply", reply);
});

// Step 2: the vector under masks with all neighbours in one V2, which is signed

export const mask = step("AcceptedAmong", "mask-among-request", async (round, state, { v2, task }) => {
  const members = subset(round, v2, state.roster.v1, "V2");
  const stranger = state.absent.find((client) => members.has(client));
  honest(stranger === undefined, `V2 contains client ${stranger}, whose shares were missing`);
  const shared = [...state.opened.map(({ client }) => client), ...state.accused];
  const present = presentOf(
    state,
    shared.filter((client) => !members.has(client)),
  );
  return masked(round, state, present, { ...state.roster, v2, task });
});

export const maskAtOnce = step("Rostered", "mask-among-at-once-request", async (round, state, fields) => {
  const { v2, task } = fields;
  const members = subset(round, v2, state.roster.v1, "V2");
  sized(task, TASK_BYTES, "task");
  const shared = state.neighbours.filter(({ client }) => members.has(client));
  const { usable, fresh } = await openAll(round, state, shared, fields);
  return holding(fresh, () =>
    usable.accused.length > 0
      ? complaint(round, usable)
      : masked(round, usable, usable.opened, { ...state.roster, v2, task }),
  );
});

async function masked(round: Round, state: Usable, present: readonly Opened[], signed: Signed): Promise<Answer> {
  const { engine, context, client } = round;
  const { identity } = memberOf(round);
  const { v2, task } = signed;
  const vector = await maskedVector(round, state, present, task);
  const digest = await vectorDigest(engine, vector, context, client);
  const among = await amongDigest(engine, v2, context, client);
  const signature = await identity.sign(await maskingText(engine, { context, ...signed }));
  const receipt = await identity.sign(await receiptText(engine, { context, ...signed }, digest));
  const next = { kind: "SignedV2", ...rowsOf(round, state, present, task), signed } as const;
  const fields = { digest, among, task, signature, receipt, vector };
  return answered(round, next, "signed-mask-reply", fields, false);
}

// Step 2c: the client signs the set of survivors, once

export const confirm = step("SignedV2", "confirm-request", async (round, state, { v3 }) => {
  const { engine, context, config } = round;
  const { threshold, rows, counted, signed, secrets } = state;
  const members = subset(round, v3, signed.v2, "V3");
  const left = rows.filter(({ client }) => members.has(client)).length;
  honest(left >= threshold, `at least ${threshold} clients must be left, got ${left}`);
  honest(
    members.size >= config.minSurvivors,
    `V3 must have at least ${config.minSurvivors} clients, got ${members.size}`,
  );
  await checkLatest(round, counted);
  const text = await confirmedText(engine, { context, ...signed }, v3);
  // No caller's error: an identity elsewhere may have signed when it fails, and the next request may have another V3.
  const signature = await memberOf(round).identity.sign(text);
  return answered(round, { kind: "Confirmed", threshold, rows, counted, signed, v3, secrets }, "confirm-reply", {
    signature,
  });
});

// Step 3: shares are released once enough neighbours have confirmed the same V2, task and V3

export const unmask = step("Confirmed", "signed-unmask-request", async (round, state, fields) => {
  const v3 = new Set(unpackSet(state.v3, round.config.clients));
  const survivors = state.rows.filter(({ client }) => v3.has(client) && client !== round.client);
  await checkConfirmed(round, state, survivors, fields);
  const shares = await released(round, state, survivors);
  return answered(round, { kind: "Done", secrets: [] }, "unmask-reply", { shares });
});

/** Points 1 to 5: everyone who is left masked among the same, and enough say that the same are left. */
async function checkConfirmed(
  round: Round,
  { threshold, signed, v3 }: Confirmed,
  survivors: readonly Held[],
  { confirmed, signatures }: Fields<"signed-unmask-request">,
): Promise<void> {
  const { engine, context } = round;
  sized(confirmed, survivors.length, "confirmed");
  honest(
    confirmed.every((flag) => flag <= 1),
    "expected flags of 0 or 1",
  );
  const texts: readonly Bytes[] = [
    await maskingText(engine, { context, ...signed }),
    await confirmedText(engine, { context, ...signed }, v3),
  ];
  await checkSignatures(
    round,
    survivors.map(({ client }, at) => ({ client, text: texts[confirmed[at]!]! })),
    signatures,
  );
  const count = confirmed.filter((flag) => flag === 1).length;
  honest(count >= threshold, `at least ${threshold} confirmations are needed, got ${count}`);
}

// Parts that the steps share: signatures of members, sets

/** The expected signer of a text. */
interface Expected {
  readonly client: number;
  readonly text: Bytes;
}

/** Refuse signatures unless there is one for each, and all verify; the first that does not is named. */
async function checkSignatures(round: Round, expected: readonly Expected[], signatures: Bytes): Promise<void> {
  const { members } = memberOf(round).charter;
  const each = pieces(signatures, SIGNATURE_BYTES, expected.length, "signatures");
  const verified = await Promise.all(
    expected.map(({ client, text }, at) => verifies(round.engine, members[client]!.key, text, each[at]!)),
  );
  const wrong = expected.find((_, at) => !verified[at]);
  honest(wrong === undefined, `a signature of client ${wrong?.client} does not verify`);
}

/** Return a set within another one, with this client in it. */
function subset(round: Round, set: Bytes, of: Bytes, what: string): Set<number> {
  const members = unpackSet(set, round.config.clients);
  const outer = new Set(unpackSet(of, round.config.clients));
  const stranger = members.find((client) => !outer.has(client));
  honest(stranger === undefined, `${what} contains client ${stranger}, which was not there before`);
  honest(members.includes(round.client), `${what} must contain this client`);
  return new Set(members);
}
