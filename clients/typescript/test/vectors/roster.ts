/** Replays roster.json: sets, trees and their proofs, committed rosters, signed texts. */

import { equal, fromHex, toHex } from "../../src/bytes.js";
import type { Engine } from "../../src/crypto/engine.js";
import { WrongProof } from "../../src/errors.js";
import { packSet, unpackSet } from "../../src/protocol/messages.js";
import * as roster from "../../src/protocol/roster.js";
import { prove } from "../server/roster.js";
import { type Case, equals, type Replay, refuses, same } from "./check.js";

function set(vector: any): Case {
  return {
    name: `set, ${vector.name}`,
    async run() {
      same(vector.data, packSet(vector.members, vector.clients));
      equals(vector.members, unpackSet(fromHex(vector.data), vector.clients));
    },
  };
}

function badSet(vector: any): Case {
  return {
    name: `set, ${vector.reason}`,
    run: () => refuses(vector.error, () => unpackSet(fromHex(vector.data), vector.clients)),
  };
}

function leavesAt(places: number[], leaves: string[]): Map<number, Uint8Array> {
  return new Map(places.map((place, at) => [place, fromHex(leaves[at]!)]));
}

function tree(vector: any): Case {
  return {
    name: `tree, ${vector.name}`,
    async run(engine) {
      const all = leavesAt([...vector.leaves.keys()], vector.leaves);
      same(vector.top, await roster.provedTop(engine, all.size, all, new Uint8Array(0)), "top");
      for (const { places, proof } of vector.proofs) {
        const leaves = leavesAt(
          places,
          places.map((place: number) => vector.leaves[place]),
        );
        same(vector.top, await roster.provedTop(engine, all.size, leaves, fromHex(proof)), `top from ${places}`);
        same(proof, await prove(engine, [...all.values()], places), `proof for ${places}`);
      }
    },
  };
}

function badProof(vector: any): Case {
  return {
    name: `proof, ${vector.reason}`,
    async run(engine) {
      const leaves = leavesAt(vector.places, vector.leaves);
      await refuses("WrongProof", async () => {
        const top = await roster.provedTop(engine, vector.size, leaves, fromHex(vector.proof));
        if (!equal(top, fromHex(vector.top))) {
          throw new WrongProof("another top");
        }
      });
    },
  };
}

function committed(vector: any): Case {
  return {
    name: `roster, ${vector.name}`,
    async run(engine) {
      const { clients, members } = vector;
      const [context, v1, root] = [fromHex(vector.context), fromHex(vector.v1), fromHex(vector.root)];
      equals(
        members.map((member: any) => member.client),
        unpackSet(v1, clients),
        "V1",
      );
      const leaves = await Promise.all(
        members.map((member: any) => roster.rosterLeaf(engine, context, member.client, fromHex(member.keys))),
      );
      equals(
        members.map((member: any) => member.leaf),
        leaves.map(toHex),
        "leaves",
      );
      same(vector.root, await roster.committedRoot(engine, context, v1, fromHex(vector.top)), "root");
      same(vector.seed, await roster.graphSeed(engine, context, root), "seed");
      for (const [place, { client, keys }] of members.entries()) {
        const proof = await prove(engine, leaves, [place]);
        const known = new Map([[client, fromHex(keys)]]);
        await roster.checkRoster(engine, { context, root, v1, clients, keys: known, proof });
      }
    },
  };
}

async function textOf(engine: Engine, vector: any): Promise<Uint8Array> {
  const hex = (name: string): Uint8Array => fromHex(vector[name]);
  const signed = { context: hex("context"), root: hex("root"), v2: hex("v2"), task: hex("task") };
  switch (vector.kind) {
    case "masking":
      return roster.maskingText(engine, signed);
    case "receipt":
      return roster.receiptText(engine, signed, hex("digest"));
    case "confirmed":
      return roster.confirmedText(engine, signed, hex("v3"));
    default:
      throw new Error(`unknown kind ${vector.kind}`);
  }
}

function signed(vector: any): Case {
  return {
    name: `signed, ${vector.name}`,
    async run(engine) {
      const text =
        vector.kind === "bundle"
          ? roster.bundleText(fromHex(vector.context), vector.client, fromHex(vector.keys))
          : await textOf(engine, vector);
      same(vector.text, text, "text");
      const key = await engine.ed25519PublicKey(fromHex(vector.seed));
      // Some browsers sign with randomness: the signature is held to its text, not to the bytes of another one.
      for (const signature of [fromHex(vector.signature), await engine.ed25519Sign(fromHex(vector.seed), text)]) {
        equals(true, await engine.ed25519Verify(key, text, signature), "signature");
      }
    },
  };
}

export const rosters: Replay = (data) => [
  ...data.sets.map(set),
  ...data.bad_sets.map(badSet),
  ...data.trees.map(tree),
  ...data.bad_proofs.map(badProof),
  ...data.rosters.map(committed),
  ...data.signed.map(signed),
];
