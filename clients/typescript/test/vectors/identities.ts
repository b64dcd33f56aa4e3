/** Replays identities.json: identities from their seeds, their files and lines, signatures and admission lists. */

import { fromHex } from "../../src/bytes.js";
import { parseIdentityFile, writeIdentityFile } from "../../src/charter/identity-file.js";
import { admissionLine, parseAdmissionList } from "../../src/charter/lists.js";
import type { Engine } from "../../src/crypto/engine.js";
import { identityFromSeed, verify } from "../../src/crypto/signatures.js";
import { type Case, equals, type Replay, refuses, same } from "./check.js";
import { checkList, texts } from "./lists.js";

interface Known {
  readonly name: string;
  readonly seed: string;
  readonly public: string;
  readonly file: string;
  readonly line: string;
}

interface Signed {
  readonly name?: string;
  readonly reason?: string;
  readonly seed: string;
  readonly public: string;
  readonly text: string;
  readonly signature: string;
  readonly error?: string;
}

function identity(expected: Known): Case {
  const run = async (engine: Engine): Promise<void> => {
    const { publicKey } = await identityFromSeed(engine, fromHex(expected.seed));
    same(expected.public, publicKey, "public key");
    equals(expected.file, writeIdentityFile(fromHex(expected.seed)), "file");
    same(expected.seed, parseIdentityFile(expected.file).seed, "seed");
    equals(expected.line, admissionLine(expected.name, publicKey, "since March"), "line");
    same(expected.public, parseAdmissionList(expected.line)[0]!.key, "admitted key");
  };
  return { name: `identity: ${expected.name}`, run };
}

function signature(expected: Signed): Case {
  const run = async (engine: Engine): Promise<void> => {
    const signer = await identityFromSeed(engine, fromHex(expected.seed));
    const signed = await signer.sign(fromHex(expected.text));
    await checkSignature(expected, engine);
    await verify(engine, fromHex(expected.public), fromHex(expected.text), signed);
    // Some platforms sign with randomness, which 13.1 allows: signing twice shows which this one is.
    const again = await signer.sign(fromHex(expected.text));
    if (String(signed) === String(again)) {
      same(expected.signature, signed, "signature");
    }
  };
  return { name: `signature: ${expected.name}`, run };
}

/** Verify one signature of the files. */
export function checkSignature({ public: key, text, signature }: Signed, engine: Engine): Promise<void> {
  return verify(engine, fromHex(key), fromHex(text), fromHex(signature));
}

/** Return a case for each signature that is verified or refused. */
export function verified(all: readonly Signed[]): Case[] {
  return all.map((expected) => ({
    name: `verify: ${expected.name ?? expected.reason}`,
    run: async (engine) => {
      const work = (): Promise<void> => checkSignature(expected, engine);
      await (expected.error === undefined ? work() : refuses(expected.error, work));
    },
  }));
}

function badFile({ reason, file, error }: { reason: string; file: string; error: string }): Case {
  return { name: `bad file: ${reason}`, run: () => refuses(error, () => parseIdentityFile(file)) };
}

export const identities: Replay = (data) => [
  ...data.identities.map(identity),
  ...data.bad_identity_files.map(badFile),
  ...data.signatures.map(signature),
  ...verified(data.bad_signatures),
  ...texts("list", data.admission_lists, checkList),
  ...texts("bad list", data.bad_admission_lists, checkList),
];
