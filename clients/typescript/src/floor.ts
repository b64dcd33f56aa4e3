/** A client's own limits, below which it takes no part in a round (docs/protocol.md, 3.3). */

import { meanDegree, meanMaskDegree, type RoundConfig, thresholdAt } from "./config.js";
import { ConfigError } from "./errors.js";

/** The least that a client asks of a configuration of the guard `curious`. */
export interface Floor {
  readonly clients: number;
  /** Mean number of neighbours. */
  readonly degree: number;
  /** Mean number of mask edges. */
  readonly maskDegree: number;
  /** Threshold at the mean degree. */
  readonly threshold: number;
  /** Threshold over the mean degree. */
  readonly thresholdRatio: number;
  /** Clients in a sum. */
  readonly survivors: number;
}

/** The default limits. */
export const DEFAULT_FLOOR: Floor = Object.freeze({
  clients: 3,
  degree: 1,
  maskDegree: 1,
  threshold: 2,
  thresholdRatio: 0,
  survivors: 2,
});

/**
 * Return all limits, with defaults for those that are not set.
 *
 * @throws ConfigError for an unknown limit, or one that is not a number: a caller would rely on it in vain.
 */
export function floorOf(limits: Partial<Floor> = {}): Floor {
  for (const [name, limit] of Object.entries(limits)) {
    if (!Object.hasOwn(DEFAULT_FLOOR, name) || typeof limit !== "number" || Number.isNaN(limit)) {
      const known = Object.keys(DEFAULT_FLOOR).join(", ");
      throw new ConfigError(`${name} is not a known limit, or not a number: expected some of ${known}`);
    }
  }
  return Object.freeze({ ...DEFAULT_FLOOR, ...limits });
}

/**
 * Refuse a configuration below a limit.
 *
 * @throws ConfigError that names the limit.
 */
export function checkFloor(config: RoundConfig, floor: Floor): void {
  const degree = Math.floor(meanDegree(config));
  const threshold = thresholdAt(config.threshold, degree);
  const have: Floor = {
    clients: config.clients,
    degree: meanDegree(config),
    maskDegree: meanMaskDegree(config),
    threshold,
    thresholdRatio: threshold / Math.max(degree, 1),
    survivors: config.minSurvivors,
  };
  for (const name of Object.keys(DEFAULT_FLOOR) as (keyof Floor)[]) {
    // `have < floor` would accept a limit that is NaN.
    if (!(have[name] >= floor[name])) {
      throw new ConfigError(`${name} must be at least ${floor[name]}, but the configuration has ${have[name]}`);
    }
  }
}
