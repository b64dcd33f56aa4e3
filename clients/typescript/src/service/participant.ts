/** A participant: the program at a site that takes its part in a federation's rounds (docs/service.md). */

import type { Bytes } from "../bytes.js";
import { checkCurrent, type Charter } from "../charter/charter.js";
import { parseIdentityFile } from "../charter/identity-file.js";
import { parseCharter } from "../charter/text.js";
import type { Engine } from "../crypto/engine.js";
import { systemEngine } from "../crypto/engines.js";
import type { Masker } from "../crypto/masks.js";
import { identityFromSeed, type Identity } from "../crypto/signatures.js";
import { ConfigError, OrderError } from "../errors.js";
import type { Floor } from "../floor.js";
import type { Account, Memory } from "../memory.js";
import { memoryInMemory } from "../memory/in-memory.js";
import { Workers } from "../worker/host.js";
import { originOf } from "./address.js";
import { Stopped } from "./errors.js";
import type { ParticipantEvents } from "./events.js";
import { announced, type Announcement } from "./federation.js";
import { formOf } from "./form-of.js";
import type { Contribution } from "./forms.js";
import { Line, sleep } from "./line.js";
import { fetchResult, type Result } from "./results.js";
import { isToken, openSession } from "./session.js";
import type { Site } from "./site.js";
import { Taking } from "./taking.js";

/** What a participant is given; times are in seconds. */
export interface ParticipantOptions<Task = Bytes> {
  /** The hub's address, such as `https://hub.example`. */
  readonly url: string;
  /** The member's own charter, as text or read: never one that the hub hands out. Together with an identity. */
  readonly charter?: string | Uint8Array | Charter;
  /** The member's identity, or the text of its file. */
  readonly identity?: Identity | string;
  /** Without a charter: what the hub's operator has handed over. */
  readonly token?: string;
  /**
   * Makes the contribution, when a vector is asked for: of words from the task's bytes, of arrays from the task's arrays, of
   * statistics from the schema.
   */
  readonly contribute: (task: Task, round: number, signal: AbortSignal) => Contribution | Promise<Contribution>;
  /** What outlives this participant; without a charter, in memory by default. */
  readonly memory?: Memory;
  /** What vectors with noise are charged to. */
  readonly account?: Account;
  /** The least that is taken part in without a charter. */
  readonly floor?: Partial<Floor>;
  /** Whether a fault ends everything; by default rounds go on without this site. */
  readonly strict?: boolean;
  /** Whether results are asked for, and told as events. */
  readonly results?: boolean;
  /** Whether a hub on another machine may be without TLS. */
  readonly insecureHttp?: boolean;
  /** Stops everything, as `stop()` does. */
  readonly signal?: AbortSignal;
  /** How long a hub may be away; an hour by default. */
  readonly patience?: number;
  /** How long a hub may say nothing to a call; 30 by default. */
  readonly silence?: number;
  /** How long a hub may wait until there is something to say; 25 by default. */
  readonly wait?: number;
  /** The size of the parts of large replies, if it is to be smaller than the hub's. */
  readonly partBytes?: number;
  /** The most bytes of a task or a result; 2^28 by default. */
  readonly mostTaskBytes?: number;
  /** Where vectors are masked; in workers of its own by default. */
  readonly masker?: Masker;
  readonly engine?: Engine;
  /** As the platform's, for certificates and proxies of your own. */
  readonly fetch?: typeof globalThis.fetch;
}

export interface Participant<Task> {
  addEventListener<Name extends keyof ParticipantEvents>(
    name: Name,
    listener: (event: CustomEvent<ParticipantEvents[Name]>) => void,
    options?: boolean | AddEventListenerOptions,
  ): void;
  addEventListener(
    name: string,
    listener: EventListenerOrEventListenerObject | null,
    options?: boolean | AddEventListenerOptions,
  ): void;
}

/**
 * Takes part in a federation until it is over.
 *
 * ```ts
 * const site = new Participant({ url, charter, identity, memory, contribute: (task, round) => words });
 * site.addEventListener("progress", ({ detail }) => console.log(detail.text));
 * await site.run();
 * ```
 *
 * In a page it stops when the page is hidden for good, and drops its secrets.
 */
export class Participant<Task = Bytes> extends EventTarget {
  readonly #options: ParticipantOptions<Task>;
  readonly #origin: string;
  readonly #memory: Memory;
  #ending: AbortController | null = null;
  #site: Promise<Site> | null = null;

  /** @throws ConfigError for options that do not go together. */
  constructor(options: ParticipantOptions<Task>) {
    super();
    this.#origin = originOf(options.url, options.insecureHttp);
    checkTogether(options);
    this.#options = options;
    this.#memory = options.memory ?? memoryInMemory();
  }

  /**
   * Take part.
   *
   * @returns "over" when the federation is over, "stopped" when somebody stopped it before.
   * @throws ConfigError for a hub, a charter or a token that this participant cannot use.
   * @throws FaultyServer for answers that no hub gives.
   * @throws HubAway when the hub was away for longer than the participant is patient.
   * @throws OrderError while it runs already, where another takes part with this memory, and where the hub has another
   *   answer in this participant's name.
   */
  async run(): Promise<"over" | "stopped"> {
    if (this.#ending !== null) {
      throw new OrderError("this participant takes part already");
    }
    const ending = (this.#ending = new AbortController());
    const stop = (): void => this.stop();
    this.#options.signal?.addEventListener("abort", stop, { once: true });
    const page = "onpagehide" in globalThis ? globalThis : null;
    page?.addEventListener("pagehide", stop);
    const workers = new Workers();
    let release: (() => void) | undefined;
    try {
      if (this.#options.signal?.aborted === true) {
        stop();
      }
      release = await this.#memory.hold?.();
      this.#site = this.#enter(ending.signal, this.#options.masker ?? workers.mask);
      await this.#takePart(await this.#site);
      return "over";
    } catch (error) {
      if (ending.signal.aborted) {
        this.#tell("progress", { stage: "stopped", text: "stopped" });
        return "stopped";
      }
      throw error;
    } finally {
      ending.abort();
      workers.close();
      release?.();
      page?.removeEventListener("pagehide", stop);
      this.#options.signal?.removeEventListener("abort", stop);
      this.#ending = this.#site = null;
    }
  }

  /** Stop taking part: secrets are dropped, and `run` returns. It may be run again, and joins the next round then. */
  stop(): void {
    this.#ending?.abort(new Stopped("stopped"));
  }

  /**
   * Return the result of a question, once the hub has published it.
   *
   * @throws ConfigError where the hub publishes none.
   */
  async result(question: number): Promise<Result> {
    const { line, wait, mostTaskBytes } = await (this.#site ?? this.#enter(new AbortController().signal));
    for (;;) {
      const found = await paced(line, wait, () => fetchResult(line, question, wait, mostTaskBytes), (one) => one === null);
      if (found === "never") {
        throw new ConfigError("this hub publishes no results");
      }
      if (found !== null) {
        return found;
      }
    }
  }

  // Taking part

  async #enter(signal: AbortSignal, masker?: Masker): Promise<Site> {
    const options = this.#options;
    const engine = options.engine ?? (await systemEngine());
    const charter = await charterOf(options.charter, engine);
    const identity = await identityOf(options.identity, engine);
    const say: Site["say"] = (stage, text, more = {}) => this.#tell("progress", { stage, text, ...more });
    const line = new Line(
      {
        origin: this.#origin,
        signal,
        patience: options.patience ?? 3600,
        silence: options.silence ?? 30,
        fetch: options.fetch ?? globalThis.fetch,
        sleep,
        away: (why, seconds) => say("away", `the hub is away (${why}), asked again in ${seconds.toFixed(1)} seconds`),
      },
      options.token,
    );
    if (charter !== null && identity !== null) {
      checkCurrent(charter);
      charter.place(identity.publicKey);
      line.enter = () => openSession(line, charter.digest, identity);
    }
    return {
      line,
      engine,
      signal,
      charter,
      identity,
      memory: this.#memory,
      account: options.account,
      floor: options.floor ?? {},
      masker,
      strict: options.strict ?? false,
      wait: options.wait ?? 25,
      partBytes: options.partBytes,
      mostTaskBytes: options.mostTaskBytes ?? 1 << 28,
      // The form decides what a task is, and whoever writes the function knows the form.
      contribute: (task, round, ending) => options.contribute(task as Task, round, ending),
      tell: (name, detail) => this.#tell(name, detail),
      say,
    };
  }

  async #takePart(site: Site): Promise<void> {
    site.say("connecting", `asking ${this.#origin}`);
    const telling = this.#options.results === true ? this.#tellResults(site) : Promise.resolve();
    telling.catch(() => undefined); // it is waited for below
    for (let after = 0; ; ) {
      const told = await nextSeries(site, after);
      if (told === null) {
        break;
      }
      after = told.series;
      site.say("waiting", `waiting for rounds of series ${after}`);
      await new Taking(site, told, formOf(site, told)).run();
      await site.line.pause(0.2); // a hub that has a new series each time it is asked is not asked in a loop
    }
    await telling;
    site.say("over", "the federation is over");
  }

  /** Say each result as it is published; questions without one are passed over. */
  async #tellResults(site: Site): Promise<void> {
    const { line, wait, mostTaskBytes, charter } = site;
    for (let question = 0; ; ) {
      const found = await paced(line, wait, () => fetchResult(line, question, wait, mostTaskBytes), (one) => one === null);
      if (found === "never") {
        return;
      }
      if (found !== null) {
        this.#tell("result", found);
        question++;
        continue;
      }
      const told = await announced(line, charter, 0, 0);
      if (told.question >= question) {
        question++;
      } else if (told.over) {
        return;
      }
    }
  }

  #tell<Name extends keyof ParticipantEvents>(name: Name, detail: ParticipantEvents[Name]): void {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}

/** Wait for the series after this one; null if there will be none. */
async function nextSeries(
  { line, charter, wait }: Site,
  after: number,
): Promise<(Announcement & { readonly config: NonNullable<Announcement["config"]> }) | null> {
  for (;;) {
    const told = await paced(line, wait, () => announced(line, charter, after, wait), (one) => !one.over && one.series <= after);
    if (told.over) {
      return null;
    }
    if (told.series > after && told.config !== undefined) {
      return { ...told, config: told.config };
    }
  }
}

/** Ask for something, and rest a second where the hub had nothing and did not wait, though it was asked to. */
async function paced<T>(line: Line, wait: number, ask: () => Promise<T>, nothing: (answer: T) => boolean): Promise<T> {
  const began = performance.now();
  const answer = await ask();
  if (nothing(answer) && performance.now() - began < 500 * wait) {
    await line.pause(1);
  }
  return answer;
}

function checkTogether<Task>({ charter, identity, token, memory }: ParticipantOptions<Task>): void {
  if ((charter === undefined) !== (identity === undefined)) {
    throw new ConfigError("a charter and an identity go together");
  }
  if ((charter === undefined) === (token === undefined)) {
    throw new ConfigError("take part with a charter and an identity, or without them and with a token");
  }
  if (token !== undefined && !isToken(token)) {
    throw new ConfigError("a token is one word of printable ASCII");
  }
  if (charter !== undefined && memory === undefined) {
    throw new ConfigError("a member needs a memory that outlives it: indexedDbMemory in a browser, fileMemory in Node");
  }
}

async function charterOf(charter: string | Uint8Array | Charter | undefined, engine: Engine): Promise<Charter | null> {
  if (charter === undefined) {
    return null;
  }
  return typeof charter === "string" || charter instanceof Uint8Array ? parseCharter(charter, engine) : charter;
}

async function identityOf(identity: Identity | string | undefined, engine: Engine): Promise<Identity | null> {
  return typeof identity === "string" ? identityFromSeed(engine, parseIdentityFile(identity).seed) : (identity ?? null);
}
