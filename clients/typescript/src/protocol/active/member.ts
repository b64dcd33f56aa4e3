/** What the steps of the guard `active` have in common: members, their signatures, sets. */

import type { Bytes } from "../../bytes.js";
import { verify } from "../../crypto/signatures.js";
import { BadSignature } from "../../errors.js";
import { honest, type Membership, type Round } from "../round.js";
import { unpackSet } from "../sets.js";

export const SIGNATURE_BYTES = 64;

/** Return the charter and the identity of a client of this guard. */
export function memberOf({ membership }: Round): Membership {
  if (membership === null) {
    throw new Error("only clients of the guard active have a charter");
  }
  return membership;
}

/** Refuse a signature that is not the one of member j on the text. */
export async function checkSignature(round: Round, j: number, text: Bytes, signature: Bytes): Promise<void> {
  const { key } = memberOf(round).charter.members[j]!;
  try {
    await verify(round.engine, key, text, signature);
  } catch (error) {
    throw error instanceof BadSignature ? new BadSignature(`of client ${j}: ${error.message}`) : error;
  }
}

/** Return a set within another one, with this client in it. */
export function subset(round: Round, set: Bytes, of: Bytes, what: string): Set<number> {
  const members = unpackSet(set, round.config.clients);
  const outer = new Set(unpackSet(of, round.config.clients));
  const stranger = members.find((client) => !outer.has(client));
  honest(stranger === undefined, `${what} has client ${stranger}, who was not there before`);
  honest(members.includes(round.client), `${what} is without this client`);
  return new Set(members);
}
