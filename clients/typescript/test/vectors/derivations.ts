/** Frames, contexts and every derived key. */

import { ascii, concat, frame, fromHex, le32, toHex } from "../../src/bytes.js";
import { agreementOf } from "../../src/crypto/agreements.js";
import {
  amongDigest,
  checkPublicKey,
  commitment,
  maskKeyPair,
  maskSign,
  pairMaskKey,
  selfMaskKey,
  vectorDigest,
  vectorTag,
} from "../../src/crypto/keys.js";
import { oneTimeKey, sealingKeys } from "../../src/crypto/sealing.js";
import { hashed, LABELS } from "../../src/labels.js";
import { type Case, equals, type Replay, refuses, same } from "./check.js";
import { endOf } from "./ends.js";

/** The cases of one list, each under the name of the list. */
const each = (name: string, list: any[], run: (c: any, engine: Parameters<Case["run"]>[0]) => Promise<void>): Case[] =>
  list.map((c, at) => ({
    name: `${name}: ${c.name ?? c.reason ?? at}`,
    run: async (engine) => {
      if (c.label !== undefined) {
        equals(
          true,
          Object.values(LABELS).some((text) => toHex(ascii(text)) === c.label),
          "label",
        );
      }
      await run(c, engine);
    },
  }));

export const derivations: Replay = (data) => [
  {
    name: "labels",
    run: async () => {
      const ours = Object.values(LABELS).filter((text) => text.startsWith("ccesa/2/"));
      equals(
        Object.values(data.labels),
        ours.map((text) => toHex(ascii(text))),
      );
    },
  },
  ...each("framing", data.framing, async (c, engine) => {
    const framed = frame(...c.parts.map(fromHex));
    same(c.frame, framed);
    same(c.digest, await engine.sha256(framed));
  }),
  ...each("contexts", data.contexts, async (c, engine) =>
    same(c.context, await hashed(engine, "context", fromHex(c.encoded))),
  ),
  ...each("mask_key_pairs", data.mask_key_pairs, async (c, engine) => {
    const pair = await maskKeyPair(engine, fromHex(c.secret), fromHex(c.context), c.client);
    same(c.private, pair.privateKey);
    same(c.public, pair.publicKey);
  }),
  ...each("self_mask_keys", data.self_mask_keys, async (c, engine) =>
    same(c.key, await selfMaskKey(engine, fromHex(c.secret), fromHex(c.context), c.client, c.generator)),
  ),
  ...each("commitments", data.commitments, async (c, engine) =>
    same(c.commitment, await commitment(engine, fromHex(c.secret), fromHex(c.context), c.client)),
  ),
  ...each("pair_mask_keys", data.pair_mask_keys, async (c, engine) => {
    const [agreed] = await engine.x25519(fromHex(c.private), [fromHex(c.neighbour_public)]);
    same(c.agreed, agreed!);
    const context = fromHex(c.context);
    same(c.key, await pairMaskKey(engine, agreed!, context, c.client, c.neighbour, c.generator));
    equals(c.sign, maskSign(c.client, c.neighbour));
    const own = endOf({ context, client: c.client, maskKey: fromHex(c.private) });
    const keys = concat(new Uint8Array(32), fromHex(c.neighbour_public));
    const neighbour = { client: c.neighbour, keys, masked: true };
    const pairs = [{ neighbour, seeds: new Uint8Array(0) }];
    same(c.key, (await agreementOf("x25519").pairMaskKeys(engine, own, c.generator, pairs))[0]!);
  }),
  ...each("sealing_keys", data.sealing_keys, async (c, engine) => {
    const [agreed] = await engine.x25519(fromHex(c.private), [fromHex(c.neighbour_public)]);
    same(c.agreed, agreed!);
    const keys = await sealingKeys(engine, agreed!, fromHex(c.context), c.client, c.neighbour);
    same(c.outgoing, oneTimeKey(keys, c.client, c.neighbour));
    same(c.incoming, oneTimeKey(keys, c.neighbour, c.client));
  }),
  ...each("vector_digests", data.vector_digests, async (c, engine) => {
    const [vector, context] = [fromHex(c.vector), fromHex(c.context)];
    same(c.digest, await vectorDigest(engine, vector, context, c.client));
    same(c.tag, await vectorTag(engine, vector, context, c.client));
  }),
  ...each("among", data.among, async (c, engine) => {
    // The last is a set of 13.2, whose vectors are in roster.json.
    const known = fromHex(c.known);
    if (known.length === 4 * c.members.length) {
      same(c.known, concat(...c.members.map(le32)));
    }
    same(c.digest, await amongDigest(engine, known, fromHex(c.context), c.client));
  }),
  ...each("bad_public_keys", data.bad_public_keys, (c) => refuses(c.error, () => checkPublicKey(fromHex(c.public)))),
];
