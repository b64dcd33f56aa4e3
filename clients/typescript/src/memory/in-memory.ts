/**
 * A memory that is lost with the page or the process.
 *
 * Secrecy depends on remembering which rounds were joined and which vectors were sent for which task (3.3, 3.5). Losing
 * a memory is safe in two cases only:
 *
 * 1. The identity is lost with it. Nobody can sign as that member again, so nothing more can be sent in its name. For
 *    example, a page makes its identity, does not store it, and is a member of a charter that was made while the page
 *    was open.
 * 2. There is no charter. The guard `curious` assumes a hub that follows the protocol: it asks each question only as
 *    often as agreed and starts each series with a fresh id. So a client that restarts with the same token is not asked
 *    again for something that it has answered. `curious` does not protect against a lying hub, with or without a
 *    memory.
 */

import { type Bytes, toHex } from "../bytes.js";
import { OrderError } from "../errors.js";
import { type About, type Entry, type Memory, nameOf } from "../memory.js";

/** Return a memory that is lost with the page or the process. See above for when that is safe. */
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
        throw new OrderError("another participant uses this memory");
      }
      held = true;
      return () => {
        held = false;
      };
    },
  };
}
