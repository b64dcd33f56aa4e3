/** Step 3: one share for each, of b or of s, never both (docs/protocol.md, sections 7 and 9). */

import { type Bytes, join } from "../bytes.js";
import { checkEnough } from "./neighbours.js";
import type { Round } from "./round.js";
import { closeTask } from "./spending.js";
import type { Held, Rows } from "./states.js";

const SHARE = 32;

/**
 * Return the shares to release: of b_j for survivors and this client itself, of s_j for the others. The task is closed.
 *
 * @param survivors Neighbours in V3, without this client.
 */
export async function released(round: Round, state: Rows, survivors: readonly Held[]): Promise<Bytes> {
  checkEnough(survivors, state.threshold);
  await closeTask(round, state.counted);
  const alive = new Set([round.client, ...survivors.map((survivor) => survivor.client)]);
  return join(
    state.rows.map(({ client: dealer, row }) => (alive.has(dealer) ? row.subarray(0, SHARE) : row.subarray(SHARE))),
  );
}
