/** Replays lists.json: admission lists, files of identities and charters, character by character. */

import { toHex } from "../../src/bytes.js";
import { parseIdentityFile } from "../../src/charter/identity-file.js";
import { parseAdmissionList } from "../../src/charter/lists.js";
import { parseCharter } from "../../src/charter/text.js";
import type { Engine } from "../../src/crypto/engine.js";
import { type Case, equals, type Replay, refuses, same } from "./check.js";

/** One text: with an error it is refused by that name, else it is read and held against the rest. */
export interface Written {
  readonly name?: string;
  readonly reason?: string;
  readonly text: string;
  readonly error?: string;
  readonly members?: unknown;
  readonly seed?: string;
  readonly holder?: string;
  readonly digest?: string;
}

/** Return a case for each text, in both forms in which a file can be given. */
export function texts<T extends Written = Written>(
  group: string,
  all: readonly T[],
  check: (text: string | Uint8Array, expected: T, engine: Engine) => unknown,
): Case[] {
  return all.map((expected) => ({
    name: `${group}: ${expected.name ?? expected.reason}`,
    async run(engine) {
      for (const text of [expected.text, new TextEncoder().encode(expected.text)]) {
        const work = async (): Promise<unknown> => check(text, expected, engine);
        await (expected.error === undefined ? work() : refuses(expected.error, work));
      }
    },
  }));
}

/** Hold an admission list against its members. */
export function checkList(text: string | Uint8Array, { members }: Written): void {
  const read = parseAdmissionList(text).map(({ name, key, comment }) => ({ name, public: toHex(key), comment }));
  equals(members, read, "members");
}

function checkFile(text: string | Uint8Array, { seed, holder }: Written): void {
  const file = parseIdentityFile(text);
  same(seed ?? "", file.seed, "seed");
  equals(holder, file.name, "name");
}

async function checkCharter(text: string | Uint8Array, { digest }: Written, engine: Engine): Promise<void> {
  same(digest ?? "", (await parseCharter(text, engine)).digest, "digest");
}

export const lists: Replay = (data) => [
  ...texts("list", data.admission_lists, checkList),
  ...texts("identity", data.identity_files, checkFile),
  ...texts("charter", data.charters, checkCharter),
];
