/** The hub's address. Members sign it, so it has one spelling. */

import { ConfigError } from "../errors.js";

const ADDRESS = /^https?:\/\/[\x21-\x7e]+$/i;
const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/**
 * Return the origin of a hub's address: scheme, host and port, as in `https://hub.example`.
 *
 * @param url - The address, with nothing behind host and port.
 * @param insecureHttp - Whether a hub on another machine may be without TLS.
 * @throws ConfigError for anything else.
 */
export function originOf(url: string, insecureHttp = false): string {
  const address = ADDRESS.test(url) && !/[\\@?#]/.test(url) && URL.canParse(url) ? new URL(url) : null;
  if (address === null || address.pathname !== "/") {
    throw new ConfigError("expected the address of a hub, such as https://hub.example, without a path");
  }
  if (address.protocol === "http:" && !LOOPBACK.test(address.hostname) && !insecureHttp) {
    throw new ConfigError("a hub on another machine needs https: with http anyone on the network can read the token");
  }
  return address.origin;
}
