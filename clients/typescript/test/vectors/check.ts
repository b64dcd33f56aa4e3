/** How a vector is held against the package, in Node and in a browser alike. */

import { type Bytes, concat, fromHex, toHex } from "../../src/bytes.js";
import type { Engine, Random } from "../../src/crypto/engine.js";
import { CcesaError } from "../../src/errors.js";

/** One vector: what it is called, and what throws unless it holds. */
export interface Case {
  readonly name: string;
  /** Whose it is; a server's vectors are counted apart where a client has no part of them. */
  readonly side?: "client" | "server";
  run(engine: Engine): Promise<void>;
}

/** Makes the cases of one file in `vectors/` from its content, and that of the file that it refers to. */
export type Replay = (data: any, beside?: any) => Case[];

/** Throw unless the bytes are these. */
export function same(expected: string, actual: Uint8Array, what = "bytes"): void {
  if (toHex(actual) !== expected) {
    throw new Error(`${what}: expected ${expected.slice(0, 80)}, got ${toHex(actual).slice(0, 80)}`);
  }
}

/** Throw unless the two are the same as JSON. */
export function equals(expected: unknown, actual: unknown, what = "value"): void {
  const [want, have] = [JSON.stringify(expected), JSON.stringify(actual)];
  if (want !== have) {
    throw new Error(`${what}: expected ${want?.slice(0, 200)}, got ${have?.slice(0, 200)}`);
  }
}

/** Throw unless the work is refused by this name. */
export async function refuses(name: string, work: () => unknown): Promise<void> {
  let result: unknown;
  try {
    result = await work();
  } catch (error) {
    if (error instanceof CcesaError && error.name === name) {
      return;
    }
    throw new Error(`expected ${name}, got ${String(error)}`, { cause: error });
  }
  throw new Error(`expected ${name}, got ${String(result).slice(0, 80)}`);
}

/** Return x as so many bytes, little-endian. */
export function littleEndian(x: number | bigint, bytes: number): Bytes {
  const out = new Uint8Array(bytes);
  let rest = BigInt(x);
  for (let at = 0; at < bytes; at++) {
    out[at] = Number(rest & 255n);
    rest >>= 8n;
  }
  return out;
}

/** Return the bytes of `randomness` in the files: SHA-256(seed || k) for k = 0, 1, 2, ... as a random source. */
export async function stream(engine: Engine, seed: string, bytes = 1 << 16): Promise<Random> {
  const blocks = await Promise.all(
    Array.from({ length: Math.ceil(bytes / 32) }, (_, k) => engine.sha256(concat(fromHex(seed), littleEndian(k, 8)))),
  );
  let at = 0;
  return (count: number): Bytes => {
    const out = new Uint8Array(count);
    for (let place = 0; place < count; place++, at++) {
      out[place] = blocks[at >> 5]![at & 31]!;
    }
    return out;
  };
}
