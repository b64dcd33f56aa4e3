/** Every hash and derivation has a label of its own (docs/protocol.md, 2.1), so that no value serves two purposes. */

import { ascii, type Bytes, frame } from "./bytes.js";
import type { Engine } from "./crypto/engine.js";

export const LABELS = {
  context: "ccesa/2/0 context",
  roster: "ccesa/2/1 roster",
  graphSeed: "ccesa/2/2 graph seed",
  maskKeyPair: "ccesa/2/3 mask key pair",
  sealing: "ccesa/2/4 sealing",
  pairMask: "ccesa/2/5 pair mask",
  selfMask: "ccesa/2/6 self mask",
  commitment: "ccesa/2/7 commitment",
  sealedShares: "ccesa/2/8 sealed shares",
  charter: "ccesa/2/9 charter",
  bundle: "ccesa/2/10 bundle",
  rosterLeaf: "ccesa/2/11 roster leaf",
  rosterNode: "ccesa/2/12 roster node",
  committedRoster: "ccesa/2/13 committed roster",
  maskingAmong: "ccesa/2/14 masking among V2",
  confirmed: "ccesa/2/15 confirmed V2 and V3",
  maskedVector: "ccesa/2/16 masked vector",
  maskedAmong: "ccesa/2/17 masked among",
  handedOver: "ccesa/2/18 handed over",
  hybridSealing: "ccesa/2/19 hybrid sealing",
  pairSeed: "ccesa/2/20 pair seed",
  seedCommitment: "ccesa/2/21 seed commitment",
  deposit: "ccesa/2/22 deposit",
  pairSecret: "ccesa/2/23 pair secret",
  rotation: "ccesa/2/24 rotation",
  mechanism: "ccesa/2/25 mechanism",
  helperKeys: "ccesa/2/26 helper keys",
  helpers: "ccesa/2/27 helpers",
  helpedMask: "ccesa/2/28 helped mask",
  ciphertext: "ccesa/2/29 ciphertext",
  submission: "ccesa/2/30 submission",
  checkWords: "ccesa/2/31 check words",
  boxes: "ccesa/2/32 boxes",
  confirmedBoxes: "ccesa/2/33 confirmed boxes",
  question: "ccesa/2/34 question",
  maskSum: "ccesa/2/35 mask sum",
  serviceSession: "ccesa-service-1 session",
  serviceTask: "ccesa-service-1 task",
} as const;

export type Label = keyof typeof LABELS;

/** Return `frame(label, ...parts)`. */
export function labelled(label: Label, ...parts: readonly Uint8Array[]): Bytes {
  return frame(ascii(LABELS[label]), ...parts);
}

/** Return `H(label, ...parts)`: SHA-256 of the frame. */
export function hashed(engine: Engine, label: Label, ...parts: readonly Uint8Array[]): Promise<Bytes> {
  return engine.sha256(labelled(label, ...parts));
}

/** Return `KDF(secret, bytes; label, ...parts)`: HKDF-SHA256 with the frame as info. */
export function derived(
  engine: Engine,
  secret: Uint8Array,
  bytes: number,
  label: Label,
  ...parts: readonly Uint8Array[]
): Promise<Bytes> {
  return engine.hkdf(secret, labelled(label, ...parts), bytes);
}
