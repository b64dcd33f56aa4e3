/**
 * A memory in the browser's own database, for pages and workers.
 *
 * One transaction reads and writes, transactions over one store follow each other in all tabs, and each is on the disk
 * before it is told ("strict"): no two tabs both get the last of anything. A browser short of space deletes everything
 * of an origin at once, so keep the identity in the same origin and nowhere else: then it is lost with its memory,
 * which is safe.
 */

import { toHex, type Bytes } from "../bytes.js";
import { CcesaError, OrderError, Unsupported } from "../errors.js";
import type { Memory } from "../memory.js";

/** For how long a tab that was just closed may still hold the lock. */
const GRACE_MS = 2000;

/**
 * Return the memory of one identity in this browser.
 *
 * @param name - Says which one, where an origin has several.
 */
export function indexedDbMemory(name: string): Memory {
  const opened = databaseOf(`ccesa ${name}`, ["rounds", "vectors"]);
  return {
    usedRounds: {
      claim: async (round: Bytes) => write(await opened(), ["rounds"], (store) => addNew(store, toHex(round))),
    },
    tasks: {
      spend: async (task: Bytes, attempts: number) =>
        write(await opened(), ["vectors"], (store) => countUp(store, toHex(task), attempts)),
    },
    hold: () => hold(`ccesa ${name}`),
  };
}

async function addNew(store: IDBObjectStore, key: string): Promise<boolean> {
  return (await done(store.count(key))) === 0 && (await done(store.add(1, key))) !== undefined;
}

async function countUp(store: IDBObjectStore, key: string, most: number): Promise<boolean> {
  const count: unknown = (await done(store.get(key))) ?? 0;
  if (typeof count !== "number") {
    throw new CcesaError("the memory in this browser is not as it was written");
  }
  return count < most && (await done(store.put(count + 1, key))) !== undefined;
}

/** Do something in one transaction over these stores; it is on the disk when this is fulfilled. */
export async function write(
  database: IDBDatabase,
  names: readonly [string, ...string[]],
  work: (first: IDBObjectStore, second: IDBObjectStore) => Promise<boolean>,
): Promise<boolean> {
  const transaction = database.transaction(names, "readwrite", { durability: "strict" });
  const written = new Promise<void>((resolve, reject) => {
    const failed = (): void => reject(failure(transaction.error));
    Object.assign(transaction, { oncomplete: () => resolve(), onabort: failed, onerror: failed });
  });
  const first = transaction.objectStore(names[0]);
  const [result] = await Promise.all([work(first, transaction.objectStore(names[1] ?? names[0])), written]);
  return result;
}

/** Wait for a request; nothing else may be waited for in a transaction, as it ends when nothing is asked of it. */
export function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(failure(request.error));
  });
}

/** Return what opens a database with these stores, once it is first needed. */
export function databaseOf(name: string, stores: readonly string[]): () => Promise<IDBDatabase> {
  let database: Promise<IDBDatabase> | undefined;
  return () => (database ??= open(name, stores, () => (database = undefined)));
}

async function open(name: string, stores: readonly string[], closed: () => void): Promise<IDBDatabase> {
  if (typeof indexedDB === "undefined") {
    throw new Unsupported("there is no IndexedDB here: in Node use what is for files");
  }
  const request = indexedDB.open(name, 1);
  request.onupgradeneeded = () => stores.forEach((store) => request.result.createObjectStore(store));
  const database = await done(request);
  // A page that deletes the database is not kept waiting, and whatever is asked next opens it anew.
  database.onversionchange = () => {
    database.close();
    closed();
  };
  database.onclose = closed;
  return database;
}

function failure(error: DOMException | null): CcesaError {
  return new CcesaError(`the memory in this browser cannot be written: ${error?.name ?? "aborted"}`, { cause: error });
}

/** Take the lock of a name, until what is returned is called. Where there are no locks there is nothing to hold. */
async function hold(name: string): Promise<() => void> {
  const locks = (globalThis as { navigator?: { locks?: LockManager } }).navigator?.locks;
  if (locks === undefined) {
    return () => undefined;
  }
  return new Promise<() => void>((resolve, reject) => {
    const held = (): Promise<void> => new Promise((release) => resolve(release));
    locks.request(name, { signal: AbortSignal.timeout(GRACE_MS) }, held).catch((error: unknown) => {
      reject(new OrderError("another tab takes part with this identity: close it first", { cause: error }));
    });
  });
}
