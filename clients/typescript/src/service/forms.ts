/** How a contribution becomes a vector. If there is a charter it decides, not the hub. */

import type { Bytes } from "../bytes.js";
import type { RoundConfig } from "../config.js";
import type { Engine } from "../crypto/engine.js";
import { ConfigError, FaultyServer, VectorError } from "../errors.js";
import { NoisyQuantizer } from "../privacy/noisy.js";
import { checkNoisyRound, type PrivacyTable } from "../privacy/table.js";
import { Quantizer } from "../quantize/quantizer.js";
import type { TableRecord } from "../statistics/count.js";
import { type Schema, schemaLength } from "../statistics/schema.js";
import { tableVector } from "../statistics/vector.js";
import { type Arrays, type NamedArray, unpackArrays } from "./arrays.js";
import { shown } from "./errors.js";
import { WORD_ARRAYS, type Words } from "./results.js";

/** The most bytes of a task that says nothing, of any task, and beside its numbers: names and shapes. */
const [MOST_IDLE, MOST_TASK, ROOM] = [1 << 20, 1 << 30, 1 << 24];

/** The round and the task of a vector. */
export interface Purpose {
  readonly config: RoundConfig;
  readonly context: Bytes;
  readonly engine: Engine;
}

/** A task that was read. */
export interface Reading {
  /** The input of the site's function, which may change it. */
  readonly given: unknown;
  /** Return the words of a contribution as bytes of their own; throws VectorError. */
  vector(contribution: unknown, purpose: Purpose): Promise<Bytes>;
}

/** A form of contributions. */
export interface Form {
  readonly type: "words" | "arrays" | "statistics";
  /** Refuse rounds that this form has no vectors for; throws ConfigError. */
  check(config: RoundConfig): void;
  /** The default maximum of a task's bytes in these rounds. */
  maximumTaskBytes(config: RoundConfig): number;
  /** Read a task, once; throws if the bytes are not one. */
  read(payload: Bytes): Reading;
}

/** The result of a site's function, by the form. */
export type Contribution = Words | ArraysLike | readonly [arrays: ArraysLike, weight: number] | Iterable<TableRecord>;

/** Arrays by name, as a map or as an object. */
export type ArraysLike = Arrays | Readonly<Record<string, NamedArray>>;

/** Vectors of unsigned integers, taken as they are. */
export const WORDS: Form = {
  type: "words",
  check: () => undefined,
  maximumTaskBytes: ({ length }) => Math.min(MOST_TASK, ROOM + 16 * length),
  read: (payload) => ({
    given: payload,
    vector: async (contribution, { config }) => {
      const Type = WORD_ARRAYS[config.bits];
      if (!(contribution instanceof Type) || contribution.length !== config.length) {
        throw new VectorError(`expected a ${Type.name} of ${config.length} words`);
      }
      return new Uint8Array(contribution.buffer, contribution.byteOffset, contribution.byteLength).slice();
    },
  }),
};

/** The layout of arrays in words. */
export interface ArraySettings {
  readonly clients: number;
  readonly clip: number;
  readonly maxWeight: number;
  readonly fieldBits: number;
}

/** Return the form of a model's arrays, whose mean is wanted, with a weight or without. */
export function arraysForm(settings: ArraySettings): Form {
  const { clients, clip, maxWeight, fieldBits } = settings;
  const agreed = { clients, clip, maxWeight, fieldBits, rounding: "stochastic" } as const;
  return {
    type: "arrays",
    check: check64,
    maximumTaskBytes: (config) => mostArrays(config, fieldBits),
    read: readArrays(async (shapes, contribution, { config, engine }) => {
      const [arrays, weight] = weighted(contribution);
      const quantizer = new Quantizer({ ...agreed, shapes: [...shapes.values()] });
      checkLength(quantizer.length, config);
      return quantizer.encode(inOrder(arrays, shapes), weight ?? 1, engine.random);
    }),
  };
}

/** Return the form of a model's arrays with noise: every client counts one. */
export function noisyForm(table: PrivacyTable): Form {
  return {
    type: "arrays",
    check: (config) => checkNoisyRound(table, config),
    maximumTaskBytes: (config) => mostArrays(config, table.fieldBits),
    read: readArrays(async (shapes, contribution, { context, engine }) => {
      const [arrays, weight] = weighted(contribution);
      if (weight !== null) {
        throw new VectorError("with noise every client has the same weight: return no weight");
      }
      const quantizer = new NoisyQuantizer(engine, table, [...shapes.values()]);
      return quantizer.encode(inOrder(arrays, shapes), context);
    }),
  };
}

/** Return the form of tables that are counted by the charter's schema, with the noise that the charter has. */
export function statisticsForm(schema: Schema, privacy: PrivacyTable | null): Form {
  return {
    type: "statistics",
    check: (config) => {
      check64(config);
      if (config.length !== schemaLength(schema)) {
        throw new ConfigError(`the statistics need ${schemaLength(schema)} words, but the round has ${config.length}`);
      }
    },
    maximumTaskBytes: () => MOST_IDLE, // what is counted is in the charter
    read: () => ({
      given: schema,
      vector: async (contribution, { engine }) => {
        if (typeof contribution !== "object" || contribution === null || !(Symbol.iterator in contribution)) {
          throw new VectorError("return records, each an object with a field per column");
        }
        return tableVector(engine, schema, privacy, contribution as Iterable<TableRecord>);
      },
    }),
  };
}

/** The shapes of a task's arrays by their names. */
type Shapes = ReadonlyMap<string, readonly number[]>;

/** Return what reads tasks of arrays: of each only the shapes are kept, whatever becomes of the arrays. */
function readArrays(
  vector: (shapes: Shapes, contribution: unknown, purpose: Purpose) => Promise<Bytes>,
): (payload: Bytes) => Reading {
  return (payload) => {
    const given = unpackArrays(payload);
    const shapes = new Map([...given].map(([name, { shape }]) => [name, [...shape]] as const));
    return { given, vector: (contribution, purpose) => vector(shapes, contribution, purpose) };
  };
}

/** Return the most bytes of arrays whose values fit into a vector: none has numbers of more than eight. */
function mostArrays({ length }: RoundConfig, fieldBits: number): number {
  return Math.min(MOST_TASK, ROOM + 8 * Math.floor(64 / fieldBits) * length);
}

/** Refuse rounds whose words are not those of numbers in fields. */
function check64(config: RoundConfig): void {
  if (config.bits !== 64) {
    throw new ConfigError(`expected rounds of words of 64 bits, got ${config.bits}`);
  }
}

/** Refuse a task whose vectors are not those of the round. */
function checkLength(length: number, config: RoundConfig): void {
  if (length !== config.length) {
    throw new FaultyServer(`the task needs ${length} words, but the round has ${config.length}`);
  }
}

/** Return a contribution of arrays and its weight, if it has one. */
function weighted(contribution: unknown): [ArraysLike, number | null] {
  const [arrays, weight] = Array.isArray(contribution) ? (contribution as unknown[]) : [contribution, null];
  const fits = typeof arrays === "object" && arrays !== null && !ArrayBuffer.isView(arrays);
  if (!fits || (Array.isArray(contribution) && (contribution.length !== 2 || typeof weight !== "number"))) {
    throw new VectorError("return arrays by name, or a list of such arrays and a weight");
  }
  return [arrays as ArraysLike, weight as number | null];
}

/** An array of floats with its shape. */
interface Floats {
  readonly shape: readonly number[];
  readonly data: Float64Array | Float32Array;
}

/** Return the arrays of a contribution in the order of the task's, whose names they have. */
function inOrder(arrays: ArraysLike, task: Shapes): Floats[] {
  const given = arrays instanceof Map ? (arrays as Arrays) : new Map(Object.entries(arrays));
  if (given.size !== task.size) {
    throw new VectorError(`expected ${task.size} arrays, got ${given.size}`);
  }
  return [...task.keys()].map((name) => {
    const { shape, data } = (given.get(name) ?? {}) as Partial<NamedArray>;
    if (!Array.isArray(shape) || !(data instanceof Float64Array || data instanceof Float32Array)) {
      throw new VectorError(`expected {shape, data} with floats for the array ${shown(name, 40)}`);
    }
    return { shape: shape as readonly number[], data };
  });
}
