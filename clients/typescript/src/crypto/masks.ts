/** Masks of section 6.2 of docs/protocol.md: keystreams, added to a vector in blocks that stay in the cache. */

import { type Bytes, wipe } from "../bytes.js";
import { ConfigError, VectorError } from "../errors.js";
import { turn } from "../platform.js";
import { BITS, type Bits, giveBack, PIECE, type Sum, takeSum } from "./adding.js";
import { BLOCK_BYTES, type Engine, type Generator, KEY_BYTES } from "./engine.js";
import { systemEngine } from "./engines.js";
import { discard, engineSource, type Keystream, type KeystreamSource, platformSource } from "./keystreams.js";

export type { Bits } from "./adding.js";

/** A mask: the key of its keystream, and whether it is added or taken away. */
export interface Mask {
  readonly key: Bytes;
  readonly sign: 1 | -1;
}

/** Options for the work while it is done. */
export interface MaskOptions {
  /** Whose keystreams these are, where the platform itself has none. */
  readonly engine?: Engine | undefined;
  /** Gets the bytes of the vector that are done, and their whole number. */
  readonly progress?: ((done: number, all: number) => void) | undefined;
  /** Stops the work between two blocks. */
  readonly signal?: AbortSignal | undefined;
  /** So many bytes of the whole vector come before: a multiple of 64. */
  readonly from?: number | undefined;
  /** Where keystreams come from, if not from the fastest source there is. */
  readonly source?: KeystreamSource | undefined;
}

/** So many milliseconds at a time; then the rest of the thread has its turn. */
const SLICE = 12;

/**
 * Add masks to a vector of little-endian words, in place. After an error the vector is overwritten: it was masked only
 * in part and must not be sent.
 *
 * @throws VectorError for bytes that are not whole words.
 * @throws ConfigError for other bits or generators, or keys of another size.
 */
export async function addMasks(
  vector: Bytes,
  bits: Bits,
  generator: Generator,
  masks: readonly Mask[],
  options: MaskOptions = {},
): Promise<void> {
  checkMasks(vector, bits, generator, masks);
  const { from = 0, progress, signal } = options;
  if (!Number.isSafeInteger(from / 64) || from < 0) {
    throw new ConfigError(`a part of a vector must start at a multiple of 64 bytes, not at ${from}`);
  }
  const sum = await takeSum();
  try {
    const open = options.source ?? (await fastest(generator, options.engine));
    const block = from / BLOCK_BYTES[generator];
    const streams = await Promise.all(masks.map(({ key }) => open(generator, key, block)));
    const work = { sum, bits, masks, streams };
    let paused = performance.now();
    for (let at = 0; at < vector.length; at += PIECE) {
      signal?.throwIfAborted();
      await addPiece(vector.subarray(at, at + PIECE), work, at + PIECE >= vector.length);
      progress?.(Math.min(at + PIECE, vector.length), vector.length);
      if (performance.now() > paused + SLICE) {
        await turn();
        paused = performance.now();
      }
    }
  } catch (error) {
    wipe(vector);
    throw error;
  } finally {
    giveBack(sum);
  }
}

/** Throw what addMasks throws for such a vector and such masks, and do nothing else. */
export function checkMasks(vector: Bytes, bits: Bits, generator: Generator, masks: readonly Mask[]): void {
  if (!BITS.includes(bits)) {
    throw new ConfigError(`words must have 8, 16, 32 or 64 bits, not ${String(bits)}`);
  }
  if (!Object.hasOwn(KEY_BYTES, generator)) {
    throw new ConfigError(`unknown mask generator ${String(generator)}`);
  }
  if (vector.length % (bits / 8) !== 0) {
    throw new VectorError(`${vector.length} bytes are not whole words of ${bits} bits`);
  }
  if (masks.some(({ sign }) => sign !== 1 && sign !== -1)) {
    throw new ConfigError("the sign of a mask must be 1 or -1");
  }
  const wrong = masks.find(({ key }) => key.length !== KEY_BYTES[generator]);
  if (wrong) {
    throw new ConfigError(`a key of ${generator} has ${KEY_BYTES[generator]} bytes, not ${wrong.key.length}`);
  }
}

/** The parts that every piece of a vector needs. */
interface Work {
  readonly sum: Sum;
  readonly bits: Bits;
  readonly masks: readonly Mask[];
  readonly streams: readonly Keystream[];
}

/**
 * Add all masks to one piece, a stream at a time. The next stream overwrites the memory of the one before; those of the
 * last piece have none after them.
 */
async function addPiece(piece: Bytes, { sum, bits, masks, streams }: Work, last: boolean): Promise<void> {
  sum.piece.set(piece);
  for (const [at, { sign }] of masks.entries()) {
    const stream = await streams[at]!.next(piece.length);
    sum.add(stream, bits, sign);
    if (last) {
      wipe(stream);
    }
    discard(stream);
  }
  piece.set(sum.piece.subarray(0, piece.length));
}

async function fastest(generator: Generator, engine: Engine | undefined): Promise<KeystreamSource> {
  return (await platformSource(generator)) ?? engineSource(engine ?? (await systemEngine()));
}

/** Adds masks to a vector, perhaps in another thread, and gives the masked one; the one that it was given is gone. */
export type Masker = (
  vector: Bytes,
  bits: Bits,
  generator: Generator,
  masks: readonly Mask[],
  options?: MaskOptions,
) => Promise<Bytes>;

/** The masker that works in this thread, a block at a time. */
export const maskHere: Masker = async (vector, bits, generator, masks, options) => {
  await addMasks(vector, bits, generator, masks, options);
  return vector;
};
