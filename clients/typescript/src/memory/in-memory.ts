/**
 * A memory that is lost with the page or the process.
 *
 * For secrecy two things have to be remembered: no round is joined twice, and no task is answered more often than
 * agreed. A memory that is lost is safe in two cases, and in no other:
 *
 * 1. The identity is lost with it. Nobody can sign in that member's name again, so whatever the memory has counted is
 *    all that will ever have left. That is a page that makes its identity, keeps it in no storage, and is a member of a
 *    charter that was made while the page was open.
 * 2. There is no charter. The guard `curious` is for a hub that keeps to the protocol: it asks each question as often
 *    as it says and starts each series with a fresh id, so a client that starts anew with the same token is asked again
 *    about nothing that it has answered. A hub that lies is beyond that guard with or without a memory.
 */

import { toHex, type Bytes } from "../bytes.js";
import { OrderError } from "../errors.js";
import type { Memory } from "../memory.js";

/** Return a memory that is lost when it is not referred to any more; see above for when that is safe. */
export function memoryInMemory(): Memory {
  const rounds = new Set<string>();
  const counts = new Map<string, number>();
  let held = false;
  return {
    usedRounds: {
      claim: async (round: Bytes): Promise<boolean> => rounds.size < rounds.add(toHex(round)).size,
    },
    tasks: {
      spend: async (task: Bytes, attempts: number): Promise<boolean> => {
        const count = counts.get(toHex(task)) ?? 0;
        if (count >= attempts) {
          return false;
        }
        counts.set(toHex(task), count + 1);
        return true;
      },
    },
    hold: async () => {
      if (held) {
        throw new OrderError("another participant takes part with this memory");
      }
      held = true;
      return () => {
        held = false;
      };
    },
  };
}
