/** Step 0 of the guard `curious`: two key pairs are made, and their public keys sent. */

import { equal, le32 } from "../../bytes.js";
import type { OwnKeys } from "../../crypto/agreements.js";
import type { Fields } from "../messages.js";
import { callers, honest, type Round } from "../round.js";
import type { Advertised, Joined } from "../states.js";
import { answered, step } from "../step.js";

export const advertise = step("Joined", "advertise-request", async (round, state, fields) => {
  const own = await ownKeys(round, fields);
  return answered(round, advertised(state, own), "advertise-reply", { keys: own.keys });
});

/** Check the request under either guard, and make the keys of this round; only with room in the ledger. */
export async function ownKeys(round: Round, { number }: Fields<"advertise-request">): Promise<OwnKeys> {
  const { agreement, engine, random, context, client, config, account } = round;
  honest(equal(number, le32(config.number)), "the request has the wrong round number");
  await callers(round, () => account?.check());
  return agreement.makeKeys(engine, random, context, client);
}

/** Return the state after step 0. */
export function advertised({ work }: Joined, own: OwnKeys): Advertised {
  return { kind: "Advertised", work, own, secrets: [own.sealingKey, own.maskSecret, own.maskKey, own.kemSeed] };
}
