/** A client of one round, without a network: requests in, replies out (docs/protocol.md, sections 8 and 9). */

import { type Bytes, equal, wipe } from "../bytes.js";
import {
  BadKey,
  BadSignature,
  CcesaError,
  FaultyNeighbour,
  FaultyServer,
  LowOrderKey,
  MalformedMessage,
  OrderError,
  WrongProof,
} from "../errors.js";
import { type ActiveOptions, type ClientOptions, type Entry, joinActive, joinCurious } from "./joining.js";
import { sumAhead } from "./masking.js";
import { CallersError, honest, plainBytes, type Round } from "./round.js";
import type { State, StateKind } from "./states.js";
import { type Answer, type Step, wipeBut } from "./step.js";
import { stepsOf } from "./steps.js";

/** Reasons to refuse a request; the client that refuses has aborted. */
const REFUSALS = [FaultyServer, MalformedMessage, LowOrderKey, BadKey, BadSignature, WrongProof];

/** The latest answered request, and its reply unless that was a masked vector. */
interface Answered {
  readonly request: Bytes;
  readonly reply: Bytes | null;
}

/**
 * The common part of clients of all guards, for one round. Pass it every request of the server, and send what it
 * returns.
 *
 * It is in one state at a time, and moves on when a step has ended, never in the middle of one: what a step has drawn,
 * sealed or signed is handed out only together with the move, so nothing is drawn, sealed or masked twice for the same
 * round and leaves twice. Where a step fails on anything but the caller's own functions and memories, expected or not,
 * the client aborts; and from the moment a vector is counted nothing that belongs to the caller can fail any more. So
 * the secrets that have masked one vector never mask another.
 *
 * Its state stays in this object, and cannot be taken elsewhere: a page or a process that ends leaves its rounds.
 */
export abstract class RoundClient {
  readonly #round: Round;
  readonly #steps: readonly Step[];
  readonly #left = new AbortController();
  /** null: has aborted, or left. */
  #state: State | null;
  #latest: Answered | null = null;
  #fault: CcesaError | null = null;
  #busy = false;
  #preparing: Promise<void> | null = null;

  protected constructor({ round, state }: Entry) {
    this.#round = Object.freeze({ ...round, signal: this.#left.signal });
    this.#steps = stepsOf(round.config);
    this.#state = state;
  }

  /** Whether the client has released its shares, or under `assisted` sent its vector: nothing else is asked of it. */
  get done(): boolean {
    return this.#state?.kind === "Done";
  }

  /** The id of this client. */
  get client(): number {
    return this.#round.client;
  }

  /** The 32 bytes that name the round in all its messages. */
  get context(): Bytes {
    return this.#round.context.slice();
  }

  /**
   * The fault after which the client stopped answering: FaultyServer, FaultyNeighbour or an error of its own; else
   * null.
   */
  get fault(): CcesaError | null {
    return this.#fault;
  }

  /**
   * Why the client sent noise around zeros: its function threw, or returned an unusable value. Show it to the people
   * who run the client and to nobody else. It is null if the client sent a vector, and always without an account.
   */
  get failure(): CcesaError | null {
    return this.#round.failures.at(-1) ?? null;
  }

  /**
   * Answer a request. A repeated request gets the same bytes again, except for a masked vector, which is not kept.
   *
   * @throws FaultyServer for a request that no honest server sends. The client has aborted.
   * @throws FaultyNeighbour for any other request after a complaint.
   * @throws OrderError after an abort, for a masked vector once more, and while another request is being answered.
   * @throws ConfigError for anything but bytes.
   * @throws TaskSpent, BudgetSpent, DamagedLedger, VectorError, ConfigError, or what the caller's functions throw,
   *   before a vector is sent. Nothing has changed, and the same request may come again. With an account, errors of
   *   the function that makes the vector are not thrown: see `failure`.
   */
  async receive(request: Uint8Array): Promise<Bytes> {
    if (this.#busy) {
      throw new OrderError("another request is being answered");
    }
    const plain = plainBytes(request);
    this.#busy = true;
    try {
      return await this.#receive(plain);
    } finally {
      this.#busy = false;
    }
  }

  /**
   * Sum the masks early, between *accept* and the request for the vector. Masking is then one addition. In any other
   * state this does nothing. The sum is kept in memory only.
   *
   * @throws OrderError while a request is being answered.
   */
  async prepare(): Promise<void> {
    if (this.#busy) {
      throw new OrderError("a request is being answered");
    }
    this.#preparing ??= this.#prepare().finally(() => (this.#preparing = null));
    return this.#preparing;
  }

  /** Leave the round. The client drops all secrets and answers nothing more. */
  leave(): void {
    const secrets = this.#state?.secrets ?? [];
    this.#state = null;
    this.#latest = null;
    this.#left.abort();
    wipeBut(secrets, []);
  }

  /** The six points of section 9, in their order. */
  async #receive(request: Uint8Array): Promise<Bytes> {
    const state = this.#here();
    if (this.#latest !== null && equal(this.#latest.request, request)) {
      return repeated(this.#latest);
    }
    if (state.kind === "Complained") {
      throw new FaultyNeighbour(state.accused);
    }
    try {
      return await this.#answer(request, state.kind);
    } catch (error) {
      throw this.#refused(error);
    }
  }

  /** Point 3 and on. The request is read and copied at once: what the caller does to its bytes then changes nothing. */
  async #answer(request: Uint8Array, kind: StateKind): Promise<Bytes> {
    const due = this.#steps.find(({ from }) => from === kind);
    honest(due !== undefined, "no request is expected after the last step");
    const answer = due.read(this.#round, request);
    const own = request.slice();
    await this.#preparing?.catch(() => undefined); // whatever became of it, the masks can be summed now
    const state = this.#here();
    return this.#commit(own, state, await answer(state));
  }

  #here(): State {
    if (this.#state === null) {
      throw new OrderError("the client has left the round");
    }
    return this.#state;
  }

  /** Move on, and give the reply away: both, or neither. */
  #commit(request: Bytes, from: State, { state, reply, kept }: Answer): Bytes {
    if (this.#state !== from) {
      wipe(reply);
      wipeBut(state.secrets, []);
      throw new OrderError("the client has left the round");
    }
    this.#state = state;
    this.#latest = { request, reply: kept ? reply.slice() : null };
    this.#fault = state.kind === "Complained" ? new FaultyNeighbour(state.accused) : null;
    wipeBut(from.secrets, state.secrets);
    return reply;
  }

  /** Return what to throw for an error; unless it is the caller's, the client has aborted. */
  #refused(error: unknown): unknown {
    if (this.#state === null) {
      return new OrderError("the client has left the round", { cause: error });
    }
    if (error instanceof CallersError) {
      return error.cause;
    }
    const refusal = REFUSALS.some((type) => error instanceof type);
    const fault = refusal ? new FaultyServer((error as Error).message, { cause: error }) : error;
    this.leave();
    this.#fault = fault instanceof CcesaError ? fault : new CcesaError("a step failed", { cause: fault });
    return fault;
  }

  /** A client that has left needs no masks, and gets no error about them. */
  #unlessLeft(error: unknown): null {
    if (this.#state !== null) {
      throw error;
    }
    return null;
  }

  async #prepare(): Promise<void> {
    const state = this.#state;
    if (state?.kind !== "Accepted" && state?.kind !== "AcceptedAmong") {
      return;
    }
    const next = await sumAhead(this.#round, state).catch((error: unknown) => this.#unlessLeft(error));
    if (this.#state === state) {
      this.#state = next ?? state;
    } else {
      wipeBut(next?.secrets ?? [], []);
    }
  }
}

/** A client of the guard `curious`: it assumes a server that follows the protocol, and checks what it can. */
export class Client extends RoundClient {
  private constructor(entry: Entry) {
    super(entry);
  }

  /**
   * Join a round. All checks that need no key come first.
   *
   * @throws ConfigError for a round below the client's limits, a used round, an invalid id or an invalid task.
   * @throws VectorError for a vector of the wrong size.
   */
  static async join(options: ClientOptions): Promise<Client> {
    return new Client(await joinCurious(options));
  }
}

/** A client of the guard `active` or `assisted`, with a charter and an identity. The server may lie. */
export class ActiveClient extends RoundClient {
  private constructor(entry: Entry) {
    super(entry);
  }

  /**
   * Join a round under a charter. All checks that need no key come first.
   *
   * @throws ConfigError for a round under another charter, a used round, an expired charter, an identity that is not a
   *   member, or an invalid task.
   * @throws VectorError for a vector of the wrong size.
   */
  static async join(options: ActiveOptions): Promise<ActiveClient> {
    return new ActiveClient(await joinActive(options));
  }
}

function repeated({ reply }: Answered): Bytes {
  if (reply === null) {
    throw new OrderError("the masked vector was not kept: send the bytes from the first answer again");
  }
  return reply.slice();
}
