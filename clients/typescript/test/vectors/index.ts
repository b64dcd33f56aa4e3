/** Every file of `vectors/`, and what replays it. */

import type { Replay } from "./check.js";

export const REPLAYS: Readonly<Record<string, Replay>> = {};
