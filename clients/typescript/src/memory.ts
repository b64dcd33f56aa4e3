/**
 * Entries for things that a client has done and must not do again, across rounds, tabs and crashes (3.3, 3.5). Each
 * is made once, before its message is sent, and is never taken back.
 */

import { type Bytes, equal, fromHex, toHex } from "./bytes.js";
import { ConfigError } from "./errors.js";
import type { PrivacyTable } from "./privacy/table.js";

/**
 * The subject of an entry: a round that was joined; a round for which a vector was sent, by its context; a vector that
 * was sent for a task, and shares that were released for one, by task and series; a vector of a table, whatever the
 * task.
 */
export type About = "round" | "sent" | "vector" | "release" | "table";

/** Something that was done. */
export interface Entry {
  readonly about: About;
  readonly key: Bytes;
  /** Distinguishes entries about the same thing: the number of the round, for a vector or a release. */
  readonly number: number;
}

/** All that a client remembers. It belongs to one identity, and outlives rounds and processes. */
export interface Memory {
  /**
   * Make an entry and return true, or return false if it exists. When the promise is fulfilled, the entry is durable.
   * If two tabs or processes make the same entry at the same time, one of them gets false.
   */
  add(entry: Entry): Promise<boolean>;
  /** Return the entries whose keys begin like this, in any order. Throws if an entry cannot be read. */
  entries(about: About, start: Bytes): Promise<readonly Entry[]>;
  /**
   * Take the memory for one participant, until what is returned is called. Without it, or where a platform cannot lock,
   * two participants with one memory are still safe, as each round is claimed by one of them; but neither gets far.
   * Throws OrderError where another has it.
   */
  hold?(): Promise<() => void>;
}

/**
 * For how many milliseconds joined rounds are remembered. Their keys are gone long before. Entries about sent vectors
 * are kept for ever, because a copy of a client may be older.
 */
export const REMEMBERED_MS = 30 * 86_400_000;

/** Rounds that were joined: 36 bytes each, the series id and the number. */
export interface UsedRounds {
  /** Remember the round; false if it was there before. */
  claim(round: Bytes): Promise<boolean>;
}

/** Of a ledger: what vectors with noise are charged to. */
export interface Account {
  /** The digest of the charter whose noise is charged; undefined without a charter. */
  readonly charter: Bytes | undefined;
  /** The noise in every vector that is charged. */
  readonly noise: PrivacyTable;
  /** Throws VectorError for a vector that was seen before: the same noise must not leave twice. */
  checkFresh(vector: Bytes): Promise<void>;
  /** Throws BudgetSpent if the budget has no room for one more vector, DamagedLedger if the ledger cannot be read. */
  check(): Promise<void>;
  /** Charge one vector before it is sent. A charge is never refunded. Throws as check does. */
  charge(round: Bytes): Promise<void>;
}

/** Return the rounds that a memory knows. */
export function roundsOf(memory: Memory): UsedRounds {
  return { claim: (key) => memory.add({ about: "round", key, number: 0 }) };
}

/** Tell whether a memory has an entry. */
export async function has(memory: Memory, { about, key, number }: Entry): Promise<boolean> {
  const found = await memory.entries(about, key);
  return found.some((entry) => entry.number === number && equal(entry.key, key));
}

/** Return the name of an entry, under which stores keep it. Of a round there is one, and no number. */
export function nameOf({ about, key, number }: Entry): string {
  return about === "round" || about === "sent" ? `${about}-${toHex(key)}` : `${about}-${toHex(key)}-${number}`;
}

const NAME = /^(?:(round|sent)-((?:[0-9a-f]{2})+)|(vector|release|table)-((?:[0-9a-f]{2})+)-(0|[1-9][0-9]{0,9}))$/;

/**
 * Return the entry of a name.
 * @throws ConfigError for an unknown name: the entry may forbid something.
 */
export function entryOf(name: string): Entry {
  const found = NAME.exec(name);
  if (found === null) {
    throw new ConfigError(`the memory has an unknown entry, ${name}: a newer version may have written it`);
  }
  const [, once, onceKey, about, key, number] = found;
  return { about: (once ?? about) as About, key: fromHex((onceKey ?? key)!), number: Number(number ?? 0) };
}
