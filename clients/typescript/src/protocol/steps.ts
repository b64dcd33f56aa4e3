/**
 * A step takes a state and a request, and gives the next state and a reply. The tables of steps, one for each guard
 * with and without *accept*, are the diagrams of sections 8, 13.6 and 19.7 of docs/protocol.md: in a state the one request of
 * the step that begins there is due, and nothing else.
 */

import { type Guard, isAssisted, type RoundConfig } from "../config.js";
import * as active from "./active.js";
import * as assisted from "./assisted.js";
import * as curious from "./curious.js";
import type { MessageName } from "./messages.js";
import type { Step } from "./step.js";

/** By guard: the steps of a round in their order, without and with *accept*, and the stride of a series (14.1). */
const GUARDS = {
  curious: {
    atOnce: [curious.advertise, curious.share, curious.maskAtOnce, curious.unmask],
    accepted: [curious.advertise, curious.share, curious.accept, curious.mask, curious.unmask],
    stride: 2,
  },
  active: {
    atOnce: [active.advertise, active.share, active.maskAtOnce, active.confirm, active.unmask],
    accepted: [active.advertise, active.share, active.accept, active.mask, active.confirm, active.unmask],
    stride: 3,
  },
  assisted: { atOnce: [assisted.mask], accepted: [], stride: 2 },
} as const satisfies Record<Guard, { atOnce: readonly Step[]; accepted: readonly Step[]; stride: number }>;

/** The requests of a round with helpers in their order: in the first and the last step only helpers are asked. */
const HELPED: readonly MessageName[] = ["helper-keys-request", "mask-for-helpers-request", "unmask-sum-request"];

/** Return the steps of a round, in their order. */
export function stepsOf(config: RoundConfig): readonly Step[] {
  return GUARDS[config.guard][config.accept ? "accepted" : "atOnce"];
}

/** Return the requests of a round of a series in their order (14.1, 19.11). */
export function requestsOf(config: RoundConfig): readonly MessageName[] {
  return isAssisted(config) ? HELPED : stepsOf(config).map(({ request }) => request);
}

/** Return the first request to a client: in a series it asks for a new round, and has its number. */
export function askingOf(config: RoundConfig): "advertise-request" | "mask-for-helpers-request" {
  return isAssisted(config) ? "mask-for-helpers-request" : "advertise-request";
}

/** Return by how many exchanges a round of a series begins after the one before it. */
export function strideOf(config: RoundConfig): number {
  return GUARDS[config.guard].stride;
}
