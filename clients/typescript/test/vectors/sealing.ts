/** Sealed shares in both directions, and texts that must not open. */

import { fromHex } from "../../src/bytes.js";
import { agreementOf } from "../../src/crypto/agreements.js";
import type { Engine } from "../../src/crypto/engine.js";
import { associatedData, type Binding, openOnce } from "../../src/crypto/sealing.js";
import { type Replay, refuses, same } from "./check.js";
import { endOf } from "./ends.js";

const X25519 = agreementOf("x25519");

async function open(engine: Engine, c: any): Promise<Uint8Array> {
  const keys = { keys: fromHex(c.recipient_keys), sealingKey: fromHex(c.recipient_private) };
  const own = endOf({ context: fromHex(c.context), client: c.recipient, ...keys });
  const sender = { client: c.sender, keys: fromHex(c.sender_keys), masked: c.masked };
  const [secret] = await X25519.sealingSecrets(engine, own, [sender]);
  return (await X25519.open(engine, own, sender, secret!, fromHex(c.commitment), fromHex(c.sealed))).row;
}

async function seal(engine: Engine, c: any): Promise<Uint8Array> {
  const keys = { keys: fromHex(c.sender_keys), sealingKey: fromHex(c.sender_private) };
  const own = endOf({ context: fromHex(c.context), client: c.sender, ...keys });
  const recipient = { client: c.recipient, keys: fromHex(c.recipient_keys), masked: c.masked };
  const [secret] = await X25519.sealingSecrets(engine, own, [recipient]);
  return X25519.seal(engine, own, recipient, secret!, fromHex(c.commitment), fromHex(c.shares));
}

/** Return what a text of the vectors is bound to. */
export function bindingOf(c: any): Binding {
  const { sender, recipient, masked } = c;
  const [senderKeys, recipientKeys] = [fromHex(c.sender_keys), fromHex(c.recipient_keys)];
  const [context, commitment] = [fromHex(c.context), fromHex(c.commitment)];
  return { context, sender, recipient, senderKeys, recipientKeys, masked, commitment };
}

export const sealing: Replay = (data) => [
  ...data.good.map((c: any) => ({
    name: `good: ${c.sender} for ${c.recipient}`,
    run: async (engine: Engine) => {
      same(c.sealed, await seal(engine, c));
      same(c.shares, await open(engine, c));
    },
  })),
  ...data.bad.map((c: any) => ({
    name: `bad: ${c.reason}`,
    run: (engine: Engine) => refuses(c.error, () => open(engine, c)),
  })),
  ...data.bad_associated.map((c: any) => ({
    name: `bad_associated: ${c.reason}`,
    run: (engine: Engine) =>
      refuses(c.error, () => openOnce(engine, fromHex(c.key), fromHex(c.sealed), associatedData(bindingOf(c)))),
  })),
];
