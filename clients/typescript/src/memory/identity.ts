/** An identity that stays in one browser: it survives a reload and cannot be exported. */

import { generateKeyPair, type Identity, identityFromKeyPair } from "../crypto/signatures.js";
import { databaseOf, done, write } from "./indexed-db.js";

/**
 * Return the identity with this name in this browser. It is made on first use. No script can read its private key.
 * Clearing the origin's storage deletes the identity together with its memory. That is safe: the site has to be
 * admitted again.
 *
 * @param name - Its name, if an origin has several; the same as that of its memory.
 * @throws Unsupported where there is no IndexedDB, or no WebCrypto with Ed25519.
 */
export async function indexedDbIdentity(name: string): Promise<Identity> {
  const database = await databaseOf(`ccesa identity ${name}`, ["pair"])();
  let pair = await generateKeyPair(); // ahead, as a transaction ends while a key is made; kept if it is the only one
  await write(database, ["pair"], async (store) => {
    const kept = (await done(store.get("pair"))) as CryptoKeyPair | undefined;
    pair = kept ?? pair;
    return kept !== undefined || (await done(store.add(pair, "pair"))) !== undefined;
  });
  database.close();
  return identityFromKeyPair(pair);
}
