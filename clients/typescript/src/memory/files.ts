/**
 * A memory in a folder, for Node. An entry is an empty file, which can be made only once: if two processes
 * make the same one, one of them fails. Keep the folder with the identity. Never restore it from a backup.
 */

import { type Bytes, toHex } from "../bytes.js";
import { ConfigError, Unsupported } from "../errors.js";
import { type About, type Entry, entryOf, type Memory, nameOf, REMEMBERED_MS } from "../memory.js";
import { builtin } from "../platform.js";

/** As much of Node's files as is used here; its types are not for a package that browsers load. */
interface NodeFiles {
  mkdir(path: string, options: { recursive: boolean; mode: number }): Promise<unknown>;
  open(path: string, flags: string, mode?: number): Promise<Handle>;
  readFile(path: string, encoding: "utf8"): Promise<string>;
  readdir(path: string): Promise<string[]>;
  stat(path: string): Promise<{ readonly mtimeMs: number }>;
  link(from: string, to: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  unlink(path: string): Promise<void>;
}

interface Handle {
  writeFile(content: string): Promise<void>;
  sync(): Promise<void>;
  close(): Promise<void>;
}

/** The files of one folder. When a promise is fulfilled, everything written is on the disk. */
export interface Files {
  /** Make a complete new file, or return false if it exists. */
  make(name: string, content?: string): Promise<boolean>;
  /** Make or replace a file. */
  replace(name: string, content: string): Promise<void>;
  read(name: string): Promise<string>;
  names(): Promise<readonly string[]>;
}

/**
 * Return the memory of one identity in a folder. The folder is made when it is first used.
 *
 * A file beside the folder, named `<folder>.used`, notes that the folder was used. If only that file is left, the
 * folder was lost, and with it the protection against sending two vectors in one round. That is a ConfigError. Make a
 * new identity then.
 *
 * @param folder - Its path. Only its owner needs access.
 */
export function fileMemory(folder: string): Memory {
  const files = inFiles(folder, `${folder.replace(/[/\\]+$/, "")}.used`);
  return {
    add: async (entry: Entry) => (await files()).make(nameOf(entry)),
    entries: async (about: About, start: Bytes) => {
      const names = await (await files()).names();
      return names.filter((name) => name.startsWith(`${about}-${toHex(start)}`)).map(entryOf);
    },
  };
}

/** Return a function that opens a folder when it is first needed. The file `used` notes that it was there before. */
export function inFiles(folder: string, used?: string): () => Promise<Files> {
  let ready: Promise<Files> | undefined;
  return () => (ready ??= opened(folder, used));
}

async function opened(folder: string, used: string | undefined): Promise<Files> {
  const node = builtin<NodeFiles>("node:fs/promises");
  if (node === undefined) {
    throw new Unsupported("files need Node 20.16 or newer; in a browser use what is for IndexedDB");
  }
  const unwritable = (cause: unknown): never => {
    throw new ConfigError(`the memory in ${folder} cannot be used`, { cause });
  };
  const there = (path: string): Promise<boolean> =>
    node.stat(path).then(
      () => true,
      () => false,
    );
  // The file is made after the folder and looked for before it: another process that has made it has made both.
  const wasUsed = used !== undefined && (await there(used));
  if (wasUsed && !(await there(folder))) {
    throw new ConfigError(`the memory in ${folder} is gone, and its identity was used: make a new identity`);
  }
  await node.mkdir(folder, { recursive: true, mode: 0o700 }).catch(unwritable);
  if (used !== undefined) {
    await (wasUsed ? sweep(node, folder) : node.open(used, "a", 0o600).then(synced)).catch(unwritable);
  }
  const inside = (name: string): string => `${folder}/${name}`;
  return {
    make: (name, content = "") => made(node, folder, inside(name), content).catch(unwritable),
    replace: (name, content) => replaced(node, folder, inside(name), content).catch(unwritable),
    read: (name) => node.readFile(inside(name), "utf8").catch(unwritable),
    names: () => node.readdir(folder).catch(unwritable),
  };
}

/** Forget rounds that are too old to matter. Another process may do so first. */
async function sweep(node: NodeFiles, folder: string): Promise<void> {
  const rounds = (await node.readdir(folder)).filter((name) => /^round-/.test(name));
  for (const path of rounds.map((name) => `${folder}/${name}`)) {
    try {
      if (Date.now() - (await node.stat(path)).mtimeMs > REMEMBERED_MS) {
        await node.unlink(path);
      }
    } catch (error) {
      if ((error as { code?: string }).code !== "ENOENT") {
        throw error;
      }
    }
  }
}

async function made(node: NodeFiles, folder: string, path: string, content: string): Promise<boolean> {
  const temporary = content === "" ? null : await aside(node, folder, content);
  try {
    await (temporary === null ? node.open(path, "wx", 0o600).then(synced) : node.link(temporary, path));
  } catch (error) {
    if ((error as { code?: string }).code === "EEXIST") {
      return false;
    }
    throw error;
  } finally {
    await (temporary === null ? undefined : node.unlink(temporary));
  }
  await folderSynced(node, folder);
  return true;
}

async function replaced(node: NodeFiles, folder: string, path: string, content: string): Promise<void> {
  await node.rename(await aside(node, folder, content), path);
  await folderSynced(node, folder);
}

/** Write a temporary file and return its path. */
async function aside(node: NodeFiles, folder: string, content: string): Promise<string> {
  const path = `${folder}/new-${crypto.randomUUID()}`;
  const file = await node.open(path, "wx", 0o600);
  await synced(file, content);
  return path;
}

async function folderSynced(node: NodeFiles, folder: string): Promise<void> {
  const windows = (globalThis as { process?: { platform?: string } }).process?.platform === "win32";
  if (!windows) {
    await node.open(folder, "r").then(synced); // Windows cannot do this for folders
  }
}

async function synced(file: Handle, content?: string): Promise<void> {
  try {
    if (content !== undefined) {
      await file.writeFile(content);
    }
    await file.sync();
  } finally {
    await file.close();
  }
}
