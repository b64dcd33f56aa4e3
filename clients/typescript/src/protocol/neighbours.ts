/** Checks of a client's neighbours, and of the remaining ones (docs/protocol.md, section 9). */

import { type Bytes, toHex } from "../bytes.js";
import { thresholdAt } from "../config.js";
import type { Neighbour } from "../crypto/agreements.js";
import { MOST_HOLDERS } from "../crypto/sharing.js";
import { honest, type Round } from "./round.js";

/**
 * Check neighbours by points 3 to 6 of step 1, and return the threshold.
 *
 * @param keys This client's own public keys.
 * @param most The largest threshold that a client with this number of neighbours can have.
 */
export function checkNeighbours(round: Round, keys: Bytes, neighbours: readonly Neighbour[], most: number): number {
  const { agreement, config } = round;
  const degree = neighbours.length;
  const threshold = thresholdAt(config.threshold, degree);
  honest(degree >= 1, "expected at least one neighbour");
  const all = [keys, ...neighbours.map((neighbour) => neighbour.keys)].flatMap((each) => agreement.publicKeys(each));
  honest(new Set(all.map(toHex)).size === all.length, "a public key appears twice");
  neighbours.forEach((neighbour) => agreement.checkKeys(neighbour.keys));
  honest(degree + 1 <= MOST_HOLDERS, `a secret has at most ${MOST_HOLDERS} holders`);
  honest(threshold <= most, `a threshold of ${threshold} cannot be reached with ${degree} neighbours`);
  honest(
    2 * threshold > degree + 1,
    `with a threshold of ${threshold} two disjoint halves of the neighbours could open a secret`,
  );
  return threshold;
}

/** Return the clients that have not dropped out. Those that have must be in the list. */
export function without<T extends { readonly client: number }>(all: readonly T[], dropped: readonly number[]): T[] {
  const known = new Set(all.map(({ client }) => client));
  const gone = new Set(dropped);
  honest(
    dropped.every((client) => known.has(client)),
    "a client that was not there is said to have dropped out",
  );
  return all.filter(({ client }) => !gone.has(client));
}

/** Refuse fewer clients than the threshold, this one included, and no common mask at all. */
export function checkEnough(left: readonly { readonly masked: boolean }[], threshold: number): void {
  honest(left.length + 1 >= threshold, `at least ${threshold} clients must be left, got ${left.length + 1}`);
  honest(
    left.some(({ masked }) => masked),
    "no neighbour with a common mask is left",
  );
}
