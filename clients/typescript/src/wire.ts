/**
 * The msgpack of docs/protocol.md (3.2, 7): one encoding for each value. A reader refuses every longer form, so
 * that a reader of a value knows the bytes that it was written with.
 */

import { type Bytes, join } from "./bytes.js";
import { ConfigError, MalformedMessage } from "./errors.js";

/** A float64; plain numbers are integers, because `1` and `1.0` have different encodings. */
export class Float {
  constructor(readonly value: number) {}
}

/** Encoded values: integers in -2^63 ... 2^64 - 1 (a bigint beyond 2^53 - 1), and maps that keep their order. */
export type Value =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | Float
  | readonly Value[]
  | ReadonlyMap<string, Value>;

/** No charter or configuration is deeper, and nothing deeper is read. */
const DEEPEST = 8;

/** A header: the first size that it can hold no more, its first byte (the small ones add the size), bytes of a size. */
type Header = readonly [beyond: number, first: number, bytes: number];

const LONG = 2 ** 32;
const HEADERS = {
  integer: [
    [0x80, 0x00, 0],
    [0x100, 0xcc, 1],
    [0x10000, 0xcd, 2],
    [LONG, 0xce, 4],
    [2 ** 64, 0xcf, 8],
  ],
  // The size of a negative integer x is -1 - x: how far it lies below the largest.
  negative: [
    [32, 0xe0, 0],
    [0x80, 0xd0, 1],
    [0x8000, 0xd1, 2],
    [2 ** 31, 0xd2, 4],
    [2 ** 63, 0xd3, 8],
  ],
  text: [
    [32, 0xa0, 0],
    [0x100, 0xd9, 1],
    [0x10000, 0xda, 2],
    [LONG, 0xdb, 4],
  ],
  bytes: [
    [0x100, 0xc4, 1],
    [0x10000, 0xc5, 2],
    [LONG, 0xc6, 4],
  ],
  array: [
    [16, 0x90, 0],
    [0x10000, 0xdc, 2],
    [LONG, 0xdd, 4],
  ],
  map: [
    [16, 0x80, 0],
    [0x10000, 0xde, 2],
    [LONG, 0xdf, 4],
  ],
} as const satisfies Record<string, readonly Header[]>;

type Kind = keyof typeof HEADERS;

function header(kind: Kind, size: bigint): Bytes {
  const form = HEADERS[kind].find(([beyond]) => size < beyond);
  if (form === undefined) {
    throw new ConfigError(`${size} has no encoding as ${kind}`);
  }
  const [, first, bytes] = form;
  const out = new Uint8Array(1 + bytes);
  // Two's complement; the smallest header has the last five bits of a negative integer.
  let rest = kind === "negative" ? ~size : size;
  out[0] = bytes > 0 ? first : first + Number(kind === "negative" ? rest & 31n : rest);
  for (let at = bytes; at > 0; at--, rest >>= 8n) {
    out[at] = Number(rest & 255n);
  }
  return out;
}

function integerBytes(value: number | bigint): Bytes {
  if (typeof value === "number" && !Number.isSafeInteger(value)) {
    throw new ConfigError(`${value} has no encoding as integer`);
  }
  return value < 0 ? header("negative", -1n - BigInt(value)) : header("integer", BigInt(value));
}

function textBytes(text: string): Bytes {
  if (/\p{Surrogate}/u.test(text)) {
    throw new ConfigError("half of a surrogate pair has no encoding");
  }
  return new TextEncoder().encode(text);
}

function floatBytes(value: number): Bytes {
  const out = new Uint8Array(9);
  out[0] = 0xcb;
  new DataView(out.buffer).setFloat64(1, value);
  return out;
}

/** List the parts of an encoding; byte strings are not copied into them. */
function* parts(value: Value): Generator<Uint8Array> {
  if (value === null) {
    yield new Uint8Array([0xc0]);
  } else if (typeof value === "boolean") {
    yield new Uint8Array([value ? 0xc3 : 0xc2]);
  } else if (typeof value === "number" || typeof value === "bigint") {
    yield integerBytes(value);
  } else if (typeof value === "string") {
    const text = textBytes(value);
    yield header("text", BigInt(text.length));
    yield text;
  } else if (value instanceof Uint8Array) {
    yield header("bytes", BigInt(value.length));
    yield value;
  } else if (value instanceof Float) {
    yield floatBytes(value.value);
  } else if (value instanceof Map) {
    yield header("map", BigInt(value.size));
    for (const [key, entry] of value as ReadonlyMap<string, Value>) {
      yield* parts(key);
      yield* parts(entry);
    }
  } else if (Array.isArray(value)) {
    yield header("array", BigInt(value.length));
    for (const entry of value as readonly Value[]) {
      yield* parts(entry);
    }
  } else {
    throw new ConfigError(`${typeof value} has no encoding`);
  }
}

/**
 * Return the encoding of a value. Byte strings in it are copied once.
 *
 * @throws ConfigError for what has none.
 */
export function encode(value: Value): Bytes {
  return join([...parts(value)]);
}

/** Reads values off the front of bytes; anything but the one expected, in its shortest form, is MalformedMessage. */
export class Reader {
  #at = 0;

  constructor(private readonly data: Uint8Array) {}

  /** Read an integer; one beyond 2^53 - 1 is a bigint. */
  integer(): number | bigint {
    const negative = kindOf(this.#peek()) === "negative";
    const value = negative ? -1n - this.#size("negative") : this.#size("integer");
    return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  }

  text(): string {
    const data = this.#take(this.#count("text"));
    try {
      // A byte order mark is a character like others here: skipping it would give two texts one value.
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
    } catch {
      throw new MalformedMessage("a text is not valid UTF-8");
    }
  }

  /** Read a byte string, as a copy of its own. */
  bytes(): Bytes {
    // Not slice, which shares memory where the bytes are a Buffer of Node.
    return new Uint8Array(this.#take(this.#count("bytes")));
  }

  /** Read the head of an array: the number of its entries, which follow. */
  array(): number {
    return this.#count("array");
  }

  /** Read any one value. */
  value(depth = 0): Value {
    if (depth > DEEPEST) {
      throw new MalformedMessage(`more than ${DEEPEST} levels`);
    }
    const first = this.#peek();
    if (first === 0xc0 || first === 0xc2 || first === 0xc3) {
      this.#at++;
      return first === 0xc0 ? null : first === 0xc3;
    }
    if (first === 0xcb) {
      return this.#float();
    }
    switch (kindOf(first)) {
      case "integer":
      case "negative":
        return this.integer();
      case "text":
        return this.text();
      case "bytes":
        return this.bytes();
      case "array":
        return this.#entries(depth);
      case "map":
        return this.#map(depth);
      default:
        throw new MalformedMessage(`no value begins with the byte ${first}`);
    }
  }

  /** Refuse bytes behind what was read. */
  end(): void {
    if (this.#at !== this.data.length) {
      throw new MalformedMessage(`${this.data.length - this.#at} bytes too many`);
    }
  }

  #peek(): number {
    const first = this.data[this.#at];
    if (first === undefined) {
      throw new MalformedMessage("the bytes end too early");
    }
    return first;
  }

  #take(count: number): Uint8Array {
    if (count > this.data.length - this.#at) {
      throw new MalformedMessage(`expected ${count} bytes, got ${this.data.length - this.#at}`);
    }
    this.#at += count;
    return this.data.subarray(this.#at - count, this.#at);
  }

  #size(kind: Kind): bigint {
    const first = this.#peek();
    const at = HEADERS[kind].findIndex((form) => begins(form, first));
    const form = HEADERS[kind][at];
    if (form === undefined) {
      throw new MalformedMessage(`expected ${kind}, got the byte ${first}`);
    }
    const [beyond, head, bytes] = form;
    const rest = this.#take(1 + bytes).subarray(1);
    const number = rest.reduce((sum, byte) => 256n * sum + BigInt(byte), bytes > 0 ? 0n : BigInt(first - head));
    const size = kind === "negative" ? BigInt.asUintN(bytes > 0 ? 8 * bytes : 5, ~number) : number;
    if (size >= beyond || size < (HEADERS[kind][at - 1]?.[0] ?? 0)) {
      throw new MalformedMessage(`the header of a ${kind} is not the shortest`);
    }
    return size;
  }

  #count(kind: "text" | "bytes" | "array" | "map"): number {
    return Number(this.#size(kind));
  }

  #float(): Float {
    const { buffer, byteOffset } = this.#take(9);
    const value = new DataView(buffer, byteOffset + 1, 8).getFloat64(0);
    if (Number.isNaN(value)) {
      throw new MalformedMessage("a float is NaN");
    }
    return new Float(value);
  }

  #entries(depth: number): Value[] {
    const entries: Value[] = [];
    for (let left = this.array(); left > 0; left--) {
      entries.push(this.value(depth + 1));
    }
    return entries;
  }

  #map(depth: number): Map<string, Value> {
    const map = new Map<string, Value>();
    for (let left = this.#count("map"); left > 0; left--) {
      const key = this.text();
      if (map.has(key)) {
        throw new MalformedMessage("a map has a key twice");
      }
      map.set(key, this.value(depth + 1));
    }
    return map;
  }
}

function begins([beyond, first, bytes]: Header, byte: number): boolean {
  return bytes === 0 ? first <= byte && byte < first + beyond : byte === first;
}

function kindOf(byte: number): Kind | undefined {
  return (Object.keys(HEADERS) as Kind[]).find((kind) => HEADERS[kind].some((form) => begins(form, byte)));
}

/**
 * Return the value that bytes are the encoding of.
 *
 * @throws MalformedMessage for all other bytes. The caller has limited their number before.
 */
export function decode(data: Uint8Array): Value {
  const reader = new Reader(data);
  const value = reader.value();
  reader.end();
  return value;
}
