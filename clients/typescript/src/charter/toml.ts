/**
 * TOML 1.0, and nothing from later versions: two parties that read one charter read the same, or refuse it alike.
 * Libraries follow TOML 1.1 by now, and some make the 2nd of March of a 30th of February.
 */

import { ConfigError } from "../errors.js";
import { readLine, readScalar, type Scalar, Scanner } from "./toml-values.js";

/** A table that was read; it has no prototype, so that every key is just a key. */
export interface TomlTable {
  [key: string]: TomlValue;
}

/** Integers are bigint, floats number. */
export type TomlValue = Scalar | readonly TomlValue[] | TomlTable;

// How a table came to be says who may add to it: `implicit` tables have only been passed through by a header, `dotted`
// ones were made by a key with dots, `closed` ones are in braces.
type Origin = "header" | "implicit" | "dotted" | "closed";

const DEEPEST = 64;
const SPACE = /[ \t]*/y;
const COMMENT = /(?:#[^\x00-\x08\x0a-\x1f\x7f]*)?/y;
const BARE = /[A-Za-z0-9_-]+/y;

class Parser {
  readonly #scanner: Scanner;
  readonly #origins = new Map<object, Origin>();
  /** Arrays that were made by headers and grow. */
  readonly #growing = new Set<object>();
  #depth = 0;

  constructor(text: string) {
    this.#scanner = new Scanner(text);
  }

  document(): TomlTable {
    const root = this.#newTable("header");
    let section = root;
    while (this.#scanner.at < this.#scanner.text.length) {
      this.#scanner.take(SPACE);
      if (this.#take("[")) {
        section = this.#header(root);
      } else if (!["", "#", "\n"].includes(this.#next())) {
        this.#pair(section);
      }
      this.#lineEnd();
    }
    return root;
  }

  #newTable(origin: Origin): TomlTable {
    const table = Object.create(null) as TomlTable;
    this.#origins.set(table, origin);
    return table;
  }

  #next(): string {
    return this.#scanner.text.charAt(this.#scanner.at);
  }

  #take(mark: string): boolean {
    const there = this.#scanner.text.startsWith(mark, this.#scanner.at);
    this.#scanner.at += there ? mark.length : 0;
    return there;
  }

  #expect(mark: string): void {
    if (!this.#take(mark)) {
      this.#scanner.refuse(`expected ${mark}`);
    }
  }

  #lineEnd(): void {
    this.#scanner.take(SPACE);
    this.#scanner.take(COMMENT);
    if (this.#scanner.at < this.#scanner.text.length && !this.#take("\n")) {
      this.#scanner.refuse("expected the end of the line");
    }
  }

  #key(): string[] {
    const parts: string[] = [];
    do {
      this.#scanner.take(SPACE);
      parts.push(this.#scanner.take(BARE)?.[0] ?? readLine(this.#scanner) ?? this.#scanner.refuse("expected a key"));
      this.#scanner.take(SPACE);
    } while (this.#take("."));
    return parts;
  }

  #header(root: TomlTable): TomlTable {
    const array = this.#take("[");
    const path = this.#key();
    this.#expect(array ? "]]" : "]");
    const last = path.pop()!;
    const parent = path.reduce((table, key) => this.#pass(table, key), root);
    return array ? this.#entry(parent, last) : this.#opened(parent, last);
  }

  /** Go through a table, or the last one of an array of them, on the way to what a header names. */
  #pass(table: TomlTable, key: string): TomlTable {
    table[key] ??= this.#newTable("implicit");
    const found = table[key];
    const inner = this.#growing.has(found as object) ? (found as TomlTable[]).at(-1)! : (found as TomlTable);
    if ((this.#origins.get(inner) ?? "closed") === "closed") {
      this.#scanner.refuse(`${key} cannot be extended`);
    }
    return inner;
  }

  #opened(parent: TomlTable, key: string): TomlTable {
    parent[key] ??= this.#newTable("implicit");
    const table = parent[key] as TomlTable;
    if (this.#origins.get(table) !== "implicit") {
      this.#scanner.refuse(`${key} appears twice`);
    }
    this.#origins.set(table, "header");
    return table;
  }

  #entry(parent: TomlTable, key: string): TomlTable {
    if (!(key in parent)) {
      const array: TomlTable[] = [];
      this.#growing.add(array);
      parent[key] = array;
    }
    const array = parent[key] as TomlTable[];
    if (!this.#growing.has(array)) {
      this.#scanner.refuse(`${key} appears twice`);
    }
    const table = this.#newTable("header");
    array.push(table);
    return table;
  }

  #pair(section: TomlTable): void {
    const path = this.#key();
    this.#expect("=");
    const last = path.pop()!;
    const parent = path.reduce((table, key) => this.#dotted(table, key), section);
    const value = this.#value();
    if (last in parent) {
      this.#scanner.refuse(`${last} appears twice`);
    }
    parent[last] = value;
  }

  #dotted(table: TomlTable, key: string): TomlTable {
    table[key] ??= this.#newTable("dotted");
    const inner = table[key] as TomlTable;
    if (!["dotted", "implicit"].includes(this.#origins.get(inner) ?? "closed")) {
      this.#scanner.refuse(`${key} cannot be extended`);
    }
    this.#origins.set(inner, "dotted");
    return inner;
  }

  #value(): TomlValue {
    this.#scanner.take(SPACE);
    if (++this.#depth > DEEPEST) {
      this.#scanner.refuse("too many nested brackets");
    }
    const value = this.#take("[")
      ? this.#array()
      : this.#take("{")
        ? this.#inline()
        : (readScalar(this.#scanner) ?? this.#scanner.refuse("expected a value"));
    this.#depth--;
    return value;
  }

  #array(): TomlValue[] {
    const values: TomlValue[] = [];
    for (this.#blank(); !this.#take("]"); this.#blank()) {
      values.push(this.#value());
      this.#blank();
      if (this.#next() !== "]") {
        this.#expect(",");
      }
    }
    return values;
  }

  /** Skip spaces, comments and line ends, which may stand between the values of an array. */
  #blank(): void {
    do {
      this.#scanner.take(SPACE);
      this.#scanner.take(COMMENT);
    } while (this.#take("\n"));
  }

  #inline(): TomlTable {
    const table = this.#newTable("header");
    this.#scanner.take(SPACE);
    if (!this.#take("}")) {
      do {
        this.#pair(table);
        this.#scanner.take(SPACE);
      } while (this.#take(","));
      this.#expect("}");
    }
    this.#origins.set(table, "closed");
    return table;
  }
}

/**
 * Read a text of TOML 1.0.
 * @throws ConfigError for any other text.
 */
export function parseToml(text: string): TomlTable {
  if (/\p{Surrogate}/u.test(text)) {
    throw new ConfigError("this is not TOML 1.0: it contains half of a surrogate pair");
  }
  return new Parser(text.replaceAll("\r\n", "\n")).document();
}
