/**
 * A memory that is lost with the page or the process.
 *
 * For secrecy it has to be remembered which rounds were joined, and what has left for which task (3.3, 3.5). A memory that is lost is safe in two cases, and in no other:
 *
 * 1. The identity is lost with it. Nobody can sign in that member's name again, so whatever the memory has counted is
 *    all that will ever have left. That is a page that makes its identity, keeps it in no storage, and is a member of a
 *    charter that was made while the page was open.
 * 2. There is no charter. The guard `curious` is for a hub that keeps to the protocol: it asks each question as often
 *    as it says and starts each series with a fresh id, so a client that starts anew with the same token is asked again
 *    about nothing that it has answered. A hub that lies is beyond that guard with or without a memory.
 */

import { type Bytes, toHex } from "../bytes.js";
import { OrderError } from "../errors.js";
import { type About, type Entry, type Memory, nameOf } from "../memory.js";

/** Return a memory that is lost when it is not referred to any more; see above for when that is safe. */
export function memoryInMemory(): Memory {
  const kept = new Map<string, Entry>();
  let held = false;
  return {
    add: async (entry: Entry): Promise<boolean> => {
      const { about, key, number } = entry;
      return kept.size < kept.set(nameOf(entry), { about, key: key.slice(), number }).size;
    },
    entries: async (about: About, start: Bytes): Promise<readonly Entry[]> =>
      [...kept].filter(([name]) => name.startsWith(`${about}-${toHex(start)}`)).map(([, entry]) => entry),
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
