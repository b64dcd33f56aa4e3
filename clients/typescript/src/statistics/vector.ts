/** The vector of a counted table, exact or with noise, and what a sum of them says (16.3). */

import type { Bytes } from "../bytes.js";
import type { Engine } from "../crypto/engine.js";
import { ConfigError, VectorError } from "../errors.js";
import { drawLargeWith, underFreshKey } from "../privacy/draw.js";
import { squareRoot } from "../privacy/fixed.js";
import type { PrivacyTable } from "../privacy/table.js";
import { thresholdsFor } from "../privacy/thresholds.js";
import { centred, countRecords, type TableRecord } from "./count.js";
import { floorDivide } from "./decimal.js";
import { dimensionOf, groupCount, quantitiesOf, type Quantity } from "./layout.js";
import type { Schema } from "./schema.js";

const DIGIT = 43n;
const MOST_MEMBERS = 2 ** 20;

/** Return how many digits to the base 2^43 the numbers of a quantity have. */
function digitsOf({ largest }: Quantity, { maxRecords }: Schema): number {
  return Math.ceil((BigInt(maxRecords) * largest).toString(2).length / Number(DIGIT));
}

/** List the quantity of each number, in order. */
function* perNumber(schema: Schema): Generator<Quantity> {
  const groups = groupCount(schema);
  for (const quantity of quantitiesOf(schema)) {
    for (let at = 0; at < groups * quantity.size; at++) {
      yield quantity;
    }
  }
}

/** Return the words of a vector: the length of its rounds. */
export function schemaLength(schema: Schema): number {
  if (schema.privacyUnit === "record") {
    return dimensionOf(schema);
  }
  const groups = groupCount(schema);
  return quantitiesOf(schema).reduce((sum, each) => sum + groups * each.size * digitsOf(each, schema), 0);
}

/**
 * Refuse noise that is not for this schema.
 * @throws ConfigError
 */
export function checkRecordNoise(schema: Schema, privacy: PrivacyTable | null): void {
  if ((schema.privacyUnit === "record") !== (privacy !== null) || (privacy !== null && privacy.unit !== "record")) {
    throw new ConfigError("[statistics]: privacy_unit is record if and only if there is noise with unit = record");
  }
  if (privacy === null) {
    return;
  }
  const due = { norm: Math.sqrt(quantitiesOf(schema).length), fieldBits: 64, dimension: dimensionOf(schema) };
  for (const key of ["norm", "fieldBits", "dimension"] as const) {
    if (privacy[key] !== due[key]) {
      throw new ConfigError(`[privacy]: for these statistics ${key} has to be ${due[key]}, got ${privacy[key]}`);
    }
  }
}

function toWords(values: readonly bigint[]): Bytes {
  const words = new Uint8Array(8 * values.length);
  const view = new DataView(words.buffer);
  values.forEach((value, at) => view.setBigUint64(8 * at, BigInt.asUintN(64, value), true));
  return words;
}

/** Return the words of counted numbers without noise. */
function exactWords(schema: Schema, numbers: readonly bigint[]): Bytes {
  const words: bigint[] = [];
  let at = 0;
  for (const quantity of perNumber(schema)) {
    const number = numbers[at++]!;
    for (let digit = 0; digit < digitsOf(quantity, schema); digit++) {
      words.push(BigInt.asUintN(Number(DIGIT), number >> (DIGIT * BigInt(digit))));
    }
  }
  return toWords(words);
}

/** Return m of 16.3: the fine steps of a quantity's largest number. */
function stepsPerLargest(schema: Schema, { bound }: PrivacyTable): bigint {
  return squareRoot(BigInt(bound) ** 2n / BigInt(quantitiesOf(schema).length));
}

/** Return the centres of counted numbers, in fine steps. */
export function centresOf(schema: Schema, privacy: PrivacyTable, numbers: readonly bigint[]): bigint[] {
  const steps = stepsPerLargest(schema, privacy);
  const quantities = perNumber(schema);
  return centred(schema, numbers).map((x) => {
    const { largest } = quantities.next().value as Quantity;
    return floorDivide(2n * x * steps + largest, 2n * largest);
  });
}

/** Return the words of a table with the noise of a given key: for test vectors, and for what has made a fresh one. */
export async function noisyWordsWith(
  engine: Engine,
  key: Uint8Array,
  schema: Schema,
  privacy: PrivacyTable,
  numbers: readonly bigint[],
): Promise<Bytes> {
  const thresholds = thresholdsFor(privacy.variance, privacy.gridBits);
  return toWords(await drawLargeWith(engine, key, thresholds, centresOf(schema, privacy, numbers)));
}

/**
 * Return the vector of a table: exact, or with fresh noise where the charter has it. It is for one round.
 *
 * @param privacy The charter's noise, null without it.
 * @throws ConfigError for noise that is not for this schema; VectorError for a table that cannot be counted.
 */
export async function tableVector(
  engine: Engine,
  schema: Schema,
  privacy: PrivacyTable | null,
  records: Iterable<TableRecord>,
): Promise<Bytes> {
  checkRecordNoise(schema, privacy);
  const numbers = countRecords(schema, records);
  if (privacy === null) {
    return exactWords(schema, numbers);
  }
  return underFreshKey(engine, (key) => noisyWordsWith(engine, key, schema, privacy, numbers));
}

/** What a sum says of one quantity. */
export interface Sums {
  readonly quantity: Quantity;
  /** By group, in it in their order: whole numbers without noise, estimates with it. */
  readonly numbers: readonly (readonly (bigint | number)[])[];
}

/**
 * Return what a sum says; totals and squares are those of the page, in steps and, with noise, about the middle.
 *
 * @param members How many members' vectors are in the sum.
 * @throws VectorError for a sum of another length, or one that so many members cannot have.
 */
export function readSums(schema: Schema, privacy: PrivacyTable | null, sum: Uint8Array, members: number): readonly Sums[] {
  checkRecordNoise(schema, privacy);
  if (sum.length !== 8 * schemaLength(schema)) {
    throw new VectorError(`expected ${8 * schemaLength(schema)} bytes of words, got ${sum.length}`);
  }
  if (!(Number.isInteger(members) && members >= 1 && members <= MOST_MEMBERS)) {
    throw new VectorError(`a sum has 1 to 2^20 members, got ${members}`);
  }
  const view = new DataView(sum.buffer, sum.byteOffset, sum.byteLength);
  let at = 0;
  const word = (): number => (at += 8) - 8;
  const read = privacy === null ? exactReader(schema, members, view, word) : noisyReader(schema, privacy, view, word);
  const groups = groupCount(schema);
  return quantitiesOf(schema).map((quantity) => ({
    quantity,
    numbers: Array.from({ length: groups }, () => Array.from({ length: quantity.size }, () => read(quantity))),
  }));
}

type Reader = (quantity: Quantity) => bigint | number;

function exactReader(schema: Schema, members: number, view: DataView, word: () => number): Reader {
  return (quantity) => {
    const digits = Array.from({ length: digitsOf(quantity, schema) }, () => view.getBigUint64(word(), true));
    const number = digits.reduceRight((rest, digit) => (rest << DIGIT) + digit, 0n);
    const most = BigInt(members) * BigInt(schema.maxRecords) * quantity.largest;
    if (number > most || digits.some((digit) => digit > BigInt(members) * (2n ** DIGIT - 1n))) {
      throw new VectorError(`the sum has a number that ${members} members cannot have`);
    }
    return number;
  };
}

function noisyReader(schema: Schema, privacy: PrivacyTable, view: DataView, word: () => number): Reader {
  const step = 2 ** privacy.gridBits / Number(stepsPerLargest(schema, privacy));
  return ({ largest }) => Number(view.getBigInt64(word(), true)) * step * Number(largest);
}
