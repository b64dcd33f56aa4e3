/** Replays signatures.json: keys and signatures on which verifiers disagree. */

import { fromHex } from "../../src/bytes.js";
import { toBase64 } from "../../src/charter/base64.js";
import { parseAdmissionList } from "../../src/charter/lists.js";
import { checkIdentityKey } from "../../src/crypto/signatures.js";
import { type Case, type Replay, refuses, same } from "./check.js";
import { verified } from "./identities.js";

interface Key {
  readonly name: string;
  readonly public: string;
  readonly error?: string;
}

function key({ name, public: bytes, error }: Key): Case {
  const checks = [
    () => checkIdentityKey(fromHex(bytes)),
    () => same(bytes, parseAdmissionList(`a ${toBase64(fromHex(bytes))}`)[0]!.key),
  ];
  const run = async (): Promise<void> => {
    for (const check of checks) {
      await (error === undefined ? check() : refuses(error, check));
    }
  };
  return { name: `key: ${name}`, run };
}

export const signatures: Replay = (data) => [...data.keys.map(key), ...verified(data.signatures)];
