/** The table `privacy` of a charter: all public numbers of the noise in every vector (15.1). */

import type { Bytes } from "../bytes.js";
import type { Table } from "../charter/table.js";
import type { Engine } from "../crypto/engine.js";
import { ConfigError } from "../errors.js";
import { hashed } from "../labels.js";
import { wordsFor } from "../quantize/fields.js";
import { encode, Float, type Value } from "../wire.js";
import { DIGITS, deltaOf, type Noise, slackOf } from "./accounting.js";
import { fixed, toFloat } from "./fixed.js";

/** The promise, and the noise that keeps it. */
export interface PrivacyTable extends Noise {
  readonly epsilon: number;
  readonly delta: number;
  /** So many vectors of a client leave. */
  readonly rounds: number;
  /** The L2 norm of a client's vector, in its own units. */
  readonly norm: number;
  readonly against: "follows" | "lies";
  readonly fieldBits: number;
  /** There where the promise is about one record of a client's table. */
  readonly unit?: "record";
}

type Key = Exclude<keyof PrivacyTable, "unit">;
type Kind = "float" | "integer" | "word";
type Field = readonly [key: string, kind: Kind, limits: string, fits: (value: number) => boolean];

const within = (least: number, most: number) => (value: number) => least <= value && value <= most;

/** The keys in the order of the encoding. */
const FIELDS: Readonly<Record<Key, Field>> = {
  epsilon: ["epsilon", "float", "above 0, at most 50", (x) => x > 0 && x <= 50],
  delta: ["delta", "float", "at least 10^-12, below 1", (x) => x >= 1e-12 && x < 1],
  rounds: ["rounds", "integer", "1 ... 10^9", within(1, 1e9)],
  norm: ["norm", "float", "above 10^-100, below 10^100", (x) => x > 1e-100 && x < 1e100],
  against: ["against", "word", "follows or lies", () => true],
  honest: ["honest", "integer", "1 ... 2^32", within(1, 2 ** 32)],
  dimension: ["dimension", "integer", "1 ... 2^36", within(1, 2 ** 36)],
  variance: ["variance", "integer", "1240 ... 262144, which is 2.2 <= s <= 32", within(1240, 262144)],
  gridBits: ["grid_bits", "integer", "1 ... 12", within(1, 12)],
  bound: ["bound", "integer", "1 ... 2^31", within(1, 2 ** 31)],
  fieldBits: ["field_bits", "integer", "2 ... 64", within(2, 64)],
  fails: ["fails", "float", "at most 0", (x) => x <= 0],
};
const KEYS = Object.keys(FIELDS) as readonly Key[];
const MOST_SLACK = 1e-6;

function checkFields(table: PrivacyTable): void {
  for (const name of KEYS) {
    const [key, kind, limits, fits] = FIELDS[name];
    const value = table[name];
    const right = kind === "word" ? value === "follows" || value === "lies" : typeof value === "number" && fits(value);
    if (!right || (kind === "integer" && !Number.isInteger(value))) {
      const what = kind === "integer" ? `an integer in ${limits}` : limits;
      throw new ConfigError(`[privacy]: ${key} must be ${what}, got ${value}`);
    }
  }
  if (table.unit !== undefined && table.unit !== "record") {
    throw new ConfigError(`[privacy]: unit must be "record" or missing, got ${String(table.unit)}`);
  }
}

/**
 * Refuse a table of numbers outside of their limits, or one that promises more than it keeps.
 * @throws ConfigError
 */
export function checkPrivacy(table: PrivacyTable): void {
  checkFields(table);
  const { epsilon, delta, rounds } = table;
  if (rounds * slackOf(table) > MOST_SLACK) {
    throw new ConfigError("[privacy]: too little noise for this many numbers and rounds: increase the noise");
  }
  const kept = deltaOf([{ noise: table, vectors: rounds }], epsilon);
  if (kept > fixed(delta, DIGITS)) {
    const text = toFloat(kept, DIGITS).toPrecision(4);
    throw new ConfigError(
      `[privacy]: at epsilon ${epsilon} this noise keeps delta ${text} over all rounds, not ${delta}: increase the noise`,
    );
  }
}

/**
 * Return the table `[privacy]` of a charter, checked.
 * @throws ConfigError
 */
export function readPrivacy(table: Table): PrivacyTable {
  const read = {
    float: (key: string) => table.float(key),
    integer: (key: string) => table.integer(key, 0, Number.MAX_SAFE_INTEGER),
    word: (key: string) => table.word(key, ["follows", "lies"], "follows"),
  };
  const values = KEYS.map((name) => [name, read[FIELDS[name][1]](FIELDS[name][0])]);
  const unit = table.has("unit") ? { unit: table.word("unit", ["record"]) } : {};
  table.end();
  const privacy = { ...Object.fromEntries(values), ...unit } as PrivacyTable;
  checkPrivacy(privacy);
  return privacy;
}

/** Return the entries of a table's encoding, in order. */
export function privacyEntries(table: PrivacyTable): ReadonlyMap<string, Value> {
  const entries = KEYS.map((name): [string, Value] => {
    const value = table[name];
    return [FIELDS[name][0], FIELDS[name][1] === "float" ? new Float(value as number) : value];
  });
  return new Map(table.unit === undefined ? entries : [...entries, ["unit", table.unit]]);
}

/** Return the digest by which a ledger knows the noise (15.6). */
export function mechanismDigest(engine: Engine, table: PrivacyTable): Promise<Bytes> {
  return hashed(engine, "mechanism", encode(privacyEntries(table)));
}

/** Return the words of a vector with this noise: the length of its rounds. */
export function privacyLength(table: PrivacyTable): number {
  return wordsFor(table.dimension, table.fieldBits);
}

/** The compared part of a round without a charter. */
interface Round {
  readonly length: number;
  readonly bits: number;
  readonly minSurvivors: number;
}

/**
 * Refuse a round in which vectors with this noise would not fit, or would be among fewer than are counted on.
 * @throws ConfigError
 */
export function checkNoisyRound(table: PrivacyTable, round: Round): void {
  if (round.bits !== 64 || round.length !== privacyLength(table)) {
    const words = `${privacyLength(table)} words of 64 bits`;
    throw new ConfigError(`vectors with this noise have ${words}, but the round has ${round.length} of ${round.bits}`);
  }
  if (round.minSurvivors < table.honest) {
    throw new ConfigError(
      `the noise assumes ${table.honest} clients, but the round only ${round.minSurvivors} survivors`,
    );
  }
}
