/** What a client is given, and what it refuses before it makes any key (docs/protocol.md, 3.3 and 3.4). */

import { equal, type Bytes } from "../bytes.js";
import { checkCurrent, type Charter } from "../charter/charter.js";
import { checkConfig, contextOf, underCharter, vectorBytes, type RoundConfig } from "../config.js";
import { agreementOf } from "../crypto/agreements.js";
import type { Engine, Random } from "../crypto/engine.js";
import { systemEngine } from "../crypto/engines.js";
import { maskHere, type Masker } from "../crypto/masks.js";
import type { Identity } from "../crypto/signatures.js";
import { ConfigError, VectorError } from "../errors.js";
import { checkFloor, DEFAULT_FLOOR, floorOf, type Floor } from "../floor.js";
import type { Account, Memory, UsedRounds } from "../memory.js";
import { checkNoisyRound } from "../privacy/table.js";
import { roundKey, TASK_BYTES, type Round, type Source } from "./round.js";
import type { Limits } from "./spending.js";
import type { Joined } from "./states.js";

/** What clients of both guards are given. */
export interface CommonOptions {
  readonly config: RoundConfig;
  /**
   * Little-endian words of `config.bits` bits, `config.length` of them, or what makes them when the server asks for
   * them. They are not copied before that.
   */
  readonly vector: Source;
  /** The 32 bytes that say what the vector is about (3.4), or what makes them; `NO_TASK` if there is nothing to say. */
  readonly task: Source;
  /** Rounds that were joined; with it none is joined twice. */
  readonly usedRounds?: UsedRounds | undefined;
  /**
   * Remembers for which tasks vectors have left and shares were released (3.5); it outlives rounds and processes. With
   * it vectors for a task leave in one series and in order, one of a round, and shares once.
   */
  readonly tasks?: Memory | null | undefined;
  /** Tells the name by which `tasks` knows a task, where that is not the task itself. */
  readonly counted?: ((task: Bytes) => Bytes) | undefined;
  /**
   * What vectors with noise are charged to. With one the vector has to be a function, and whatever that throws or
   * returns, a vector leaves: see `failure`.
   */
  readonly account?: Account | undefined;
  readonly random?: Random | undefined;
  readonly engine?: Engine | undefined;
  /** Where vectors are masked; in this thread by default. */
  readonly masker?: Masker | undefined;
  /** Is told how many bytes of the vector are masked, of how many. */
  readonly progress?: ((done: number, all: number) => void) | undefined;
}

/** What a client of the guard `curious` is given. */
export interface ClientOptions extends CommonOptions {
  /** The id of this client, below `config.clients`. */
  readonly client: number;
  /** The least that this client takes part in. */
  readonly floor?: Partial<Floor> | undefined;
  /** How many vectors may leave for one task; 2 by default. */
  readonly attempts?: number | undefined;
  /** In how many rounds shares may be released for one task; 1 by default. */
  readonly releases?: number | undefined;
}

/** What a client of the guard `active` is given. */
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

/** Of a vector that is about nothing in particular. */
export const NO_TASK: Bytes = new Uint8Array(TASK_BYTES);

const DEFAULT_LIMITS: Limits = { attempts: 2, releases: 1 };

/** Join under the guard `curious`. */
export async function joinCurious(options: ClientOptions): Promise<Entry> {
  const { config, client, attempts = DEFAULT_LIMITS.attempts, releases = DEFAULT_LIMITS.releases } = options;
  const floor = floorOf(options.floor);
  checkConfig(config);
  if (config.guard !== "curious") {
    throw new ConfigError(`expected a round of the guard curious, got ${config.guard}`);
  }
  if (!Number.isInteger(client) || client < 0 || client >= config.clients) {
    throw new ConfigError(`expected a client below ${config.clients}, got ${client}`);
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

/** Join under the guard `active`: but for a few particulars, everything is as the charter says. */
export async function joinActive(options: ActiveOptions): Promise<Entry> {
  const { config, charter, identity, now } = options;
  if (config.guard !== "active" || config.charter === null || !equal(config.charter, charter.digest)) {
    throw new ConfigError("the round is not under the charter");
  }
  checkCurrent(charter, now);
  checkAccount(charter, options.account);
  if (options.tasks === undefined) {
    throw new ConfigError("the charter limits what leaves for a task: give tasks, or null to remember nothing");
  }
  const client = charter.place(identity.publicKey);
  const membership = { charter, identity };
  const agreed = underCharter(charter, config);
  const limits = { attempts: charter.attempts, releases: charter.releases };
  return enter(options, { config: agreed, client, limits, floor: DEFAULT_FLOOR, membership });
}

/** Refuse vectors under a charter with noise that nobody charges, or that are charged as those of another one. */
function checkAccount(charter: Charter, account: Account | undefined): void {
  if (account === undefined && charter.privacy !== null) {
    throw new ConfigError("the charter has noise, and this client no ledger: give it an account of one");
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
    throw new ConfigError("this round was joined before");
  }
  return { round, state: Object.freeze({ kind: "Joined", work: { vector, task }, secrets: [] }) };
}

/** Refuse a vector that is there already if it cannot be sent. */
function checkReady(config: RoundConfig, vector: unknown, account: Account | undefined): void {
  if (account !== undefined) {
    throw new ConfigError(
      "with an account, give a function that draws noise in every call, not a vector: used in two rounds it would have the same noise twice",
    );
  }
  checkVector(config, vector);
}

/** Refuse a vector of another size than the round's. */
export function checkVector(config: RoundConfig, vector: unknown): asserts vector is Bytes {
  if (!(vector instanceof Uint8Array)) {
    throw new VectorError("expected the bytes of a vector");
  }
  if (vector.length !== vectorBytes(config)) {
    throw new VectorError(`expected ${vectorBytes(config)} bytes of a vector, got ${vector.length}`);
  }
}

/** Refuse a task that is none, and no task where tasks are remembered. */
export function checkTaskIs(task: unknown, tasks: Memory | null): asserts task is Bytes {
  if (!(task instanceof Uint8Array) || task.length !== TASK_BYTES) {
    throw new ConfigError(`expected a task of ${TASK_BYTES} bytes`);
  }
  if (tasks !== null && task.every((byte) => byte === 0)) {
    throw new ConfigError("where tasks are remembered, a vector needs one");
  }
}
