/** The contents of a sum of members' vectors (16.3). */

import { VectorError } from "../errors.js";
import type { PrivacyTable } from "../privacy/table.js";
import {
  DIGIT_BITS,
  digitsOf,
  groupCount,
  type NumberColumn,
  type Quantity,
  quantitiesOf,
  rangeOf,
  type Schema,
  schemaLength,
} from "./schema.js";
import { checkStatistics, stepsPerLargest } from "./vector.js";

/** The contents of a sum for one quantity. */
export interface Sums {
  readonly quantity: Quantity;
  /** By group, in it in their order: whole numbers without noise, estimates with it. */
  readonly numbers: readonly (readonly (bigint | number)[])[];
}

const DIGIT = BigInt(DIGIT_BITS);
const MOST_DIGIT = 2n ** 20n * (2n ** DIGIT - 1n);

/** Reads the next number of a quantity off a sum. */
type Reader<T> = (quantity: Quantity) => T;
/** Gives the numbers of a quantity in one group; none if it is not counted. */
type Group<T> = (kind: Quantity["kind"], column: string | null) => readonly T[];

/**
 * Return what a sum says, in steps above the lower bounds.
 *
 * @param members How many members' vectors are in the sum.
 * @throws VectorError for a sum of another length, or one that these members cannot have; ConfigError for noise that
 * is not for this schema, or more members than a sum can have.
 */
export function readSums(
  schema: Schema,
  privacy: PrivacyTable | null,
  sum: Uint8Array,
  members: number,
): readonly Sums[] {
  checkStatistics(schema, privacy, members);
  if (sum.length !== 8 * schemaLength(schema)) {
    throw new VectorError(`expected ${8 * schemaLength(schema)} bytes of words, got ${sum.length}`);
  }
  const view = new DataView(sum.buffer, sum.byteOffset, sum.byteLength);
  let at = 0;
  const word = (): number => {
    at += 8;
    return at - 8;
  };
  return privacy === null
    ? exactSums(schema, members, () => view.getBigUint64(word(), true))
    : noisySums(schema, privacy, () => view.getBigInt64(word(), true));
}

function readAll<T>(schema: Schema, read: Reader<T>): { quantity: Quantity; numbers: T[][] }[] {
  const groups = groupCount(schema);
  return quantitiesOf(schema).map((quantity) => ({
    quantity,
    numbers: Array.from({ length: groups }, () => Array.from({ length: quantity.size }, () => read(quantity))),
  }));
}

function groupOf<T>(sums: readonly { quantity: Quantity; numbers: T[][] }[], group: number): Group<T> {
  return (kind, column) => {
    const found = sums.find(({ quantity }) => quantity.kind === kind && quantity.column === column);
    return found?.numbers[group] ?? [];
  };
}

function exactSums(schema: Schema, members: number, word: () => bigint): readonly Sums[] {
  const sums = readAll(schema, (quantity) => {
    const digits = Array.from({ length: digitsOf(quantity, schema) }, word);
    const number = digits.reduceRight((rest, digit) => (rest << DIGIT) + digit, 0n);
    const most = BigInt(members) * BigInt(schema.maxRecords) * quantity.largest;
    if (number > most || digits.some((digit) => digit > MOST_DIGIT)) {
      throw new VectorError(`the sum has a number that ${members} members cannot produce`);
    }
    return number;
  });
  for (let group = 0; group < groupCount(schema); group++) {
    if (!isPossible(schema, groupOf(sums, group))) {
      throw new VectorError("the sum is inconsistent: some member did not send what it counted");
    }
  }
  return sums;
}

function addUp(numbers: readonly bigint[]): bigint {
  return numbers.reduce((sum, number) => sum + number, 0n);
}

/** Tell whether some records have these numbers, if that is easy to see. */
function isPossible(schema: Schema, group: Group<bigint>): boolean {
  const [records = 0n] = group("records", null);
  const labels = schema.categories.map(({ name }) => group("values", name)).filter((values) => values.length > 0);
  return (
    labels.every((values) => addUp(values) === records) &&
    schema.numbers.every((column) => isPossibleColumn(column, records, group))
  );
}

function isPossibleColumn(column: NumberColumn, records: bigint, group: Group<bigint>): boolean {
  const range = rangeOf(column);
  const [present = 0n] = group("present", column.name);
  const [clipped = 0n] = group("clipped", column.name);
  const [total = 0n] = group("total", column.name);
  const [square] = group("square", column.name);
  const bins = group("bins", column.name);
  return (
    clipped <= present &&
    present <= records &&
    total <= present * range &&
    (square === undefined || (total * total <= present * square && square <= total * range)) &&
    (bins.length === 0 || addUp(bins) === present)
  );
}

function noisySums(schema: Schema, privacy: PrivacyTable, word: () => bigint): readonly Sums[] {
  const step = 2 ** privacy.gridBits / Number(stepsPerLargest(schema, privacy));
  const sums = readAll(schema, ({ largest }) => Number(word()) * step * Number(largest));
  for (const column of schema.numbers) {
    const range = Number(rangeOf(column));
    const of = (kind: Quantity["kind"]) =>
      sums.find(({ quantity }) => quantity.kind === kind && quantity.column === column.name)?.numbers;
    const [totals, squares] = [of("total"), of("square")];
    of("present")!.forEach(([present], group) => uncentre(present!, totals?.[group], squares?.[group], range));
  }
  return sums;
}

/** Turn a total and a square about the middle of their range back into those above the lower bound. */
function uncentre(present: number, total: number[] | undefined, square: number[] | undefined, range: number): void {
  if (total !== undefined) {
    total[0] = (total[0]! + present * range) / 2;
    if (square !== undefined) {
      square[0] = (square[0]! + 4 * range * total[0] - present * range ** 2) / 4;
    }
  }
}
