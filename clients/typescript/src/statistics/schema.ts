/**
 * The counts that members with tables have agreed on (`statistics` in a charter, 16.1), and their numbers (16.2).
 */

import { checkCharacters } from "../charter/characters.js";
import { checkFloat, checkString, checkTable, checkWord, type Table } from "../charter/table.js";
import { ConfigError } from "../errors.js";
import { Float, type Value } from "../wire.js";
import { decimalOf, inSteps } from "./decimal.js";

export const MEASURES = ["count", "sum", "mean", "variance", "histogram", "quantiles"] as const;
export type Measure = (typeof MEASURES)[number];

/** A column of numbers. */
export interface NumberColumn {
  readonly name: string;
  readonly lower: number;
  readonly upper: number;
  readonly places: number;
  readonly measures: readonly Measure[];
  readonly edges: readonly number[];
  readonly quantiles: readonly number[];
}

/** A column of words. */
export interface CategoryColumn {
  readonly name: string;
  readonly values: readonly string[];
}

/** All that is agreed about counting. */
export interface Schema {
  readonly name: string;
  readonly maxRecords: number;
  readonly leastGroup: number;
  readonly privacyUnit: "none" | "record";
  readonly groupBy: readonly string[];
  readonly missing: readonly string[];
  readonly numbers: readonly NumberColumn[];
  readonly categories: readonly CategoryColumn[];
}

const MOST_ENTRIES = 1000;
const MOST_GROUPS = 10_000;
const MOST_WORDS = 2 ** 20;
const MOST_STEPS = 2n ** 53n;
const MOST_RECORDS = { none: 2 ** 32, record: 2 ** 30 };
/** The labels of every category beside its values. */
export const OTHER = "other";
export const MISSING = "missing";

/** Return a text in Normalization Form C, in which an accent is written in one way. */
function composed(value: unknown, what: string): string {
  return checkString(value, what).normalize("NFC");
}

/** Return a name or value: 1 to 100 characters that can be seen, and none of the spaces around it. */
function label(value: unknown, what: string): string {
  const text = checkCharacters(composed(value, what), what);
  if (text === "" || [...text].length > 100 || text.trim() !== text) {
    throw new ConfigError(`${what} must have 1 to 100 characters, without spaces around them`);
  }
  return text;
}

/** Return a finite number; the other zero is the same number. */
function float(value: unknown, what: string): number {
  return checkFloat(value, what, { least: -Number.MAX_VALUE, most: Number.MAX_VALUE }) + 0;
}

/** Refuse a list that is too long or has an entry twice. */
function differing<T>(list: readonly T[], what: string): readonly T[] {
  if (list.length > MOST_ENTRIES || new Set(list).size !== list.length) {
    throw new ConfigError(`${what} must not repeat an entry or have more than ${MOST_ENTRIES}`);
  }
  return list;
}

function list<T>(
  table: Table,
  key: string,
  check: (value: unknown, what: string) => T,
  otherwise?: readonly T[],
): readonly T[] {
  return differing(table.array(key, check, otherwise), `${table.what}: ${key}`);
}

function ascending(values: readonly number[]): boolean {
  return values.every((value, at) => at === 0 || values[at - 1]! < value);
}

/** Return a bound or an edge in steps of a column, which it has to be a whole number of. */
export function stepsOf(value: number, places: number, what: string): bigint {
  const decimal = decimalOf(value);
  const { steps, rest } = decimal === null ? { steps: 0n, rest: 1 } : inSteps(decimal, places);
  if (rest !== 0 || steps > MOST_STEPS || steps < -MOST_STEPS) {
    throw new ConfigError(`${what}: ${value} must be a multiple of 10^-${places}, at most 2^53 times that`);
  }
  return steps;
}

function readNumber(value: unknown, what: string): NumberColumn {
  const table = checkTable(value, what);
  const column: NumberColumn = {
    name: table.read("name", label),
    lower: table.read("lower", float),
    upper: table.read("upper", float),
    places: table.integer("places", 0, 9, 0),
    measures: list(table, "measures", (each, text) => checkWord(each, text, MEASURES), ["count", "mean"]),
    edges: list(table, "edges", float, []),
    quantiles: list(table, "quantiles", float, [0.25, 0.5, 0.75]),
  };
  table.end();
  checkNumber(column, what);
  return column;
}

function checkNumber({ lower, upper, places, measures, edges, quantiles }: NumberColumn, what: string): void {
  const bounds = [lower, ...edges, upper];
  bounds.forEach((bound) => stepsOf(bound, places, what));
  const binned = measures.includes("histogram") || measures.includes("quantiles");
  const rules: readonly (readonly [boolean, string])[] = [
    [ascending(bounds), "lower, edges and upper ascend"],
    [measures.length > 0, "something is measured"],
    [binned === edges.length > 0, "there are edges if and only if histogram or quantiles is measured"],
    [ascending([0, ...quantiles, 1]), "quantiles ascend between 0 and 1"],
    [quantiles.length > 0 || !measures.includes("quantiles"), "it is said which quantiles"],
  ];
  const broken = rules.find(([holds]) => !holds);
  if (broken !== undefined) {
    throw new ConfigError(`${what}: it must hold that ${broken[1]}`);
  }
}

function readCategory(value: unknown, what: string): CategoryColumn {
  const table = checkTable(value, what);
  const column = { name: table.read("name", label), values: list(table, "values", label) };
  table.end();
  if (column.values.length === 0 || column.values.includes(OTHER) || column.values.includes(MISSING)) {
    throw new ConfigError(`${what}: must have values, and none of them may be ${OTHER} or ${MISSING}`);
  }
  return column;
}

/**
 * Return the table `[statistics]` of a charter, checked by itself.
 * @throws ConfigError
 */
export function readSchema(table: Table): Schema {
  const name = table.read("name", label);
  const privacyUnit = table.word("privacy_unit", ["none", "record"], "none");
  const schema: Schema = {
    name,
    maxRecords: table.integer("max_records", 1, MOST_RECORDS[privacyUnit], 1_000_000),
    leastGroup: table.integer("least_group", 1, MOST_RECORDS[privacyUnit], 5),
    privacyUnit,
    groupBy: list(table, "group_by", composed, []),
    missing: list(table, "missing", label, []),
    numbers: list(table, "numbers", readNumber, []),
    categories: list(table, "categories", readCategory, []),
  };
  table.end();
  checkSchema(schema);
  return schema;
}

function checkSchema(schema: Schema): void {
  const { privacyUnit, leastGroup, maxRecords } = schema;
  if (leastGroup > (privacyUnit === "record" ? 1 : maxRecords)) {
    throw new ConfigError("[statistics]: least_group must be at most max_records, and 1 if noise hides records");
  }
  checkColumns(schema);
  if (schemaLength(schema) > MOST_WORDS) {
    throw new ConfigError(`[statistics]: a vector would have ${schemaLength(schema)} words; the maximum is 2^20`);
  }
}

function checkColumns({ numbers, categories, groupBy, missing }: Schema): void {
  differing(
    [...numbers, ...categories].map(({ name }) => name),
    "[statistics]: the names of columns",
  );
  if (categories.some(({ values }) => values.some((value) => missing.includes(value)))) {
    throw new ConfigError("[statistics]: a value of a category is also listed in missing");
  }
  const grouped = groupBy.map((name) => categories.find((category) => category.name === name));
  if (grouped.length > 3 || grouped.includes(undefined)) {
    throw new ConfigError("[statistics]: group_by must have at most 3 entries, all names of categories");
  }
  if (grouped.reduce((groups, category) => groups * labelsOf(category!).length, 1) > MOST_GROUPS) {
    throw new ConfigError(`[statistics]: there are more than ${MOST_GROUPS} groups`);
  }
}

/** Return the labels of a category: its values, `other` and `missing`. */
export function labelsOf({ values }: CategoryColumn): readonly string[] {
  return [...values, OTHER, MISSING];
}

/** Return the entries of a schema's encoding, in order. */
export function schemaEntries(schema: Schema): ReadonlyMap<string, Value> {
  return new Map<string, Value>([
    ["name", schema.name],
    ["max_records", schema.maxRecords],
    ["least_group", schema.leastGroup],
    ["privacy_unit", schema.privacyUnit],
    ["group_by", schema.groupBy],
    ["missing", schema.missing],
    ["numbers", schema.numbers.map(numberEntries)],
    ["categories", schema.categories.map(categoryEntries)],
  ]);
}

function numberEntries(column: NumberColumn): ReadonlyMap<string, Value> {
  const floats = (values: readonly number[]): Value => values.map((value) => new Float(value));
  return new Map<string, Value>([
    ["name", column.name],
    ["lower", new Float(column.lower)],
    ["upper", new Float(column.upper)],
    ["places", column.places],
    ["measures", column.measures],
    ["edges", floats(column.edges)],
    ["quantiles", floats(column.quantiles)],
  ]);
}

function categoryEntries({ name, values }: CategoryColumn): ReadonlyMap<string, Value> {
  return new Map<string, Value>([
    ["name", name],
    ["values", values],
  ]);
}

// The numbers that a table becomes, and their order (16.2)

/** Bits of a digit: sums of 2^20 of them stay within a word. */
export const DIGIT_BITS = 43;

/** Something that is counted in every group. */
export interface Quantity {
  readonly column: string | null;
  readonly kind: "records" | "present" | "clipped" | "total" | "square" | "bins" | "values";
  /** Its numbers in one group. */
  readonly size: number;
  /** The most that a record adds to one of them. */
  readonly largest: bigint;
}

/** Return R of a column: how many steps there are from its lower to its upper bound. */
export function rangeOf({ lower, upper, places, name }: NumberColumn): bigint {
  return stepsOf(upper, places, name) - stepsOf(lower, places, name);
}

function* ofNumber(column: NumberColumn, exact: boolean): Generator<Quantity> {
  const has = (...measures: readonly string[]): boolean => column.measures.some((each) => measures.includes(each));
  const range = rangeOf(column);
  const one = { column: column.name, size: 1, largest: 1n } as const;
  yield { ...one, kind: "present" };
  if (exact) {
    yield { ...one, kind: "clipped" };
  }
  if (has("sum", "mean", "variance")) {
    yield { ...one, kind: "total", largest: range };
  }
  if (has("variance")) {
    yield { ...one, kind: "square", largest: range ** 2n };
  }
  if (has("histogram", "quantiles")) {
    yield { ...one, kind: "bins", size: column.edges.length + 1 };
  }
}

/** Return the quantities of a schema, in order. */
export function quantitiesOf({ numbers, categories, groupBy, privacyUnit }: Schema): readonly Quantity[] {
  return [
    { column: null, kind: "records", size: 1, largest: 1n },
    ...numbers.flatMap((column) => [...ofNumber(column, privacyUnit === "none")]),
    ...categories
      .filter(({ name }) => !groupBy.includes(name))
      .map(
        (category): Quantity => ({
          column: category.name,
          kind: "values",
          size: labelsOf(category).length,
          largest: 1n,
        }),
      ),
  ];
}

/** Return the categories by which a schema groups, in its order. */
export function groupsBy({ groupBy, categories }: Schema): readonly CategoryColumn[] {
  return groupBy.map((name) => categories.find((category) => category.name === name)!);
}

/** Return how many groups there are. */
export function groupCount(schema: Schema): number {
  return groupsBy(schema).reduce((groups, category) => groups * labelsOf(category).length, 1);
}

/** Return the labels of a group; the last category runs fastest. */
export function groupLabels(schema: Schema, group: number): readonly string[] {
  let rest = group;
  return groupsBy(schema)
    .toReversed()
    .map((category) => {
      const labels = labelsOf(category);
      const place = rest % labels.length;
      rest = Math.floor(rest / labels.length);
      return labels[place]!;
    })
    .reverse();
}

/** Return how many numbers a table becomes: d of 16.3. */
export function dimensionOf(schema: Schema): number {
  return groupCount(schema) * quantitiesOf(schema).reduce((sum, { size }) => sum + size, 0);
}

/** Return how many digits to the base 2^43 the numbers of a quantity have. */
export function digitsOf({ largest }: Quantity, { maxRecords }: Schema): number {
  return Math.ceil((BigInt(maxRecords) * largest).toString(2).length / DIGIT_BITS);
}

/** Return the words of a vector: the length of its rounds. */
export function schemaLength(schema: Schema): number {
  if (schema.privacyUnit === "record") {
    return dimensionOf(schema);
  }
  const groups = groupCount(schema);
  return quantitiesOf(schema).reduce((sum, each) => sum + groups * each.size * digitsOf(each, schema), 0);
}
