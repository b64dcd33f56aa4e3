/** Every file of `vectors/`, and what replays it. */

import type { Replay } from "./check.js";
import { derivations } from "./derivations.js";
import { hybrid } from "./hybrid.js";
import { masks } from "./masks.js";
import { sealing } from "./sealing.js";
import { sharing } from "./sharing.js";

export const REPLAYS: Readonly<Record<string, Replay>> = {
  "derivations.json": derivations,
  "hybrid.json": hybrid,
  "masks.json": masks,
  "sealing.json": sealing,
  "sharing.json": sharing,
};
