/** Keys in base64 (RFC 4648, section 4): 32 bytes, with padding and with unused bits zero. */

import { ascii, type Bytes } from "../bytes.js";
import { ConfigError } from "../errors.js";

/** Return bytes in base64. */
export function toBase64(data: Uint8Array): string {
  return btoa(String.fromCharCode(...data));
}

/**
 * Return the 32 bytes of a key in base64.
 * @throws ConfigError for any other text.
 */
export function keyOf(text: string, what: string): Bytes {
  // The last of 43 digits has two unused bits; with other letters it would be another text of the same key.
  if (!/^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/.test(text)) {
    throw new ConfigError(`${what} is not a 32-byte key in base64`);
  }
  return ascii(atob(text));
}
