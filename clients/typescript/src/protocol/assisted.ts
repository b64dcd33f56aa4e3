/**
 * The step of a member under the guard `assisted` (docs/protocol.md, 19.7): it masks with one keystream for each helper,
 * and sends once.
 *
 * Everything rests on the helpers' keys. If the server has put its own key in the place of one helper, nothing is lost;
 * in the place of all of them it can open the vector.
 */

import { type Bytes, concat, equal, join, le32, readLe64, toHex, wipe } from "../bytes.js";
import type { Member } from "../charter/charter.js";
import { maskedBytes } from "../config.js";
import { checkWords } from "../crypto/check-words.js";
import { checkKemKey } from "../crypto/checked.js";
import { KEY_BYTES } from "../crypto/engine.js";
import { checkPublicKey, vectorTag } from "../crypto/keys.js";
import { derived, hashed, labelled } from "../labels.js";
import { mask as addMasks, vectorToSend } from "./masking.js";
import { memberOf, SIGNATURE_BYTES, verifies } from "./members.js";
import type { Fields } from "./messages.js";
import { callers, honest, pieces, type Round } from "./round.js";
import { answered, holding, step } from "./step.js";

const KEY = 32;
const BOX = 16;
const TIME = 8;
const DAY = 86_400;
const NOTHING: Bytes = new Uint8Array(0);

/** A helper's keys, and what was encapsulated for it. */
interface Sealed {
  readonly bundle: Bytes;
  readonly secret: Bytes;
  readonly ciphertext: Bytes;
}

export const mask = step("Joined", "mask-for-helpers-request", async (round, { work }, fields) => {
  const bundles = await checkedKeys(round, fields);
  await callers(round, () => round.account?.check()); // the caller's function is asked only with room in the ledger
  const sealed = await Promise.all(bundles.map((bundle) => encapsulated(round, bundle)));
  return holding(
    sealed.map(({ secret }) => secret),
    async () => {
      const vector = await vectorToSend(round, work, fields.task);
      const privateKey = round.random(KEY);
      return holding([privateKey], async () => {
        const reply = await boxed(round, fields.task, sealed, privateKey, vector);
        return answered(round, { kind: "Done", secrets: [] }, "boxed-mask-reply", reply, false);
      });
    },
  );
});

// The keys of the helpers

/** B1.1 to B1.9: return the keys of the charter's helpers, each of which signed its own for this round. */
async function checkedKeys(round: Round, fields: Fields<"mask-for-helpers-request">): Promise<Bytes[]> {
  const { agreement, config, context, engine } = round;
  honest(equal(fields.number, le32(config.number)), "the request has the wrong round number");
  const helpers = helpersOf(round);
  const bundles = pieces(fields.keys, agreement.bundleBytes, helpers.length, "keys");
  const times = pieces(fields.not_after, TIME, helpers.length, "not_after");
  const signatures = pieces(fields.signatures, SIGNATURE_BYTES, helpers.length, "signatures");
  const signed = await Promise.all(
    helpers.map(({ key }, a) => {
      const text = labelled("helperKeys", context, le32(config.clients + a), times[a]!, bundles[a]!);
      return verifies(engine, key, text, signatures[a]!);
    }),
  );
  const wrong = helpers.find((_, a) => !signed[a]);
  honest(wrong === undefined, `helper ${wrong?.name} did not sign its keys as shown`);
  checkTimes(round, times);
  checkDifferent(bundles);
  return bundles;
}

/** Return the helpers of the charter: as many as the configuration has, so that no vector leaves without a mask. */
function helpersOf(round: Round): readonly Member[] {
  const helpers = memberOf(round).charter.helpers ?? [];
  if (helpers.length !== round.config.helpers) {
    throw new Error("the round has another number of helpers than the charter");
  }
  return helpers;
}

/** A key that stays for long can be stolen for long. */
function checkTimes(round: Round, times: readonly Bytes[]): void {
  const { charter, now } = memberOf(round);
  const time = now();
  const most = time + DAY * (charter.keyDays ?? 0);
  for (const [a, { name }] of helpersOf(round).entries()) {
    const ends = readLe64(times[a]!, 0);
    honest(time < ends, `the key of helper ${name} has expired: check the clocks`);
    honest(ends <= most, `the key of helper ${name} would stay for longer than key_days: check the clocks`);
  }
}

function checkDifferent(bundles: readonly Bytes[]): void {
  for (const { x25519, kem } of bundles.map(partsOf)) {
    checkPublicKey(x25519);
    if (kem !== null) {
      checkKemKey(kem);
    }
  }
  const keys = bundles.map(partsOf).flatMap(({ x25519, kem }) => (kem === null ? [x25519] : [x25519, kem]));
  honest(new Set(keys.map(toHex)).size === keys.length, "two helpers have the same key");
}

/** The single public keys of a helper; ML-KEM's under the hybrid agreement only. */
function partsOf(bundle: Bytes): { readonly x25519: Bytes; readonly kem: Bytes | null } {
  return { x25519: bundle.subarray(0, KEY), kem: bundle.length > KEY ? bundle.subarray(KEY) : null };
}

// The masks and their boxes

async function encapsulated({ engine }: Round, bundle: Bytes): Promise<Sealed> {
  const { kem } = partsOf(bundle);
  return { bundle, ...(kem === null ? { secret: NOTHING, ciphertext: NOTHING } : await engine.kemEncapsulate(kem)) };
}

/** Mask the vector and its check words under a fresh key, and sign what helpers have to know. */
async function boxed(
  round: Round,
  task: Bytes,
  sealed: readonly Sealed[],
  privateKey: Bytes,
  vector: Bytes,
): Promise<Fields<"boxed-mask-reply">> {
  const { engine, context, client, config } = round;
  const key = await engine.x25519PublicKey(privateKey);
  const keyring = await hashed(engine, "helpers", context, ...sealed.map(({ bundle }) => bundle));
  const secrets = await maskSecrets(round, privateKey, sealed, [task, keyring, key]);
  const size = KEY_BYTES[config.generator];
  const boxes = join(secrets.map((secret) => secret.subarray(size, size + BOX)));
  const masks = secrets.map((secret) => ({ key: secret.slice(0, size), sign: 1 as const }));
  wipe(...secrets);
  const masked = await withCheckWords(round, vector)
    .then((whole) => addMasks(round, whole, masks))
    .finally(() => wipe(...masks.map((each) => each.key)));
  const tag = await vectorTag(engine, masked, context, client);
  const ciphertexts = sealed.map(({ ciphertext }) => ciphertext).filter(({ length }) => length > 0);
  const digests = join(await Promise.all(ciphertexts.map((each) => hashed(engine, "ciphertext", each))));
  const text = await hashed(engine, "submission", context, le32(client), task, keyring, key, boxes, digests, tag);
  const signature = await memberOf(round).identity.sign(text);
  return { key, boxes, ciphertexts: join(ciphertexts), tag, signature, vector: masked };
}

/** Return for each helper the key of its mask, and the box by which it knows that it has the same one. */
async function maskSecrets(
  { engine, context, client, config }: Round,
  privateKey: Bytes,
  sealed: readonly Sealed[],
  bound: readonly Bytes[],
): Promise<Bytes[]> {
  const agreed = await engine.x25519(
    privateKey,
    sealed.map(({ bundle }) => partsOf(bundle).x25519),
  );
  const both = sealed.map(({ secret }, a) => concat(agreed[a]!, secret));
  const bytes = KEY_BYTES[config.generator] + BOX;
  const secrets = await Promise.all(
    sealed.map(({ ciphertext }, a) => {
      const ends = [le32(client), le32(config.clients + a)];
      return derived(engine, both[a]!, bytes, "helpedMask", context, ...ends, ...bound, ciphertext);
    }),
  );
  wipe(...agreed, ...both);
  return secrets;
}

/** Return the vector with its check words behind it; the vector alone is overwritten. */
async function withCheckWords({ engine, context, config, signal }: Round, vector: Bytes): Promise<Bytes> {
  const whole = new Uint8Array(maskedBytes(config));
  whole.set(vector);
  wipe(vector);
  const { generator, bits } = config;
  const words = whole.subarray(0, vector.length);
  whole.set(await checkWords(words, bits, { engine, context, generator, signal }), vector.length);
  return whole;
}
