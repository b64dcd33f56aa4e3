/** The charter and the identity of a client, and signatures of members and helpers. */

import type { Engine } from "../crypto/engine.js";
import { verify } from "../crypto/signatures.js";
import { BadSignature } from "../errors.js";
import type { Membership, Round } from "./round.js";

export const SIGNATURE_BYTES = 64;

/** Return the charter and the identity of a client under a charter. */
export function memberOf({ membership }: Round): Membership {
  if (membership === null) {
    throw new Error("clients of the guard curious have no charter");
  }
  return membership;
}

/** Tell whether a signature verifies. */
export async function verifies(
  engine: Engine,
  key: Uint8Array,
  text: Uint8Array,
  signature: Uint8Array,
): Promise<boolean> {
  try {
    await verify(engine, key, text, signature);
    return true;
  } catch (error) {
    if (error instanceof BadSignature) {
      return false;
    }
    throw error;
  }
}
