/** The vector of a counted table, exact or with noise (16.3). */

import type { Bytes } from "../bytes.js";
import type { Engine } from "../crypto/engine.js";
import { ConfigError } from "../errors.js";
import { drawLargeWith, underFreshKey } from "../privacy/draw.js";
import { squareRoot } from "../privacy/fixed.js";
import type { PrivacyTable } from "../privacy/table.js";
import { thresholdsFor } from "../privacy/thresholds.js";
import { centred, countRecords, type TableRecord } from "./count.js";
import { floorDivide } from "./decimal.js";
import { DIGIT_BITS, digitsOf, dimensionOf, groupCount, type Quantity, quantitiesOf, type Schema } from "./schema.js";

const DIGIT = BigInt(DIGIT_BITS);
const MOST_MEMBERS = 2 ** 20;
/** More than any draw is away from its centre. */
const FARTHEST = 2n ** 20n;

/** List the quantity of each number, in order. */
function* perNumber(schema: Schema): Generator<Quantity> {
  const groups = groupCount(schema);
  for (const quantity of quantitiesOf(schema)) {
    for (let at = 0; at < groups * quantity.size; at++) {
      yield quantity;
    }
  }
}

/**
 * Refuse noise that is not for this schema, and more members than a sum can have.
 * @throws ConfigError
 */
export function checkStatistics(schema: Schema, privacy: PrivacyTable | null, members = 1): void {
  if ((schema.privacyUnit === "record") !== (privacy !== null)) {
    throw new ConfigError('[statistics]: privacy_unit must be "record" if and only if there is noise');
  }
  if (!(Number.isInteger(members) && members >= 1 && members <= MOST_MEMBERS)) {
    throw new ConfigError(`statistics need 1 to 2^20 members, got ${members}`);
  }
  if (privacy !== null) {
    checkNoise(schema, privacy, members);
  }
}

function checkNoise(schema: Schema, privacy: PrivacyTable, members: number): void {
  const norm = Math.sqrt(quantitiesOf(schema).length);
  const due = { unit: "record", norm, fieldBits: 64, dimension: dimensionOf(schema) } as const;
  for (const key of ["unit", "norm", "fieldBits", "dimension"] as const) {
    if (privacy[key] !== due[key]) {
      throw new ConfigError(`[privacy]: for these statistics ${key} must be ${due[key]}, got ${privacy[key]}`);
    }
  }
  const steps = stepsPerLargest(schema, privacy);
  const most = ((BigInt(schema.maxRecords) * steps) >> BigInt(privacy.gridBits)) + FARTHEST;
  if (steps < 1n || BigInt(members) * most >= 2n ** 63n) {
    throw new ConfigError(
      "[privacy]: a record is smaller than one fine step, or the sum of all members could overflow",
    );
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
export function stepsPerLargest(schema: Schema, { bound }: PrivacyTable): bigint {
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
  checkStatistics(schema, privacy);
  const numbers = countRecords(schema, records);
  if (privacy === null) {
    return exactWords(schema, numbers);
  }
  return underFreshKey(engine, (key) => noisyWordsWith(engine, key, schema, privacy, numbers));
}
