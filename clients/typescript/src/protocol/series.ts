/** A client of a series: the steps of its rounds overlap (docs/protocol.md, section 14). */

import { type Bytes, equal, readLe32, toHex } from "../bytes.js";
import { checkConfig, contextOf, isAssisted, numbered, type RoundConfig } from "../config.js";
import type { Engine } from "../crypto/engine.js";
import { systemEngine } from "../crypto/engines.js";
import { CcesaError, ConfigError, FaultyServer, MalformedMessage, OrderError } from "../errors.js";
import type { UsedRounds } from "../memory.js";
import type { RoundClient } from "./client.js";
import { decodeMessage, frontOf, packEnvelope, unpackEnvelope } from "./messages.js";
import { honest, plainBytes, roundKey, sized } from "./round.js";
import { askingOf, requestsOf, strideOf } from "./steps.js";

/** Options of a client of a series. */
export interface SeriesOptions {
  /** The configuration of the first round; the others differ in their numbers only. */
  readonly config: RoundConfig;
  /** Joins a round of the series. The series remembers used rounds itself: pass no `usedRounds` here. */
  readonly client: (config: RoundConfig) => Promise<RoundClient>;
  /** Remembers the joined rounds, so that none is joined twice. */
  readonly usedRounds?: UsedRounds | undefined;
  readonly engine?: Engine | undefined;
}

/** A round in flight. */
interface Flight {
  readonly number: number;
  readonly client: RoundClient;
}

/** A message of an envelope, with the round that it belongs to. */
interface Item {
  readonly message: Bytes;
  /** The request that it is, by its name. */
  readonly name: string;
  readonly number: number;
  /** In hexadecimal digits, by which rounds in flight are found. */
  readonly context: string;
}

/**
 * A client of all rounds of a series. Pass it every envelope of the server, and send what it returns.
 *
 * It holds one client per round in flight. If one refuses, it leaves its own round only.
 */
export class SeriesClient {
  readonly #options: SeriesOptions;
  readonly #flights = new Map<string, Flight>();
  readonly #faults = new Map<number, CcesaError>();
  readonly #failures = new Map<number, CcesaError>();
  /** The latest exchange that was entered. */
  #latest = 0;
  /** The highest number that was joined. */
  #highest: number;
  #over = false;
  #busy = false;

  /**
   * @param options The first configuration, and how a round is joined.
   * @throws ConfigError for a configuration without *accept*, which rounds of a series need, except with helpers.
   */
  constructor(options: SeriesOptions) {
    checkConfig(options.config);
    if (!options.config.accept && !isAssisted(options.config)) {
      throw new ConfigError("rounds of a series need the step accept");
    }
    this.#options = options;
    this.#highest = options.config.number - 1;
  }

  /** The numbers of the rounds in flight. */
  get rounds(): readonly number[] {
    return [...this.#flights.values()].map(({ number }) => number);
  }

  /** Why this client left rounds early, by their numbers. */
  get faults(): ReadonlyMap<number, CcesaError> {
    return this.#faults;
  }

  /** Why this client sent noise around zeros, by the numbers of the rounds. */
  get failures(): ReadonlyMap<number, CcesaError> {
    return this.#failures;
  }

  /** Whether the series has ended. */
  get over(): boolean {
    return this.#over;
  }

  /**
   * Answer an envelope. A repeated envelope gets the same answer, except for masked vectors. An empty one ends the
   * series.
   *
   * @throws FaultyServer for an envelope that no honest server sends. Nothing has changed.
   * @throws OrderError after the end, and while another envelope is being answered.
   * @throws ConfigError for anything but bytes.
   */
  async receive(envelope: Uint8Array): Promise<Bytes> {
    if (this.#busy) {
      throw new OrderError("another envelope is being answered");
    }
    const own = plainBytes(envelope).slice();
    this.#busy = true;
    try {
      return await this.#receive(own);
    } finally {
      this.#busy = false;
    }
  }

  /** Sum the masks early, of all rounds that have accepted their shares. */
  async prepare(): Promise<void> {
    await Promise.all([...this.#flights.values()].map(({ client }) => client.prepare()));
  }

  /** End the series. The client leaves all rounds in flight and answers nothing more. */
  stop(): void {
    this.#over = true;
    this.#flights.forEach(({ client }) => client.leave());
    this.#flights.clear();
  }

  async #receive(envelope: Bytes): Promise<Bytes> {
    if (envelope.length === 0) {
      this.stop();
      return packEnvelope([]);
    }
    this.#goOn();
    const items = await this.#items(faulty(() => unpackEnvelope(envelope)));
    this.#latest = this.#exchangeOf(items);
    await this.#start(items);
    this.#leaveOthers(items);
    const replies: Bytes[] = [];
    for (const item of items) {
      replies.push(...(await this.#handOver(item)));
      this.#goOn();
    }
    return packEnvelope(replies);
  }

  #goOn(): void {
    if (this.#over) {
      throw new OrderError("the series has ended");
    }
  }

  /** Point 2: messages of rounds in flight, or that ask for a new one; others are passed over. */
  async #items(messages: readonly Bytes[]): Promise<Item[]> {
    const items: Item[] = [];
    for (const message of messages) {
      const { name, context: bytes } = frontOf(message);
      const front = { name, context: toHex(bytes) };
      const flight = this.#flights.get(front.context);
      if (flight !== undefined) {
        items.push({ message, ...front, number: flight.number });
      } else if (front.name === askingOf(this.#options.config)) {
        items.push({ message, ...front, number: await this.#numberOf(message) });
      }
    }
    honest(items.length > 0, "no message in the envelope belongs to a round of this client");
    return items;
  }

  /** Return the number of the round that a message asks for, which is one of this series. */
  async #numberOf(message: Bytes): Promise<number> {
    const { config } = this.#options;
    const { context, fields } = faulty(() => decodeMessage(message, askingOf(config), config));
    const number = readLe32(sized(fields.number, 4, "number"), 0);
    const own = await contextOf(await this.#engine(), numbered(config, number));
    honest(equal(own, context), "the round belongs to another series or has the wrong number");
    return number;
  }

  /** Points 3 and 4: one request for each round, and all of one exchange that is not past. */
  #exchangeOf(items: readonly Item[]): number {
    const { config } = this.#options;
    const requests: readonly string[] = requestsOf(config);
    const places = items.map(({ name }) => requests.indexOf(name));
    honest(!places.includes(-1), "a message is not a request of any step");
    honest(new Set(items.map(({ number }) => number)).size === items.length, "two messages belong to one round");
    const [first, ...rest] = items.map(({ number }, at) => (number - config.number) * strideOf(config) + places[at]!);
    honest(
      rest.every((exchange) => exchange === first),
      "messages of two exchanges are in one envelope",
    );
    honest(first! >= this.#latest, "the envelope belongs to an earlier exchange");
    return first!;
  }

  /** Point 5: a round that is asked for is joined once, and never one below another. */
  async #start(items: readonly Item[]): Promise<void> {
    for (const { number, context } of items.filter((item) => !this.#flights.has(item.context))) {
      if (number > this.#highest) {
        this.#highest = number; // whatever becomes of it, there is no second state for it
        await this.#join(number, context).catch((error: unknown) => this.#fault(number, error));
      }
    }
  }

  async #join(number: number, context: string): Promise<void> {
    const { usedRounds, client: join } = this.#options;
    const config = numbered(this.#options.config, number);
    if (usedRounds !== undefined && !(await usedRounds.claim(roundKey(config)))) {
      throw new ConfigError("this round was already joined");
    }
    const client = await join(config);
    if (this.#over || toHex(client.context) !== context) {
      client.leave();
      throw new ConfigError("the series has ended, or the client belongs to another round");
    }
    this.#flights.set(context, { number, client });
  }

  /** Point 6: a round without a message goes on without this client, or is over. */
  #leaveOthers(items: readonly Item[]): void {
    const named = new Set(items.map(({ context }) => context));
    [...this.#flights.keys()].filter((context) => !named.has(context)).forEach((context) => this.#leave(context));
  }

  /** Point 7: the round's own client checks and answers; one that refuses is left. */
  async #handOver({ message, number, context }: Item): Promise<Bytes[]> {
    const flight = this.#flights.get(context);
    if (flight === undefined) {
      return [];
    }
    try {
      const reply = await flight.client.receive(message);
      if (flight.client.failure !== null) {
        this.#failures.set(number, flight.client.failure);
      }
      return [reply];
    } catch (error) {
      // A masked vector that is asked for once more is not a reason to leave; that another tab has sent it is one.
      if (!(error instanceof OrderError) || flight.client.fault !== null) {
        this.#leave(context);
        this.#fault(number, error);
      }
      return [];
    }
  }

  #leave(context: string): void {
    this.#flights.get(context)?.client.leave();
    this.#flights.delete(context);
  }

  #fault(number: number, error: unknown): void {
    const fault = error instanceof CcesaError ? error : new CcesaError("the round failed", { cause: error });
    this.#faults.set(number, fault);
  }

  async #engine(): Promise<Engine> {
    return this.#options.engine ?? systemEngine();
  }
}

/** Return what is read; what is malformed is the server's fault. */
function faulty<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof MalformedMessage ? new FaultyServer(error.message, { cause: error }) : error;
  }
}
