/** Errors between a participant and its hub. The others are in `../errors.js`. */

import { CcesaError } from "../errors.js";

export { shown } from "../shown.js";

/** The hub has not answered for longer than the participant is patient. */
export class HubAway extends CcesaError {
  override readonly name = "HubAway";
}

/** The site's own function failed. `cause` is the error that it threw. */
export class ContributionFailed extends CcesaError {
  override readonly name = "ContributionFailed";
}

/** `stop()` was called. */
export class Stopped extends CcesaError {
  override readonly name = "Stopped";
}
