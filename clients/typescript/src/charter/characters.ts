/** Text that people write and programs read: which characters it has, where lines end, what a name is (formats.md, 1). */

import { ConfigError } from "../errors.js";

/** Ranges of forbidden characters. They are fixed, so that parties with different versions of Unicode agree. */
const FORBIDDEN = [
  [0x0000, 0x001f],
  [0x007f, 0x00a0],
  [0x00ad, 0x00ad],
  [0x061c, 0x061c],
  [0x1680, 0x1680],
  [0x180e, 0x180e],
  [0x2000, 0x200f],
  [0x2028, 0x202f],
  [0x205f, 0x206f],
  [0x3000, 0x3000],
  [0xd800, 0xf8ff],
  [0xfdd0, 0xfdef],
  [0xfeff, 0xfeff],
  [0xfff0, 0xffff],
  [0x1bca0, 0x1bca3],
  [0x1d173, 0x1d17a],
  [0xe0000, 0x10ffff],
] as const;

const escaped = (code: number) => `\\u{${code.toString(16)}}`;
const REFUSED = new RegExp(`[${FORBIDDEN.map(([first, last]) => `${escaped(first)}-${escaped(last)}`).join("")}]`, "u");

/** The maximum length of a name in learning and statistics. */
const LONGEST = 100;

/**
 * The beginning of a file with a private key. No name begins like this, so such a file is never read as a list by
 * mistake.
 */
export const PRIVATE = "ccesa-identity-";

/**
 * Refuse characters that cannot be seen, or that change how others are seen.
 * @throws ConfigError that names the first of them.
 */
export function checkCharacters(text: string, what: string): string {
  const found = REFUSED.exec(text)?.[0].codePointAt(0);
  if (found !== undefined) {
    throw new ConfigError(
      `${what} contains the forbidden character U+${found.toString(16).toUpperCase().padStart(4, "0")}`,
    );
  }
  return text;
}

/**
 * Return the name of a member.
 * @throws ConfigError for anything but one word, or one that begins as a skipped line or a private key does.
 */
export function checkName(name: string, what: string): string {
  if (name === "" || name.includes(" ") || name.startsWith("#") || name.startsWith(PRIVATE)) {
    throw new ConfigError(`${what} is not a valid name: use one word that does not begin with # or ${PRIVATE}`);
  }
  return checkCharacters(name, what);
}

/**
 * Return a name in learning or statistics, which may have spaces.
 * @throws ConfigError for anything but 1 to 100 characters that can be seen.
 */
export function checkLabel(value: unknown, what: string): string {
  const length = typeof value === "string" ? [...value].length : 0;
  if (typeof value !== "string" || length < 1 || length > LONGEST) {
    throw new ConfigError(`${what} must have 1 to ${LONGEST} visible characters`);
  }
  return checkCharacters(value, what);
}

/**
 * Return the text of a file, without a byte order mark at its very beginning.
 * @throws ConfigError for bytes that are not UTF-8.
 */
export function textOf(file: string | Uint8Array, what: string): string {
  let text = file as string;
  if (typeof file !== "string") {
    try {
      text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(file);
    } catch {
      throw new ConfigError(`${what} is not UTF-8`);
    }
  }
  return text.startsWith("\ufeff") ? text.slice(1) : text;
}

/**
 * Return the lines of a file that are not empty, tabs as spaces, and without the spaces around them.
 * @throws ConfigError for forbidden characters and for bytes that are not UTF-8.
 */
export function linesOf(file: string | Uint8Array, what: string): string[] {
  const lines = textOf(file, what).replaceAll("\r\n", "\n").replaceAll("\t", " ").split("\n");
  return lines
    .map((line, at) =>
      checkCharacters(line, `${what}, line ${at + 1},`)
        .replace(/^ +/, "")
        .replace(/ +$/, ""),
    )
    .filter((line) => line !== "");
}
