/** Taking part in one series: an exchange is asked for, answered, and the answer sent until it counts. */

import { type Bytes, equal, fromHex } from "../bytes.js";
import { contextOf, isAssisted, maskedBytes, type RoundConfig, vectorBytes } from "../config.js";
import { CcesaError, ConfigError, FaultyServer } from "../errors.js";
import { roundsOf } from "../memory.js";
import { ActiveClient, Client, type RoundClient } from "../protocol/client.js";
import { NoData } from "../protocol/masking.js";
import { frontOf, type MessageName, messageLimit, readMessage, unpackEnvelope } from "../protocol/messages.js";
import { roundKey } from "../protocol/round.js";
import { SeriesClient } from "../protocol/series.js";
import { checkTable, countTable } from "../protocol/spending.js";
import { askingOf, stepsOf } from "../protocol/steps.js";
import { countIn, inWords } from "./answers.js";
import { ContributionFailed, Stopped, shown } from "./errors.js";
import type { Announcement } from "./federation.js";
import type { Form, Reading } from "./forms.js";
import type { Site } from "./site.js";
import { fetchTask, type Task } from "./tasks.js";
import { send } from "./upload.js";

/** The messages whose last field is a masked vector. */
const MASKED: ReadonlySet<string> = new Set<MessageName>(["mask-reply", "signed-mask-reply", "boxed-mask-reply"]);
/** How much of a masked vector is shown. */
const SHOWN = 64;
/** The most bytes of an envelope, whatever a hub's configuration would allow. */
const MOST_REQUEST = 1 << 30;
const EMPTY: Bytes = new Uint8Array();

interface Asked {
  readonly exchange: number;
  readonly envelope: Bytes;
  /** The hub's words about its question: only a hint. */
  readonly hint: Bytes | null;
}

/** Of a round that an earlier start was in: no fault of anybody's. */
class JoinedBefore extends CcesaError {
  override readonly name = "JoinedBefore";
}

/** Takes part in one series. */
export class Taking {
  readonly #site: Site;
  readonly #form: Form;
  readonly #config: RoundConfig;
  readonly #announced: Announcement;
  readonly #series: SeriesClient;
  readonly #clients = new Map<number, RoundClient>();
  readonly #faults = new Set<CcesaError>();
  /** Rounds for which it was said that nothing but noise was sent. */
  readonly #reported = new Set<number>();
  #id: number | undefined;
  #task: Task | null = null;
  #reading: Reading | null = null;

  constructor(site: Site, announced: Announcement & { readonly config: RoundConfig }, form: Form) {
    form.check(announced.config);
    checkSize(announced.config, site.maximumBytes);
    this.#site = site;
    this.#form = form;
    this.#config = announced.config;
    this.#announced = announced;
    const client = (config: RoundConfig): Promise<RoundClient> => this.#join(config);
    this.#series = new SeriesClient({ config: this.#config, client, engine: site.engine });
  }

  /** Why nothing but noise was sent, by rounds. */
  get failures(): ReadonlyMap<number, CcesaError> {
    return this.#series.failures;
  }

  /** Take part until the series is over; secrets are dropped whatever happens. */
  async run(): Promise<void> {
    const stop = (): void => this.#series.stop();
    this.#site.signal.addEventListener("abort", stop, { once: true });
    try {
      for (let exchange = -1; ; ) {
        const asked = await this.#ask(exchange);
        if (asked === "over") {
          return;
        }
        if (asked !== null) {
          exchange = asked.exchange;
          await this.#reply(asked, await this.#answer(asked));
        }
      }
    } finally {
      this.#site.signal.removeEventListener("abort", stop);
      stop();
    }
  }

  get #path(): string {
    return `/v1/series/${this.#announced.series}/exchanges`;
  }

  /** Ask for the next exchange; null if it is not open yet. */
  async #ask(after: number): Promise<Asked | "over" | null> {
    const { line, wait } = this.#site;
    const began = performance.now();
    const path = `${this.#path}?after=${after}`;
    const answer = await line.call({ method: "GET", path, wait, most: mostRequest(this.#config) });
    if (answer.status === 410) {
      return "over";
    }
    if (answer.status === 204) {
      // A hub that does not wait, though it was asked to, is not asked in a loop.
      await line.pause(performance.now() - began < 500 * wait ? 1 : 0);
      return null;
    }
    const exchange = countIn(answer, "ccesa-exchange");
    if (answer.status !== 200 || exchange === null || exchange <= after) {
      throw new FaultyServer(`the hub did not send the exchange after ${after} (${inWords(answer)})`);
    }
    return { exchange, envelope: answer.body, hint: hintIn(answer.headers.get("ccesa-task")) };
  }

  /** Return the answer to an exchange; what cannot be answered is answered with an empty envelope: no part is taken. */
  async #answer({ envelope, hint }: Asked): Promise<Bytes> {
    const { line, engine, partBytes } = this.#site;
    this.#task = this.#reading = null;
    if (hint !== null) {
      const most = this.#site.maximumTaskBytes ?? this.#form.maximumTaskBytes(this.#config);
      this.#task = await fetchTask(line, engine, hint, partBytes ?? this.#announced.partBytes, most);
    }
    const reply = await this.#received(envelope);
    this.#series.faults.forEach((error, round) => this.#fault(error, round));
    return reply;
  }

  async #received(envelope: Bytes): Promise<Bytes> {
    try {
      if (this.#concerns(envelope)) {
        return await this.#series.receive(envelope);
      }
      this.#site.say("out", "left the rounds in flight; will join the next one");
    } catch (error) {
      if (this.#site.signal.aborted) {
        throw new Stopped("stopped");
      }
      if (!(error instanceof CcesaError)) {
        throw error;
      }
      this.#fault(error);
    }
    return EMPTY;
  }

  /** Tell whether an envelope is about a round that this client is in or may join; after a new start it is in none. */
  #concerns(envelope: Bytes): boolean {
    const messages = unpackEnvelope(envelope);
    const asking = askingOf(this.#config);
    const joining = messages.find((message) => frontOf(message).name === asking);
    if (joining !== undefined) {
      this.#id ??= readMessage(joining, asking, messageLimit(asking, this.#config)).client;
    }
    return messages.length === 0 || joining !== undefined || this.#series.rounds.length > 0;
  }

  #fault(error: CcesaError, round?: number): void {
    if (this.#faults.has(error)) {
      return;
    }
    this.#faults.add(error);
    if (error instanceof JoinedBefore) {
      this.#site.say("out", error.message);
      return;
    }
    const reason = shown(`${error.name}: ${error.message}`);
    this.#site.tell("fault", { reason, error, ...(round === undefined ? {} : { round }) });
    if (this.#site.strict) {
      throw error;
    }
  }

  async #reply({ exchange, envelope }: Asked, reply: Bytes): Promise<void> {
    const { line, partBytes } = this.#site;
    const part = Math.min(partBytes ?? Infinity, this.#announced.partBytes);
    const path = `${this.#path}/${exchange}/reply`;
    const receipt = await send(line, path, reply, part, (done) => {
      this.#site.say("sending", `sent ${done} of ${reply.length} bytes`, { done, all: reply.length });
    });
    this.#tellFailures();
    if (receipt.kind === "counted") {
      this.#counted(reply);
    } else if (receipt.kind === "late") {
      this.#site.say("late", receipt.text);
    } else {
      this.#fault(new CcesaError(`the hub rejected this client's reply: ${receipt.text}`));
    }
    if (envelope.length > 0) {
      this.#series.prepare().catch(() => undefined); // then the masks are summed when the vector is asked for
    }
  }

  /** Say in which rounds there was nothing to send, now that the answer has left. */
  #tellFailures(): void {
    for (const [round, { name, message }] of this.failures) {
      if (!this.#reported.has(round)) {
        this.#reported.add(round);
        const text = `sent only noise for round ${round}: ${shown(`${name}: ${message}`)}`;
        this.#site.say("nothing", text, { round });
      }
    }
  }

  /** Say what the hub has taken: a masked vector, and the shares that open a sum. Helpers open one without members. */
  #counted(reply: Bytes): void {
    for (const message of unpackEnvelope(reply)) {
      const { name, context } = frontOf(message);
      const round = [...this.#clients].find(([, client]) => equal(client.context, context))?.[0];
      if (round !== undefined && MASKED.has(name)) {
        const vector = message.subarray(message.length - maskedBytes(this.#config));
        this.#site.tell("sent", { round, bytes: vector.length, beginning: new Uint8Array(vector.subarray(0, SHOWN)) });
      }
    }
    for (const [round, client] of this.#clients) {
      if (client.done && !isAssisted(this.#config)) {
        this.#site.say("summed", `counted in the sum of round ${round}`, { round });
      }
      if (client.done || !this.#series.rounds.includes(round)) {
        this.#clients.delete(round);
      }
    }
  }

  // Rounds

  async #join(config: RoundConfig): Promise<RoundClient> {
    const { charter, identity, engine, floor, account, masker, memory } = this.#site;
    const round = config.number;
    if (!(await roundsOf(memory).claim(roundKey(config)))) {
      throw new JoinedBefore(`not in round ${round}: it was joined before a restart`);
    }
    const context = await contextOf(engine, config);
    const common = {
      config,
      engine,
      tasks: memory,
      task: () => this.#read(),
      vector: () => this.#contribution(config, context),
      progress: (done: number, all: number) => {
        this.#site.say("masking", `masked ${done} of ${all} bytes`, { round, done, all });
      },
      account,
      masker,
    };
    const client =
      charter !== null && identity !== null
        ? await ActiveClient.join({ ...common, charter, identity })
        : await Client.join({ ...common, client: this.#own(), floor });
    this.#clients.set(round, client);
    this.#site.say("joined", `joined round ${round}`, { round });
    return client;
  }

  /** Without a charter a client has the number that requests have for it. */
  #own(): number {
    if (this.#id === undefined) {
      throw new ConfigError("the hub has not assigned a client id");
    }
    return this.#id;
  }

  /** Read the task that a vector is due for, and return its digest: what is wrong with it is the hub's fault. */
  #read(): Bytes {
    if (this.#task === null) {
      throw new FaultyServer("the hub asks for a vector but has not sent its task");
    }
    this.#reading = this.#form.read(this.#task.payload);
    return this.#task.digest;
  }

  /**
   * Return the vector of a round. With noise the client sends another one where this throws. The time that a site takes
   * may also reveal something about its data, so the time is then the same in any case, if the site asks for that.
   */
  async #contribution(config: RoundConfig, context: Bytes): Promise<Bytes> {
    const { engine, signal, contribute, inTime } = this.#site;
    const { given, vector } = this.#reading!;
    await this.#ofTable(checkTable);
    this.#site.say("contributing", `making the vector of round ${config.number}`, { round: config.number });
    const make = async (): Promise<Bytes> => {
      let contribution: unknown;
      try {
        contribution = await contribute(given, config.number, signal);
      } catch (error) {
        throw new ContributionFailed(`the site's own function failed: ${shown(error, 100)}`, { cause: error });
      }
      return vector(contribution, { config, context, engine });
    };
    const made = (): Promise<Bytes> => (inTime === undefined ? make() : inTime.run(make, signal));
    if (this.#site.account !== undefined) {
      await this.#ofTable(countTable); // with noise a vector leaves in any case
      return made();
    }
    const found = await made();
    await this.#ofTable(countTable);
    return found;
  }

  /**
   * Check or count a vector of the site's table, the same whatever a hub asks, so it reveals nothing.
   */
  async #ofTable(count: typeof checkTable | typeof countTable): Promise<void> {
    const { charter, memory, account } = this.#site;
    if (charter !== null && charter.statistics !== null) {
      await count(memory, charter.digest, charter.attempts).catch((cause: unknown) => {
        throw account === undefined ? cause : new NoData("the table's own count", { cause });
      });
    }
  }
}

function hintIn(text: string | null): Bytes | null {
  if (text === null) {
    return null;
  }
  if (!/^[0-9a-f]{64}$/.test(text)) {
    throw new FaultyServer("the hub sent an invalid task digest");
  }
  return fromHex(text);
}

/** Return the most bytes that an envelope of requests has in a series. */
function mostRequest(config: RoundConfig): number {
  const largest = Math.max(...stepsOf(config).map(({ request }) => messageLimit(request, config)));
  return Math.min(3 * (4 + largest), MOST_REQUEST);
}

/** Refuse vectors that this site has no room for: where no charter says their length, the hub does. */
function checkSize(config: RoundConfig, most: number): void {
  const bytes = vectorBytes(config);
  if (bytes > most) {
    throw new ConfigError(`the hub asks for vectors of ${bytes} bytes: set maximumBytes to allow more than ${most}`);
  }
}
