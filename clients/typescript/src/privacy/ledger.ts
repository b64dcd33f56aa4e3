/**
 * A ledger: what vectors with noise have revealed about a client's data, for all rounds, charters and servers.
 * Each vector is written down before it is sent, and is never taken back. A vector that would exceed the budget is not
 * sent.
 */

import { type Bytes, toHex } from "../bytes.js";
import type { Engine } from "../crypto/engine.js";
import { BudgetSpent, ConfigError, DamagedLedger, VectorError } from "../errors.js";
import type { Account } from "../memory.js";
import { DIGITS, deltaOf, epsilonOf, type Release } from "./accounting.js";
import { fixed } from "./fixed.js";
import { checkPrivacy, mechanismDigest, type PrivacyTable } from "./table.js";

/** Where a ledger lies: lines that are only ever appended, and one seal, kept apart from them. */
export interface LedgerStore {
  /** Return all lines, the oldest first, and the seal; of a new store no lines and null. */
  read(): Promise<{ readonly lines: readonly string[]; readonly seal: string | null }>;
  /**
   * Append a line and replace the seal, durably, both or neither. If the ledger has another number of lines by now,
   * because somebody else has appended, nothing changes and the answer is false.
   */
  append(line: string, seal: string, after: number): Promise<boolean>;
}

/** The budget for all vectors together. */
export interface Budget {
  readonly epsilon: number;
  readonly delta: number;
}

/** One vector that was sent: its round, what its `rounds` are counted by, and its noise. */
interface Entry {
  readonly round: string;
  readonly scope: string;
  readonly noise: PrivacyTable;
}

interface Book {
  readonly budget: Budget;
  readonly entries: readonly Entry[];
  readonly seal: string;
}

/** JSON has no minus infinity, which `fails` may be. */
function written(key: string, value: unknown): unknown {
  return key === "fails" ? String(value) : value;
}

function readBack(key: string, value: unknown): unknown {
  return key === "fails" ? Number(value) : value;
}

function isBudget({ epsilon, delta }: Budget): boolean {
  return epsilon > 0 && epsilon <= 50 && delta >= 1e-12 && delta < 1;
}

function isEntry({ round, scope, noise }: Entry): boolean {
  return /^[0-9a-f]{72}$/.test(round) && /^[0-9a-f]{64}$/.test(scope) && typeof noise === "object" && noise !== null;
}

/** Refuse noise in a ledger that nobody can have charged. */
function checkReleases(releases: readonly Release[]): void {
  for (const { noise } of releases) {
    try {
      checkPrivacy(noise as PrivacyTable);
    } catch (error) {
      throw new DamagedLedger("the ledger has noise in it that promises more than it keeps", { cause: error });
    }
  }
}

/** Return a line in its only form; in any other form the ledger is damaged. */
function parse<T>(line: string, fits: (value: T) => boolean): T {
  let value: T | null = null;
  try {
    value = JSON.parse(line, readBack) as T | null;
  } catch {
    // The error below says what there is to say.
  }
  if (value === null || !fits(value)) {
    throw new DamagedLedger("a line of the ledger cannot be read");
  }
  return value;
}

/** Return what entries release, those of the same noise together. */
function releasesOf(entries: readonly Entry[]): Release[] {
  const vectors = new Map<string, Release>();
  for (const { noise } of entries) {
    const key = JSON.stringify(noise, written);
    vectors.set(key, { noise, vectors: (vectors.get(key)?.vectors ?? 0) + 1 });
  }
  return [...vectors.values()];
}

/** Numbers in a draw that is the same twice with a chance below 2^-150: none is likelier than 0.19. */
const NEVER_ALIKE = 64;

/** The ledger of one client's data. */
export class Ledger {
  /** Digests of vectors that were made for its accounts. */
  readonly #made = new Set<string>();

  /** The ledger is read from its store for every answer. */
  constructor(
    private readonly engine: Engine,
    private readonly store: LedgerStore,
  ) {}

  /**
   * Write the first line of a new ledger.
   * @throws ConfigError for a budget outside of 0 < epsilon <= 50, 10^-12 <= delta < 1, or a store with a ledger in it.
   */
  static async create(engine: Engine, store: LedgerStore, { epsilon, delta }: Budget): Promise<Ledger> {
    if (!isBudget({ epsilon, delta })) {
      throw new ConfigError(`a budget needs 0 < epsilon <= 50 and 10^-12 <= delta < 1, got ${epsilon} and ${delta}`);
    }
    const ledger = new Ledger(engine, store);
    const line = JSON.stringify({ epsilon, delta });
    if (!(await store.append(line, await ledger.#sealed("", line), 0))) {
      throw new ConfigError("this store already has a ledger, which cannot be overwritten");
    }
    return ledger;
  }

  /**
   * Return the vectors and the epsilon that were used, and the budget.
   * @throws DamagedLedger
   */
  async spent(): Promise<{ readonly vectors: number; readonly epsilon: number; readonly budget: Budget }> {
    const { budget, entries } = await this.#read();
    const epsilon = epsilonOf(releasesOf(entries), budget.delta, budget.epsilon);
    return { vectors: entries.length, epsilon, budget };
  }

  /**
   * Return the account to which vectors with this noise are charged.
   *
   * @param charter The digest by which `rounds` are counted; without one, that of the noise.
   * @throws ConfigError for noise that promises more than it keeps.
   */
  async account(noise: PrivacyTable, charter?: Bytes): Promise<Account> {
    checkPrivacy(noise);
    const scope = toHex(charter ?? (await mechanismDigest(this.engine, noise)));
    return {
      charter,
      noise,
      checkFresh: (vector) => this.#checkFresh(vector, noise),
      check: async () => this.#checkRoom(await this.#read(), noise, scope),
      charge: (round) => this.#charge({ round: toHex(round), scope, noise }),
    };
  }

  async #checkFresh(vector: Bytes, { dimension }: PrivacyTable): Promise<void> {
    const digest = toHex(await this.engine.sha256(vector));
    if (dimension >= NEVER_ALIKE && this.#made.size === this.#made.add(digest).size) {
      throw new VectorError(
        "the function returned the vector of another round again, with the same noise: draw noise in every call",
      );
    }
  }

  async #charge(entry: Entry): Promise<void> {
    const line = JSON.stringify(entry, written);
    for (;;) {
      const book = await this.#read();
      this.#checkRoom(book, entry.noise, entry.scope);
      if (await this.store.append(line, await this.#sealed(book.seal, line), book.entries.length + 1)) {
        return;
      }
    }
  }

  #checkRoom({ budget, entries }: Book, noise: PrivacyTable, scope: string): void {
    if (entries.some((entry) => entry.noise.unit !== noise.unit)) {
      throw new ConfigError("a ledger counts records or clients, not both: use a second ledger");
    }
    if (entries.filter((entry) => entry.scope === scope).length >= noise.rounds) {
      throw new BudgetSpent(`all ${noise.rounds} agreed vectors have been sent`);
    }
    const releases = releasesOf([...entries, { round: "", scope, noise }]);
    if (deltaOf(releases, budget.epsilon) > fixed(budget.delta, DIGITS)) {
      throw new BudgetSpent(`one more vector would exceed epsilon ${budget.epsilon}, delta ${budget.delta}`);
    }
  }

  async #sealed(seal: string, line: string): Promise<string> {
    return toHex(await this.engine.sha256(new TextEncoder().encode(`${seal}\n${line}`)));
  }

  async #read(): Promise<Book> {
    const { lines, seal } = await this.store.read();
    let found = "";
    for (const line of lines) {
      found = await this.#sealed(found, line);
    }
    const [first, ...rest] = lines;
    if (first === undefined || seal !== found) {
      throw new DamagedLedger(first === undefined ? "there is no ledger" : "the ledger is not as it was written");
    }
    const entries = rest.map((line) => parse(line, isEntry));
    checkReleases(releasesOf(entries));
    return { budget: parse(first, isBudget), entries, seal };
  }
}
