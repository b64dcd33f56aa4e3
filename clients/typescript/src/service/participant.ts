/** A participant: the program at a site that takes its part in a federation's rounds (docs/service.md). */

import type { Bytes } from "../bytes.js";
import { checkCurrent } from "../charter/charter.js";
import { systemEngine } from "../crypto/engines.js";
import type { Masker } from "../crypto/masks.js";
import { type CcesaError, ConfigError, OrderError } from "../errors.js";
import { memoryInMemory } from "../memory/in-memory.js";
import type { Memory } from "../memory.js";
import { Workers } from "../worker/host.js";
import { originOf } from "./address.js";
import { Stopped } from "./errors.js";
import type { ParticipantEvents } from "./events.js";
import { type Announcement, announced } from "./federation.js";
import { formOf } from "./form-of.js";
import { InTime } from "./in-time.js";
import { Line, sleep } from "./line.js";
import { accountOf, charterOf, checkTogether, identityOf, type ParticipantOptions } from "./options.js";
import { fetchResult, type Result } from "./results.js";
import { openSession } from "./session.js";
import type { Site } from "./site.js";
import { Taking } from "./taking.js";

/** The maximum number of results. */
const MOST_RESULTS = 100_000;

// biome-ignore lint/correctness/noUnusedVariables: an interface merges only with a class of the same parameters
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
  removeEventListener<Name extends keyof ParticipantEvents>(
    name: Name,
    listener: (event: CustomEvent<ParticipantEvents[Name]>) => void,
    options?: boolean | EventListenerOptions,
  ): void;
  removeEventListener(
    name: string,
    listener: EventListenerOrEventListenerObject | null,
    options?: boolean | EventListenerOptions,
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
 * In a page it stops and drops its secrets when the page is closed.
 */
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: EventTarget has these methods; this gives them types
export class Participant<Task = Bytes> extends EventTarget {
  readonly #options: ParticipantOptions<Task>;
  readonly #origin: string;
  readonly #memory: Memory;
  #ending: AbortController | null = null;
  #site: Promise<Site> | null = null;

  /** @throws ConfigError for options that exclude each other. */
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
   * @returns "over" when the federation is over, "stopped" after `stop()`.
   * @throws ConfigError for an unusable hub, charter or token.
   * @throws FaultyServer for invalid answers of the hub.
   * @throws HubAway when the hub did not answer for `patience` seconds.
   * @throws VectorError or ContributionFailed at the end, if `strict` is set and this site sent only noise.
   * @throws OrderError if it is already running, if another participant uses this memory, or if the hub has another
   *   answer in this participant's name.
   */
  async run(): Promise<"over" | "stopped"> {
    if (this.#ending !== null) {
      throw new OrderError("this participant is already running");
    }
    const ending = new AbortController();
    this.#ending = ending;
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

  /** Stop: drop all secrets and let `run` return. A later `run` joins the next round. */
  stop(): void {
    this.#ending?.abort(new Stopped("stopped"));
  }

  /**
   * Wait until the hub has published the result of a question, and return it.
   *
   * @throws ConfigError where the hub publishes none, Stopped when the signal of the options stops it, or `stop()`
   *   while this takes part.
   */
  async result(question: number): Promise<Result> {
    const site = await (this.#site ?? this.#enter(this.#options.signal ?? new AbortController().signal));
    for (;;) {
      const found = await resultOf(site, question, site.wait);
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
        away: (why, seconds) =>
          say("away", `the hub does not answer (${why}); next try in ${seconds.toFixed(1)} seconds`),
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
      account: await accountOf(options.ledger, charter),
      floor: options.floor ?? {},
      masker,
      strict: options.strict ?? false,
      wait: options.wait ?? 25,
      partBytes: options.partBytes,
      maximumBytes: options.maximumBytes ?? 1 << 28,
      maximumTaskBytes: options.maximumTaskBytes,
      inTime: options.answerAfter === undefined ? undefined : new InTime(options.answerAfter),
      // The form decides what a task is, and the author of the function knows the form.
      contribute: (task, round, ending) => options.contribute(task as Task, round, ending),
      tell: (name, detail) => this.#tell(name, detail),
      say,
    };
  }

  async #takePart(site: Site): Promise<void> {
    site.say("connecting", `connecting to ${this.#origin}`);
    const telling = this.#options.results === true ? this.#tellResults(site) : Promise.resolve();
    telling.catch(() => undefined); // it is waited for below
    const failures: CcesaError[] = [];
    for (let after = 0; ; ) {
      const next = await nextSeries(site, after);
      if (next === null) {
        break;
      }
      after = next.series;
      site.say("waiting", `waiting for rounds of series ${after}`);
      const taking = new Taking(site, next, formOf(site.charter, next));
      await taking.run();
      failures.push(...taking.failures.values());
      await site.line.pause(0.2); // a hub that has a new series each time it is asked is not asked in a loop
    }
    await telling;
    site.say("over", "the federation is over");
    if (site.strict && failures[0] !== undefined) {
      throw failures[0]; // not before all is over, when nobody sees it
    }
  }

  /**
   * Say each result as it is published; questions without one are passed over. How many questions there were says what
   * the hub announces: one that has an answer to every question is not asked for ever.
   */
  async #tellResults(site: Site): Promise<void> {
    const { line, charter } = site;
    let over = -1;
    for (let question = 0; question < MOST_RESULTS; ) {
      if (question > over) {
        const now = await announced(line, charter, 0, 0);
        over = now.question;
        if (now.over && question > over) {
          return;
        }
        if (question > over + 1) {
          await line.pause(1); // it has published a result of a question that it calls open
          continue;
        }
      }
      const found = await resultOf(site, question, question > over ? site.wait : 0);
      if (found === "never") {
        return;
      }
      if (found !== null) {
        this.#tell("result", found);
      }
      question += found !== null || question <= over ? 1 : 0;
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
    const nothing = ({ over, series }: Announcement): boolean => !over && series <= after;
    const now = await paced(line, wait, () => announced(line, charter, after, wait), nothing);
    if (now.over) {
      return null;
    }
    if (now.series > after && now.config !== undefined) {
      return { ...now, config: now.config };
    }
  }
}

/** Ask for a result once; null if it is not published yet, and "never" if this hub publishes none. */
function resultOf({ line, maximumBytes }: Site, question: number, wait: number): Promise<Result | null | "never"> {
  const ask = (): Promise<Result | null | "never"> => fetchResult(line, question, wait, maximumBytes);
  return paced(line, wait, ask, (found) => found === null);
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
