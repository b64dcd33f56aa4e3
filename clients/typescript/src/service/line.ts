/**
 * The line to one hub: calls that are made again, with the same bytes, until there is an answer or patience ends.
 * The token goes to this origin and to no other: redirects are not followed.
 */

import type { Bytes } from "../bytes.js";
import { ConfigError, FaultyServer } from "../errors.js";
import { type Answer, contentOf, countIn, inWords, MOST_JSON, problemOf } from "./answers.js";
import { HubAway, Stopped } from "./errors.js";

/** Statuses that say "not now"; 0 stands for no answer, or one that is not the hub's. */
const LATER: ReadonlySet<number> = new Set([0, 408, 429, 500, 503]);
const PROBLEM_TYPE = "application/problem+json";
const FIRST_PAUSE = 0.5;
const LONGEST_PAUSE = 30;
/** An upload may be as slow as this many bytes in a second. */
const SLOWEST = 16384;

/** One call. */
export interface Call {
  readonly method: "GET" | "HEAD" | "POST" | "PUT" | "PATCH";
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Bytes;
  /** The maximum bytes of an answer; the limit of JSON by default. */
  readonly most?: number;
  /** How many seconds the hub may wait with its answer. */
  readonly wait?: number;
  /** Whether it is made without the token. */
  readonly open?: boolean;
  /** Whether the caller deals with answers that say "not now". */
  readonly once?: boolean;
}

/** Tell whether an answer says only that the same must be asked again later. */
export function saysLater({ status }: Answer): boolean {
  return LATER.has(status);
}

/** The options of a line. */
export interface LineOptions {
  readonly origin: string;
  readonly signal: AbortSignal;
  /** How many seconds a hub may be away. */
  readonly patience: number;
  /** How many seconds a hub may say nothing to a call. */
  readonly silence: number;
  readonly fetch: typeof globalThis.fetch;
  /** Sleeps this many seconds. Throws Stopped when the signal aborts. */
  readonly sleep: (seconds: number, signal: AbortSignal) => Promise<void>;
  /** Called with the reason for a repeated call and the seconds until then. */
  readonly away: (why: string, seconds: number) => void;
}

/** Sleep. Throws Stopped when the signal aborts. */
export function sleep(seconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(new Stopped("stopped"));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, 1000 * seconds);
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) {
      stop();
    }
  });
}

/** Makes calls. */
export class Line {
  /** Opens a session; without it the token is all there is. */
  enter: (() => Promise<string>) | undefined;
  #token: string | undefined;
  readonly #options: LineOptions;

  constructor(options: LineOptions, token?: string) {
    this.#options = options;
    this.#token = token;
  }

  /** The origin that this line talks to. */
  get origin(): string {
    return this.#options.origin;
  }

  /**
   * Make a call, repeatedly if necessary.
   *
   * @throws HubAway when patience has ended.
   * @throws ConfigError when the hub refuses this participant.
   * @throws FaultyServer for an invalid answer.
   * @throws Stopped when the signal aborts.
   */
  async call(call: Call): Promise<Answer> {
    const began = performance.now();
    let renewed = false;
    for (let tries = 0; ; tries++) {
      const answer = await this.#once(call);
      if (answer.status === 401 && call.open !== true) {
        if (this.enter === undefined || renewed) {
          throw new ConfigError(`the hub refused this participant's token (${inWords(answer)})`);
        }
        renewed = true;
        this.#token = await this.enter();
      } else if (call.once === true || !saysLater(answer)) {
        return answer;
      } else {
        await this.rest(answer, tries, began);
      }
    }
  }

  /** Wait before a call is made again, longer each time; throws HubAway when patience has ended. */
  async rest(answer: Answer, tries: number, began: number): Promise<void> {
    const seconds = pauseAfter(answer, tries);
    if ((performance.now() - began) / 1000 + seconds > this.#options.patience) {
      throw new HubAway(`no answer from the hub for ${this.#options.patience} seconds (${inWords(answer)})`);
    }
    this.#options.away(inWords(answer), seconds);
    await this.pause(seconds);
  }

  /** Wait this many seconds. */
  async pause(seconds: number): Promise<void> {
    await this.#options.sleep(seconds, this.#options.signal);
  }

  async #once(call: Call): Promise<Answer> {
    if (call.open !== true && this.#token === undefined && this.enter !== undefined) {
      this.#token = await this.enter();
    }
    const { signal, silence, origin, fetch } = this.#options;
    const ending = new AbortController();
    const stop = (): void => ending.abort();
    const allowed = (call.wait ?? 0) + silence + (call.body?.length ?? 0) / SLOWEST;
    let timer = setTimeout(stop, 1000 * allowed);
    const alive = (): void => {
      clearTimeout(timer);
      timer = setTimeout(stop, 1000 * silence);
    };
    signal.addEventListener("abort", stop, { once: true });
    try {
      if (signal.aborted) {
        stop();
      }
      const response = await fetch(origin + call.path, this.#request(call, ending.signal));
      return await received(response, call, alive);
    } catch (error) {
      return noAnswer(error, signal.aborted, ending.signal.aborted, this.#options);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", stop);
    }
  }

  #request(call: Call, signal: AbortSignal): RequestInit {
    const headers: Record<string, string> = { ...call.headers };
    if (call.open !== true && this.#token !== undefined) {
      headers["Authorization"] = `Bearer ${this.#token}`;
    }
    if (call.wait !== undefined) {
      headers["Prefer"] = `wait=${Math.ceil(call.wait)}`;
    }
    return {
      method: call.method,
      headers,
      ...(call.body === undefined ? {} : { body: call.body }),
      signal,
      redirect: "manual",
      credentials: "omit",
      cache: "no-store",
      referrerPolicy: "no-referrer",
    };
  }
}

async function received(response: Response, call: Call, alive: () => void): Promise<Answer> {
  const { status, headers, ok } = response;
  if (response.type === "opaqueredirect" || response.redirected || (status >= 300 && status < 400)) {
    return { ...none("a redirect, which is not followed: is this the hub's address?"), headers };
  }
  const body = ok ? await contentOf(response, call.most ?? MOST_JSON, alive) : await refusalOf(response, alive);
  const answer = { status, headers, body };
  return isOfHub(call, answer)
    ? answer
    : { ...none(`${status} from something that is not a hub: check the hub's address`), headers };
}

/** Return the content of a refusal; what is too much for one is nobody's. */
async function refusalOf(response: Response, alive: () => void): Promise<Bytes> {
  try {
    return await contentOf(response, MOST_JSON, alive);
  } catch (error) {
    if (error instanceof FaultyServer) {
      return new Uint8Array();
    }
    throw error;
  }
}

/**
 * Tell whether an answer is the hub's: things on the way refuse, too, or show pages, and what they say ends nothing.
 */
function isOfHub({ method }: Call, answer: Answer): boolean {
  const kind = (answer.headers.get("content-type") ?? "").split(";")[0]!.trim().toLowerCase();
  if (answer.status < 300) {
    return kind !== "text/html";
  }
  return problemOf(answer).name !== "" || (method === "HEAD" && kind === PROBLEM_TYPE);
}

function none(reason: string): Answer {
  return { status: 0, headers: new Headers(), body: new Uint8Array(), reason };
}

function noAnswer(error: unknown, stopped: boolean, silent: boolean, { silence, origin }: LineOptions): Answer {
  if (stopped) {
    throw new Stopped("stopped");
  }
  if (error instanceof FaultyServer) {
    throw error;
  }
  const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : "";
  return none(silent ? `no answer in ${silence} seconds` : `${String(error)}${cause}${unnamed(origin)}`);
}

/** To a page whose origin a hub does not name in its `pages`, that hub looks like one that is away. */
function unnamed(origin: string): string {
  const own = (globalThis as { location?: { origin?: string } }).location?.origin;
  return own === undefined || own === origin ? "" : `, or the pages in the hub's configuration lack ${own}`;
}

/** How long to wait after these tries: as the hub says, or twice as long each time; never all at the same moment. */
function pauseAfter(answer: Answer, tries: number): number {
  const own = FIRST_PAUSE * 2 ** Math.min(tries, 10);
  const asked = countIn(answer, "retry-after");
  return Math.min(asked === null || asked === 0 ? own : asked, LONGEST_PAUSE) * (1 + Math.random() / 2);
}
