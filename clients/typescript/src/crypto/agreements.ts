/** How two clients agree on secrets (docs/protocol.md, 6.3 and 6.4). Nothing else asks for agreements' names. */

import { type Bytes, concat, equal, wipe } from "../bytes.js";
import { ConfigError, SealBroken } from "../errors.js";
import { checkKemKey, KEM, sized } from "./checked.js";
import type { Engine, Generator, Random } from "./engine.js";
import { hybridSealingKey, makeDeposit, pairSecret, pairSeed, seedCommitment } from "./hybrid.js";
import { checkPublicKey, maskKeyPair, pairMaskKey } from "./keys.js";
import { associatedData, type Binding, oneTimeKey, openOnce, sealingKeys, sealOnce } from "./sealing.js";
import { drawElements, fromBytes, ROW_ELEMENTS, SECRET_ELEMENTS, toBytes } from "./sharing.js";

/** The names of agreements, as configurations have them. */
export type AgreementName = "x25519" | "x25519-mlkem768";

/** The secrets that a client has made for a round; only `keys` is public. */
export interface OwnKeys {
  readonly context: Bytes;
  readonly client: number;
  /** As they travel in one field. */
  readonly keys: Bytes;
  /** Of c_i. Until all texts are opened. */
  readonly sealingKey: Bytes;
  /** The secret of s_i, which is split. Until all texts are opened. */
  readonly maskSecret: Bytes;
  /** Of s_i. Until the vector is masked. */
  readonly maskKey: Bytes;
  /** Of k_i, or nothing. Until all texts are opened. */
  readonly kemSeed: Bytes;
}

/** A neighbour and its keys. */
export interface Neighbour {
  readonly client: number;
  readonly keys: Bytes;
  /** Whether the edge carries masks. */
  readonly masked: boolean;
}

/** The contents of a neighbour's sealed text. */
export interface AgreedText {
  /** 64 bytes, all elements of which are in the field. */
  readonly row: Bytes;
  /** The seeds of the two, that of the smaller id first; or nothing. Until the vector is masked. */
  readonly seeds: Bytes;
  /** The text for a server that rebuilds the secret of s_i; or nothing. */
  readonly deposit: Bytes;
}

/** One way to agree. `sealingSecrets` are its own affair: they are kept between sealing and opening, and wiped then. */
export interface Agreement {
  readonly name: AgreementName;
  /** B: the size of the keys of a client. */
  readonly keyBytes: number;
  /** T: the size of a sealed text. */
  readonly sealedBytes: number;
  /** Q: the size of a deposit. */
  readonly depositBytes: number;
  /** The sizes of a helper's public keys, and of what is encapsulated for it (19.1). */
  readonly bundleBytes: number;
  readonly ciphertextBytes: number;

  /** Step 0: make the keys of a client; draws in the order of 5.1. */
  makeKeys(engine: Engine, random: Random, context: Bytes, client: number): Promise<OwnKeys>;
  /** Return the single public keys of a client's, so that they can be compared. */
  publicKeys(keys: Bytes): Bytes[];
  /** Check the keys of another client. Throws LowOrderKey or BadKey. */
  checkKeys(keys: Bytes): void;
  /** Step 1: return what sealing and opening need, for each neighbour. */
  sealingSecrets(engine: Engine, own: OwnKeys, neighbours: readonly Neighbour[]): Promise<Bytes[]>;
  /** Step 1: seal a row of shares for a neighbour, with the own commitment. */
  seal(
    engine: Engine,
    own: OwnKeys,
    neighbour: Neighbour,
    sealingSecret: Bytes,
    commitment: Bytes,
    row: Bytes,
  ): Promise<Bytes>;
  /** Steps 1a and 2: open a neighbour's text, with its commitment. Throws SealBroken or OutsideField. */
  open(
    engine: Engine,
    own: OwnKeys,
    neighbour: Neighbour,
    sealingSecret: Bytes,
    commitment: Bytes,
    sealed: Bytes,
  ): Promise<AgreedText>;
  /** Step 2: return the keys of the pair masks with these, from their keys and the seeds in `AgreedText`. */
  pairMaskKeys(
    engine: Engine,
    own: OwnKeys,
    generator: Generator,
    pairs: readonly { readonly neighbour: Neighbour; readonly seeds: Bytes }[],
  ): Promise<Bytes[]>;
}

const ROW_BYTES = 2 * ROW_ELEMENTS;
const NOTHING: Bytes = new Uint8Array(0);

const X25519: Agreement = {
  name: "x25519",
  keyBytes: 64,
  sealedBytes: ROW_BYTES + 16,
  depositBytes: 0,
  bundleBytes: 32,
  ciphertextBytes: 0,

  makeKeys: (engine, random, context, client) => makeKeys(engine, random, context, client, 0),
  publicKeys: (keys) => cut(keys, 32, 32),
  checkKeys(keys) {
    X25519.publicKeys(keys).forEach(checkPublicKey);
  },
  async sealingSecrets(engine, own, neighbours) {
    const agreed = await agreedBySealing(engine, own, neighbours);
    const keys = await Promise.all(
      neighbours.map(({ client }, at) => sealingKeys(engine, agreed[at]!, own.context, own.client, client)),
    );
    wipe(...agreed);
    return keys;
  },
  seal(engine, own, neighbour, sealingSecret, commitment, row) {
    const key = oneTimeKey(sealingSecret, own.client, neighbour.client);
    return sealOnce(engine, key, row, associatedData(outgoing(own, neighbour, commitment)));
  },
  async open(engine, own, neighbour, sealingSecret, commitment, sealed) {
    sized(sealed, X25519.sealedBytes, "a sealed text", SealBroken);
    const key = oneTimeKey(sealingSecret, neighbour.client, own.client);
    const row = await openOnce(engine, key, sealed, associatedData(incoming(own, neighbour, commitment)));
    checkRow(row);
    return { row, seeds: NOTHING, deposit: NOTHING };
  },
  async pairMaskKeys(engine, own, generator, pairs) {
    const agreed = await agreedByMasks(engine, own, pairs);
    return maskKeys(engine, own, generator, pairs, agreed);
  },
};

const HYBRID: Agreement = {
  name: "x25519-mlkem768",
  keyBytes: 64 + KEM.publicKey,
  sealedBytes: KEM.ciphertext + ROW_BYTES + 32 + 16 + 32,
  depositBytes: 48,
  bundleBytes: 32 + KEM.publicKey,
  ciphertextBytes: KEM.ciphertext,

  makeKeys: (engine, random, context, client) => makeKeys(engine, random, context, client, KEM.seed),
  publicKeys: (keys) => cut(keys, 32, 32, KEM.publicKey),
  checkKeys(keys) {
    const [sealing, mask, kem] = HYBRID.publicKeys(keys);
    checkPublicKey(sealing!);
    checkPublicKey(mask!);
    checkKemKey(kem!);
  },
  sealingSecrets: agreedBySealing,
  async seal(engine, own, neighbour, sealingSecret, commitment, row) {
    const { secret, ciphertext } = await engine.kemEncapsulate(HYBRID.publicKeys(neighbour.keys)[2]!);
    const seed = await pairSeed(engine, own.maskSecret, own.context, own.client, neighbour.client);
    const promised = await seedCommitment(engine, seed, own.context, own.client, neighbour.client);
    const bound = outgoing(own, neighbour, commitment);
    const key = await hybridSealingKey(engine, sealingSecret, secret, bound, ciphertext, promised);
    const text = concat(row, seed);
    const sealed = await sealOnce(engine, key, text, NOTHING);
    wipe(secret, seed, key, text);
    return concat(ciphertext, sealed, promised);
  },
  async open(engine, own, neighbour, sealingSecret, commitment, sealed) {
    sized(sealed, HYBRID.sealedBytes, "a sealed text", SealBroken);
    const [ciphertext, text, promised] = cut(sealed, KEM.ciphertext, ROW_BYTES + 32 + 16, 32);
    const secret = await engine.kemDecapsulate(own.kemSeed, ciphertext!);
    const bound = incoming(own, neighbour, commitment);
    const key = await hybridSealingKey(engine, sealingSecret, secret, bound, ciphertext!, promised!);
    wipe(secret);
    const [row, theirs] = cut(await openOnce(engine, key, text!, NOTHING), ROW_BYTES, 32);
    wipe(key);
    const given = await seedCommitment(engine, theirs!, own.context, neighbour.client, own.client);
    if (!equal(given, promised!)) {
      throw new SealBroken("a seed does not match its commitment");
    }
    checkRow(row!);
    return { row: row!, ...(await kept(engine, own, neighbour.client, theirs!)) };
  },
  async pairMaskKeys(engine, own, generator, pairs) {
    const agreed = await agreedByMasks(engine, own, pairs);
    const ownEnd = { client: own.client, maskKey: maskKeyOf(own.keys) };
    const secrets = await Promise.all(
      pairs.map(({ neighbour, seeds }, at) => {
        const ends = [ownEnd, { client: neighbour.client, maskKey: maskKeyOf(neighbour.keys) }];
        return pairSecret(engine, agreed[at]!, seeds, own.context, ends);
      }),
    );
    wipe(...agreed);
    return maskKeys(engine, own, generator, pairs, secrets);
  },
};

const AGREEMENTS: ReadonlyMap<string, Agreement> = new Map([X25519, HYBRID].map((way) => [way.name, way]));

/** Return the agreement of a configuration. Throws ConfigError for an unknown name. */
export function agreementOf(name: string): Agreement {
  const agreement = AGREEMENTS.get(name);
  if (agreement === undefined) {
    throw new ConfigError(`unknown agreement: expected one of ${[...AGREEMENTS.keys()].join(", ")}`);
  }
  return agreement;
}

async function makeKeys(
  engine: Engine,
  random: Random,
  context: Bytes,
  client: number,
  kemSeedBytes: number,
): Promise<OwnKeys> {
  const elements = drawElements(random, SECRET_ELEMENTS);
  const maskSecret = toBytes(elements);
  wipe(elements);
  const sealingKey = random(32);
  const kemSeed = kemSeedBytes === 0 ? NOTHING : random(kemSeedBytes);
  const [mask, sealing, kem] = await Promise.all([
    maskKeyPair(engine, maskSecret, context, client),
    engine.x25519PublicKey(sealingKey),
    kemSeedBytes === 0 ? NOTHING : engine.kemPublicKey(kemSeed),
  ]);
  const keys = concat(sealing, mask.publicKey, kem);
  return { context, client, keys, sealingKey, maskSecret, maskKey: mask.privateKey, kemSeed };
}

/** Return what the masks need of a neighbour's seed: both seeds in order, and the deposit. */
async function kept(
  engine: Engine,
  own: OwnKeys,
  neighbour: number,
  theirs: Bytes,
): Promise<Pick<AgreedText, "seeds" | "deposit">> {
  const deposit = await makeDeposit(engine, own.maskSecret, theirs, own.context, own.client, neighbour);
  const mine = await pairSeed(engine, own.maskSecret, own.context, own.client, neighbour);
  const seeds = own.client < neighbour ? concat(mine, theirs) : concat(theirs, mine);
  wipe(mine, theirs);
  return { seeds, deposit };
}

function agreedBySealing(engine: Engine, own: OwnKeys, neighbours: readonly Neighbour[]): Promise<Bytes[]> {
  return engine.x25519(
    own.sealingKey,
    neighbours.map(({ keys }) => keys.subarray(0, 32)),
  );
}

function agreedByMasks(
  engine: Engine,
  own: OwnKeys,
  pairs: readonly { readonly neighbour: Neighbour }[],
): Promise<Bytes[]> {
  return engine.x25519(
    own.maskKey,
    pairs.map(({ neighbour }) => maskKeyOf(neighbour.keys)),
  );
}

async function maskKeys(
  engine: Engine,
  own: OwnKeys,
  generator: Generator,
  pairs: readonly { readonly neighbour: Neighbour }[],
  secrets: readonly Bytes[],
): Promise<Bytes[]> {
  const keys = await Promise.all(
    pairs.map(({ neighbour }, at) =>
      pairMaskKey(engine, secrets[at]!, own.context, own.client, neighbour.client, generator),
    ),
  );
  wipe(...secrets);
  return keys;
}

function outgoing(own: OwnKeys, neighbour: Neighbour, commitment: Bytes): Binding {
  const ends = { sender: own.client, recipient: neighbour.client };
  const { context, keys: senderKeys } = own;
  return { context, ...ends, senderKeys, recipientKeys: neighbour.keys, masked: neighbour.masked, commitment };
}

function incoming(own: OwnKeys, neighbour: Neighbour, commitment: Bytes): Binding {
  const ends = { sender: neighbour.client, recipient: own.client };
  const { context, keys: recipientKeys } = own;
  return { context, ...ends, senderKeys: neighbour.keys, recipientKeys, masked: neighbour.masked, commitment };
}

/** Refuse an invalid row of shares. Throws OutsideField. */
function checkRow(row: Bytes): void {
  wipe(fromBytes(row));
}

function maskKeyOf(keys: Bytes): Bytes {
  return keys.subarray(32, 64);
}

/** Cut bytes into parts of these sizes, of which there are no more and no fewer. */
function cut(data: Bytes, ...sizes: readonly number[]): Bytes[] {
  sized(
    data,
    sizes.reduce((sum, size) => sum + size),
    "parts",
  );
  let end = 0;
  return sizes.map((size) => {
    end += size;
    return data.subarray(end - size, end);
  });
}
