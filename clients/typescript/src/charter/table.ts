/**
 * Strict reading of a TOML table: each value is checked for its type and limits, and unknown keys are refused.
 * Integers come as bigint and floats as number, so that 1 and 1.0 stay different and no integer is rounded.
 */

import { ConfigError } from "../errors.js";
import { TomlTime } from "./toml-values.js";

/** A number that an integer may stand for, and its limits. */
export interface Limits {
  readonly least?: number;
  readonly most?: number;
}

/** A table of a TOML file, read key by key; call `end` when all keys have been read. */
export class Table {
  readonly #asked = new Set<string>();

  /**
   * @param values The parsed table.
   * @param what What the table is called in texts of errors, such as `[learning]`.
   */
  constructor(
    private readonly values: Readonly<Record<string, unknown>>,
    readonly what: string,
  ) {}

  /** Throw a ConfigError that names this table. */
  refuse(text: string): never {
    throw new ConfigError(`${this.what}: ${text}`);
  }

  /** Tell whether the table has the key. */
  has(key: string): boolean {
    return Object.hasOwn(this.values, key);
  }

  /** Read a key with a check of its own, which returns the value or throws; without a default it must be there. */
  read<T>(key: string, check: (value: unknown, what: string) => T, otherwise?: T): T {
    this.#asked.add(key);
    if (this.has(key)) {
      return check(this.values[key], `${this.what}: ${key}`);
    }
    return otherwise ?? this.refuse(`${key} is missing`);
  }

  /** Read a key with a check of its own, or return null where it is missing. */
  optional<T>(key: string, check: (value: unknown, what: string) => T): T | null {
    if (this.has(key)) {
      return this.read(key, check);
    }
    this.#asked.add(key);
    return null;
  }

  /** Read an integer within limits, which hold for the default, too; a float is none. */
  integer(key: string, least: number, most: number, otherwise?: number): number {
    const value = this.read<unknown>(key, (each) => each, otherwise === undefined ? undefined : BigInt(otherwise));
    return checkInteger(value, `${this.what}: ${key}`, least, most);
  }

  /** Read a float, or an integer in its place; NaN is refused, infinity only by the limits. */
  float(key: string, limits: Limits = {}, otherwise?: number): number {
    return this.read(key, (value, what) => checkFloat(value, what, limits), otherwise);
  }

  /** Read a boolean. */
  boolean(key: string, otherwise?: boolean): boolean {
    return this.read(key, checkBoolean, otherwise);
  }

  /** Read a string. */
  string(key: string, otherwise?: string): string {
    return this.read(key, checkString, otherwise);
  }

  /** Read a string that is one of some words. */
  word<T extends string>(key: string, words: readonly T[], otherwise?: T): T {
    return this.read(key, (value, what) => checkWord(value, what, words), otherwise);
  }

  /** Read an array, each entry with a check of its own. */
  array<T>(key: string, check: (value: unknown, what: string) => T, otherwise?: readonly T[]): readonly T[] {
    return this.read(key, (value, what) => checkArray(value, what, check), otherwise);
  }

  /** Read a table; its own `end` is the caller's to call. */
  table(key: string): Table {
    return this.read(key, checkTable);
  }

  /** Refuse keys that were not read. */
  end(): void {
    const unknown = Object.keys(this.values).filter((key) => !this.#asked.has(key));
    if (unknown.length > 0) {
      this.refuse(`unknown key ${JSON.stringify(unknown[0])}`);
    }
  }
}

/** Return an integer of TOML within limits. */
export function checkInteger(value: unknown, what: string, least: number, most: number): number {
  if (typeof value !== "bigint") {
    throw new ConfigError(`${what} must be an integer`);
  }
  if (value < BigInt(least) || value > BigInt(most)) {
    throw new ConfigError(`${what} must be in ${least} ... ${most}`);
  }
  return Number(value);
}

/** Return a float of TOML, or an integer as one. */
export function checkFloat(value: unknown, what: string, limits: Limits = {}): number {
  if (typeof value !== "number" && typeof value !== "bigint") {
    throw new ConfigError(`${what} must be a number`);
  }
  // Zero has one encoding. An integer that no float holds is refused, and not taken for infinity.
  const number = Number(value) + 0;
  const { least = -Infinity, most = Infinity } = limits;
  if (!(least <= number && number <= most) || (typeof value === "bigint" && !Number.isFinite(number))) {
    throw new ConfigError(`${what} must be in ${least} ... ${most}`);
  }
  return number;
}

/** Return a boolean of TOML. */
function checkBoolean(value: unknown, what: string): boolean {
  if (typeof value !== "boolean") {
    throw new ConfigError(`${what} must be true or false`);
  }
  return value;
}

/** Return a string of TOML. */
export function checkString(value: unknown, what: string): string {
  if (typeof value !== "string") {
    throw new ConfigError(`${what} must be a string`);
  }
  return value;
}

/** Return a string of TOML that is one of some words. */
export function checkWord<T extends string>(value: unknown, what: string, words: readonly T[]): T {
  const word = words.find((each) => each === value);
  if (word === undefined) {
    throw new ConfigError(`${what} must be one of ${words.join(", ")}`);
  }
  return word;
}

/** Return an array of TOML, each entry with a check of its own. */
export function checkArray<T>(value: unknown, what: string, check: (value: unknown, what: string) => T): readonly T[] {
  if (!Array.isArray(value)) {
    throw new ConfigError(`${what} must be an array`);
  }
  return value.map((each: unknown, at) => check(each, `${what}[${at}]`));
}

/** Return a table of TOML, to be read. */
export function checkTable(value: unknown, what: string): Table {
  if (typeof value !== "object" || value === null || Array.isArray(value) || value instanceof TomlTime) {
    throw new ConfigError(`${what} must be a table`);
  }
  return new Table(value as Record<string, unknown>, what);
}
