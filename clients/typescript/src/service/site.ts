/** All that taking part needs, once the options are checked. */

import type { Charter } from "../charter/charter.js";
import type { Engine } from "../crypto/engine.js";
import type { Masker } from "../crypto/masks.js";
import type { Identity } from "../crypto/signatures.js";
import type { Floor } from "../floor.js";
import type { Account, Memory } from "../memory.js";
import type { Progress, Stage, Tell } from "./events.js";
import type { InTime } from "./in-time.js";
import type { Line } from "./line.js";

/** A site that takes part. */
export interface Site {
  readonly line: Line;
  readonly engine: Engine;
  readonly signal: AbortSignal;
  readonly charter: Charter | null;
  readonly identity: Identity | null;
  readonly memory: Memory;
  readonly account: Account | undefined;
  readonly floor: Partial<Floor>;
  readonly masker: Masker | undefined;
  readonly strict: boolean;
  /** How many seconds a hub may wait with an answer. */
  readonly wait: number;
  readonly partBytes: number | undefined;
  readonly maximumBytes: number;
  /** The most bytes of a task; as the form has it where nothing is said. */
  readonly maximumTaskBytes: number | undefined;
  /** With noise: what makes all vectors take the same time. */
  readonly inTime: InTime | undefined;
  readonly contribute: (task: unknown, number: number, signal: AbortSignal) => unknown;
  readonly tell: Tell;
  /** Say how far things are. */
  say(stage: Stage, text: string, more?: Omit<Progress, "stage" | "text">): void;
}
