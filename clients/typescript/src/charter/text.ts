/** Charters from their text, and their digests (docs/formats.md, 5). */

import type { Bytes } from "../bytes.js";
import type { Engine } from "../crypto/engine.js";
import { systemEngine } from "../crypto/engines.js";
import { hashed } from "../labels.js";
import { encode } from "../wire.js";
import { articlesValue, readArticles } from "./articles.js";
import { textOf } from "./characters.js";
import { type Articles, type Charter, checkArticles, lengthOf, placeOf } from "./charter.js";
import { Table } from "./table.js";
import { parseToml } from "./toml.js";

/**
 * Read a charter.
 * @param file The text of its file, TOML 1.0, or its bytes. Every client holds its own; none is taken from a server.
 * @param engine For the digest; the system's unless it is given.
 * @throws ConfigError for anything but a charter that can be used, whether or not it has expired.
 */
export async function parseCharter(file: string | Uint8Array, engine?: Engine): Promise<Charter> {
  const articles = readArticles(new Table(parseToml(textOf(file, "the charter")), "the charter"));
  checkArticles(articles);
  const digest = await hashed(engine ?? (await systemEngine()), "charter", encodeCharter(articles));
  const place = (publicKey: Uint8Array): number => placeOf(articles.members, publicKey);
  return Object.freeze({ ...articles, length: lengthOf(articles), digest, place });
}

/** Return the one encoding of a charter, over which its digest is. */
export function encodeCharter(articles: Articles): Bytes {
  return encode(articlesValue(articles));
}
