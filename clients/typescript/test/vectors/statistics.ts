/** Section 16: statistics.json. */

import { fromHex } from "../../src/bytes.js";
import { Table } from "../../src/charter/table.js";
import type { Engine } from "../../src/crypto/engine.js";
import { checkPrivacy, type PrivacyTable } from "../../src/privacy/table.js";
import { countRecords } from "../../src/statistics/count.js";
import {
  dimensionOf,
  quantitiesOf,
  readSchema,
  type Schema,
  schemaEntries,
  schemaLength,
} from "../../src/statistics/schema.js";
import { readSums } from "../../src/statistics/sums.js";
import { centresOf, checkStatistics, noisyWordsWith, tableVector } from "../../src/statistics/vector.js";
import { encode } from "../../src/wire.js";
import { type Case, equals, type Replay, refuses, same } from "./check.js";
import { close, tableOf } from "./noise.js";
import { number } from "./quantizer.js";

const NAMES = ["nan", "inf", "-inf"];

/** Return values of JSON as a reader of TOML gives them: integers as bigint. */
function toml(value: any): any {
  if (Array.isArray(value)) {
    return value.map(toml);
  }
  if (typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, toml(each)]));
  }
  if (NAMES.includes(value)) {
    return number(value);
  }
  return Number.isInteger(value) && !Object.is(value, -0) ? BigInt(value) : value;
}

function schemaOf(entry: any): Schema {
  return readSchema(new Table(toml(entry.schema), "[statistics]"));
}

function privacyOf(data: any, place: number | null): PrivacyTable | null {
  if (place === null) {
    return null;
  }
  const table = tableOf(data.mechanisms[place]);
  checkPrivacy(table);
  return table;
}

async function schemas(_: Engine, entry: any): Promise<void> {
  const schema = schemaOf(entry);
  same(entry.gives.encoding, encode(schemaEntries(schema)), "encoding");
  const found = {
    length: schemaLength(schema),
    dimension: dimensionOf(schema),
    quantities: quantitiesOf(schema).length,
  };
  const { encoding: _encoding, ...gives } = entry.gives;
  equals(gives, found);
}

async function counted(engine: Engine, entry: any, data: any): Promise<void> {
  const schema = schemaOf(data.schemas[entry.schema]);
  equals(entry.numbers?.map(String), countRecords(schema, entry.records).map(String), "numbers");
  same(entry.words, await tableVector(engine, schema, null, entry.records), "words");
}

async function noisy(engine: Engine, entry: any, data: any): Promise<void> {
  const [schema, privacy] = [schemaOf(data.schemas[entry.schema]), privacyOf(data, entry.mechanism)];
  checkStatistics(schema, privacy);
  const numbers = countRecords(schema, entry.records);
  equals(entry.centres?.map(String), centresOf(schema, privacy!, numbers).map(String), "centres");
  same(entry.words, await noisyWordsWith(engine, fromHex(entry.key), schema, privacy!, numbers), "words");
}

async function sums(_: Engine, entry: any, data: any): Promise<void> {
  const [schema, privacy] = [schemaOf(data.schemas[entry.schema]), privacyOf(data, entry.mechanism)];
  const found = readSums(schema, privacy, fromHex(entry.sum), entry.members).flatMap(({ numbers }) => numbers.flat());
  if (privacy === null) {
    equals(entry.numbers?.map(String), found.map(String), "numbers");
  } else {
    close(entry.numbers, found.map(Number), "numbers");
  }
}

const KINDS = { schemas, counted, noisy, sums };

export const statistics: Replay = (data) =>
  Object.entries(KINDS).flatMap(([kind, replay]) =>
    data[kind].map(
      (entry: any, at: number): Case => ({
        name: `${kind} ${at}${entry.name ? `: ${entry.name}` : ""}`,
        run: (engine) => {
          const work = (): Promise<void> => replay(engine, entry, data);
          return entry.error === undefined ? work() : refuses(entry.error, work);
        },
      }),
    ),
  );
