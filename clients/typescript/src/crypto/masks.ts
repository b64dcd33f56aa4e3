/** Masks of section 6.2 of docs/protocol.md: keystreams, added to a vector in blocks that stay in the cache. */

import { wipe, type Bytes } from "../bytes.js";
import { ConfigError, Unsupported, VectorError } from "../errors.js";
import { addStream, type Bits } from "./adding.js";
import type { Engine, Generator } from "./engine.js";

export type { Bits } from "./adding.js";

/** A mask: the key of its keystream, and whether it is added or taken away. */
export interface Mask {
  readonly key: Bytes;
  readonly sign: 1 | -1;
}

/** What may be said about the work while it is done. */
export interface MaskOptions {
  /** Whose keystreams these are. */
  readonly engine?: Engine;
  /** Is told how many bytes of the vector are done, of how many. */
  readonly progress?: (done: number, all: number) => void;
  /** Stops the work between two blocks. */
  readonly signal?: AbortSignal;
}

/** By generator (6.2): how many bytes its key has. */
export const MASK_KEY_BYTES: Readonly<Record<Generator, number>> = { "aes128-ctr": 16, chacha20: 32 };
/** By generator: how many bytes each block of its keystream has. */
const STREAM_BLOCK: Readonly<Record<Generator, number>> = { "aes128-ctr": 16, chacha20: 64 };
/** So many bytes of the vector at a time: a multiple of every word and every keystream's blocks. */
const PIECE = 1 << 18;

/**
 * Add masks to a vector of little-endian words, in place. After an error nothing of the vector is left: it is masked
 * in part only, and must not leave.
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
  check(vector, bits, generator, masks);
  try {
    for (let from = 0; from < vector.length; from += PIECE) {
      options.signal?.throwIfAborted();
      await addPiece(vector.subarray(from, from + PIECE), from / STREAM_BLOCK[generator], bits, generator, masks, options);
      options.progress?.(Math.min(from + PIECE, vector.length), vector.length);
    }
  } catch (error) {
    wipe(vector);
    throw error;
  }
}

function check(vector: Bytes, bits: Bits, generator: Generator, masks: readonly Mask[]): void {
  if (![8, 16, 32, 64].includes(bits)) {
    throw new ConfigError(`words have 8, 16, 32 or 64 bits, not ${String(bits)}`);
  }
  if (!Object.hasOwn(MASK_KEY_BYTES, generator)) {
    throw new ConfigError(`no mask generator is called ${String(generator)}`);
  }
  if (vector.length % (bits / 8) !== 0) {
    throw new VectorError(`${vector.length} bytes are not whole words of ${bits} bits`);
  }
  const wrong = masks.find(({ key }) => key.length !== MASK_KEY_BYTES[generator]);
  if (wrong) {
    throw new ConfigError(`a key of ${generator} has ${MASK_KEY_BYTES[generator]} bytes, not ${wrong.key.length}`);
  }
}

async function addPiece(
  piece: Bytes,
  block: number,
  bits: Bits,
  generator: Generator,
  masks: readonly Mask[],
  { engine }: MaskOptions,
): Promise<void> {
  if (!engine) {
    throw new Unsupported("masks need an engine");
  }
  const sum = piece.slice(); // starts where words may start, wherever the vector does
  const streams = await Promise.all(masks.map(({ key }) => engine.keystream(generator, key, block, sum.length)));
  masks.forEach(({ sign }, at) => {
    addStream(sum, streams[at]!, bits, sign);
  });
  piece.set(sum);
  wipe(sum, ...streams);
}

/** Adds masks to a vector, perhaps in another thread, and gives the masked vector: the one that it was given is gone. */
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
