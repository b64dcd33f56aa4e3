/** Stores for ledgers: in a browser, in a folder (Node), or in memory for tests. */

import { DamagedLedger } from "../errors.js";
import type { LedgerStore } from "../privacy/ledger.js";
import { type Files, inFiles } from "./files.js";
import { databaseOf, done, write } from "./indexed-db.js";

/** Return a store that is lost with the process. Use it in tests only, because data outlive a process. */
export function ledgerInMemory(): LedgerStore {
  const lines: string[] = [];
  let kept: string | null = null;
  return {
    read: async () => ({ lines: [...lines], seal: kept }),
    append: async (line, seal, after) => {
      if (lines.length !== after) {
        return false;
      }
      lines.push(line);
      kept = seal;
      return true;
    },
  };
}

/**
 * Return the store of one ledger in this browser.
 *
 * @param name - Names the data that it is about.
 */
export function indexedDbLedger(name: string): LedgerStore {
  const opened = databaseOf(`ccesa ledger ${name}`, ["lines", "seal"]);
  return {
    read: async () => {
      const transaction = (await opened()).transaction(["lines", "seal"]);
      const [lines, seal] = await Promise.all([
        done<unknown[]>(transaction.objectStore("lines").getAll()),
        done<unknown>(transaction.objectStore("seal").get("seal")),
      ]);
      return { lines: lines.map(String), seal: typeof seal === "string" ? seal : null };
    },
    append: async (line, seal, after) =>
      write(await opened(), ["lines", "seal"], async (lines, seals) => {
        if ((await done(lines.count())) !== after) {
          return false;
        }
        await Promise.all([done(lines.add(line, after)), done(seals.put(seal, "seal"))]);
        return true;
      }),
  };
}

/**
 * Return the store of one ledger in a folder. The folder is made if it does not exist.
 *
 * A line is a file with its seal, made whole and once; the latest seal is in a file of its own besides, so that lines
 * that are missing at the end are noticed. After a crash between the two, or where a process was held up there while
 * others went on, it may be lines behind, which is not damage: it still belongs to a line of the ledger.
 */
export function fileLedger(folder: string): LedgerStore {
  const files = inFiles(folder);
  return {
    read: async () => readLedger(await files(), folder),
    append: async (line, seal, after) => {
      const here = await files();
      if ((await readLedger(here, folder)).lines.length !== after) {
        return false;
      }
      if (!(await here.make(nameOf(after), `${seal}\n${line}`))) {
        return false;
      }
      await here.replace("seal", seal);
      return true;
    },
  };
}

function nameOf(place: number): string {
  return `line-${String(place).padStart(9, "0")}`;
}

async function readLedger(files: Files, folder: string): Promise<{ lines: string[]; seal: string | null }> {
  // First the seal, then the lines: another process may append meanwhile, and its line is written before its seal.
  const seal = (await files.names()).includes("seal") ? await files.read("seal") : null;
  const names = (await files.names()).filter((name) => name.startsWith("line-")).sort();
  if (names.some((name, at) => name !== nameOf(at))) {
    throw new DamagedLedger(`a line of the ledger in ${folder} is missing`);
  }
  const contents = await Promise.all(names.map((name) => files.read(name)));
  const found = contents.map((content) => ({ seal: content.slice(0, 64), line: content.slice(65) }));
  const behind = seal === null ? found.length <= 1 : found.some((one) => one.seal === seal);
  return { lines: found.map(({ line }) => line), seal: behind ? (found.at(-1)?.seal ?? null) : seal };
}
