/**
 * A step takes a state and a request, and gives the next state and a reply. The tables of steps, one for each guard
 * with and without *accept*, are the diagrams of sections 8 and 13.6 of docs/protocol.md: in a state the one request of
 * the step that begins there is due, and nothing else.
 */

import type { RoundConfig } from "../config.js";
import * as active from "./active.js";
import * as curious from "./curious.js";
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
} as const satisfies Record<string, { atOnce: readonly Step[]; accepted: readonly Step[]; stride: number }>;

/** Return the steps of a round, in their order. */
export function stepsOf(config: RoundConfig): readonly Step[] {
  return GUARDS[config.guard][config.accept ? "accepted" : "atOnce"];
}

/** Return by how many exchanges a round of a series begins after the one before it. */
export function strideOf(config: RoundConfig): number {
  return GUARDS[config.guard].stride;
}
