/** Every file of `vectors/`, and what replays it. */

import { charters } from "./charters.js";
import type { Replay } from "./check.js";
import { graphs } from "./graphs.js";
import { identities } from "./identities.js";
import { lists } from "./lists.js";
import { activeMessages, messages } from "./messages.js";
import { noise } from "./noise.js";
import { quantizer } from "./quantizer.js";
import { activeRefused, refused, refusedReplies } from "./refused.js";
import { rosters } from "./roster.js";
import { hybridRounds, rounds } from "./rounds.js";
import { series } from "./series.js";
import { signatures } from "./signatures.js";

/** Files that refer to another one, whose content goes beside theirs. */
export const BESIDE: Readonly<Record<string, string>> = { "active_refused.json": "active_round.json" };

export const REPLAYS: Readonly<Record<string, Replay>> = {
  "accept_round.json": rounds,
  "active_accept_round.json": rounds,
  "active_refused.json": activeRefused,
  "active_round.json": rounds,
  "hybrid_active_round.json": hybridRounds,
  "hybrid_round.json": hybridRounds,
  "refused.json": refused,
  "refused_accept.json": refused,
  "refused_active.json": refused,
  "refused_replies.json": refusedReplies,
  "round.json": rounds,
  "active_messages.json": activeMessages,
  "charters.json": charters,
  "graphs.json": graphs,
  "identities.json": identities,
  "lists.json": lists,
  "messages.json": messages,
  "noise.json": noise,
  "quantizer.json": quantizer,
  "roster.json": rosters,
  "series.json": series,
  "signatures.json": signatures,
};
