/** The file of an identity: one line with the seed. Anyone who can read it can sign as its owner (formats.md, 4). */

import type { Bytes } from "../bytes.js";
import { ConfigError } from "../errors.js";
import { keyOf, toBase64 } from "./base64.js";
import { checkName, linesOf, PRIVATE } from "./characters.js";

const HEAD = `${PRIVATE}1`;
const LONGEST_NAME = 128;

/** The contents of an identity file. */
export interface IdentityFile {
  /** The private key, 32 bytes. */
  readonly seed: Bytes;
  /** For people; empty without a name. */
  readonly name: string;
}

/**
 * Read the file of an identity. The caller checks that only its owner can read the file.
 * @throws ConfigError for anything but the one line of such a file.
 */
export function parseIdentityFile(file: string | Uint8Array): IdentityFile {
  const lines = linesOf(file, "the identity");
  const [head, seed, name, ...more] = (lines[0] ?? "").split(/ +/);
  if (lines.length !== 1 || head !== HEAD || seed === undefined || more.length > 0) {
    throw new ConfigError(`expected one line: ${HEAD}, a seed in base64, and a name or none`);
  }
  return { seed: keyOf(seed, "the seed of the identity"), name: holder(name) };
}

function holder(name = ""): string {
  if (new TextEncoder().encode(name).length > LONGEST_NAME) {
    throw new ConfigError(`the name of the identity has more than ${LONGEST_NAME} bytes`);
  }
  return name === "" ? name : checkName(name, "the name of the identity");
}

/**
 * Return the text of the file of an identity. Make sure that only its owner can read the file.
 * @throws ConfigError unless the seed has 32 bytes and the name is valid.
 */
export function writeIdentityFile(seed: Uint8Array, name = ""): string {
  const key = toBase64(seed);
  keyOf(key, "the seed of the identity");
  return `${[HEAD, key, holder(name)].join(" ").trimEnd()}\n`;
}
