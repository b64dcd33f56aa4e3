/**
 * What a client has to remember across rounds, tabs and crashes, so that no round is joined twice and no task is
 * answered more often than agreed (3.3, 3.4). Every answer is durable when its promise is fulfilled, and two callers at
 * the same time never both get the last one.
 */

import type { Bytes } from "./bytes.js";
import type { PrivacyTable } from "./privacy/table.js";

/** Rounds that were joined: 36 bytes each, the series id and the number. */
export interface UsedRounds {
  /** Remember the round; false if it was there before. */
  claim(round: Bytes): Promise<boolean>;
}

/** How many vectors have left for each task. */
export interface TaskCounts {
  /** Count one more vector for the task, unless so many have left; false then, and nothing has changed. */
  spend(task: Bytes, attempts: number): Promise<boolean>;
}

/** Of a ledger: what vectors with noise are charged to. */
export interface Account {
  /** The digest of the charter whose noise is charged; undefined without a charter. */
  readonly charter: Bytes | undefined;
  /** The noise in every vector that is charged. */
  readonly noise: PrivacyTable;
  /** Throws VectorError for a vector that was seen before: noise hides nothing twice. */
  checkFresh(vector: Bytes): Promise<void>;
  /** Throws BudgetSpent without room for one more vector, DamagedLedger for one that cannot be read. */
  check(): Promise<void>;
  /** Charge one vector, before it leaves and never back. Throws as check does. */
  charge(round: Bytes): Promise<void>;
}

/** All that a participant remembers. */
export interface Memory {
  readonly usedRounds: UsedRounds;
  readonly tasks: TaskCounts;
  /**
   * Take the memory for one participant, until what is returned is called. Without it, or where a platform cannot lock,
   * two participants with one memory are still safe, as each round is claimed by one of them; but neither gets far.
   * Throws OrderError where another has it.
   */
  hold?(): Promise<() => void>;
}
