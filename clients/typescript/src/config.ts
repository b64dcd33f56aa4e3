/** The configuration of a round (docs/protocol.md, section 3) and its one encoding. */

import { type Bytes, equal } from "./bytes.js";
import type { Engine, Generator } from "./crypto/engine.js";
import { ConfigError, MalformedMessage } from "./errors.js";
import { hashed } from "./labels.js";
import type { AgreementName, Bits, Form, Graph, Guard, RoundConfig, Threshold } from "./rules.js";
import { checkConfig, GRAPHS, NO_GRAPH, NO_THRESHOLD, THRESHOLDS } from "./rules.js";
import { decode, encode, Float, type Value } from "./wire.js";

export * from "./rules.js";

/** The part of a configuration under `active` and `assisted` that comes from its charter (docs/formats.md, 5). */
export interface Terms {
  readonly digest: Bytes;
  readonly members: readonly unknown[];
  /** Under `assisted`, else null. */
  readonly helpers: readonly unknown[] | null;
  /** Null under `assisted`. */
  readonly graph: Graph | null;
  readonly threshold: Threshold | null;
  readonly generator: Generator;
  readonly agreement: AgreementName;
  readonly bits: Bits;
  readonly minSurvivors: number;
  /** The words of every vector, where noise or statistics fix them (15.1, 16.3), else null. */
  readonly length: number | null;
}

/** The part of a configuration beside its charter. */
export type Particulars = Pick<RoundConfig, "seriesId" | "number" | "length" | "accept">;

type Entry = readonly [key: string, field: keyof RoundConfig, form: Form];

/** The entries under a charter, whatever its guard. */
const CHARTERED = [
  ["version", "version", "integer"],
  ["charter", "charter", "bytes"],
  ["series_id", "seriesId", "bytes"],
  ["number", "number", "integer"],
  ["length", "length", "integer"],
  ["accept", "accept", "boolean"],
] as const satisfies readonly Entry[];

/** The entries of a configuration behind `type`, in order (3.2). */
const ENTRIES = {
  curious: [
    ["version", "version", "integer"],
    ["series_id", "seriesId", "bytes"],
    ["number", "number", "integer"],
    ["clients", "clients", "integer"],
    ["length", "length", "integer"],
    ["bits", "bits", "integer"],
    ["graph", "graph", "graph"],
    ["threshold", "threshold", "threshold"],
    ["generator", "generator", "text"],
    ["agreement", "agreement", "text"],
    ["accept", "accept", "boolean"],
    ["min_survivors", "minSurvivors", "integer"],
    ["guard", "guard", "text"],
  ],
  active: CHARTERED,
  assisted: CHARTERED,
} as const satisfies Record<Guard, readonly Entry[]>;

const TYPES = { curious: "round", active: "chartered-round", assisted: "chartered-round" } as const;

/** The maximum bytes of a configuration. */
export const MOST_CONFIG_BYTES = 1024;

/** Return the configuration of another round of the same series. */
export function numbered(config: RoundConfig, number: number): RoundConfig {
  const other = { ...config, number };
  checkConfig(other);
  return other;
}

/**
 * Return the configuration of a round under a charter.
 *
 * @throws ConfigError where the particulars are outside of their limits.
 */
export function underCharter(terms: Terms, { seriesId, number, length, accept }: Particulars): RoundConfig {
  const config = { ...agreedOf(terms), charter: terms.digest, seriesId, number, length, accept };
  checkConfig(config);
  if (terms.length !== null && terms.length !== length) {
    throw new ConfigError(`the round has ${length} words, but vectors under the charter have ${terms.length}`);
  }
  return config;
}

/** Return what a charter says about the rounds under it. */
export function agreedOf(terms: Omit<Terms, "digest" | "length">): Omit<RoundConfig, keyof Particulars | "charter"> {
  const { generator, agreement, bits, minSurvivors, members, helpers } = terms;
  const agreed = { version: 2, generator, agreement, bits, minSurvivors, clients: members.length } as const;
  const masked = { graph: terms.graph ?? NO_GRAPH, threshold: terms.threshold ?? NO_THRESHOLD };
  return { ...agreed, ...masked, guard: guardOf(terms), ...(helpers && { helpers: helpers.length }) };
}

/** Return the guard of the rounds under a charter. */
export function guardOf({ helpers }: Pick<Terms, "helpers">): Guard {
  return helpers === null ? "active" : "assisted";
}

/** Return a graph as it is encoded in configurations and charters. */
export function graphValue(graph: Graph): Value {
  return ruleValue(GRAPHS[graph.type], graph);
}

/** Return a rule for thresholds as it is encoded in configurations and charters. */
export function thresholdValue(rule: Threshold): Value {
  return ruleValue(THRESHOLDS[rule.type], rule);
}

function ruleValue(forms: Readonly<Record<string, Form>>, rule: Graph | Threshold): Value {
  const fields = rule as unknown as Readonly<Record<string, unknown>>;
  const entries = Object.entries(forms).map(([key, form]) => [key, toValue(form, fields[key])] as const);
  return new Map<string, Value>([["type", rule.type], ...entries]);
}

function toValue(form: Form, field: unknown): Value {
  switch (form) {
    case "graph":
      return graphValue(field as Graph);
    case "threshold":
      return thresholdValue(field as Threshold);
    case "float":
    case "float?":
      return field === null ? null : new Float(field as number);
    default:
      return field as Value;
  }
}

/**
 * Return the one encoding of a configuration.
 *
 * @throws ConfigError for a configuration outside its limits, which has no encoding.
 */
export function encodeConfig(config: RoundConfig): Bytes {
  checkConfig(config);
  const entries = ENTRIES[config.guard].map(([key, field, form]) => [key, toValue(form, config[field])] as const);
  return encode(new Map<string, Value>([["type", TYPES[config.guard]], ...entries]));
}

function refuse(what: string): never {
  throw new MalformedMessage(`not the encoding of a configuration: ${what}`);
}

const IS_FORM: Readonly<Record<string, (value: Value) => boolean>> = {
  integer: (value) => typeof value === "number" || typeof value === "bigint",
  float: (value) => value instanceof Float,
  text: (value) => typeof value === "string",
  bytes: (value) => value instanceof Uint8Array,
  boolean: (value) => typeof value === "boolean",
};

function fromValue(form: Form, value: Value): unknown {
  if (form === "graph" || form === "threshold") {
    return ruleOf(form === "graph" ? GRAPHS : THRESHOLDS, value);
  }
  if (value === null && form.endsWith("?")) {
    return null;
  }
  if (!IS_FORM[form.replace("?", "")]!(value)) {
    refuse(`expected ${form}`);
  }
  return value instanceof Float ? value.value : value;
}

function ruleOf(kinds: Readonly<Record<string, Readonly<Record<string, Form>>>>, value: Value): unknown {
  const type = value instanceof Map ? (value as ReadonlyMap<string, Value>).get("type") : undefined;
  if (typeof type !== "string" || !Object.hasOwn(kinds, type)) {
    return refuse("an unknown graph or threshold");
  }
  return fieldsOf(
    value,
    type,
    Object.entries(kinds[type]!).map(([key, form]) => [key, key, form] as const),
  );
}

/** Return the fields of a map of exactly these entries, in this order. */
function fieldsOf(
  value: Value,
  type: string,
  entries: readonly (readonly [key: string, field: string, form: Form])[],
): Record<string, unknown> {
  const have = value instanceof Map ? [...(value as ReadonlyMap<string, Value>)] : [];
  const keys = ["type", ...entries.map(([key]) => key)];
  if (have.length !== keys.length || have.some(([key], at) => key !== keys[at]) || have[0]![1] !== type) {
    refuse(`expected a map ${type} with ${keys.join(", ")}`);
  }
  return Object.fromEntries([
    ["type", type],
    ...entries.map(([, field, form], at) => [field, fromValue(form, have[at + 1]![1])] as const),
  ]);
}

/**
 * Decode a configuration: of the guard `curious` without a charter, of another one with a charter.
 *
 * @throws MalformedMessage for bytes that are not a configuration; ConfigError for values that do not fit the charter.
 */
export function decodeConfig(data: Uint8Array, charter?: Terms): RoundConfig {
  if (data.length > MOST_CONFIG_BYTES) {
    refuse(`expected at most ${MOST_CONFIG_BYTES} bytes, got ${data.length}`);
  }
  const guard = charter === undefined ? "curious" : guardOf(charter);
  const { type: _, ...fields } = fieldsOf(decode(data), TYPES[guard], ENTRIES[guard]);
  if (fields["version"] !== 2) {
    refuse("expected version 2");
  }
  return charter === undefined ? ofCurious(fields) : ofCharter(charter, fields);
}

function ofCurious(fields: Record<string, unknown>): RoundConfig {
  const config = { ...fields, charter: null } as unknown as RoundConfig;
  try {
    checkConfig(config);
  } catch (error) {
    throw error instanceof ConfigError ? new MalformedMessage(error.message) : error;
  }
  return config.guard === "curious" ? config : refuse("expected the guard curious");
}

function ofCharter(charter: Terms, fields: Record<string, unknown>): RoundConfig {
  if (!equal(fields["charter"] as Bytes, charter.digest)) {
    throw new ConfigError("the configuration belongs to another charter");
  }
  return underCharter(charter, fields as unknown as Particulars);
}

/** Return the context of a round, which is in every message and every derivation. */
export function contextOf(engine: Engine, config: RoundConfig): Promise<Bytes> {
  return hashed(engine, "context", encodeConfig(config));
}
