/** What the steps of the guard `active` have in common: members, their signatures, sets. */

import type { Bytes } from "../../bytes.js";
import { verify } from "../../crypto/signatures.js";
import { BadSignature } from "../../errors.js";
import { honest, type Membership, type Round, sized } from "../round.js";
import { unpackSet } from "../sets.js";

const SIGNATURE_BYTES = 64;

/** Return the charter and the identity of a client of this guard. */
export function memberOf({ membership }: Round): Membership {
  if (membership === null) {
    throw new Error("only clients of the guard active have a charter");
  }
  return membership;
}

/** The expected signer of a text. */
export interface Expected {
  readonly client: number;
  readonly text: Bytes;
}

/** Refuse signatures unless there is one for each, and all verify; the first that does not is named. */
export async function checkSignatures(round: Round, expected: readonly Expected[], signatures: Bytes): Promise<void> {
  sized(signatures, SIGNATURE_BYTES * expected.length, "signatures");
  const verified = await Promise.all(
    expected.map((each, at) => verifies(round, each, cut(signatures, SIGNATURE_BYTES, at))),
  );
  const wrong = expected.find((_, at) => !verified[at]);
  honest(wrong === undefined, `a signature of client ${wrong?.client} does not verify`);
}

async function verifies(round: Round, { client, text }: Expected, signature: Bytes): Promise<boolean> {
  try {
    await verify(round.engine, memberOf(round).charter.members[client]!.key, text, signature);
    return true;
  } catch (error) {
    if (error instanceof BadSignature) {
      return false;
    }
    throw error;
  }
}

/** Return one of the parts of this size that bytes consist of. */
export function cut(data: Bytes, size: number, at: number): Bytes {
  return data.slice(size * at, size * (at + 1));
}

/** Return a set within another one, with this client in it. */
export function subset(round: Round, set: Bytes, of: Bytes, what: string): Set<number> {
  const members = unpackSet(set, round.config.clients);
  const outer = new Set(unpackSet(of, round.config.clients));
  const stranger = members.find((client) => !outer.has(client));
  honest(stranger === undefined, `${what} contains client ${stranger}, which was not there before`);
  honest(members.includes(round.client), `${what} must contain this client`);
  return new Set(members);
}
