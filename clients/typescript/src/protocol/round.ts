/** The part of a client that does not change during a round. */

import { type Bytes, concat, le32 } from "../bytes.js";
import type { Charter } from "../charter/charter.js";
import type { RoundConfig } from "../config.js";
import type { Agreement } from "../crypto/agreements.js";
import type { Engine, Random } from "../crypto/engine.js";
import type { Masker } from "../crypto/masks.js";
import type { Identity } from "../crypto/signatures.js";
import { CcesaError, ConfigError, FaultyServer } from "../errors.js";
import type { Floor } from "../floor.js";
import type { Account, Memory } from "../memory.js";
import type { Limits } from "./spending.js";

/** Bytes, or a function that makes them when they are needed. */
export type Source = Bytes | (() => Bytes | Promise<Bytes>);

/** A client's contribution: the vector, and the task that it was made for (3.4). */
export interface Work {
  /** Little-endian words. */
  readonly vector: Source;
  readonly task: Source;
}

/** Under a charter: what all members have agreed on, and who this one is. */
export interface Membership {
  readonly charter: Charter;
  readonly identity: Identity;
  /** Return the time in seconds since 1970. */
  readonly now: () => number;
}

/** All that the steps of one client in one round share. Nothing in here is a secret of the round. */
export interface Round {
  readonly engine: Engine;
  readonly random: Random;
  readonly config: RoundConfig;
  readonly context: Bytes;
  /** The id of this client. */
  readonly client: number;
  readonly agreement: Agreement;
  /** The client's own limits (3.3). Under a charter its limits apply. */
  readonly floor: Floor;
  /** Under a charter, else null. */
  readonly membership: Membership | null;
  /** Remembers what was sent for which task; null remembers nothing. */
  readonly tasks: Memory | null;
  readonly limits: Limits;
  /** Tells the name by which the memory knows a task. */
  readonly counted: (task: Bytes) => Bytes;
  readonly account: Account | null;
  /** Why the client had nothing to send but noise. */
  readonly failures: CcesaError[];
  readonly masker: Masker;
  readonly progress: ((done: number, all: number) => void) | null;
  /** Aborts when the client leaves. */
  readonly signal: AbortSignal;
}

/** Bytes of a task (3.4). */
export const TASK_BYTES = 32;

/** Return the 36 bytes by which memories and ledgers know a round: its series and its number. */
export function roundKey(config: RoundConfig): Bytes {
  return concat(config.seriesId, le32(config.number));
}

/** Throw FaultyServer unless this holds, as it does for an honest server. */
export function honest(holds: boolean, text: string): asserts holds {
  if (!holds) {
    throw new FaultyServer(text);
  }
}

/** Throw FaultyServer unless the field has this many bytes. */
export function sized(field: Bytes, bytes: number, what: string): Bytes {
  honest(field.length === bytes, `${what}: expected ${bytes} bytes, got ${field.length}`);
  return field;
}

/** Return the parts of a field, each of this many bytes; throw FaultyServer unless it has this number of them. */
export function pieces(field: Bytes, bytes: number, count: number, what: string): Bytes[] {
  sized(field, bytes * count, what);
  return Array.from({ length: count }, (_, at) => field.slice(bytes * at, bytes * (at + 1)));
}

/**
 * Return the bytes of the caller as a plain array, without a copy: Node's Buffer has another `slice`. Anything but
 * bytes is a mistake of the caller, and no reason to leave a round.
 */
export function plainBytes(data: Uint8Array): Uint8Array {
  if (!(data instanceof Uint8Array)) {
    throw new ConfigError("expected a Uint8Array");
  }
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

/** Wraps an error of the caller's memory, ledger or function. The client does not abort, and its state stays. */
export class CallersError extends CcesaError {
  override readonly name = "CallersError";
}

/**
 * Run what belongs to the caller, while nothing in this step has been counted, masked or sent. Whatever it throws
 * reaches the caller, and the same request may come again.
 */
export async function callers<T>(round: Round, work: () => T | Promise<T>): Promise<T> {
  let result: T;
  try {
    result = await work();
  } catch (cause) {
    throw new CallersError("the caller's own function failed", { cause });
  }
  round.signal.throwIfAborted(); // it may have taken long, and the client may have left
  return result;
}
