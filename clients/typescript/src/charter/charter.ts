/** The charter of a federation: who its members are, and all that they have agreed on (docs/formats.md, 5). */

import { type Bytes, equal } from "../bytes.js";
import { type AgreementName, agreedOf, type Bits, checkConfig, type Graph, type Threshold } from "../config.js";
import type { Generator } from "../crypto/engine.js";
import { ConfigError } from "../errors.js";
import { checkFloor, DEFAULT_FLOOR } from "../floor.js";
import { type PrivacyTable, privacyLength } from "../privacy/table.js";
import { levelsOf } from "../quantize/settings.js";
import { type Schema, schemaLength } from "../statistics/schema.js";
import { checkStatistics } from "../statistics/vector.js";

/** One who may take part: a name for people, and the public key of its identity. */
export interface Member {
  readonly name: string;
  readonly key: Bytes;
}

/** The basis for the choice of graph and threshold; the last four are logarithms to the base 2 of probabilities. */
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
  /** The dropouts of the six steps, only where it was planned with them. */
  readonly dropoutPerStep: readonly number[] | null;
}

/** The agreement for rounds of learning. */
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

/** All that a charter says. Either there are helpers, or members mask along a graph: what is of the other is null. */
export interface Articles {
  readonly version: 2;
  /** A site uses the newest that its people gave it. */
  readonly serial: number;
  /** Seconds since 1970; from then on no round is joined. */
  readonly expires: number;
  /** A client's id is its place in here. */
  readonly members: readonly Member[];
  /** They take the masks off a sum. */
  readonly helpers: readonly Member[] | null;
  /** The longest life of a helper's key, in days. */
  readonly keyDays: number | null;
  /** The most members that may work with the hub. */
  readonly colluders: number | null;
  readonly graph: Graph | null;
  readonly threshold: Threshold | null;
  readonly generator: Generator;
  readonly agreement: AgreementName;
  readonly bits: Bits;
  readonly leastRoster: number | null;
  readonly minSurvivors: number;
  readonly attempts: number;
  /** In how many rounds a member releases shares for one task; 1 with helpers, where nobody does. */
  readonly releases: number;
  readonly certificate: Certificate | null;
  readonly learning: Learning | null;
  readonly privacy: PrivacyTable | null;
  readonly statistics: Schema | null;
}

/** A charter that has been checked, with its digest. */
export interface Charter extends Articles {
  /** The words of every vector, where noise or statistics fix them, else null. */
  readonly length: number | null;
  /** 32 bytes. All sites compare them over a channel that the server does not control. */
  readonly digest: Bytes;
  /**
   * Return the id of the member with this identity.
   * @throws ConfigError for the key of a non-member.
   */
  place(publicKey: Uint8Array): number;
}

/** Conditions on several articles of a charter, beyond the limits of a configuration. */
const RULES: readonly (readonly [what: string, holds: (articles: Articles) => boolean])[] = [
  ["least_roster is at most the number of members", (a) => (a.leastRoster ?? 0) <= a.members.length],
  ["releases is at most attempts", (a) => a.releases <= a.attempts],
  ["bits is 64 for learning, noise and statistics", (a) => a.bits === 64 || !(a.learning || a.privacy || a.statistics)],
  ["learning has a message type", (a) => a.learning?.messageTypes.length !== 0],
  ["noise counts on no more honest clients than there are", (a) => (a.privacy?.honest ?? 0) <= honestAtLeast(a)],
  ["noise about records needs statistics", (a) => a.privacy?.unit !== "record" || a.statistics !== null],
  ["there is no learning beside statistics", (a) => a.learning === null || a.statistics === null],
  ["min_survivors is at least colluders + 2", (a) => a.minSurvivors >= (a.colluders ?? 0) + 2],
  ["a helper has a member's name if and only if it has that member's key", (a) => (a.helpers ?? []).every(isSame(a))],
];

/** Return how many honest clients are in every sum (15.1). */
function honestAtLeast({ graph, minSurvivors, certificate, colluders, privacy }: Articles): number {
  if (certificate === null) {
    return minSurvivors - (colluders ?? 0);
  }
  const everyone = privacy?.against === "follows" && graph?.type === "complete";
  return everyone ? minSurvivors - certificate.colluders : certificate.leastHonest;
}

/** Tell of a helper whether it is a member by name and key, or by neither. */
function isSame({ members }: Articles): (helper: Member) => boolean {
  return ({ name, key }) => members.every((member) => (member.name === name) === equal(member.key, key));
}

/**
 * Refuse articles that cannot work together, or not safely.
 * @throws ConfigError that says which.
 */
export function checkArticles(articles: Articles): void {
  const { members, helpers } = articles;
  const zeros = new Uint8Array(32);
  const any = { seriesId: zeros, number: 0, length: 1, accept: helpers === null, charter: zeros };
  const config = { ...agreedOf(articles), ...any };
  checkConfig(config);
  checkFloor(config, DEFAULT_FLOOR);
  const broken = RULES.find(([, holds]) => !holds(articles));
  if (broken !== undefined) {
    throw new ConfigError(`the charter cannot be used: it must hold that ${broken[0]}`);
  }
  if (articles.learning !== null) {
    levelsOf(articles.learning.fieldBits, members.length);
  }
  if (articles.statistics !== null) {
    checkStatistics(articles.statistics, articles.privacy, members.length);
  }
}

/**
 * Refuse a charter that has expired.
 * @param now Seconds since 1970.
 * @throws ConfigError from the second on at which the charter expires.
 */
export function checkCurrent(charter: Charter, now: number = Date.now() / 1000): void {
  if (!(now < charter.expires)) {
    const when = `${charter.expires} seconds since 1970`;
    throw new ConfigError(`the charter expired at ${when}: get the next one from your federation`);
  }
}

/** Return the words of every vector, where noise or statistics fix them, else null. */
export function lengthOf({ privacy, statistics }: Articles): number | null {
  return statistics ? schemaLength(statistics) : privacy && privacyLength(privacy);
}

/** Return the place of a key among members. */
export function placeOf(members: readonly Member[], publicKey: Uint8Array): number {
  const place = members.findIndex((member) => equal(member.key, publicKey));
  if (place < 0) {
    throw new ConfigError("this identity is not a member of the charter");
  }
  return place;
}
