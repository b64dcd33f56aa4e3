/** The agreement `x25519-mlkem768`, and what it refuses. */

import { type Bytes, concat, fromHex, toHex } from "../../src/bytes.js";
import { type AgreedText, agreementOf } from "../../src/crypto/agreements.js";
import { checkKemKey } from "../../src/crypto/checked.js";
import type { Engine } from "../../src/crypto/engine.js";
import { makeDeposit, pairSecret, pairSeed } from "../../src/crypto/hybrid.js";
import { pairMaskKey } from "../../src/crypto/keys.js";
import { equals, type Replay, refuses, same } from "./check.js";
import { endOf, withKnownMessages } from "./ends.js";

const HYBRID = agreementOf("x25519-mlkem768");

/** Return what both ends have for sealing: here from the recipient's private key, as the sender's is not given. */
async function recipientOf(engine: Engine, c: any): Promise<[ReturnType<typeof endOf>, any, Bytes]> {
  const own = endOf({
    context: fromHex(c.context),
    client: c.recipient,
    keys: fromHex(c.recipient_keys),
    sealingKey: fromHex(c.recipient_private),
    kemSeed: fromHex(c.recipient_seed),
    maskSecret: new Uint8Array(32),
  });
  const sender = { client: c.sender, keys: fromHex(c.sender_keys), masked: c.masked };
  return [own, sender, (await HYBRID.sealingSecrets(engine, own, [sender]))[0]!];
}

async function open(engine: Engine, c: any): Promise<AgreedText> {
  const [own, sender, secret] = await recipientOf(engine, c);
  return HYBRID.open(engine, own, sender, secret, fromHex(c.commitment), fromHex(c.sealed));
}

async function seal(engine: Engine, c: any): Promise<Bytes> {
  const [recipient, , secret] = await recipientOf(engine, c);
  const given = { client: c.sender, keys: fromHex(c.sender_keys), maskSecret: fromHex(c.mask_secret) };
  const own = endOf({ context: fromHex(c.context), ...given });
  const neighbour = { client: c.recipient, keys: recipient.keys, masked: c.masked };
  const known = withKnownMessages(engine);
  return HYBRID.seal(known, own, neighbour, secret, fromHex(c.commitment), fromHex(c.shares));
}

/** The mask keys are not those of the secrets, and what they agree on is given. */
async function pair(engine: Engine, c: any): Promise<void> {
  const [context, agreed] = [fromHex(c.context), fromHex(c.agreed)];
  const [mine, theirs] = c.mask_secrets.map(fromHex);
  const [ownKey, otherKey] = c.mask_keys.map(fromHex);
  const seeds = [
    await pairSeed(engine, mine, context, c.client, c.other),
    await pairSeed(engine, theirs, context, c.other, c.client),
  ];
  equals(c.seeds, seeds.map(toHex), "seeds");
  const inOrder = concat(...(c.client < c.other ? seeds : [...seeds].reverse()));
  const ends = [
    { client: c.client, maskKey: ownKey },
    { client: c.other, maskKey: otherKey },
  ];
  const secret = await pairSecret(engine, agreed, inOrder, context, ends);
  same(c.pair_secret, secret);
  const own = endOf({ context, client: c.client, keys: padded(ownKey) });
  const pairs = [{ neighbour: { client: c.other, keys: padded(otherKey), masked: true }, seeds: inOrder }];
  const agreeing = { ...engine, x25519: async () => [agreed.slice()] };
  const keys = await HYBRID.pairMaskKeys(agreeing, own, "chacha20", pairs);
  same(toHex(await pairMaskKey(engine, secret, context, c.client, c.other, "chacha20")), keys[0]!);
}

/** Return keys of a client of which only the mask key counts. */
const padded = (maskKey: Bytes): Bytes => concat(new Uint8Array(32), maskKey, new Uint8Array(1184));

export const hybrid: Replay = (data) => [
  ...data.kem.map((c: any, at: number) => ({
    name: `kem: ${at}`,
    run: async (engine: Engine) => {
      const publicKey = await engine.kemPublicKey(fromHex(c.seed));
      same(c.public, publicKey);
      const made = await withKnownMessages(engine).kemEncapsulate(publicKey);
      same(c.ciphertext, made.ciphertext);
      same(c.secret, made.secret);
      same(c.secret, await engine.kemDecapsulate(fromHex(c.seed), fromHex(c.ciphertext)));
    },
  })),
  ...data.bad_keys.map((c: any) => ({
    name: `bad_keys: ${c.reason}`,
    run: async (engine: Engine) => {
      await refuses(c.error, () => checkKemKey(fromHex(c.public)));
      await refuses(c.error, () => engine.kemEncapsulate(fromHex(c.public)));
    },
  })),
  ...data.sealing.map((c: any) => ({
    name: `sealing: ${c.sender} for ${c.recipient}`,
    run: async (engine: Engine) => {
      same(c.sealed, await seal(engine, c));
      const opened = await open(engine, c);
      same(c.shares, opened.row);
      same(c.seed, c.sender < c.recipient ? opened.seeds.subarray(0, 32) : opened.seeds.subarray(32));
    },
  })),
  ...data.bad_sealing.map((c: any) => ({
    name: `bad_sealing: ${c.reason}`,
    run: (engine: Engine) => refuses(c.error, () => open(engine, { ...data.sealing[0], ...c })),
  })),
  ...data.pair_secrets.map((c: any) => ({
    name: `pair_secrets: ${c.client} and ${c.other}`,
    run: (engine: Engine) => pair(engine, c),
  })),
  ...data.deposits.map((c: any) => ({
    name: `deposits: ${c.client} of ${c.other}`,
    run: async (engine: Engine) => {
      const [secret, seed, context] = [fromHex(c.mask_secret), fromHex(c.seed), fromHex(c.context)];
      same(c.deposit, await makeDeposit(engine, secret, seed, context, c.client, c.other));
    },
  })),
];
