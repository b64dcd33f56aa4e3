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

/** What a request can be refused for; the client that refuses has aborted. */
const REFUSALS = [FaultyServer, MalformedMessage, LowOrderKey, BadKey, BadSignature, WrongProof];

/** The latest answered request, and its reply unless that was a masked vector. */
interface Answered {
  readonly request: Bytes;
  readonly reply: Bytes | null;
}

/**
 * What clients of both guards are in one round. Hand it every request of the server, and send what it returns.
 *
 * It is in one state at a time, and moves on when a step has ended, never in the middle of one: what a step has drawn,
 * sealed or signed is handed out only together with the move, so nothing is drawn, sealed or masked twice for the same
 * round and leaves twice. Where a step fails on anything but the caller's own functions and memories, expected or not,
 * the client aborts; and from the moment a vector is counted there is nothing of the caller's in the way any more. So
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

  /** Whether the client has released its shares: nothing else is asked of it. */
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

  /** Why the client answers no more, if it is for a fault: FaultyServer, FaultyNeighbour, or what went wrong here. */
  get fault(): CcesaError | null {
    return this.#fault;
  }

  /**
   * Why the client has sent noise around zeros: what its function threw, or what is wrong with what that returned. It is
   * for whoever runs the client, and for nobody else; null where there was a vector, and always without an account.
   */
  get failure(): CcesaError | null {
    return this.#round.failures.at(-1) ?? null;
  }

  /**
   * Answer a request. The same request again gets the same bytes again, but for a masked vector, which is not kept.
   *
   * @throws FaultyServer for a request that an honest server would not send; the client has aborted.
   * @throws FaultyNeighbour for any other request after a complaint.
   * @throws OrderError after an abort, for a masked vector once more, and while another request is being answered.
   * @throws ConfigError for anything but bytes.
   * @throws TaskSpent, BudgetSpent, DamagedLedger, VectorError, ConfigError, or what the caller's functions throw,
   *   before a vector leaves: nothing has changed, and the same request may come again. With an account nothing is
   *   thrown for the function that makes the vector: see `failure`.
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
   * Sum the masks ahead, in the time between *accept* and the request for the vector: that is then one addition away.
   * A client in any other state has nothing to sum, and does nothing. The sum lives in memory only.
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

  /** Leave the round: all secrets are dropped, and nothing is answered any more. */
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
    honest(due !== undefined, "nothing is due after the last step");
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
    this.#fault = fault instanceof CcesaError ? fault : new CcesaError("failed in a step", { cause: fault });
    return fault;
  }

  /** Whoever has left needs no masks, and does not hear that they could not be summed. */
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

/** A client of the guard `curious`: it relies on a server that follows the protocol, and checks what it can alone. */
export class Client extends RoundClient {
  private constructor(entry: Entry) {
    super(entry);
  }

  /**
   * Join a round: check all that can be checked before any key is made.
   *
   * @throws ConfigError for a round below the client's limits, one that it has used, an id or a task that is none.
   * @throws VectorError for a vector of another size than the round's.
   */
  static async join(options: ClientOptions): Promise<Client> {
    return new Client(await joinCurious(options));
  }
}

/** A client of the guard `active`, which holds a charter and an identity of its own: the server may lie. */
export class ActiveClient extends RoundClient {
  private constructor(entry: Entry) {
    super(entry);
  }

  /**
   * Join a round under a charter: check all that can be checked before any key is made.
   *
   * @throws ConfigError for a round that is not under the charter, one that was used, a charter that has expired or
   *   does not have this identity, a task that is none.
   * @throws VectorError for a vector of another size than the round's.
   */
  static async join(options: ActiveOptions): Promise<ActiveClient> {
    return new ActiveClient(await joinActive(options));
  }
}

function repeated({ reply }: Answered): Bytes {
  if (reply === null) {
    throw new OrderError("a masked vector is not kept; whoever sent it repeats the bytes");
  }
  return reply.slice();
}
