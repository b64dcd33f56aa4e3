/** Step 2: the vector is masked, once. Step 3: shares are released (docs/protocol.md, 3.4 and sections 7 and 9). */

import { type Bytes, equal, join, wipe } from "../bytes.js";
import { vectorBytes } from "../config.js";
import { giveBack, PIECE, takeSum } from "../crypto/adding.js";
import { maskSign, selfMaskKey } from "../crypto/keys.js";
import type { Bits, Mask } from "../crypto/masks.js";
import { CcesaError, VectorError } from "../errors.js";
import type { Account } from "../memory.js";
import { aroundZero } from "../privacy/nothing.js";
import { shown } from "../shown.js";
import { checkTaskIs, checkVector } from "./joining.js";
import { checkEnough } from "./neighbours.js";
import { callers, honest, type Round, type Source, type Work } from "./round.js";
import { checkTask, closeTask, sendVector } from "./spending.js";
import type { Accepted, AcceptedAmong, Ahead, Held, Opened, Rows, State, Usable } from "./states.js";

/**
 * Return a copy of the vector, counted, when the request has passed all its checks but those of the task.
 *
 * Up to the count everything is the caller's, and may fail without an end to the round: nothing has been masked. Once
 * the vector is counted, in a memory that outlasts this process, only this function goes on, and whatever it throws is
 * an abort. So no vector leaves uncounted, and there is no second one under the same masks.
 */
export async function vectorToSend(round: Round, work: Work, task: Bytes): Promise<Bytes> {
  await checkWork(round, work.task, task);
  const counted = round.counted(task);
  await checkTask(round, counted);
  const vector = await vectorOf(round, work.vector);
  await sendVector(round, counted);
  return vector;
}

/** Return the vector under the masks of a graph. */
export async function maskedVector(
  round: Round,
  { work, selfSecret, ahead }: Usable,
  v2: readonly Opened[],
  task: Bytes,
): Promise<Bytes> {
  const vector = await vectorToSend(round, work, task);
  return ahead === null ? maskAll(round, vector, selfSecret, v2) : maskWith(round, vector, ahead, v2);
}

/** Return the state in which all masks are summed that may be needed. */
export async function sumAhead(round: Round, state: Accepted | AcceptedAmong): Promise<State> {
  if (state.ahead !== null) {
    return state;
  }
  const sum = await maskAll(round, new Uint8Array(vectorBytes(round.config)), state.selfSecret, state.opened);
  const ahead = Object.freeze({ sum, among: state.opened });
  return Object.freeze({ ...state, ahead, secrets: [...state.secrets, sum] });
}

/** Return what is left of a state after the vector was sent: rows of shares, this client's own among them. */
export function rowsOf(
  round: Round,
  { row, threshold }: Usable,
  v2: readonly Opened[],
  task: Bytes,
): Rows & { secrets: Bytes[] } {
  const own: Held = { client: round.client, masked: false, row };
  const others = v2.map(({ client, masked, row: theirs }): Held => ({ client, masked, row: theirs }));
  const rows = [...others, own].sort((a, b) => a.client - b.client);
  return { threshold, rows, counted: round.counted(task), secrets: rows.map((held) => held.row) };
}

async function checkWork(round: Round, source: Source, task: Bytes): Promise<void> {
  const own = await callers(round, () => made(source, (bytes) => checkTaskIs(bytes, round.tasks)));
  honest(equal(own, task), "the round has another task");
}

/**
 * Return a copy of the vector: it is masked where it lies, and the caller's stays as it is.
 *
 * With an account a vector is sent whatever the caller's function does: a silent client would reveal something about
 * its data. If the function fails, the vector is zeros with the same noise.
 */
function vectorOf(round: Round, source: Source): Promise<Bytes> {
  const { account, config } = round;
  const copied = async (): Promise<Bytes> => new Uint8Array(await made(source, (bytes) => checkVector(config, bytes)));
  return callers(round, () => (account === null ? copied() : inAnyCase(round, account, copied)));
}

async function inAnyCase(round: Round, account: Account, copied: () => Promise<Bytes>): Promise<Bytes> {
  const nothing = await aroundZero(round.engine, account.noise); // in any case: it takes its time
  try {
    const vector = await copied();
    await account.checkFresh(vector);
    return vector;
  } catch (error) {
    if (error instanceof NoData) {
      throw error.cause;
    }
    round.failures.push(failureOf(error));
    return nothing;
  }
}

/** Wraps what this package's own functions throw where it depends on nobody's data: that may be seen. */
export class NoData extends CcesaError {
  override readonly name = "NoData";
}

function failureOf(error: unknown): CcesaError {
  return error instanceof CcesaError
    ? error
    : new VectorError(`the function that makes the vector failed: ${shown(error, 300)}`, { cause: error });
}

async function made(source: Source, check: (bytes: unknown) => void): Promise<Bytes> {
  const bytes = typeof source === "function" ? await source() : source;
  check(bytes);
  return bytes;
}

/** Add the self mask and all pair masks. */
async function maskAll(round: Round, vector: Bytes, selfSecret: Bytes, among: readonly Opened[]): Promise<Bytes> {
  const { engine, context, client, config } = round;
  const key = await selfMaskKey(engine, selfSecret, context, client, config.generator);
  try {
    return await mask(round, vector, [{ key, sign: 1 }, ...pairMasks(round, among, 1)]);
  } finally {
    wipe(key);
  }
}

/** Add the masks that were summed ahead, less those of neighbours that have dropped out since. */
async function maskWith(round: Round, vector: Bytes, ahead: Ahead, v2: readonly Opened[]): Promise<Bytes> {
  const present = new Set(v2);
  const gone = ahead.among.filter((other) => !present.has(other));
  await addVector(vector, ahead.sum, round.config.bits);
  return mask(round, vector, pairMasks(round, gone, -1));
}

/** Add one vector to another, in place. */
async function addVector(vector: Bytes, other: Bytes, bits: Bits): Promise<void> {
  const sum = await takeSum();
  for (let at = 0; at < vector.length; at += PIECE) {
    const piece = vector.subarray(at, at + PIECE);
    sum.piece.set(piece);
    sum.add(other.subarray(at, at + PIECE), bits, 1);
    piece.set(sum.piece.subarray(0, piece.length));
  }
  giveBack(sum);
}

function pairMasks(round: Round, among: readonly Opened[], times: 1 | -1): Mask[] {
  return among.flatMap(({ client, maskKey }) =>
    maskKey === null ? [] : [{ key: maskKey, sign: (times * maskSign(round.client, client)) as 1 | -1 }],
  );
}

/** Mask a vector, perhaps in another thread, and give the masked one; the one that it was given is gone. */
export async function mask(round: Round, vector: Bytes, masks: readonly Mask[]): Promise<Bytes> {
  const { masker, config, engine, signal, progress } = round;
  const options = { engine, signal, ...(progress === null ? {} : { progress }) };
  try {
    return masks.length === 0 ? vector : await masker(vector, config.bits, config.generator, masks, options);
  } catch (error) {
    if (vector.length > 0) {
      wipe(vector); // one that went to another thread is not here any more
    }
    throw error;
  }
}

// Step 3: one share for each, of b or of s, never both

const SHARE = 32;

/**
 * Return the shares to release: of b_j for survivors and this client itself, of s_j for the others. The task is closed.
 *
 * @param survivors Neighbours in V3, without this client.
 */
export async function released(round: Round, state: Rows, survivors: readonly Held[]): Promise<Bytes> {
  checkEnough(survivors, state.threshold);
  await closeTask(round, state.counted);
  const alive = new Set([round.client, ...survivors.map((survivor) => survivor.client)]);
  return join(
    state.rows.map(({ client: dealer, row }) => (alive.has(dealer) ? row.subarray(0, SHARE) : row.subarray(SHARE))),
  );
}
