/** Step 0 of the guard `active`: the keys of this round, signed. */

import { advertised, ownKeys } from "../curious/0-advertise.js";
import { bundleText } from "../roster.js";
import { callers } from "../round.js";
import { answered, holding, step } from "../step.js";
import { memberOf } from "./member.js";

export const advertise = step("Joined", "advertise-request", async (round, state, fields) => {
  const next = advertised(state, await ownKeys(round, fields));
  const { keys } = next.own;
  return holding(next.secrets, async () => {
    const text = bundleText(round.context, round.client, keys);
    const signature = await callers(round, () => memberOf(round).identity.sign(text));
    return answered(round, next, "signed-advertise-reply", { keys, signature });
  });
});
