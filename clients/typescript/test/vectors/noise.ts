/** Section 15: noise.json. */

import { concat, fromHex, toHex } from "../../src/bytes.js";
import type { Engine } from "../../src/crypto/engine.js";
import { epsilonOf } from "../../src/privacy/accounting.js";
import { drawLargeWith, drawWith } from "../../src/privacy/draw.js";
import { encodeWithKey, NoisyQuantizer, toFine } from "../../src/privacy/noisy.js";
import { rotate, rotateBack, signBits } from "../../src/privacy/rotation.js";
import {
  checkPrivacy,
  mechanismDigest,
  type PrivacyTable,
  privacyEntries,
  privacyLength,
} from "../../src/privacy/table.js";
import { Thresholds } from "../../src/privacy/thresholds.js";
import { encode } from "../../src/wire.js";
import { type Case, equals, littleEndian, type Replay, refuses, same } from "./check.js";
import { number, tensor } from "./quantizer.js";

/** Return the table that an entry of the files describes. */
export function tableOf(entry: any): PrivacyTable {
  const { grid_bits, field_bits, gives: _gives, error: _error, check: _check, ...rest } = entry;
  const [epsilon, norm, fails] = [number(rest.epsilon), number(rest.norm), number(rest.fails)];
  return { ...rest, epsilon, norm, fails, gridBits: grid_bits, fieldBits: field_bits };
}

/** Throw unless numbers are the same to eight digits. */
export function close(expected: readonly number[], actual: ArrayLike<number>, what = "numbers"): void {
  const near = (a: number, b: number): boolean => Math.abs(a - b) <= 1e-8 * Math.max(1, Math.abs(a));
  if (actual.length !== expected.length || !expected.every((value, at) => near(value, actual[at]!))) {
    equals(expected, Array.from(actual), what);
  }
}

async function mechanism(engine: Engine, entry: any): Promise<void> {
  const table = tableOf(entry);
  checkPrivacy(table);
  same(entry.gives.encoding, encode(privacyEntries(table)), "encoding");
  same(entry.gives.digest, await mechanismDigest(engine, table), "digest");
  equals(entry.gives.length, privacyLength(table), "length");
  const { honest, variance, norm, gridBits, bound } = table;
  const deviation = (Math.sqrt((honest * variance) / 256) * norm * 2 ** gridBits) / bound;
  const kept = epsilonOf([{ noise: table, vectors: table.rounds }], table.delta, table.epsilon);
  close([entry.gives.epsilon, entry.gives.noise], [kept, deviation]);
}

async function table(engine: Engine, entry: any): Promise<void> {
  const made = new Thresholds(entry.variance, entry.grid_bits);
  const rows = Array.from({ length: 2 ** entry.grid_bits }, (_, phase) => made.row(phase));
  equals(
    entry.first,
    rows.map((row) => row.first),
    "first",
  );
  equals(
    entry.lengths,
    rows.map((row) => row.thresholds.length),
    "lengths",
  );
  const bytes = (phase: number) => rows[phase]!.thresholds.map((value) => littleEndian(value, 16));
  for (const row of entry.rows) {
    equals(row.thresholds, bytes(row.phase).map(toHex), `row ${row.phase}`);
  }
  same(entry.digest, await engine.sha256(concat(...rows.flatMap((_, phase) => bytes(phase)))), "digest");
}

async function rotation(engine: Engine, entry: any): Promise<void> {
  const [context, vector] = [fromHex(entry.context), Float64Array.from(entry.values)];
  const bits = await signBits(engine, context, vector.length);
  const h = 2 ** Math.floor(Math.log2(vector.length));
  entry.signs.forEach((signs: string, pass: number) => {
    const expected = fromHex(signs);
    for (let at = 0; at < h; at++) {
      const bit = pass * h + at;
      equals((expected[at >> 3]! >> (at & 7)) & 1, (bits[bit >> 3]! >> (bit & 7)) & 1, `sign ${bit}`);
    }
  });
  await rotate(engine, context, vector);
  close(entry.rotated, vector, "rotated");
  await rotateBack(engine, context, vector);
  close(entry.values, vector, "rotated back");
}

async function draws(engine: Engine, entry: any): Promise<void> {
  const thresholds = new Thresholds(entry.variance, entry.grid_bits);
  const drawn = await drawLargeWith(engine, fromHex(entry.key), thresholds, entry.fine.map(BigInt));
  equals(entry.drawn.map(String), drawn.map(String), "drawn");
  if (entry.fine.every((value: unknown) => typeof value === "number")) {
    const fine = Float64Array.from(entry.fine);
    await drawWith(engine, fromHex(entry.key), thresholds, fine);
    equals(entry.drawn, Array.from(fine), "drawn as floats");
  }
}

async function encoded(engine: Engine, entry: any, mechanisms: any): Promise<void> {
  const coder = new NoisyQuantizer(engine, tableOf(mechanisms[entry.mechanism]), entry.shapes);
  const [arrays, context] = [entry.arrays.map(tensor), fromHex(entry.context)];
  const { numbers, clipped } = await toFine(coder, arrays, context);
  equals(
    entry.fine,
    Array.from(numbers, (value) => value + 0),
    "fine",
  );
  equals(entry.clipped, Number(clipped), "clipped");
  same(entry.words, await encodeWithKey(coder, arrays, context, fromHex(entry.key)), "words");
}

async function decoded(engine: Engine, entry: any, mechanisms: any): Promise<void> {
  const made = tableOf(mechanisms[entry.mechanism]);
  const coder = new NoisyQuantizer(engine, made, [[made.dimension]]);
  const [mean] = await coder.decode(fromHex(entry.sum), fromHex(entry.context), entry.survivors);
  close(entry.mean, mean!, "mean");
}

const KINDS = { mechanisms: mechanism, tables: table, rotations: rotation, draws, encoded, decoded };

export const noise: Replay = (data) =>
  Object.entries(KINDS).flatMap(([kind, replay]) =>
    data[kind].map(
      (entry: any, at: number): Case => ({
        name: `${kind} ${at}${entry.name ? `: ${entry.name}` : ""}`,
        run: (engine) => {
          const work = (): Promise<void> => replay(engine, entry, data.mechanisms);
          return entry.error === undefined ? work() : refuses(entry.error, work);
        },
      }),
    ),
  );
