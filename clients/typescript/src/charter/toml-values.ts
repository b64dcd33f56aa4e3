/**
 * Values of TOML 1.0 that are neither tables nor arrays, each by the grammar of that version and no more. Numbers
 * and times are within what all readers have in common: integers of 64 bits, finite floats, nanoseconds.
 */

import { ConfigError } from "../errors.js";

/** A date or a time of TOML. */
export class TomlTime {
  constructor(
    readonly kind: "offset date-time" | "local date-time" | "date" | "time",
    /** Whole seconds since 1970, as if it were UTC where there is no offset; of a time, since midnight. */
    readonly seconds: number,
  ) {}
}

/** A string, integer, float, boolean, date or time. */
export type Scalar = string | bigint | number | boolean | TomlTime;

/** A text and a place in it. */
export class Scanner {
  at = 0;

  constructor(readonly text: string) {}

  /** Read what a sticky pattern matches here, or return null and stay. */
  take(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.at;
    const match = pattern.exec(this.text);
    this.at = match ? pattern.lastIndex : this.at;
    return match;
  }

  /** Throw a ConfigError that names the line. */
  refuse(text: string): never {
    const line = this.text.slice(0, this.at).split("\n").length;
    throw new ConfigError(`this is not TOML 1.0, line ${line}: ${text}`);
  }
}

const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  "\\": "\\",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};

function unescaped(scanner: Scanner, text: string): string {
  return text.replace(/\\(u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[ \t]*\n[ \t\n]*|.)/gs, (_, escaped: string) => {
    if (escaped.includes("\n")) {
      return "";
    }
    const code = escaped.length > 1 ? character(scanner, parseInt(escaped.slice(1), 16)) : ESCAPES[escaped];
    return code ?? scanner.refuse("a string has an unknown escape");
  });
}

function character(scanner: Scanner, code: number): string {
  if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
    scanner.refuse("an escape of an invalid character");
  }
  return String.fromCodePoint(code);
}

// Strings of several lines come first, as they begin like empty ones. Line ends are LF here, so that what is left of
// the controls but tabs is refused everywhere.
const MULTI_BASIC = /"""\n?((?:"{0,2}(?:[^"\\\x00-\x08\x0b-\x1f\x7f]|\\.))*"{0,2})"""/sy;
const MULTI_LITERAL = /'''\n?((?:'{0,2}[^'\x00-\x08\x0b-\x1f\x7f])*'{0,2})'''/y;
const BASIC = /"([^"\\\x00-\x08\x0a-\x1f\x7f]*(?:\\[^\n][^"\\\x00-\x08\x0a-\x1f\x7f]*)*)"/y;
const LITERAL = /'([^'\x00-\x08\x0a-\x1f\x7f]*)'/y;

/** Read a string of one line, or return undefined: what a key may be. */
export function readLine(scanner: Scanner): string | undefined {
  const basic = scanner.take(BASIC);
  return basic ? unescaped(scanner, basic[1]!) : scanner.take(LITERAL)?.[1];
}

function readString(scanner: Scanner): string | undefined {
  const basic = scanner.take(MULTI_BASIC);
  return basic ? unescaped(scanner, basic[1]!) : (scanner.take(MULTI_LITERAL)?.[1] ?? readLine(scanner));
}

const DATE = String.raw`(\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01]))`;
const TIME = String.raw`((?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d)(?:\.\d{1,9})?`;
const OFFSET = String.raw`(Z|z|[+-](?:[01]\d|2[0-3]):[0-5]\d)`;
const DIGITS = String.raw`\d(?:_?\d)*`;
const EXPONENT = `[eE][+-]?${DIGITS}`;
const WHOLE = String.raw`[+-]?(?:0|[1-9](?:_?\d)*)`;

type Read = (match: RegExpExecArray, scanner: Scanner) => Scalar;

/** The caller checks the text after a value, so that the first form that fits is the right one. */
const SCALARS: readonly (readonly [RegExp, Read])[] = [
  [/true/y, () => true],
  [/false/y, () => false],
  [new RegExp(`${DATE}[Tt ]${TIME}${OFFSET}`, "y"), offsetTime],
  [new RegExp(`${DATE}[Tt ]${TIME}`, "y"), localTime],
  [new RegExp(DATE, "y"), (match, scanner) => new TomlTime("date", midnight(scanner, match[1]!))],
  [new RegExp(TIME, "y"), (match) => new TomlTime("time", ofDay(match[1]!))],
  [/([+-]?)inf/y, (match) => (match[1] === "-" ? -Infinity : Infinity)],
  [/[+-]?nan/y, () => NaN],
  [/0x[0-9A-Fa-f](?:_?[0-9A-Fa-f])*|0o[0-7](?:_?[0-7])*|0b[01](?:_?[01])*/y, integer],
  [new RegExp(`${WHOLE}(?:\\.${DIGITS}(?:${EXPONENT})?|${EXPONENT})`, "y"), float],
  [new RegExp(WHOLE, "y"), integer],
];

/** Read a value that is neither table nor array, or return undefined. */
export function readScalar(scanner: Scanner): Scalar | undefined {
  const text = readString(scanner);
  if (text !== undefined) {
    return text;
  }
  for (const [pattern, read] of SCALARS) {
    const match = scanner.take(pattern);
    if (match) {
      return read(match, scanner);
    }
  }
  return undefined;
}

function plain(match: RegExpExecArray): string {
  return match[0].replaceAll("_", "").replace(/^\+/, "");
}

function integer(match: RegExpExecArray, scanner: Scanner): bigint {
  const value = BigInt(plain(match));
  return BigInt.asIntN(64, value) === value ? value : scanner.refuse("an integer has more than 64 bits");
}

function float(match: RegExpExecArray, scanner: Scanner): number {
  const value = Number(plain(match));
  return Number.isFinite(value) ? value : scanner.refuse("a number is too large for a float");
}

function offsetTime(match: RegExpExecArray, scanner: Scanner): TomlTime {
  const [, date, time, offset] = match;
  const ahead = /[Zz]/.test(offset!) ? 0 : Number(`${offset![0]}1`) * ofDay(`${offset!.slice(1)}:00`);
  return new TomlTime("offset date-time", midnight(scanner, date!) + ofDay(time!) - ahead);
}

function localTime(match: RegExpExecArray, scanner: Scanner): TomlTime {
  return new TomlTime("local date-time", midnight(scanner, match[1]!) + ofDay(match[2]!));
}

function ofDay(time: string): number {
  const [hours, minutes, seconds] = time.split(":").map(Number);
  return hours! * 3600 + minutes! * 60 + seconds!;
}

function midnight(scanner: Scanner, date: string): number {
  const day = new Date(`${date}T00:00:00Z`);
  // Some engines make March of the 30th of February, others nothing at all.
  if (Number.isNaN(day.getTime()) || !day.toISOString().startsWith(date)) {
    scanner.refuse(`${date} does not exist`);
  }
  return day.getTime() / 1000;
}
