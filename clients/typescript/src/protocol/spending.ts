/**
 * The memory of tasks (docs/protocol.md, 3.5): vectors for a task leave in one series and in order, and shares are
 * released as often as agreed, which is once by default. Once sent, a vector counts, even if its round fails.
 */

import { type Bytes, concat, equal } from "../bytes.js";
import { isAssisted, type RoundConfig } from "../config.js";
import { OrderError, TaskSpent } from "../errors.js";
import { type About, type Entry, has, type Memory } from "../memory.js";
import { callers, honest, type Round, roundKey } from "./round.js";

/** The agreement about one task. */
export interface Limits {
  /** How many vectors leave for it. */
  readonly attempts: number;
  /** In how many rounds shares are released for it. */
  readonly releases: number;
}

/** A vector or a release of a task. */
interface Done {
  readonly series: Bytes;
  readonly number: number;
}

type Spender = Pick<Round, "config" | "context" | "tasks" | "limits" | "account">;

/** M1: refuse a task for which no vector may leave in this round. Nothing has changed then. */
export async function checkTask(round: Round, task: Bytes): Promise<void> {
  const { tasks, context } = round;
  if (tasks !== null) {
    if (await callers(round, () => has(tasks, { about: "sent", key: context, number: 0 }))) {
      throw elsewhere("sent its vector of this round");
    }
    await callers(round, () => checkVectors(round, tasks, task, 0));
  }
}

/** M1 once more, and the entries of a vector, before it leaves; what is never given back is charged last. */
export async function sendVector(round: Round, task: Bytes): Promise<void> {
  const { tasks, account, config, context } = round;
  await checkTask(round, task);
  await callers(round, () => account?.check());
  if (tasks !== null) {
    await addOnce(round, tasks, { about: "sent", key: context, number: 0 }, "sent its vector of this round");
    await addOnce(round, tasks, entryOf(round, "vector", task), "sent a vector for this task under this number");
    await callers(round, () => checkVectors(round, tasks, task, 1)); // another tab may have come in between
  }
  await callers(round, () => account?.charge(roundKey(config)));
}

/** M2: refuse to go on in a round that a later vector for its task, or a release, has ended. */
export async function checkLatest(round: Round, task: Bytes): Promise<void> {
  const { tasks, limits } = round;
  if (tasks === null || round.account !== null) {
    return;
  }
  const vectors = await callers(round, () => doneFor(tasks, "vector", task));
  const latest = vectors.some((one) => isOwn(round.config, one)) && !vectors.some((one) => isLater(round.config, one));
  honest(latest, "a later round has asked for a vector for this task, so this round is over");
  const releases = await callers(round, () => doneFor(tasks, "release", task));
  honest(releases.length < limits.releases, "this client has released its shares for this task, so the task is closed");
}

/** M3: close the task, before shares leave. */
export async function closeTask(round: Round, task: Bytes): Promise<void> {
  const { tasks } = round;
  await checkLatest(round, task);
  if (tasks === null) {
    return;
  }
  await addOnce(round, tasks, entryOf(round, "release", task), "released its shares of this round");
  if (round.account !== null) {
    return; // with noise the order is free, and still one reply leaves a round
  }
  const vectors = await callers(round, () => doneFor(tasks, "vector", task));
  if (vectors.some((one) => isLater(round.config, one))) {
    throw elsewhere("sent a later vector for this task");
  }
}

/** Points 3 to 7 of M1; `own` says how many of the vectors are of this round. */
async function checkVectors(
  { config, limits, account }: Spender,
  memory: Memory,
  task: Bytes,
  own: 0 | 1,
): Promise<void> {
  const vectors = await doneFor(memory, "vector", task);
  if (vectors.length - own >= limits.attempts) {
    throw new TaskSpent(`${limits.attempts} vectors were sent for this task, which is the maximum`);
  }
  if (account !== null) {
    return; // with noise every vector is charged, and sums may be compared
  }
  if ((await doneFor(memory, "release", task)).length >= limits.releases) {
    throw new TaskSpent(`shares were released for this task in ${limits.releases} rounds, which is the maximum`);
  }
  if (vectors.some(({ series }) => series.length === 0)) {
    throw new TaskSpent("a vector was sent for this task with an earlier version, which did not note the series");
  }
  if (vectors.some(({ series }) => !equal(series, seriesOf(config)))) {
    throw new TaskSpent("a vector was sent for this task in another series, with which this client stays");
  }
  const latest = Math.max(-1, ...vectors.map(({ number }) => number));
  if (latest >= config.number + own) {
    throw new TaskSpent(
      `a vector was sent for this task in round ${latest}: the next round must have a higher number than ${config.number}`,
    );
  }
}

async function doneFor(memory: Memory, about: About, task: Bytes): Promise<Done[]> {
  const found = await memory.entries(about, task);
  return found.map(({ key, number }) => ({ series: key.slice(task.length), number }));
}

function isOwn(config: RoundConfig, done: Done): boolean {
  return equal(done.series, seriesOf(config)) && done.number === config.number;
}

function isLater(config: RoundConfig, done: Done): boolean {
  return !equal(done.series, seriesOf(config)) || done.number > config.number;
}

function entryOf({ config }: Spender, about: About, task: Bytes): Entry {
  return { about, key: concat(task, seriesOf(config)), number: config.number };
}

/**
 * Return the name of a series in the memory. Helpers answer by charter and task, so with helpers the charter is part of
 * it (19.10). It is longer than the id of a series, which the server chooses.
 */
function seriesOf(config: RoundConfig): Bytes {
  const { charter, seriesId } = config;
  return isAssisted(config) && charter !== null ? concat(charter, seriesId) : seriesId;
}

async function addOnce(round: Round, memory: Memory, entry: Entry, what: string): Promise<void> {
  if (!(await callers(round, () => memory.add(entry)))) {
    throw elsewhere(what);
  }
}

function elsewhere(what: string): OrderError {
  return new OrderError(`another tab or process with this client's keys has ${what}; this one drops the keys`);
}

/** Refuse one more vector of a table, whatever the task: a liar would ask for the same numbers under many names. */
export async function checkTable(memory: Memory, table: Bytes, attempts: number): Promise<number> {
  const count = (await memory.entries("table", table)).length;
  if (count >= attempts) {
    throw new TaskSpent(`${attempts} vectors of this table were sent, which is the charter's maximum`);
  }
  return count;
}

/** Note a vector of a table, before it leaves. */
export async function countTable(memory: Memory, table: Bytes, attempts: number): Promise<void> {
  const number = (await checkTable(memory, table, attempts)) + 1;
  if (!(await memory.add({ about: "table", key: table, number }))) {
    throw new OrderError("another tab or process contributed the table first");
  }
}
