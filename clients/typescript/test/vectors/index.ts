/** Every file of `vectors/`, and what replays it. */

import { charters } from "./charters.js";
import type { Replay } from "./check.js";
import { graphs } from "./graphs.js";
import { identities } from "./identities.js";
import { lists } from "./lists.js";
import { activeMessages, messages } from "./messages.js";
import { noise } from "./noise.js";
import { quantizer } from "./quantizer.js";
import { rosters } from "./roster.js";
import { signatures } from "./signatures.js";
import { statistics } from "./statistics.js";

export const REPLAYS: Readonly<Record<string, Replay>> = {
  "active_messages.json": activeMessages,
  "charters.json": charters,
  "graphs.json": graphs,
  "identities.json": identities,
  "lists.json": lists,
  "messages.json": messages,
  "noise.json": noise,
  "quantizer.json": quantizer,
  "roster.json": rosters,
  "signatures.json": signatures,
  "statistics.json": statistics,
};
