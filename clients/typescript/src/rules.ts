/** The rules of a round (docs/protocol.md, 3.1): fields of a configuration, their limits, and consequences. */

import type { Bytes } from "./bytes.js";
import { BITS, type Bits } from "./crypto/adding.js";
import { type AgreementName, agreementOf } from "./crypto/agreements.js";
import { checkWordCount } from "./crypto/check-words.js";
import { type Generator, KEY_BYTES } from "./crypto/engine.js";
import { MOST_HOLDERS } from "./crypto/sharing.js";
import { ConfigError } from "./errors.js";

/** The graph of neighbours (section 4); keys are those of the page. */
export type Graph =
  | { readonly type: "erdos-renyi"; readonly p: number; readonly mask_p: number | null }
  | { readonly type: "harary"; readonly degree: number; readonly mask_degree: number | null }
  | { readonly type: "complete"; readonly mask_p: number | null; readonly mask_degree: number | null };

/** How many shares open a secret (4.1); keys are those of the page. */
export type Threshold =
  | { readonly type: "majority" }
  | { readonly type: "linear"; readonly slope: number; readonly base: number }
  | { readonly type: "fixed"; readonly t: number };

export const GENERATORS = Object.keys(KEY_BYTES) as readonly Generator[];
export const AGREEMENTS: readonly AgreementName[] = ["x25519", "x25519-mlkem768"];

export type { AgreementName, Bits };
export type Guard = "curious" | "active" | "assisted";

/** The configuration that all parties of a round agree on (3.1). */
export interface RoundConfig {
  readonly version: 2;
  readonly seriesId: Bytes;
  readonly number: number;
  readonly clients: number;
  readonly length: number;
  readonly bits: Bits;
  /** Under `assisted` there is no graph: this is NO_GRAPH, and the threshold NO_THRESHOLD. */
  readonly graph: Graph;
  readonly threshold: Threshold;
  readonly generator: Generator;
  readonly agreement: AgreementName;
  readonly accept: boolean;
  readonly minSurvivors: number;
  readonly guard: Guard;
  /** The digest of the charter under `active` and `assisted`, else null. */
  readonly charter: Bytes | null;
  /** The number of helpers under `assisted`; left out under the other guards. */
  readonly helpers?: number;
}

/** Graph and threshold under `assisted`, which nobody reads. */
export const NO_GRAPH: Graph = Object.freeze({ type: "complete", mask_p: null, mask_degree: null });
export const NO_THRESHOLD: Threshold = Object.freeze({ type: "majority" });

/** How a field is encoded; one with a question mark may be nil. */
export type Form = "integer" | "float" | "text" | "bytes" | "boolean" | "graph" | "threshold" | "integer?" | "float?";

/** The further fields of each kind of graph, in the order of their encoding. */
export const GRAPHS = {
  "erdos-renyi": { p: "float", mask_p: "float?" },
  harary: { degree: "integer", mask_degree: "integer?" },
  complete: { mask_p: "float?", mask_degree: "integer?" },
} as const satisfies Record<Graph["type"], Record<string, Form>>;

/** The further fields of each rule for thresholds, in the order of their encoding. */
export const THRESHOLDS = {
  majority: {},
  linear: { slope: "integer", base: "integer" },
  fixed: { t: "integer" },
} as const satisfies Record<Threshold["type"], Record<string, Form>>;

const LARGEST = 2 ** 32 - 1;
const MOST_HELPERS = 16;

function within(x: unknown, low: number, high: number): x is number {
  return Number.isInteger(x) && low <= (x as number) && (x as number) <= high;
}

function probability(x: unknown, high: unknown): boolean {
  return typeof x === "number" && typeof high === "number" && 0 < x && x <= high && x <= 1;
}

function evenDegree(x: unknown, high: number): boolean {
  return within(x, 2, high) && x % 2 === 0;
}

/** Tell whether an object has these keys besides `type`, and no others. */
function hasKeys(object: object, keys: object): boolean {
  const [have, want] = [Object.keys(object), ["type", ...Object.keys(keys)]];
  return have.length === want.length && want.every((key) => have.includes(key));
}

function isKind(kinds: Readonly<Record<string, object>>, rule: unknown): boolean {
  if (typeof rule !== "object" || rule === null || !("type" in rule) || typeof rule.type !== "string") {
    return false;
  }
  return Object.hasOwn(kinds, rule.type) && hasKeys(rule, kinds[rule.type]!);
}

function isGraph(graph: Graph, clients: number): boolean {
  if (!isKind(GRAPHS, graph)) {
    return false;
  }
  switch (graph.type) {
    case "erdos-renyi":
      return probability(graph.p, 1) && (graph.mask_p === null || probability(graph.mask_p, graph.p));
    case "harary":
      return (
        evenDegree(graph.degree, clients - 1) &&
        (graph.mask_degree === null || evenDegree(graph.mask_degree, graph.degree))
      );
    case "complete":
      return (
        (graph.mask_p === null || (graph.mask_degree === null && probability(graph.mask_p, 1))) &&
        (graph.mask_degree === null || evenDegree(graph.mask_degree, clients - 1))
      );
  }
}

/** Tell whether a rule is one, and a client with the mean number of neighbours reaches its threshold. */
function isThreshold(rule: Threshold, config: RoundConfig): boolean {
  if (!isKind(THRESHOLDS, rule)) {
    return false;
  }
  // Under `active` a client's own share does not count: neighbours have to confirm (13.6).
  const own = config.guard === "active" ? 0 : 1;
  const degree = Math.floor(meanDegree(config));
  switch (rule.type) {
    case "majority":
      return true;
    case "linear":
      return (
        within(rule.slope, 0, 1024) && within(rule.base, 0, MOST_HOLDERS) && thresholdAt(rule, degree) <= degree + own
      );
    case "fixed":
      return within(rule.t, 2, largestDegree(config) + own) && 2 * rule.t > meanDegree(config) + 1;
  }
}

/** Return the rule that limits the mask edges, by probability or by degree; null without one. */
export function maskRules(graph: Graph): { readonly mask_p: number | null; readonly mask_degree: number | null } {
  const { mask_p, mask_degree } = { mask_p: null, mask_degree: null, ...graph };
  return { mask_p, mask_degree };
}

function masksEverywhere(graph: Graph): boolean {
  return Object.values(maskRules(graph)).every((rule) => rule === null);
}

/** Each limit of 3.1 with what it is about; later ones rest on those before. */
const LIMITS: readonly (readonly [what: string, holds: (config: RoundConfig) => boolean])[] = [
  ["it is an object", (c) => typeof c === "object" && (c as unknown) !== null],
  ["version is 2", (c) => (c.version as unknown) === 2],
  ["series_id has 32 bytes", (c) => isDigest(c.seriesId)],
  ["number is in 0 ... 2^32 - 1", (c) => within(c.number, 0, LARGEST)],
  ["clients is in 3 ... 2^32 - 1", (c) => within(c.clients, 3, LARGEST)],
  ["bits is 8, 16, 32 or 64", (c) => BITS.includes(c.bits)],
  ["guard is curious, active or assisted", (c) => ["curious", "active", "assisted"].includes(c.guard)],
  ["length is at least 1, of at most 2^32 - 1 bytes", (c) => within(c.length, 1, LARGEST) && maskedBytes(c) <= LARGEST],
  ["graph is one of 3.1, for this number of clients", (c) => isGraph(c.graph, c.clients)],
  [`a secret has at most ${MOST_HOLDERS} holders`, (c) => isAssisted(c) || meanDegree(c) + 1 <= MOST_HOLDERS],
  ["threshold is one of 3.1, for such a graph", (c) => isThreshold(c.threshold, c)],
  ["generator is one of 6.2", (c) => GENERATORS.includes(c.generator)],
  ["agreement is one of 6.3", (c) => AGREEMENTS.includes(c.agreement)],
  ["accept is a boolean", (c) => typeof c.accept === "boolean"],
  ["accept is false under assisted", (c) => !isAssisted(c) || !c.accept],
  ["accept is true where the agreement has deposits", (c) => c.accept || isAssisted(c) || !hasDeposits(c.agreement)],
  ["min_survivors is in 2 ... clients", (c) => within(c.minSurvivors, 2, c.clients)],
  [
    "charter has 32 bytes, and is null under curious",
    (c) => (c.guard === "curious" ? c.charter === null : isDigest(c.charter)),
  ],
  ["masks run on every edge, except under curious", (c) => c.guard === "curious" || masksEverywhere(c.graph)],
  [
    "helpers are 2 to 16 under assisted, else none",
    (c) => (isAssisted(c) ? within(c.helpers, 2, MOST_HELPERS) : c.helpers === undefined),
  ],
  [
    "graph and threshold are left out under assisted",
    (c) => !isAssisted(c) || (c.graph.type === NO_GRAPH.type && c.threshold.type === NO_THRESHOLD.type),
  ],
];

/** Tell whether clients mask for helpers: there is no graph then. */
export function isAssisted({ guard }: Pick<RoundConfig, "guard">): boolean {
  return guard === "assisted";
}

function hasDeposits(agreement: AgreementName): boolean {
  return agreementOf(agreement).depositBytes > 0;
}

function isDigest(data: unknown): boolean {
  return data instanceof Uint8Array && data.length === 32;
}

/**
 * Refuse a configuration outside of the limits of 3.1.
 *
 * @throws ConfigError that says which limit.
 */
export function checkConfig(config: RoundConfig): void {
  const broken = LIMITS.find(([, holds]) => !holds(config));
  if (broken !== undefined) {
    throw new ConfigError(`not a configuration of 3.1; expected that ${broken[0]}`);
  }
}

/** Return the mean number of a client's neighbours. */
export function meanDegree({ graph, clients }: Pick<RoundConfig, "graph" | "clients">): number {
  return graph.type === "erdos-renyi" ? graph.p * (clients - 1) : graph.type === "harary" ? graph.degree : clients - 1;
}

/** Return the mean number of a client's mask edges. */
export function meanMaskDegree(config: Pick<RoundConfig, "graph" | "clients">): number {
  const { mask_p, mask_degree } = maskRules(config.graph);
  return mask_p !== null ? mask_p * (config.clients - 1) : (mask_degree ?? meanDegree(config));
}

/** Return the largest number of neighbours that a client can have. */
export function largestDegree({ graph, clients }: Pick<RoundConfig, "graph" | "clients">): number {
  return graph.type === "harary" ? graph.degree : clients - 1;
}

/** Return t_i of a client with this number of neighbours (4.1). */
export function thresholdAt(rule: Threshold, degree: number): number {
  const majority = Math.floor((degree + 1) / 2) + 1;
  switch (rule.type) {
    case "majority":
      return majority;
    case "linear":
      return Math.max(majority, Math.floor((rule.slope * degree) / 1024) + rule.base);
    case "fixed":
      return rule.t;
  }
}

/** Return the bytes of a vector. */
export function vectorBytes({ length, bits }: Pick<RoundConfig, "length" | "bits">): number {
  return (length * bits) / 8;
}

/** Return the bytes of a masked vector: under `assisted` check words follow those of the vector. */
export function maskedBytes(config: Pick<RoundConfig, "length" | "bits" | "guard">): number {
  const { length, bits } = config;
  return vectorBytes({ length: isAssisted(config) ? length + checkWordCount(bits) : length, bits });
}
