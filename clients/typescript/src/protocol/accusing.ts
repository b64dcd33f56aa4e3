/** What follows from accusations: no mask is shared with an accused, and without *accept* no vector leaves. */

import { packIds } from "./messages.js";
import { checkEnough, without } from "./neighbours.js";
import { honest, type Round } from "./round.js";
import type { Opened, Usable } from "./states.js";
import { type Answer, answered } from "./step.js";

/** Points 1 to 4 of step 2 after *accept*: return Adj(i) in V2, of those who have shared less who has dropped. */
export function presentOf(state: Usable, dropped: readonly number[]): Opened[] {
  const gone = new Set(dropped);
  const accused = new Set(state.accused);
  honest(
    state.accused.every((client) => gone.has(client)),
    "an accused neighbour is in V2",
  );
  const v2 = without(
    state.opened,
    dropped.filter((client) => !accused.has(client)),
  );
  checkEnough(v2, state.threshold);
  return v2;
}

/** Complain instead of sending a vector, and leave the round. */
export async function complaint(round: Round, { accused }: Usable): Promise<Answer> {
  return answered(round, { kind: "Complained", accused, secrets: [] }, "complaint", { accused: packIds(accused) });
}
