/**
 * The jobs of a worker, by name. Questions and answers have only values that messages can carry. Every buffer in them
 * is moved, so that no copy is left.
 */

import { type Bytes, wipe } from "../bytes.js";
import { type Generator, KEY_BYTES } from "../crypto/engine.js";
import { addMasks, type Bits, type Mask } from "../crypto/masks.js";

/** How a job is done. */
export interface JobOptions {
  /** Gets the amount that is done, and the whole. */
  readonly progress?: ((done: number, all: number) => void) | undefined;
  /** Ends the job, and the worker with it. */
  readonly signal?: AbortSignal | undefined;
}

/** Part of a vector to be masked: the keys are one after the other, the signs in their order. */
export interface MaskPart {
  readonly part: Bytes;
  readonly from: number;
  readonly bits: Bits;
  readonly generator: Generator;
  readonly keys: Bytes;
  readonly signs: readonly (1 | -1)[];
}

/** All jobs. A job that is added here can be run by its name. */
export const JOBS = {
  async mask({ part, from, bits, generator, keys, signs }: MaskPart, options: JobOptions): Promise<Bytes> {
    const size = KEY_BYTES[generator];
    const masks = signs.map((sign, at): Mask => ({ key: keys.subarray(at * size, (at + 1) * size), sign }));
    try {
      await addMasks(part, bits, generator, masks, { from, ...options });
    } finally {
      wipe(keys);
    }
    return part;
  },
} as const;

/** The names of jobs. */
export type JobName = keyof typeof JOBS;
/** The question of a job. */
export type Asked<Name extends JobName> = Parameters<(typeof JOBS)[Name]>[0];
/** The answer of a job. */
export type Answer<Name extends JobName> = Awaited<ReturnType<(typeof JOBS)[Name]>>;

/** A message to a worker: one job at a time. */
export interface Order<Name extends JobName = JobName> {
  readonly job: Name;
  readonly asked: Asked<Name>;
}

/** A message from a worker: its start, its progress, or its end. */
export type Report =
  | { readonly kind: "ready" }
  | { readonly kind: "progress"; readonly done: number; readonly all: number }
  | { readonly kind: "answer"; readonly answer: unknown }
  | { readonly kind: "error"; readonly name: string; readonly message: string };

/** Do a job in this thread. */
export async function doJob<Name extends JobName>(order: Order<Name>, options: JobOptions): Promise<Answer<Name>> {
  const work = JOBS[order.job] as unknown as (asked: Asked<Name>, options: JobOptions) => Promise<Answer<Name>>;
  return work(order.asked, options);
}

/** Return the buffers of what a message carries, as deep as plain objects and arrays go. */
export function buffersOf(content: unknown): ArrayBuffer[] {
  if (ArrayBuffer.isView(content)) {
    return content.buffer instanceof ArrayBuffer ? [content.buffer] : [];
  }
  const inside: unknown[] = typeof content === "object" && content !== null ? Object.values(content) : [];
  return [...new Set(inside.flatMap(buffersOf))];
}
