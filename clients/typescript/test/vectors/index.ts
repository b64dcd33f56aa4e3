/** Every file of `vectors/`, and what replays it. */

import type { Replay } from "./check.js";
import { graphs } from "./graphs.js";
import { activeMessages, messages } from "./messages.js";
import { noise } from "./noise.js";
import { quantizer } from "./quantizer.js";
import { rosters } from "./roster.js";

export const REPLAYS: Readonly<Record<string, Replay>> = {
  "active_messages.json": activeMessages,
  "graphs.json": graphs,
  "messages.json": messages,
  "noise.json": noise,
  "quantizer.json": quantizer,
  "roster.json": rosters,
};
