/** Every file of `vectors/`, and what replays it. */

import { assistedMessages } from "./assisted.js";
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
import { activeRefused, refused, refusedAssisted, refusedReplies } from "./refused.js";
import { rosters } from "./roster.js";
import { hybridRounds, rounds } from "./rounds.js";
import { sealing } from "./sealing.js";
import { series } from "./series.js";
import { service } from "./service.js";
import { sharing } from "./sharing.js";
import { signatures } from "./signatures.js";
import { statistics } from "./statistics.js";

/** Files that refer to another one, whose content goes beside theirs. */
export const BESIDE: Readonly<Record<string, string>> = { "active_refused.json": "active_round.json" };

export const REPLAYS: Readonly<Record<string, Replay>> = {
  "accept_round.json": rounds,
  "active_accept_round.json": rounds,
  "active_messages.json": activeMessages,
  "active_refused.json": activeRefused,
  "active_round.json": rounds,
  "charters.json": charters,
  "derivations.json": derivations,
  "graphs.json": graphs,
  "assisted_hybrid.json": hybridRounds,
  "assisted_messages.json": assistedMessages,
  "assisted_round.json": rounds,
  "assisted_series.json": series,
  "hybrid.json": hybrid,
  "hybrid_active_round.json": hybridRounds,
  "hybrid_round.json": hybridRounds,
  "identities.json": identities,
  "lists.json": lists,
  "masks.json": masks,
  "messages.json": messages,
  "noise.json": noise,
  "quantizer.json": quantizer,
  "refused.json": refused,
  "refused_accept.json": refused,
  "refused_active.json": refused,
  "refused_assisted.json": refusedAssisted,
  "refused_helpers.json": refused,
  "refused_replies.json": refusedReplies,
  "roster.json": rosters,
  "round.json": rounds,
  "sealing.json": sealing,
  "series.json": series,
  "service.json": service,
  "sharing.json": sharing,
  "signatures.json": signatures,
  "statistics.json": statistics,
};
