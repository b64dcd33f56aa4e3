/** The options of a participant, and what is made of them. */

import type { Bytes } from "../bytes.js";
import type { Charter } from "../charter/charter.js";
import { parseIdentityFile } from "../charter/identity-file.js";
import { parseCharter } from "../charter/text.js";
import type { Engine } from "../crypto/engine.js";
import type { Masker } from "../crypto/masks.js";
import { type Identity, identityFromSeed } from "../crypto/signatures.js";
import { ConfigError } from "../errors.js";
import type { Floor } from "../floor.js";
import type { Account, Memory } from "../memory.js";
import type { Ledger } from "../privacy/ledger.js";
import type { Contribution } from "./forms.js";
import { isToken } from "./session.js";

/** The options of a participant. Times are in seconds. */
export interface ParticipantOptions<Task = Bytes> {
  /** The hub's address, such as `https://hub.example`. */
  readonly url: string;
  /** The member's own charter, as text or parsed; it needs an identity. Never take it from the hub. */
  readonly charter?: string | Uint8Array | Charter | undefined;
  /** The member's identity, or the text of its file. */
  readonly identity?: Identity | string | undefined;
  /** Without a charter: the token from the hub's operator. */
  readonly token?: string | undefined;
  /**
   * Makes the contribution when the hub asks for a vector. Its argument is the task's bytes for words, the task's
   * arrays for arrays, and the schema for statistics.
   */
  readonly contribute: (task: Task, round: number, signal: AbortSignal) => Contribution | Promise<Contribution>;
  /** The memory that must survive a restart. Required with a charter; without one the default is kept in memory. */
  readonly memory?: Memory | undefined;
  /**
   * The ledger to which vectors with noise are charged. Pass one if and only if the charter has noise. Then a vector is
   * sent whatever `contribute` does. If it throws or returns an unusable value, the vector is noise around zeros, and
   * the stage is "nothing".
   */
  readonly ledger?: Ledger | undefined;
  /**
   * With noise: send each vector this many seconds after the call of `contribute`, so that the time reveals nothing
   * about the data. If no vector is ready by then, noise around zeros is sent. By default a vector is sent as soon as
   * it is ready.
   */
  readonly answerAfter?: number | undefined;
  /** Without a charter: the site joins no round below these limits. */
  readonly floor?: Partial<Floor> | undefined;
  /**
   * Whether a fault ends the participant. By default rounds go on without this site. With noise, a fault in a
   * contribution ends it only when the federation is over, so that nobody can see it.
   */
  readonly strict?: boolean | undefined;
  /** Whether to fetch results and dispatch them as events. */
  readonly results?: boolean | undefined;
  /** Whether to allow http to a hub on another machine. */
  readonly insecureHttp?: boolean | undefined;
  /** Stops the participant, as `stop()` does. */
  readonly signal?: AbortSignal | undefined;
  /** How long to retry while the hub does not answer; an hour by default. */
  readonly patience?: number | undefined;
  /** How long one call may stay without data; 30 by default. */
  readonly silence?: number | undefined;
  /** How long the hub may hold a call until it has news; 25 by default. */
  readonly wait?: number | undefined;
  /** The size of the parts of large replies, if smaller than the hub's. */
  readonly partBytes?: number | undefined;
  /**
   * The maximum bytes of a task. The default is what the form can need: for arrays the model that fits vectors of this
   * length, at most 2^30.
   */
  readonly maximumTaskBytes?: number | undefined;
  /** The maximum bytes of a vector or a result; 2^28 by default. */
  readonly maximumBytes?: number | undefined;
  /** Masks vectors. The default uses workers of its own. */
  readonly masker?: Masker | undefined;
  readonly engine?: Engine | undefined;
  /** Replaces the platform's `fetch`, for certificates and proxies of your own. */
  readonly fetch?: typeof globalThis.fetch | undefined;
}

/** Refuse options that exclude each other. Throws ConfigError. */
export function checkTogether<Task>(options: ParticipantOptions<Task>): void {
  const { charter, identity, token, memory, ledger, answerAfter } = options;
  if (answerAfter !== undefined && ledger === undefined) {
    throw new ConfigError("answerAfter needs noise, and so a ledger");
  }
  if ((charter === undefined) !== (identity === undefined)) {
    throw new ConfigError("pass a charter and an identity together");
  }
  if ((charter === undefined) === (token === undefined)) {
    throw new ConfigError("pass either a charter and an identity, or a token");
  }
  if (token !== undefined && !isToken(token)) {
    throw new ConfigError(
      "a token must be one word of printable ASCII: remove the line end of a file with text.trim()",
    );
  }
  if (charter !== undefined && memory === undefined) {
    throw new ConfigError("a member needs a lasting memory: indexedDbMemory in a browser, fileMemory in Node");
  }
}

/** Return the account of a charter's noise, to which its vectors are charged. */
export async function accountOf(ledger: Ledger | undefined, charter: Charter | null): Promise<Account | undefined> {
  const privacy = charter?.privacy ?? null;
  if ((ledger === undefined) !== (privacy === null)) {
    throw new ConfigError(
      privacy === null ? "a ledger needs noise, and this charter has none" : "the charter has noise: pass a ledger",
    );
  }
  return privacy === null ? undefined : ledger?.account(privacy, charter?.digest);
}

/** Return the charter that a member has, or null without one. */
export async function charterOf(
  charter: string | Uint8Array | Charter | undefined,
  engine: Engine,
): Promise<Charter | null> {
  if (charter === undefined) {
    return null;
  }
  return typeof charter === "string" || charter instanceof Uint8Array ? parseCharter(charter, engine) : charter;
}

/** Return the identity that a member has, or null without one. */
export async function identityOf(identity: Identity | string | undefined, engine: Engine): Promise<Identity | null> {
  return typeof identity === "string" ? identityFromSeed(engine, parseIdentityFile(identity).seed) : (identity ?? null);
}
