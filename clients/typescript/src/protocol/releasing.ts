/** Step 3: one share for each, of b or of s, never both (docs/protocol.md, sections 7 and 9). */

import { join, type Bytes } from "../bytes.js";
import { checkEnough } from "./neighbours.js";
import type { Held, Rows } from "./states.js";

const SHARE = 32;

/**
 * Return the shares to release: of b_j for survivors and this client itself, of s_j for the others.
 *
 * @param survivors Neighbours in V3, without this client.
 */
export function released(state: Rows, client: number, survivors: readonly Held[]): Bytes {
  checkEnough(survivors, state.threshold);
  const alive = new Set([client, ...survivors.map((survivor) => survivor.client)]);
  return join(
    state.rows.map(({ client: dealer, row }) => (alive.has(dealer) ? row.subarray(0, SHARE) : row.subarray(SHARE))),
  );
}
