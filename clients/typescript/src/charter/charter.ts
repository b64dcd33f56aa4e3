/** The charter of a federation: who its members are, and all that they have agreed on (docs/protocol.md, 13.1). */

import { equal, type Bytes } from "../bytes.js";
import type { Generator } from "../crypto/engine.js";
import { ConfigError } from "../errors.js";

/** The maps of 3.1. */
export type Graph =
  | { readonly type: "erdos-renyi"; readonly p: number; readonly mask_p: number | null }
  | { readonly type: "harary"; readonly degree: number; readonly mask_degree: number | null }
  | { readonly type: "complete"; readonly mask_p: number | null; readonly mask_degree: number | null };
export type Threshold =
  | { readonly type: "majority" }
  | { readonly type: "linear"; readonly slope: number; readonly base: number }
  | { readonly type: "fixed"; readonly t: number };
export type PrivacyTable = object;
export type Schema = object;

/** One who may take part: a name for people, and the public key of its identity. */
export interface Member {
  readonly name: string;
  readonly key: Bytes;
}

/** What the choice of graph and threshold rests on; the last four are logarithms to the base 2 of probabilities. */
export interface Certificate {
  readonly dropout: number;
  readonly exactDropout: boolean;
  readonly collusion: number;
  readonly colluders: number;
  readonly around: number;
  readonly leastHonest: number;
  readonly privacyBits: number;
  readonly reliabilityBits: number;
  readonly unreliable: number;
  readonly disconnected: number;
  readonly exposed: number;
  readonly unmaskable: number;
  /** Of the six steps, only where it was planned with them. */
  readonly dropoutPerStep: readonly number[] | null;
}

/** What is agreed for rounds of learning. */
export interface Learning {
  readonly messageTypes: readonly string[];
  readonly weightedBy: string;
  readonly metrics: readonly string[];
  readonly counters: readonly string[];
  readonly clip: number;
  readonly metricClip: number;
  readonly maxWeight: number;
  readonly fieldBits: number;
}

/** All that a charter says. */
export interface Articles {
  readonly serial: number;
  /** Seconds since 1970; from then on no round is joined. */
  readonly expires: number;
  /** A client's id is its place in here. */
  readonly members: readonly Member[];
  readonly graph: Graph;
  readonly threshold: Threshold;
  readonly generator: Generator;
  readonly agreement: string;
  readonly bits: 8 | 16 | 32 | 64;
  readonly leastRoster: number;
  readonly minSurvivors: number;
  readonly attempts: number;
  readonly certificate: Certificate;
  readonly learning: Learning | null;
  readonly privacy: PrivacyTable | null;
  readonly statistics: Schema | null;
}

/** A charter that has been checked, with its digest. */
export interface Charter extends Articles {
  /** 32 bytes, which all sites compare by a way that the server does not control. */
  readonly digest: Bytes;
  /**
   * Return the id of the member with this identity.
   * @throws ConfigError for a key that is no member's.
   */
  place(publicKey: Uint8Array): number;
}

/**
 * Refuse a charter that has expired.
 * @param now Seconds since 1970.
 * @throws ConfigError from the second on at which the charter expires.
 */
export function checkCurrent(charter: Charter, now: number = Date.now() / 1000): void {
  if (!(now < charter.expires)) {
    throw new ConfigError(`the charter has expired at ${charter.expires} seconds since 1970`);
  }
}

/** Return the place of a key among members. */
export function placeOf(members: readonly Member[], publicKey: Uint8Array): number {
  const place = members.findIndex((member) => equal(member.key, publicKey));
  if (place < 0) {
    throw new ConfigError("the charter has no member with this identity");
  }
  return place;
}
