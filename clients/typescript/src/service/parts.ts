/** How large the parts of an upload or a download are: large ones are fast, small ones get through a bad line. */

/** The size of the first part. */
const FIRST = 1 << 20;
/** Smaller parts do not get through more often where connections break, only where a hub finds them slow. */
const SMALLEST = 1 << 16;
const SMALLEST_SLOW = 256;
/** Parts in a row after which a larger one is tried again. */
const ENOUGH = 8;

/** The size of the next part. */
export class PartSize {
  readonly #limit: number;
  #bytes: number;
  /** The size that it may grow to: after a part that was lost, not at once to that size again. */
  #most: number;
  #inRow = 0;

  constructor(limit: number) {
    this.#most = this.#limit = limit;
    this.#bytes = Math.min(FIRST, limit);
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** A part got through. */
  went(): void {
    this.#most = ++this.#inRow % ENOUGH === 0 ? Math.min(2 * this.#most, this.#limit) : this.#most;
    this.#bytes = Math.min(2 * this.#bytes, this.#most);
  }

  /** A part got lost, or took longer than the hub waits. */
  failed(slow: boolean): void {
    this.#inRow = 0;
    const least = Math.min(slow ? SMALLEST_SLOW : SMALLEST, this.#bytes);
    this.#most = this.#bytes = Math.max(Math.ceil(this.#bytes / 2), least);
  }
}
