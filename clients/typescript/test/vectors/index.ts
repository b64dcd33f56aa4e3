/** Every file of `vectors/`, and what replays it. */

import { charters } from "./charters.js";
import type { Replay } from "./check.js";
import { derivations } from "./derivations.js";
import { graphs } from "./graphs.js";
import { hybrid } from "./hybrid.js";
import { identities } from "./identities.js";
import { lists } from "./lists.js";
import { masks } from "./masks.js";
import { activeMessages, messages } from "./messages.js";
import { noise } from "./noise.js";
import { quantizer } from "./quantizer.js";
import { rosters } from "./roster.js";
import { sealing } from "./sealing.js";
import { sharing } from "./sharing.js";
import { signatures } from "./signatures.js";
import { statistics } from "./statistics.js";

export const REPLAYS: Readonly<Record<string, Replay>> = {
  "active_messages.json": activeMessages,
  "charters.json": charters,
  "derivations.json": derivations,
  "graphs.json": graphs,
  "hybrid.json": hybrid,
  "identities.json": identities,
  "lists.json": lists,
  "masks.json": masks,
  "messages.json": messages,
  "noise.json": noise,
  "quantizer.json": quantizer,
  "roster.json": rosters,
  "sealing.json": sealing,
  "sharing.json": sharing,
  "signatures.json": signatures,
  "statistics.json": statistics,
};
