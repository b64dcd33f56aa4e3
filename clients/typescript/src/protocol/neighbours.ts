/** What a client checks of its neighbours, and of those who are left of them (docs/protocol.md, section 9). */

import { type Bytes, toHex } from "../bytes.js";
import { thresholdAt } from "../config.js";
import type { Neighbour } from "../crypto/agreements.js";
import { MOST_HOLDERS } from "../crypto/sharing.js";
import { honest, type Round } from "./round.js";

/**
 * Check neighbours by points 3 to 6 of step 1, and return the threshold.
 *
 * @param keys This client's own public keys.
 * @param most The largest threshold that a client with so many neighbours can have.
 */
export function checkNeighbours(round: Round, keys: Bytes, neighbours: readonly Neighbour[], most: number): number {
  const { agreement, config } = round;
  const degree = neighbours.length;
  const threshold = thresholdAt(config.threshold, degree);
  honest(degree >= 1, "expected at least one neighbour");
  const all = [keys, ...neighbours.map((neighbour) => neighbour.keys)].flatMap((each) => agreement.publicKeys(each));
  honest(new Set(all.map(toHex)).size === all.length, "a public key is there twice");
  neighbours.forEach((neighbour) => agreement.checkKeys(neighbour.keys));
  honest(degree + 1 <= MOST_HOLDERS, `a secret has at most ${MOST_HOLDERS} holders`);
  honest(threshold <= most, `a threshold of ${threshold} is out of reach with ${degree} neighbours`);
  honest(2 * threshold > degree + 1, `a threshold of ${threshold} lets two halves of the neighbours open a secret`);
  return threshold;
}

/** Return those who have not dropped out; whoever has must have been among them. */
export function without<T extends { readonly client: number }>(all: readonly T[], dropped: readonly number[]): T[] {
  const known = new Set(all.map(({ client }) => client));
  const gone = new Set(dropped);
  honest(
    dropped.every((client) => known.has(client)),
    "somebody is said to have dropped out that was not there",
  );
  return all.filter(({ client }) => !gone.has(client));
}

/** Refuse to go on with fewer than the threshold, this client among them, or without a mask. */
export function checkEnough(left: readonly { readonly masked: boolean }[], threshold: number): void {
  honest(left.length + 1 >= threshold, `expected ${threshold} clients to be left, got ${left.length + 1}`);
  honest(
    left.some(({ masked }) => masked),
    "no neighbour is left whose mask hides the vector",
  );
}
