/** With noise, the time a site takes can reveal something about its data. A fixed time reveals nothing. */

import type { Bytes } from "../bytes.js";
import { ConfigError } from "../errors.js";
import { ContributionFailed } from "./errors.js";
import { sleep } from "./line.js";

/**
 * Makes vectors, each in the same time. A function that is still at work when its time is over cannot be stopped; until
 * it ends, none is called. One that never lets go of its thread is not interrupted: let it do its work in a worker.
 */
export class InTime {
  #working = false;

  /**
   * @param seconds - From the call of the function to the moment at which its vector, or another one, may leave.
   * @throws ConfigError for an invalid time.
   */
  constructor(private readonly seconds: number) {
    if (!(seconds > 0 && seconds < 1e6)) {
      throw new ConfigError(`answerAfter must be a positive number of seconds, got ${seconds}`);
    }
  }

  /** Return the vector when the time is over, and not before; throws what the function throws, or that it is late. */
  async run(make: () => Promise<Bytes>, signal: AbortSignal): Promise<Bytes> {
    const over = sleep(this.seconds, signal);
    let made: Promise<Bytes> | undefined;
    if (!this.#working) {
      this.#working = true;
      made = make().finally(() => (this.#working = false));
      made.catch(() => undefined);
    }
    await over;
    const late = new ContributionFailed(`no vector was ready after ${this.seconds} seconds`);
    return made === undefined ? Promise.reject(late) : Promise.race([made, Promise.reject(late)]);
  }
}
