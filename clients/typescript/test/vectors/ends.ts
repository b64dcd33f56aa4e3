/** One end of an edge, with the secrets that a vector has, and an engine whose encapsulations are the vectors'. */

import type { OwnKeys } from "../../src/crypto/agreements.js";
import type { Engine } from "../../src/crypto/engine.js";

/** Return a client's keys; those that are not given are empty. */
export function endOf(given: Partial<OwnKeys> & Pick<OwnKeys, "context" | "client">): OwnKeys {
  const nothing = new Uint8Array(0);
  return { keys: nothing, sealingKey: nothing, maskSecret: nothing, maskKey: nothing, kemSeed: nothing, ...given };
}

/** Return the engine with the message of each encapsulation as in the vectors: SHA-256 of the public key. */
export function withKnownMessages(engine: Engine): Engine {
  return {
    ...engine,
    kemEncapsulate: async (publicKey) => engine.kemEncapsulate(publicKey, await engine.sha256(publicKey)),
  };
}
