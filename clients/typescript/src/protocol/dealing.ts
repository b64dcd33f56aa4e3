/** Step 1: two secrets are split among the neighbours, and each is sealed its row of shares (5.2, 6.1, 6.4). */

import { type Bytes, join, wipe } from "../bytes.js";
import type { Neighbour } from "../crypto/agreements.js";
import { commitment as commitmentTo } from "../crypto/keys.js";
import { drawElements, fromBytes, ROW_ELEMENTS, SECRET_ELEMENTS, split, toBytes } from "../crypto/sharing.js";
import type { Fields } from "./messages.js";
import type { Round } from "./round.js";
import type { Advertised, Dealt, Secret } from "./states.js";

/** The results of dealing: the secrets that the client keeps, and the texts that it sends. */
export interface Deal {
  readonly dealt: Dealt & { readonly secrets: readonly Secret[] };
  readonly reply: Fields<"share-reply">;
}

/** Draw b_i, split both secrets, and seal each neighbour its row. */
export async function deal(
  round: Round,
  { work, own, secrets: before }: Advertised,
  neighbours: readonly Neighbour[],
  threshold: number,
): Promise<Deal> {
  const { engine, agreement, context, client } = round;
  const { selfSecret, rows } = drawn(round, own.maskSecret, threshold, neighbours.length + 1);
  const [row] = rows.splice(neighbours.filter((other) => other.client < client).length, 1) as [Bytes];
  try {
    const sealing = await agreement.sealingSecrets(engine, own, neighbours);
    const partners = neighbours.map((other, at) => ({ ...other, sealingSecret: sealing[at]! }));
    const commitment = await commitmentTo(engine, selfSecret, context, client);
    const sealed = await Promise.all(
      partners.map((to, at) => agreement.seal(engine, own, to, to.sealingSecret, commitment, rows[at]!)),
    );
    const secrets = [...before, selfSecret, row, ...sealing];
    return {
      dealt: { work, own, selfSecret, row, threshold, neighbours: partners, secrets },
      reply: { commitment, sealed: join(sealed) },
    };
  } catch (error) {
    wipe(selfSecret, row);
    throw error;
  } finally {
    rows.forEach((given) => wipe(given));
  }
}

/** Draw b_i and the coefficients, in this order, and return the rows of all holders in the order of their ids. */
function drawn(
  { random }: Round,
  maskSecret: Bytes,
  threshold: number,
  holders: number,
): { selfSecret: Bytes; rows: Bytes[] } {
  const self = drawElements(random, SECRET_ELEMENTS);
  const coefficients = drawElements(random, ROW_ELEMENTS * (threshold - 1));
  const mask = fromBytes(maskSecret);
  const secret = Uint16Array.of(...self, ...mask);
  const shares = split(secret, coefficients, threshold, holders);
  const result = { selfSecret: toBytes(self), rows: shares.map(toBytes) };
  [self, coefficients, mask, secret, ...shares].forEach((used) => wipe(used));
  return result;
}
