/**
 * A client's states in a round (docs/protocol.md, 8 and 13.6). A state is never changed: a step makes the next one,
 * and the client moves on only when the step has ended. Then whatever secrets the next state does not hold are
 * overwritten.
 */

import type { Bytes } from "../bytes.js";
import type { Neighbour, OwnKeys } from "../crypto/agreements.js";
import type { Work } from "./round.js";

/** A neighbour, with what sealing for it and opening its text need. */
export interface Partner extends Neighbour {
  readonly sealingSecret: Bytes;
}

/** The row of shares of somebody's two secrets that this client holds. */
export interface Held {
  readonly client: number;
  readonly masked: boolean;
  /** 64 bytes: the share of b, then the share of s. */
  readonly row: Bytes;
}

/** A neighbour whose sealed text opened. */
export interface Opened extends Held {
  /** The key of the masks between the two, if there are any. */
  readonly maskKey: Bytes | null;
}

/** Masks that were summed ahead. */
export interface Ahead {
  readonly sum: Bytes;
  /** With whom; this client's self mask is in it, too. */
  readonly among: readonly Opened[];
}

/** Of `active`: the roster that the server has committed to. */
export interface Roster {
  readonly v1: Bytes;
  readonly root: Bytes;
}

/** Of `active`: what this client has signed in step 2. */
export interface Signed extends Roster {
  readonly v2: Bytes;
  readonly task: Bytes;
}

/** The results of step 1 under both guards. */
export interface Dealt {
  readonly work: Work;
  readonly own: OwnKeys;
  /** b_i. */
  readonly selfSecret: Bytes;
  /** The row of shares that this client keeps for itself. */
  readonly row: Bytes;
  readonly neighbours: readonly Partner[];
  /** t_i. */
  readonly threshold: number;
}

/** The results of step 1a under both guards. */
export interface Usable {
  readonly work: Work;
  readonly selfSecret: Bytes;
  readonly row: Bytes;
  readonly threshold: number;
  /** The clients that have shared and were not accused. */
  readonly opened: readonly Opened[];
  /** Ids of those who have shared and were accused. */
  readonly accused: readonly number[];
  readonly ahead: Ahead | null;
}

/** The secrets of a client after its vector was sent: rows of shares, its own among them, and nothing else. */
export interface Rows {
  readonly threshold: number;
  /** Of itself and its neighbours in V2, ascending. */
  readonly rows: readonly Held[];
  /** The name by which the memory knows the task of the vector. */
  readonly counted: Bytes;
}

interface Secretive<Kind extends string> {
  readonly kind: Kind;
  /** Secrets that are overwritten when no state holds them any more. */
  readonly secrets: readonly Secret[];
}

export type Secret = Uint8Array | Uint16Array;

export type Joined = Secretive<"Joined"> & { readonly work: Work };
export type Advertised = Secretive<"Advertised"> & { readonly work: Work; readonly own: OwnKeys };
export type Shared = Secretive<"Shared"> & Dealt;
export type Rostered = Secretive<"Rostered"> & Dealt & { readonly roster: Roster };
export type Accepted = Secretive<"Accepted"> & Usable;
export type AcceptedAmong = Secretive<"AcceptedAmong"> &
  Usable & {
    readonly roster: Roster;
    /** Ids of the neighbours that have not shared. */
    readonly absent: readonly number[];
  };
export type Holding = Secretive<"Holding"> & Rows;
export type SignedV2 = Secretive<"SignedV2"> & Rows & { readonly signed: Signed };
export type Confirmed = Secretive<"Confirmed"> & Rows & { readonly signed: Signed; readonly v3: Bytes };
export type Complained = Secretive<"Complained"> & { readonly accused: readonly number[] };
export type Done = Secretive<"Done">;

export type State =
  | Joined
  | Advertised
  | Shared
  | Rostered
  | Accepted
  | AcceptedAmong
  | Holding
  | SignedV2
  | Confirmed
  | Complained
  | Done;

export type StateKind = State["kind"];
export type StateOf<Kind extends StateKind> = Extract<State, { kind: Kind }>;
