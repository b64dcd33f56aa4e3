/** What a participant is given, and what is made of it. */

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

/** What a participant is given; times are in seconds. */
export interface ParticipantOptions<Task = Bytes> {
  /** The hub's address, such as `https://hub.example`. */
  readonly url: string;
  /** The member's own charter, as text or read: never one that the hub hands out. Together with an identity. */
  readonly charter?: string | Uint8Array | Charter | undefined;
  /** The member's identity, or the text of its file. */
  readonly identity?: Identity | string | undefined;
  /** Without a charter: what the hub's operator has handed over. */
  readonly token?: string | undefined;
  /**
   * Makes the contribution, when a vector is asked for: of words from the task's bytes, of arrays from the task's
   * arrays, of statistics from the schema.
   */
  readonly contribute: (task: Task, round: number, signal: AbortSignal) => Contribution | Promise<Contribution>;
  /** What outlives this participant; without a charter, in memory by default. */
  readonly memory?: Memory | undefined;
  /**
   * What vectors with noise are charged to; there if and only if the charter has noise. Then a vector leaves whatever
   * `contribute` does: where it throws, or returns what cannot be used, noise around zeros, and "nothing" is told.
   */
  readonly ledger?: Ledger | undefined;
  /**
   * With noise: so many seconds after `contribute` was called every vector leaves, so that the time tells nothing of the
   * data; where none is ready, it is noise around zeros. By default a vector leaves when it is ready.
   */
  readonly answerAfter?: number | undefined;
  /** The least that is taken part in without a charter. */
  readonly floor?: Partial<Floor> | undefined;
  /**
   * Whether a fault ends everything; by default rounds go on without this site. What was wrong with a contribution with
   * noise ends it only when the federation is over, when nobody sees it.
   */
  readonly strict?: boolean | undefined;
  /** Whether results are asked for, and told as events. */
  readonly results?: boolean | undefined;
  /** Whether a hub on another machine may be without TLS. */
  readonly insecureHttp?: boolean | undefined;
  /** Stops everything, as `stop()` does. */
  readonly signal?: AbortSignal | undefined;
  /** How long a hub may be away; an hour by default. */
  readonly patience?: number | undefined;
  /** How long a hub may say nothing to a call; 30 by default. */
  readonly silence?: number | undefined;
  /** How long a hub may wait until there is something to say; 25 by default. */
  readonly wait?: number | undefined;
  /** The size of the parts of large replies, if it is to be smaller than the hub's. */
  readonly partBytes?: number | undefined;
  /**
   * The most bytes of a task. By default as many as the form can need: for arrays the model that vectors of this length
   * are for, at most 2^30.
   */
  readonly mostTaskBytes?: number | undefined;
  /** The most bytes of a vector or a result, whatever the hub asks for; 2^28 by default. */
  readonly mostBytes?: number | undefined;
  /** Where vectors are masked; in workers of its own by default. */
  readonly masker?: Masker | undefined;
  readonly engine?: Engine | undefined;
  /** As the platform's, for certificates and proxies of your own. */
  readonly fetch?: typeof globalThis.fetch | undefined;
}

/** Refuse options that do not go together; throws ConfigError. */
export function checkTogether<Task>(options: ParticipantOptions<Task>): void {
  const { charter, identity, token, memory, ledger, answerAfter } = options;
  if (answerAfter !== undefined && ledger === undefined) {
    throw new ConfigError("answerAfter goes with noise, and so with a ledger");
  }
  if ((charter === undefined) !== (identity === undefined)) {
    throw new ConfigError("a charter and an identity go together");
  }
  if ((charter === undefined) === (token === undefined)) {
    throw new ConfigError("take part with a charter and an identity, or without them and with a token");
  }
  if (token !== undefined && !isToken(token)) {
    throw new ConfigError(
      "a token is one word of printable ASCII: of one from a file, take off the line end (text.trim())",
    );
  }
  if (charter !== undefined && memory === undefined) {
    throw new ConfigError("a member needs a memory that outlives it: indexedDbMemory in a browser, fileMemory in Node");
  }
}

/** Return the account of a charter's noise, to which its vectors are charged. */
export async function accountOf(ledger: Ledger | undefined, charter: Charter | null): Promise<Account | undefined> {
  const privacy = charter?.privacy ?? null;
  if ((ledger === undefined) !== (privacy === null)) {
    throw new ConfigError(
      privacy === null
        ? "whoever has a ledger takes part with noise only, and this charter has none"
        : "vectors under this charter have noise, which is charged: take part with a ledger",
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
