/** What can go wrong between a participant and its hub, besides what is in `../errors.js`. */

import { CcesaError } from "../errors.js";

/** The hub has not answered for longer than the participant is patient. */
export class HubAway extends CcesaError {
  override readonly name = "HubAway";
}

/** The site's own function has failed; `cause` is what it threw. */
export class ContributionFailed extends CcesaError {
  override readonly name = "ContributionFailed";
}

/** Somebody has called `stop()`. */
export class Stopped extends CcesaError {
  override readonly name = "Stopped";
}

/** Return what somebody else wrote as one short line of printable ASCII. */
export function shown(text: unknown, most = 200): string {
  const line = String(text).slice(0, most + 1).replace(/[^\x20-\x7e]+/g, "?");
  return line.length > most ? `${line.slice(0, most)}...` : line;
}
