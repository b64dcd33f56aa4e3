/** Step 0 of the guard `active`: the keys of this round, signed. */

import { advertised, ownKeys } from "../curious/0-advertise.js";
import { bundleText } from "../roster.js";
import { callers } from "../round.js";
import { answered, step } from "../step.js";
import { memberOf } from "./member.js";

export const advertise = step("Joined", "advertise-request", async (round, state, fields) => {
  const own = await ownKeys(round, fields);
  const text = bundleText(round.context, round.client, own.keys);
  const signature = await callers(round, () => memberOf(round).identity.sign(text));
  return answered(round, advertised(state, own), "signed-advertise-reply", { keys: own.keys, signature });
});
