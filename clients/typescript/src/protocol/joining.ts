/** The options of clients, and what they refuse before they make any key (docs/protocol.md, 3.3 and 3.4). */

import { type Bytes, equal } from "../bytes.js";
import { type Charter, checkCurrent } from "../charter/charter.js";
import { checkConfig, contextOf, guardOf, type RoundConfig, underCharter, vectorBytes } from "../config.js";
import { agreementOf } from "../crypto/agreements.js";
import type { Engine, Random } from "../crypto/engine.js";
import { systemEngine } from "../crypto/engines.js";
import { type Masker, maskHere } from "../crypto/masks.js";
import type { Identity } from "../crypto/signatures.js";
import { ConfigError, VectorError } from "../errors.js";
import { checkFloor, DEFAULT_FLOOR, type Floor, floorOf } from "../floor.js";
import type { Account, Memory, UsedRounds } from "../memory.js";
import { checkNoisyRound } from "../privacy/table.js";
import { type Round, roundKey, type Source, TASK_BYTES } from "./round.js";
import type { Limits } from "./spending.js";
import type { Joined } from "./states.js";

/** Options of clients of all guards. */
export interface CommonOptions {
  readonly config: RoundConfig;
  /**
   * `config.length` little-endian words of `config.bits` bits each, or a function that makes them when the server asks.
   * They are copied only then.
   */
  readonly vector: Source;
  /**
   * The 32 bytes that identify the task of the vector (3.4), or a function that makes them. `NO_TASK` if there is no
   * task.
   */
  readonly task: Source;
  /** Remembers the joined rounds, so that none is joined twice. */
  readonly usedRounds?: UsedRounds | undefined;
  /**
   * Remembers for which tasks vectors were sent and shares released (3.5), across rounds and processes. With it,
   * vectors for a task are sent in one series, in order and one a round, and shares are released once.
   */
  readonly tasks?: Memory | null | undefined;
  /** Returns the name under which `tasks` keeps a task, if that is not the task itself. */
  readonly counted?: ((task: Bytes) => Bytes) | undefined;
  /**
   * The account to which vectors with noise are charged. The vector must then be a function. A vector is sent whatever
   * that function throws or returns: see `failure`.
   */
  readonly account?: Account | undefined;
  readonly random?: Random | undefined;
  readonly engine?: Engine | undefined;
  /** Masks vectors. The default works in this thread. */
  readonly masker?: Masker | undefined;
  /** Called with the number of masked bytes and their total. */
  readonly progress?: ((done: number, all: number) => void) | undefined;
}

/** Options of a client of the guard `curious`. */
export interface ClientOptions extends CommonOptions {
  /** The id of this client, below `config.clients`. */
  readonly client: number;
  /** The client joins no round below these limits. */
  readonly floor?: Partial<Floor> | undefined;
  /** The maximum number of vectors sent for one task; 2 by default. */
  readonly attempts?: number | undefined;
  /** The maximum number of rounds in which shares are released for one task; 1 by default. */
  readonly releases?: number | undefined;
}

/** Options of a client under a charter, of the guards `active` and `assisted`. */
export interface ActiveOptions extends CommonOptions {
  readonly charter: Charter;
  readonly identity: Identity;
  /** Remembers vectors and releases, within the charter's `attempts` and `releases`; null remembers nothing. */
  readonly tasks: Memory | null;
  /** Seconds since 1970; the system's clock by default. */
  readonly now?: number | undefined;
}

/** A client that has joined: what stays the same through its round, and its first state. */
export interface Entry {
  readonly round: Omit<Round, "signal">;
  readonly state: Joined;
}

/** For a vector without a task. */
export const NO_TASK: Bytes = new Uint8Array(TASK_BYTES);

const DEFAULT_LIMITS: Limits = { attempts: 2, releases: 1 };

/** Join under the guard `curious`. */
export async function joinCurious(options: ClientOptions): Promise<Entry> {
  const { config, client, attempts = DEFAULT_LIMITS.attempts, releases = DEFAULT_LIMITS.releases } = options;
  const floor = floorOf(options.floor);
  checkConfig(config);
  if (config.guard !== "curious") {
    throw new ConfigError(`the round must have the guard curious, got ${config.guard}`);
  }
  if (!Number.isInteger(client) || client < 0 || client >= config.clients) {
    throw new ConfigError(`the client id must be below ${config.clients}, got ${client}`);
  }
  for (const [what, count] of Object.entries({ attempts, releases })) {
    if (!Number.isInteger(count) || count < 1) {
      throw new ConfigError(`${what} must be at least 1, got ${count}`);
    }
  }
  checkFloor(config, floor);
  if (options.account !== undefined) {
    checkNoisyRound(options.account.noise, config); // where there is a charter, that has seen to it
  }
  return enter(options, { config, client, limits: { attempts, releases }, floor, membership: null });
}

/** Join under a charter: but for a few particulars, everything is as it says. */
export async function joinActive(options: ActiveOptions): Promise<Entry> {
  const { config, charter, identity, now } = options;
  if (config.guard !== guardOf(charter) || config.charter === null || !equal(config.charter, charter.digest)) {
    throw new ConfigError("the round belongs to another charter");
  }
  checkCurrent(charter, now);
  checkAccount(charter, options.account);
  if (options.tasks === undefined) {
    throw new ConfigError("the charter limits the vectors of a task: pass `tasks`, or null to remember nothing");
  }
  const client = charter.place(identity.publicKey);
  const membership = { charter, identity, now: () => now ?? Date.now() / 1000 };
  const agreed = underCharter(charter, config);
  const limits = { attempts: charter.attempts, releases: charter.releases };
  return enter(options, { config: agreed, client, limits, floor: DEFAULT_FLOOR, membership });
}

/** Refuse vectors with noise without an account, or with the account of another charter. */
function checkAccount(charter: Charter, account: Account | undefined): void {
  if (account === undefined && charter.privacy !== null) {
    throw new ConfigError("the charter has noise: pass an account of a ledger");
  }
  if (account !== undefined && !(account.charter !== undefined && equal(account.charter, charter.digest))) {
    throw new ConfigError("the account is not for the noise of this charter");
  }
}

type Particular = Pick<Round, "config" | "client" | "limits" | "floor" | "membership">;

async function enter(options: CommonOptions, particular: Particular): Promise<Entry> {
  const { vector, task } = options;
  const tasks = options.tasks ?? null;
  const { config } = particular;
  if (typeof vector !== "function") {
    checkReady(config, vector, options.account);
  }
  if (typeof task !== "function") {
    checkTaskIs(task, tasks);
  }
  const engine = options.engine ?? (await systemEngine());
  const round = {
    ...particular,
    engine,
    tasks,
    counted: options.counted ?? ((task: Bytes) => task),
    context: await contextOf(engine, config),
    agreement: agreementOf(config.agreement),
    random: options.random ?? engine.random,
    account: options.account ?? null,
    failures: [],
    masker: options.masker ?? maskHere,
    progress: options.progress ?? null,
  };
  if (options.usedRounds !== undefined && !(await options.usedRounds.claim(roundKey(config)))) {
    throw new ConfigError("this round was already joined");
  }
  return { round, state: Object.freeze({ kind: "Joined", work: { vector, task }, secrets: [] }) };
}

/** Refuse a ready vector if it cannot be sent. */
function checkReady(config: RoundConfig, vector: unknown, account: Account | undefined): void {
  if (account !== undefined) {
    throw new ConfigError(
      "with an account, pass a function that draws noise in every call: a vector used in two rounds has the same noise",
    );
  }
  checkVector(config, vector);
}

/** Refuse a vector of another size than the round's. */
export function checkVector(config: RoundConfig, vector: unknown): asserts vector is Bytes {
  if (!(vector instanceof Uint8Array)) {
    throw new VectorError("the vector must be bytes");
  }
  if (vector.length !== vectorBytes(config)) {
    throw new VectorError(`the vector must have ${vectorBytes(config)} bytes, got ${vector.length}`);
  }
}

/** Refuse an invalid task, and a missing one if tasks are remembered. */
export function checkTaskIs(task: unknown, tasks: Memory | null): asserts task is Bytes {
  if (!(task instanceof Uint8Array) || task.length !== TASK_BYTES) {
    throw new ConfigError(`the task must have ${TASK_BYTES} bytes`);
  }
  if (tasks !== null && task.every((byte) => byte === 0)) {
    throw new ConfigError("a vector needs a task if tasks are remembered");
  }
}
