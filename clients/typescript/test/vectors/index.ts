/** Every file of `vectors/`, and what replays it. */

import type { Replay } from "./check.js";
import { noise } from "./noise.js";
import { quantizer } from "./quantizer.js";

export const REPLAYS: Readonly<Record<string, Replay>> = {
  "noise.json": noise,
  "quantizer.json": quantizer,
};
