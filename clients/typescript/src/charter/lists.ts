/** The admission list of a federation: a line for each member, before there is a charter (docs/formats.md, 3). */

import { checkIdentityKey } from "../crypto/signatures.js";
import { ConfigError } from "../errors.js";
import { keyOf, toBase64 } from "./base64.js";
import { checkCharacters, checkName, linesOf } from "./characters.js";
import type { Member } from "./charter.js";

/** A member, and the comment on its line. */
export interface Admitted extends Member {
  readonly comment: string;
}

/**
 * Read an admission list.
 * @param file Its text or its bytes, as they are.
 * @throws ConfigError for anything but lines of a name, a public key and a comment.
 */
export function parseAdmissionList(file: string | Uint8Array): readonly Admitted[] {
  const lines = linesOf(file, "the admission list");
  const members = lines.filter((line) => !line.startsWith("#")).map(admitted);
  checkDistinct(members);
  return members;
}

function admitted(line: string): Admitted {
  const [, name, key, comment = ""] = /^([^ ]+)(?: +([^ ]+)(?: +(.*))?)?$/.exec(line)!;
  return { ...memberOf(name!, key ?? "", `the line of ${name}`), comment };
}

/**
 * Return the member of a name and a key in base64.
 * @throws ConfigError for an invalid name, an invalid key, or a key of small order.
 */
export function memberOf(name: string, key: string, what: string): Member {
  const member = { name: checkName(name, what), key: keyOf(key, what) };
  checkIdentityKey(member.key);
  return member;
}

/** Refuse two members with the same name or key. */
export function checkDistinct(members: readonly Member[]): void {
  const seen = new Set<string>();
  for (const { name, key } of members) {
    // No name has a space, so none is taken for a key.
    const marks = [name, ` ${key.join()}`];
    if (marks.some((mark) => seen.has(mark))) {
      throw new ConfigError(`the name or the key of ${name} appears twice`);
    }
    marks.forEach((mark) => seen.add(mark));
  }
}

/**
 * Return the line that admits a member, without a line end.
 * @throws ConfigError for an invalid name, key or comment.
 */
export function admissionLine(name: string, publicKey: Uint8Array, comment = ""): string {
  const { key } = memberOf(name, toBase64(publicKey), "the member");
  return [name, toBase64(key), checkCharacters(comment, "the comment")].join(" ").trimEnd();
}
