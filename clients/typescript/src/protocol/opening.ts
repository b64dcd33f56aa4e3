/** Step 1a, or a part of step 2 without it: sealed texts are opened, and unusable ones lead to accusations. */

import { type Bytes, join, wipe } from "../bytes.js";
import type { AgreedText, OwnKeys } from "../crypto/agreements.js";
import { OutsideField, SealBroken } from "../errors.js";
import { packIds } from "./messages.js";
import { checkEnough, without } from "./neighbours.js";
import { honest, type Round, sized } from "./round.js";
import type { Dealt, Opened, Partner, Secret, Usable } from "./states.js";
import { type Answer, answered } from "./step.js";

const COMMITMENT = 32;

/** The server's view of the neighbours that have shared, in ascending order. */
export interface Shown {
  readonly commitments: Bytes;
  readonly sealed: Bytes;
}

/** A text that opened. */
interface Text extends AgreedText {
  readonly from: Partner;
}

/** The results of opening. */
export interface Opening {
  readonly usable: Usable;
  /** All secrets that go on, and those among them that were not there before. */
  readonly secrets: readonly Secret[];
  readonly fresh: readonly Secret[];
  /** For each neighbour that has shared, one deposit; zeros for the accused. */
  readonly deposits: Bytes;
}

/** Points 2 to 5 of step 1a: check that enough have shared, and open what each has sealed for this client. */
export async function openAll(
  round: Round,
  state: Dealt,
  shared: readonly Partner[],
  { commitments, sealed }: Shown,
): Promise<Opening> {
  const { depositBytes, sealedBytes } = round.agreement;
  checkEnough(shared, state.threshold);
  sized(commitments, COMMITMENT * shared.length, "commitments");
  sized(sealed, sealedBytes * shared.length, "sealed");
  const texts = await Promise.all(
    shared.map((from, at) => {
      const commitment = commitments.subarray(COMMITMENT * at, COMMITMENT * (at + 1));
      return openOne(round, state.own, from, commitment, sealed.subarray(sealedBytes * at, sealedBytes * (at + 1)));
    }),
  );
  const accused = shared.filter((_, at) => texts[at] === null).map(({ client }) => client);
  const opened = await keptOf(
    round,
    state.own,
    texts.filter((text) => text !== null),
  );
  return {
    ...usableOf(state, opened, accused),
    deposits: join(texts.map((text) => text?.deposit ?? new Uint8Array(depositBytes))),
  };
}

/** Open one text; null if it cannot be used. The fault may be its sender's, the server's or the network's. */
async function openOne(
  { engine, agreement }: Round,
  own: OwnKeys,
  from: Partner,
  commitment: Bytes,
  sealed: Bytes,
): Promise<Text | null> {
  try {
    return { from, ...(await agreement.open(engine, own, from, from.sealingSecret, commitment, sealed)) };
  } catch (error) {
    if (error instanceof SealBroken || error instanceof OutsideField) {
      return null;
    }
    throw error;
  }
}

/** Return what is kept of the texts: rows of shares, and the keys of masks, which nothing but these is left of. */
async function keptOf({ engine, agreement, config }: Round, own: OwnKeys, texts: readonly Text[]): Promise<Opened[]> {
  const pairs = texts.filter(({ from }) => from.masked).map((text) => ({ neighbour: text.from, seeds: text.seeds }));
  const keys = await agreement.pairMaskKeys(engine, own, config.generator, pairs);
  const keyOf = new Map(pairs.map(({ neighbour }, at) => [neighbour, keys[at]!]));
  texts.forEach(({ seeds }) => wipe(seeds));
  return texts.map(({ from, row }) => {
    return { client: from.client, masked: from.masked, row, maskKey: keyOf.get(from) ?? null };
  });
}

function usableOf(state: Dealt, opened: readonly Opened[], accused: readonly number[]): Omit<Opening, "deposits"> {
  const { work, selfSecret, row, threshold } = state;
  const fresh = opened.flatMap(({ row: theirs, maskKey }) => (maskKey === null ? [theirs] : [theirs, maskKey]));
  const usable = { work, selfSecret, row, threshold, opened, accused, ahead: null };
  return { usable, fresh, secrets: [selfSecret, row, ...fresh] };
}

// Consequences of accusations: no mask is shared with an accused, and without *accept* no vector is sent

/** Points 1 to 4 of step 2 after *accept*: return Adj(i) in V2, of those who have shared less who has dropped. */
export function presentOf(state: Usable, dropped: readonly number[]): Opened[] {
  const gone = new Set(dropped);
  const accused = new Set(state.accused);
  honest(
    state.accused.every((client) => gone.has(client)),
    "an accused neighbour is in V2",
  );
  const v2 = without(
    state.opened,
    dropped.filter((client) => !accused.has(client)),
  );
  checkEnough(v2, state.threshold);
  return v2;
}

/** Complain instead of sending a vector, and leave the round. */
export async function complaint(round: Round, { accused }: Usable): Promise<Answer> {
  return answered(round, { kind: "Complained", accused, secrets: [] }, "complaint", { accused: packIds(accused) });
}
