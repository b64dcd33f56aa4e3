/**
 * A memory in the browser's own database, for pages and workers.
 *
 * One transaction reads and writes, transactions on one store run one after the other in all tabs, and each is on the
 * disk before it is reported ("strict"). So two tabs never make the same entry. A browser short of space deletes all
 * data of an origin at once. Keep the identity in the same origin and nowhere else: then it is lost together with its
 * memory, which is safe.
 */

import { type Bytes, toHex } from "../bytes.js";
import { CcesaError, ConfigError, OrderError, Unsupported } from "../errors.js";
import { type About, type Entry, entryOf, type Memory, nameOf, REMEMBERED_MS } from "../memory.js";

/** In the memory, that it was used; beside an identity, the same. */
const [BEGUN, USED] = ["begun", "used"];
/** For how long a tab that was just closed may still hold the lock. */
const GRACE_MS = 2000;

/**
 * Return the memory of one identity in this browser. It is made on first use, which is noted beside the identity of the
 * same name (`indexedDbIdentity`). If the memory is gone while that identity is still there, that is a ConfigError.
 *
 * @param name - Its name, if an origin has several.
 */
export function indexedDbMemory(name: string): Memory {
  const database = databaseOf(`ccesa ${name}`, ["entries"], takeOver);
  let checked: IDBDatabase | undefined;
  const opened = async (): Promise<IDBDatabase> => {
    const memory = await database();
    if (memory !== checked) {
      await checkUsed(name, memory);
      checked = memory;
    }
    return memory;
  };
  return {
    add: async (entry: Entry) => write(await opened(), ["entries"], (store) => addNew(store, nameOf(entry))),
    entries: async (about: About, start: Bytes) => {
      const begin = `${about}-${toHex(start)}`;
      const store = (await opened()).transaction("entries").objectStore("entries");
      const names = await done(store.getAllKeys(IDBKeyRange.bound(begin, `${begin}\uffff`)));
      return names.map((found) => entryOf(String(found)));
    },
    hold: () => hold(`ccesa ${name}`),
  };
}

/**
 * Note beside the identity of this name that its memory is there; throws where it was, and is new. The note is made
 * last and read first: another tab that is as far as that has been here before.
 */
async function checkUsed(name: string, memory: IDBDatabase): Promise<void> {
  const identity = await databaseOf(`ccesa identity ${name}`, ["pair"])();
  const keys = await done(identity.transaction("pair").objectStore("pair").getAllKeys());
  const begun = await done(memory.transaction("entries").objectStore("entries").count(BEGUN));
  if (keys.includes(USED) && begun === 0) {
    identity.close();
    throw new ConfigError(
      `the memory of ${name} in this browser is gone, and its identity was used: make a new identity`,
    );
  }
  await write(memory, ["entries"], (store) => addNew(store, BEGUN));
  await write(memory, ["entries"], sweep);
  if (keys.includes("pair")) {
    await write(identity, ["pair"], (store) => addNew(store, USED));
  }
  identity.close();
}

/** Take over what an earlier version remembered: rounds, and by task how many vectors had left, in no series. */
function takeOver(transaction: IDBTransaction): void {
  const entries = transaction.objectStore("entries");
  const old = (store: string, use: (key: string, count: number) => void): void => {
    const cursor = transaction.objectStore(store).openCursor();
    cursor.onsuccess = () => {
      if (cursor.result !== null) {
        use(String(cursor.result.key), Number(cursor.result.value));
        cursor.result.continue();
      }
    };
  };
  if (transaction.db.objectStoreNames.contains("rounds")) {
    old("rounds", (key) => void entries.put(Date.now(), `round-${key}`));
    old("vectors", (key, count) => {
      for (let number = 1; number <= count; number++) {
        entries.put(Date.now(), `vector-${key}-${number}`);
      }
    });
  }
}

async function addNew(store: IDBObjectStore, key: string): Promise<boolean> {
  return (await done(store.count(key))) === 0 && (await done(store.add(Date.now(), key))) !== undefined;
}

/** Forget rounds that are too old to matter. */
async function sweep(store: IDBObjectStore): Promise<boolean> {
  const cursor = store.openCursor(IDBKeyRange.bound("round-", "round-\uffff"));
  while ((await done(cursor)) !== null) {
    if (Date.now() - Number(cursor.result!.value) > REMEMBERED_MS) {
      cursor.result!.delete();
    }
    cursor.result!.continue();
  }
  return true;
}

/** Run one transaction on these stores. When the promise is fulfilled, it is on the disk. */
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

/** Wait for a request. A transaction ends when it has no request, so wait for nothing else inside it. */
export function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(failure(request.error));
  });
}

/** Return a function that opens a database with these stores when first needed. `upgrade` converts version 1 to 2. */
export function databaseOf(
  name: string,
  stores: readonly string[],
  upgrade?: (transaction: IDBTransaction) => void,
): () => Promise<IDBDatabase> {
  let database: Promise<IDBDatabase> | undefined;
  return () => (database ??= open(name, stores, upgrade, () => (database = undefined)));
}

async function open(
  name: string,
  stores: readonly string[],
  upgrade: ((transaction: IDBTransaction) => void) | undefined,
  closed: () => void,
): Promise<IDBDatabase> {
  if (typeof indexedDB === "undefined") {
    throw new Unsupported("there is no IndexedDB here: in Node use what is for files");
  }
  const request = indexedDB.open(name, upgrade === undefined ? 1 : 2);
  request.onupgradeneeded = () => {
    stores.forEach((store) => request.result.createObjectStore(store));
    upgrade?.(request.transaction!);
  };
  const database = await done(request);
  // A page that deletes the database is not kept waiting, and whatever is asked next opens it again.
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

/** Take the lock of this name and return a function that releases it. Platforms without locks need none. */
async function hold(name: string): Promise<() => void> {
  const locks = (globalThis as { navigator?: { locks?: LockManager } }).navigator?.locks;
  if (locks === undefined) {
    return () => undefined;
  }
  return new Promise<() => void>((resolve, reject) => {
    const held = (): Promise<void> => new Promise((release) => resolve(release));
    locks.request(name, { signal: AbortSignal.timeout(GRACE_MS) }, held).catch((error: unknown) => {
      reject(new OrderError("another tab uses this identity: close that tab first", { cause: error }));
    });
  });
}
