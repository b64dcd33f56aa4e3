/** The page's side: workers that are started when they are first needed, kept, and given one job at a time. */

import { type Bytes, concat, wipe } from "../bytes.js";
import { inRange } from "../crypto/checked.js";
import { discard } from "../crypto/keystreams.js";
import { addMasks, checkMasks, type Mask, type Masker } from "../crypto/masks.js";
import { CcesaError, OrderError, Unsupported } from "../errors.js";
import { builtin, cores } from "../platform.js";
import { type Answer, type Asked, doJob, type JobName, type JobOptions, type MaskPart, type Order } from "./jobs.js";
import { Thread } from "./threads.js";

/**
 * The most bytes of a vector that go to a worker at a time. Browsers do not use the memory of larger parts again when
 * it is given back; Node does.
 */
const PART = builtin("node:worker_threads") === undefined ? 3 << 18 : 1 << 30;
/** The most bytes of parts that are kept for the next vector: fresh memory costs more than the work in it. */
const KEPT = 1 << 24;
/** Keystreams of fewer bytes take less time than the way to a worker and back. */
const SMALL = 1 << 20;
/** More workers than these are seldom worth their memory. */
const MOST = 4;
/** Nobody has more of use, and each that was asked for by mistake would take memory. */
const MOST_THREADS = 1024;

/** Workers for vectors and other long work. Where a platform has none, the work is done in this thread. */
export class Workers {
  private readonly places: Place[];
  private readonly free: Place[];
  private readonly waiting: ((place: Place) => void)[] = [];
  private readonly kept: Bytes[] = [];

  /**
   * @param threads How many workers there are at most.
   * @throws ConfigError unless there is at least one.
   */
  constructor(threads: number = Math.min(cores(), MOST)) {
    inRange(threads, 1, MOST_THREADS, "threads");
    this.places = Array.from({ length: threads }, () => new Place());
    this.free = [...this.places];
  }

  /** Start all workers before they are needed. */
  async start(): Promise<void> {
    await Promise.all(this.places.map((place) => place.start()));
  }

  /**
   * Run a job by its name, as soon as a worker is free. The buffers of what is asked are moved.
   *
   * @throws OrderError once the workers are closed.
   */
  run<Name extends JobName>(job: Name, asked: Asked<Name>, options: JobOptions = {}): Promise<Answer<Name>> {
    return this.inTurn((place) => place.run({ job, asked }, options));
  }

  /** Add masks to a vector, in all workers at the same time; the vector that comes back is the one that was given. */
  readonly mask: Masker = async (vector, bits, generator, masks, options = {}) => {
    checkMasks(vector, bits, generator, masks);
    if (vector.length * masks.length < SMALL) {
      await addMasks(vector, bits, generator, masks, options);
      return vector;
    }
    const { signal } = options;
    const progress = together(vector.length, options.progress);
    const parts = partsOf(vector.length, this.places.length).map(([from, to]) =>
      this.inTurn(async (place) => {
        const reporting = { progress: progress(), signal };
        const piece = vector.subarray(from, to);
        const asked = { part: this.copied(piece), from, bits, generator, ...packed(masks) };
        try {
          const masked = await place.run({ job: "mask", asked }, reporting);
          if (masked.length !== piece.length) {
            throw new CcesaError("a worker returned a part of the wrong size");
          }
          piece.set(masked);
          this.keep(masked);
        } catch (error) {
          if (!(error instanceof Unsupported)) {
            throw error;
          }
          await addMasks(piece, bits, generator, masks, { ...options, ...reporting, from });
        }
      }),
    );
    const failed = (await Promise.allSettled(parts)).find((end) => end.status === "rejected");
    if (failed) {
      wipe(vector); // a part of it may be masked and another not
      throw failed.reason;
    }
    return vector;
  };

  /** Return a copy of a piece, in kept memory of its size if there is any. */
  private copied(piece: Bytes): Bytes {
    const at = this.kept.findIndex(({ length }) => length === piece.length);
    const [copy = new Uint8Array(piece.length)] = at < 0 ? [] : this.kept.splice(at, 1);
    copy.set(piece);
    return copy;
  }

  /** Keep the memory of a part for the next vector, overwritten, or give it back. */
  private keep(part: Bytes): void {
    wipe(part);
    const bytes = this.kept.reduce((sum, { length }) => sum + length, part.length);
    if (bytes <= KEPT) {
      this.kept.push(part);
    } else {
      discard(part);
    }
  }

  /** End all workers, and with them whatever they do. */
  close(): void {
    this.kept.length = 0;
    this.places.forEach((place) => place.close());
  }

  private async inTurn<T>(work: (place: Place) => Promise<T>): Promise<T> {
    const place = this.free.pop() ?? (await new Promise<Place>((resolve) => this.waiting.push(resolve)));
    try {
      return await work(place);
    } finally {
      const next = this.waiting.shift();
      if (next) {
        next(place);
      } else {
        this.free.push(place);
      }
    }
  }
}

/** Where a worker is, or will be. */
class Place {
  private thread: Promise<Thread | undefined> | undefined;
  private closed = false;

  async start(): Promise<Thread | undefined> {
    if ((await this.thread)?.ended) {
      this.thread = undefined;
    }
    if (this.closed) {
      throw new OrderError("the workers are closed");
    }
    this.thread ??= Thread.start();
    return this.thread;
  }

  async run<Name extends JobName>(order: Order<Name>, options: JobOptions): Promise<Answer<Name>> {
    const thread = await this.start();
    options.signal?.throwIfAborted();
    return thread ? ((await thread.run(order as Order, options)) as Answer<Name>) : doJob(order, options);
  }

  close(): void {
    this.closed = true;
    void this.thread?.then((thread) => thread?.end());
  }
}

/** Return where parts begin and end: as many for each worker, all of about the same size, from multiples of 64 on. */
function partsOf(bytes: number, threads: number): [from: number, to: number][] {
  const each = 64 * Math.ceil(bytes / (64 * threads * Math.ceil(bytes / (PART * threads))));
  return Array.from({ length: Math.ceil(bytes / each) }, (_, at) => [at * each, Math.min((at + 1) * each, bytes)]);
}

/** Return copies of keys, which can be moved to a worker, and their signs. */
function packed(masks: readonly Mask[]): Pick<MaskPart, "keys" | "signs"> {
  return { keys: concat(...masks.map(({ key }) => key)), signs: masks.map(({ sign }) => sign) };
}

/** Return what makes one report of several: each part has its own, and the whole gets their sum. */
function together(all: number, progress: JobOptions["progress"]): () => (done: number) => void {
  let sum = 0;
  return () => {
    let before = 0;
    return (done) => {
      sum += done - before;
      before = done;
      progress?.(sum, all);
    };
  };
}
