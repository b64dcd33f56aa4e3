/** An identity that stays in one browser: it is there after a reload, and nobody can carry it elsewhere. */

import { generateKeyPair, type Identity, identityFromKeyPair } from "../crypto/signatures.js";
import { databaseOf, done, write } from "./indexed-db.js";

/**
 * Return the identity of a name in this browser, made when it is first asked for. No script can read its private key, and
 * whoever clears this origin's storage clears it with its memory, which is safe: it has to be admitted anew.
 *
 * @param name - Says which one, where an origin has several; that of its memory.
 * @throws Unsupported where there is no IndexedDB, or no WebCrypto with Ed25519.
 */
export async function indexedDbIdentity(name: string): Promise<Identity> {
  const database = await databaseOf(`ccesa identity ${name}`, ["pair"])();
  let pair = await generateKeyPair(); // ahead, as a transaction ends while a key is made; kept only where there is none
  await write(database, ["pair"], async (store) => {
    const kept = (await done(store.get("pair"))) as CryptoKeyPair | undefined;
    pair = kept ?? pair;
    return kept !== undefined || (await done(store.add(pair, "pair"))) !== undefined;
  });
  database.close();
  return identityFromKeyPair(pair);
}
