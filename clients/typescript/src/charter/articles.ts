/**
 * The articles of a charter in the order of its encoding: how each is read from TOML, and how it is encoded
 * (docs/formats.md, 5). Add new articles here.
 */

import { AGREEMENTS, GENERATORS, GRAPHS, graphValue, THRESHOLDS, thresholdValue } from "../config.js";
import { ConfigError } from "../errors.js";
import { privacyEntries, readPrivacy } from "../privacy/table.js";
import { readSchema, schemaEntries } from "../statistics/schema.js";
import { Float, type Value } from "../wire.js";
import { checkLabel } from "./characters.js";
import type { Articles, Member } from "./charter.js";
import { checkDistinct, memberOf } from "./lists.js";
import { checkArray, checkFloat, checkInteger, checkString, checkTable, type Table } from "./table.js";
import { TomlTime } from "./toml-values.js";

const LARGEST = 2 ** 32 - 1;
const STEPS = 6;

/** An article: its key, how it is read, and its encoding, which is left out where it is undefined. */
type Article = readonly [
  key: string,
  read: (table: Table, key: string) => unknown,
  value: (article: never) => Value | undefined,
];

const plain = (article: Value) => article;
const float = (article: number) => new Float(article);

const integer =
  (least: number, most: number, otherwise?: number) =>
  (table: Table, key: string): number =>
    table.integer(key, least, most, otherwise);
const number =
  (least: number, most: number, otherwise?: number) =>
  (table: Table, key: string): number =>
    table.float(key, { least, most }, otherwise);
const labels =
  (...otherwise: string[]) =>
  (table: Table, key: string): readonly string[] =>
    distinct(table.array(key, checkLabel, otherwise), `${table.what}: ${key}`);

/** A finite number above 0. */
const bound = (otherwise: number) => number(Number.MIN_VALUE, Number.MAX_VALUE, otherwise);
const fraction = number(0, 1);
const count = integer(0, LARGEST);
const strength = number(0, 1024);
const logarithm = number(-Infinity, 0);

const CERTIFICATE: readonly Article[] = [
  ["dropout", fraction, float],
  ["exact_dropout", (table, key) => table.boolean(key, false), plain],
  ["collusion", fraction, float],
  ["colluders", count, plain],
  ["around", count, plain],
  ["least_honest", count, plain],
  ["privacy_bits", strength, float],
  ["reliability_bits", strength, float],
  ["unreliable", logarithm, float],
  ["disconnected", logarithm, float],
  ["exposed", logarithm, float],
  ["unmaskable", logarithm, float],
  ["dropout_per_step", (table, key) => table.optional(key, steps), (each: number[] | null) => each?.map(float)],
];

const LEARNING: readonly Article[] = [
  ["message_types", labels("train", "evaluate"), plain],
  ["weighted_by", (table, key) => table.read(key, checkLabel, "num-examples"), plain],
  ["metrics", labels(), plain],
  ["counters", labels(), plain],
  ["clip", bound(2), float],
  ["metric_clip", bound(1e6), float],
  ["max_weight", bound(65536), float],
  ["field_bits", integer(2, 64, 32), plain],
];

/** Keys of a charter with helpers only, and keys of every other charter only. */
const OF_HELPERS = ["helpers", "key_days", "colluders"];
const OF_GRAPHS = ["graph", "threshold", "least_roster", "releases", "certificate"];

/** Encode an article, which is left out where a charter does not have it. */
const unlessNull =
  <T>(value: (article: T) => Value) =>
  (article: T | null): Value | undefined =>
    article === null ? undefined : value(article);

const CHARTER: readonly Article[] = [
  ["version", integer(2, 2, 2), plain],
  ["serial", integer(1, Number.MAX_SAFE_INTEGER), plain],
  ["expires", (table, key) => table.read(key, expiry), plain],
  ["members", (table, key) => table.read(key, members), memberValues],
  ["helpers", (table, key) => table.read(key, members), unlessNull(memberValues)],
  ["key_days", integer(1, 365, 7), unlessNull(plain)],
  ["colluders", count, unlessNull(plain)],
  ["graph", (table, key) => rule(GRAPHS, table.table(key)), unlessNull(graphValue)],
  ["threshold", (table, key) => rule(THRESHOLDS, table.table(key)), unlessNull(thresholdValue)],
  ["generator", (table, key) => table.word(key, GENERATORS, "aes128-ctr"), plain],
  ["agreement", (table, key) => table.word(key, AGREEMENTS, "x25519"), plain],
  ["bits", integer(8, 64, 32), plain],
  ["least_roster", integer(3, LARGEST), unlessNull(plain)],
  ["min_survivors", integer(2, LARGEST), plain],
  ["attempts", integer(1, 1000, 2), plain],
  ["releases", integer(1, 1000, 1), (releases: number) => (releases === 1 ? undefined : releases)],
  [
    "certificate",
    (table, key) => read(CERTIFICATE, table.table(key)),
    unlessNull((part: Part) => encodingOf(CERTIFICATE, part)),
  ],
  [
    "learning",
    (table, key) => table.optional(key, (value, what) => read(LEARNING, checkTable(value, what))),
    (part: Part | null) => part && encodingOf(LEARNING, part),
  ],
  [
    "privacy",
    (table, key) => table.optional(key, (value, what) => readPrivacy(checkTable(value, what))),
    unlessNull(privacyEntries),
  ],
  [
    "statistics",
    (table, key) => table.optional(key, (value, what) => readSchema(checkTable(value, what))),
    unlessNull(schemaEntries),
  ],
];

type Part = Readonly<Record<string, never>>;

/** Return the name in code of a key. */
function fieldOf(key: string): string {
  return key.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
}

function read(articles: readonly Article[], table: Table): Part {
  const part = articles.map(([key, of]) => [fieldOf(key), of(table, key)] as const);
  table.end();
  return Object.fromEntries(part) as Part;
}

function encodingOf(articles: readonly Article[], part: Part): Value {
  const entries = articles.map(([key, , value]) => [key, value(part[fieldOf(key)]!)] as const);
  return new Map(entries.filter((entry): entry is readonly [string, Value] => entry[1] !== undefined));
}

/** Read all articles of a charter, each by itself; see `checkArticles`. */
export function readArticles(table: Table): Articles {
  const foreign = table.has("helpers") ? OF_GRAPHS : OF_HELPERS;
  const absent = Object.fromEntries(foreign.map((key) => [fieldOf(key), key === "releases" ? 1 : null]));
  const articles = CHARTER.filter(([key]) => !foreign.includes(key));
  return { ...absent, ...read(articles, table) } as unknown as Articles;
}

/** Return a charter as it is encoded. */
export function articlesValue(articles: Articles): Value {
  return encodingOf(CHARTER, articles as unknown as Part);
}

function expiry(value: unknown, what: string): number {
  const known = value instanceof TomlTime && (value.kind === "date" || value.kind === "offset date-time");
  return checkInteger(known ? BigInt(value.seconds) : value, what, 1, Number.MAX_SAFE_INTEGER);
}

function members(value: unknown, what: string): readonly Member[] {
  const all = checkArray(value, what, member);
  checkDistinct(all);
  return all;
}

function member(value: unknown, what: string): Member {
  const pair = checkArray(value, what, checkString);
  if (pair.length !== 2) {
    throw new ConfigError(`${what} must be a pair of a name and a key`);
  }
  return memberOf(pair[0]!, pair[1]!, what);
}

function memberValues(all: readonly Member[]): Value {
  return all.map(({ name, key }) => [name, key]);
}

function rule(kinds: Readonly<Record<string, Readonly<Record<string, string>>>>, table: Table): object {
  const type = table.word("type", Object.keys(kinds));
  const fields = Object.entries(kinds[type]!).map(([key, form]) => [key, ruleField(table, key, form)] as const);
  table.end();
  return Object.fromEntries([["type", type], ...fields]);
}

function ruleField(table: Table, key: string, form: string): number | null {
  if (form.endsWith("?") && !table.has(key)) {
    return null;
  }
  return form.startsWith("float") ? table.float(key) : table.integer(key, 0, LARGEST);
}

function steps(value: unknown, what: string): readonly number[] {
  const each = checkArray(value, what, checkFloat);
  if (each.length !== STEPS || each.some((dropout) => !(0 <= dropout && dropout < 1))) {
    throw new ConfigError(`${what} must have ${STEPS} numbers, each at least 0 and below 1`);
  }
  return each;
}

function distinct(names: readonly string[], what: string): readonly string[] {
  if (new Set(names).size !== names.length) {
    throw new ConfigError(`${what} has an entry twice`);
  }
  return names;
}
