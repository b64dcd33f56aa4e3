/** Counting a table by a schema (16.2). Nothing of a record is in a text of an error. */

import { VectorError } from "../errors.js";
import { type Decimal, decimalOf, inSteps, parseDecimal } from "./decimal.js";
import {
  type CategoryColumn,
  dimensionOf,
  groupCount,
  groupsBy,
  labelsOf,
  MISSING,
  type NumberColumn,
  OTHER,
  type Quantity,
  quantitiesOf,
  rangeOf,
  type Schema,
  stepsOf,
} from "./schema.js";

/** The values of a field of a table; null, NaN and empty text are missing values. */
export type Cell = string | number | null;
/** A record: a cell for each column, by its name. */
export type TableRecord = Readonly<Record<string, Cell>>;

/** Adds one record to the numbers of its group, which start at a place of each quantity. */
type Adder = (record: TableRecord, add: (number: number, amount: bigint) => void) => void;

/** Spaces around text, which do not count; those that `trim` takes away are others. */
const SPACE = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
const BEFORE = new RegExp(`^${SPACE}+`);
const BEHIND = new RegExp(`(?<!${SPACE})${SPACE}+$`);

/** Return the text of a cell in Normalization Form C, as the schema has its own, or null where it is missing. */
function textOf(record: TableRecord, column: string, missing: ReadonlySet<string>): string | null {
  const cell = record[column];
  // A name such as `constructor` finds something in every object, which is not a cell.
  if (cell === undefined || typeof cell === "function" || (typeof cell === "object" && cell !== null)) {
    throw new VectorError(`column ${column} is missing in a record`);
  }
  const plain = cell === null || Number.isNaN(cell) ? "" : String(cell).replace(BEFORE, "").replace(BEHIND, "");
  const text = plain.normalize("NFC");
  return text === "" || missing.has(text) ? null : text;
}

/** Return the place of a record's label among those of a category. */
function placeIn(category: CategoryColumn, missing: ReadonlySet<string>): (record: TableRecord) => number {
  const labels = labelsOf(category);
  const places = new Map(category.values.map((value, at) => [value, at]));
  return (record) => {
    const text = textOf(record, category.name, missing);
    return text === null ? labels.indexOf(MISSING) : (places.get(text) ?? labels.indexOf(OTHER));
  };
}

/** The counted value of a number: u, and whether it was beyond the bounds. */
interface Counted {
  readonly u: bigint;
  readonly clipped: boolean;
}

function counted(x: Decimal, places: number, low: bigint, high: bigint): Counted {
  const { steps, rest } = inSteps(x, places);
  const below = steps < low || (steps === low && rest < 0);
  const above = steps > high || (steps === high && rest > 0);
  const inside = steps < low ? low : steps > high ? high : steps;
  return { u: inside - low, clipped: below || above };
}

function reader(column: NumberColumn, missing: ReadonlySet<string>): (record: TableRecord) => Counted | null {
  const { places, lower, upper, name } = column;
  const [low, high] = [stepsOf(lower, places, name), stepsOf(upper, places, name)];
  return (record) => {
    const text = textOf(record, column.name, missing);
    const cell = record[column.name];
    if (Number.isNaN(cell) || (text === null && typeof cell !== "number")) {
      return null;
    }
    const x = typeof cell === "number" ? decimalOf(cell) : parseDecimal(text!);
    if (x === null) {
      throw new VectorError(`column ${column.name} has a value that is not a number`);
    }
    return counted(x, places, low, high);
  };
}

/** The amount that one quantity adds for a present number, and the number that it is added to. */
const AMOUNTS: Readonly<Record<string, (value: Counted, edges: readonly bigint[]) => readonly [number, bigint]>> = {
  present: () => [0, 1n],
  clipped: ({ clipped }) => [0, clipped ? 1n : 0n],
  total: ({ u }) => [0, u],
  square: ({ u }) => [0, u * u],
  bins: ({ u }, edges) => [edges.filter((edge) => edge <= u).length, 1n],
};

function ofNumber(column: NumberColumn, own: readonly Placed[], missing: ReadonlySet<string>): Adder {
  const read = reader(column, missing);
  const low = stepsOf(column.lower, column.places, column.name);
  const edges = column.edges.map((edge) => stepsOf(edge, column.places, column.name) - low);
  return (record, add) => {
    const value = read(record);
    for (const [{ kind }, at] of value === null ? [] : own) {
      const [number, amount] = AMOUNTS[kind]!(value!, edges);
      add(at + number, amount);
    }
  };
}

/** A quantity, and where its numbers begin among those of a group. */
type Placed = readonly [quantity: Quantity, at: number];

/** Return the quantities of a column. */
function placedOf(schema: Schema): (name: string) => readonly Placed[] {
  let end = 0;
  const placed = quantitiesOf(schema).map((quantity): Placed => {
    end += quantity.size;
    return [quantity, end - quantity.size];
  });
  return (name) => placed.filter(([{ column }]) => column === name);
}

/** Return what adds a record to the numbers of its group, in the order of the quantities. */
function addersOf(schema: Schema): Adder[] {
  const missing = new Set(schema.missing);
  const own = placedOf(schema);
  const ungrouped = schema.categories.filter(({ name }) => !schema.groupBy.includes(name));
  return [
    (_, add) => add(0, 1n),
    ...schema.numbers.map((column) => ofNumber(column, own(column.name), missing)),
    ...ungrouped.map((category): Adder => {
      const [place, at] = [placeIn(category, missing), own(category.name)[0]![1]];
      return (record, add) => add(at + place(record), 1n);
    }),
  ];
}

/**
 * Return the numbers of a table: by group, and in it by quantity; what is of too few records is zero.
 * @throws VectorError for more records than agreed, or an invalid number.
 */
function countGroups(schema: Schema, records: Iterable<TableRecord>): bigint[][] {
  const adders = addersOf(schema);
  const missing = new Set(schema.missing);
  const places = groupsBy(schema).map((each) => [placeIn(each, missing), labelsOf(each).length] as const);
  const width = dimensionOf(schema) / groupCount(schema);
  const groups = Array.from({ length: groupCount(schema) }, () => new Array<bigint>(width).fill(0n));
  let seen = 0;
  for (const record of records) {
    if (++seen > schema.maxRecords) {
      throw new VectorError(`the table has more than ${schema.maxRecords} records`);
    }
    const group = groups[places.reduce((at, [place, labels]) => at * labels + place(record), 0)]!;
    adders.forEach((adder) => adder(record, (number, amount) => (group[number]! += amount)));
  }
  leaveOut(schema, groups);
  return groups;
}

/**
 * Set the numbers of groups with few records to zero, and in others those of columns of which few values are present.
 */
function leaveOut(schema: Schema, groups: readonly bigint[][]): void {
  const least = BigInt(schema.leastGroup);
  const columns = schema.numbers.map(({ name }) => placedOf(schema)(name));
  for (const group of groups) {
    if (group[0]! < least) {
      group.fill(0n);
    }
    for (const own of columns) {
      const present = group[own.find(([{ kind }]) => kind === "present")![1]]!;
      own.forEach(([{ size }, at]) => present < least && group.fill(0n, at, at + size));
    }
  }
}

/**
 * Return the numbers that a table becomes: by quantity, in it by group, in it in their order.
 * @throws VectorError for more records than agreed, or an invalid number.
 */
export function countRecords(schema: Schema, records: Iterable<TableRecord>): bigint[] {
  const groups = countGroups(schema, records);
  let start = 0;
  return quantitiesOf(schema).flatMap(({ size }) => {
    start += size;
    return groups.flatMap((group) => group.slice(start - size, start));
  });
}

/** Return numbers as they are with noise: totals and squares about the middle of their range (16.3). */
export function centred(schema: Schema, numbers: readonly bigint[]): bigint[] {
  const groups = groupCount(schema);
  const out = [...numbers];
  let at = 0;
  const start = new Map<string, number>();
  for (const { column, kind, size } of quantitiesOf(schema)) {
    start.set(`${kind} ${column}`, at);
    at += size * groups;
  }
  for (const column of schema.numbers) {
    const range = rangeOf(column);
    const [present, total, square] = ["present", "total", "square"].map((kind) => start.get(`${kind} ${column.name}`));
    for (let group = 0; group < groups && total !== undefined; group++) {
      const [n, s] = [numbers[present! + group]!, numbers[total + group]!];
      out[total + group] = 2n * s - n * range;
      if (square !== undefined) {
        out[square + group] = 4n * numbers[square + group]! - 4n * range * s + n * range ** 2n;
      }
    }
  }
  return out;
}
