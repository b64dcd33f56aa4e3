/**
 * A memory in a folder, for Node. A file that can be made only once stands for a round, or for a vector that has left: of
 * two processes that make the same, one fails. The folder belongs to one identity, and never to a backup.
 */

import { toHex, type Bytes } from "../bytes.js";
import { ConfigError, Unsupported } from "../errors.js";
import type { Memory } from "../memory.js";
import { builtin } from "../platform.js";

/** As much of Node's files as is used here; its types are not for a package that browsers load. */
interface Files {
  mkdir(path: string, options: { recursive: boolean; mode: number }): Promise<unknown>;
  open(path: string, flags: string, mode?: number): Promise<File>;
}

interface File {
  sync(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Return the memory of one identity in a folder, which is made if it is not there.
 *
 * @param folder - Where; others than its owner need not see into it.
 */
export function fileMemory(folder: string): Memory {
  let ready: Promise<Files> | undefined;
  const files = (): Promise<Files> => (ready ??= opened(folder));
  return {
    usedRounds: { claim: async (round: Bytes) => made(await files(), folder, `round-${toHex(round)}`) },
    tasks: {
      spend: async (task: Bytes, attempts: number) => {
        const here = await files();
        for (let count = 1; count <= attempts; count++) {
          if (await made(here, folder, `vector-${toHex(task)}-${count}`)) {
            return true;
          }
        }
        return false;
      },
    },
  };
}

async function opened(folder: string): Promise<Files> {
  const files = builtin<Files>("node:fs/promises");
  if (files === undefined) {
    throw new Unsupported("files need Node 20.16 or newer; in a browser use indexedDbMemory");
  }
  await files.mkdir(folder, { recursive: true, mode: 0o700 }).catch(unwritable(folder));
  return files;
}

/** Make a file that is not there yet, on the disk when this is fulfilled; false if it is. */
async function made(files: Files, folder: string, name: string): Promise<boolean> {
  let file: File;
  try {
    file = await files.open(`${folder}/${name}`, "wx", 0o600);
  } catch (error) {
    if ((error as { code?: string }).code === "EEXIST") {
      return false;
    }
    return unwritable(folder)(error);
  }
  await synced(file);
  await files.open(folder, "r").then(synced).catch(() => undefined); // Windows has no such thing for folders
  return true;
}

function unwritable(folder: string): (cause: unknown) => never {
  return (cause) => {
    throw new ConfigError(`the memory in ${folder} cannot be written`, { cause });
  };
}

async function synced(file: File): Promise<void> {
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
