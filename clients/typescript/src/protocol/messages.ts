/** The messages of all guards (docs/protocol.md, 7, 13.5 and 19.6): one table, one encoding, a limit on each. */

import { type Bytes, frame, join, le32, readLe32 } from "../bytes.js";
import { largestDegree, maskedBytes, type RoundConfig, vectorBytes } from "../config.js";
import { agreementOf } from "../crypto/agreements.js";
import { MalformedMessage } from "../errors.js";
import { encode, Reader } from "../wire.js";

/**
 * Numbers behind limits, by the page's letters: B, T, Q of the agreement, D neighbours, S of a set, P of a proof; A
 * helpers, n members, and of those the sizes of a bundle, a ciphertext, a record and a masked vector.
 */
interface Sizes {
  readonly B: number;
  readonly T: number;
  readonly Q: number;
  readonly D: number;
  readonly vector: number;
  readonly S: number;
  readonly P: number;
  readonly A: number;
  readonly n: number;
  readonly bundle: number;
  readonly ciphertext: number;
  readonly record: number;
  readonly masked: number;
}

interface Kind {
  /** The byte strings behind the client, in order. */
  readonly fields: readonly string[];
  /** The maximum bytes of all fields. */
  readonly most: (sizes: Sizes) => number;
}

/** Every message: its fields in order, and their maximum bytes. */
export const MESSAGES = {
  "advertise-request": { fields: ["number"], most: () => 4 },
  "advertise-reply": { fields: ["keys"], most: ({ B }) => B },
  "share-request": { fields: ["neighbours", "keys", "masked"], most: ({ B, D }) => (5 + B) * D },
  "share-reply": { fields: ["commitment", "sealed"], most: ({ T, D }) => 32 + T * D },
  "accept-request": { fields: ["dropped", "commitments", "sealed"], most: ({ T, D }) => (36 + T) * D },
  "accept-reply": { fields: ["accused", "deposits"], most: ({ Q, D }) => (4 + Q) * D },
  "mask-request": { fields: ["dropped", "task"], most: ({ D }) => 32 + 4 * D },
  "mask-at-once-request": {
    fields: ["dropped", "commitments", "sealed", "task"],
    most: ({ T, D }) => 32 + (36 + T) * D,
  },
  "mask-reply": { fields: ["tag", "among", "task", "vector"], most: ({ vector }) => 80 + vector },
  complaint: { fields: ["accused"], most: ({ D }) => 4 * D },
  "unmask-request": { fields: ["dropped"], most: ({ D }) => 4 * D },
  "unmask-reply": { fields: ["shares"], most: ({ D }) => 32 + 32 * D },

  "signed-advertise-reply": { fields: ["keys", "signature"], most: ({ B }) => 64 + B },
  "roster-request": {
    fields: ["v1", "root", "keys", "signatures", "proof"],
    most: ({ B, D, S, P }) => 32 + (64 + B) * D + S + P,
  },
  "mask-among-request": { fields: ["v2", "task"], most: ({ S }) => 32 + S },
  "mask-among-at-once-request": {
    fields: ["v2", "commitments", "sealed", "task"],
    most: ({ T, D, S }) => 32 + (32 + T) * D + S,
  },
  "signed-mask-reply": {
    fields: ["digest", "among", "task", "signature", "receipt", "vector"],
    most: ({ vector }) => 224 + vector,
  },
  "confirm-request": { fields: ["v3"], most: ({ S }) => S },
  "confirm-reply": { fields: ["signature"], most: () => 64 },
  "signed-unmask-request": { fields: ["confirmed", "signatures"], most: ({ D }) => 65 * D },

  "helper-keys-request": { fields: ["number"], most: () => 4 },
  "helper-keys-reply": { fields: ["keys", "not_after", "signature"], most: ({ bundle }) => 72 + bundle },
  "mask-for-helpers-request": {
    fields: ["number", "keys", "not_after", "signatures", "task"],
    most: ({ A, bundle }) => 36 + (72 + bundle) * A,
  },
  "boxed-mask-reply": {
    fields: ["key", "boxes", "ciphertexts", "tag", "signature", "vector"],
    most: ({ A, ciphertext, masked }) => 112 + (16 + ciphertext) * A + masked,
  },
  "confirm-boxes-request": {
    fields: ["number", "task", "keyring", "members", "records", "ciphertexts"],
    most: ({ n, record, ciphertext }) => 68 + (4 + record + ciphertext) * n,
  },
  "confirm-boxes-reply": { fields: ["boxes", "refused", "signature"], most: ({ n }) => 96 + 4 * n },
  "unmask-sum-request": {
    fields: ["number", "task", "keyring", "members", "records", "ciphertexts"],
    most: ({ n, record, ciphertext }) => 68 + (4 + record + ciphertext) * n,
  },
  "unmask-sum-reply": { fields: ["tag", "signature", "vector"], most: ({ masked }) => 80 + masked },
} as const satisfies Record<string, Kind>;

export type MessageName = keyof typeof MESSAGES;

/** The byte strings of a message by their names. */
export type Fields<Name extends MessageName> = Readonly<Record<(typeof MESSAGES)[Name]["fields"][number], Bytes>>;

/** A message that was read. */
export interface Message<Name extends MessageName> {
  readonly context: Bytes;
  /** The client that it is from or for. */
  readonly client: number;
  readonly fields: Fields<Name>;
}

/** The maximum bytes of a message without its fields: its headers, name, context and client. */
const AROUND = 96;

function sizesOf(config: RoundConfig): Sizes {
  const agreement = agreementOf(config.agreement);
  const { keyBytes: B, sealedBytes: T, depositBytes: Q, bundleBytes: bundle, ciphertextBytes: ciphertext } = agreement;
  const { clients: n, helpers: A = 0 } = config;
  const D = largestDegree(config);
  const P = 32 * Math.min((D + 1) * n.toString(2).length, 2 * n);
  const record = 112 + A * (16 + (ciphertext === 0 ? 0 : 32));
  const helped = { A, n, bundle, ciphertext, record, masked: maskedBytes(config) };
  return { B, T, Q, D, vector: vectorBytes(config), S: setBytes(n), P, ...helped };
}

/** Return the maximum bytes of a message in a round. */
export function messageLimit(name: MessageName, config: RoundConfig): number {
  return AROUND + MESSAGES[name].most(sizesOf(config));
}

/** Return the one encoding of a message; its fields are copied once. */
export function encodeMessage<Name extends MessageName>(
  name: Name,
  context: Uint8Array,
  client: number,
  fields: Fields<Name>,
): Bytes {
  const byName: Readonly<Record<string, Bytes>> = fields;
  return encode([name, context, client, ...MESSAGES[name].fields.map((field) => byName[field]!)]);
}

/**
 * Return the message of this kind that the bytes are, its fields as copies of their own.
 *
 * @throws MalformedMessage for more bytes than such a message has in the round, before any is read, for another
 *   message, and for anything but its one encoding.
 */
export function decodeMessage<Name extends MessageName>(
  data: Uint8Array,
  name: Name,
  config: RoundConfig,
): Message<Name> {
  return readMessage(data, name, messageLimit(name, config));
}

/** Return the message of this kind that the bytes are, as decodeMessage does, of at most `most` bytes. */
export function readMessage<Name extends MessageName>(data: Uint8Array, name: Name, most: number): Message<Name> {
  if (data.length > most) {
    throw new MalformedMessage(`${name}: expected at most ${most} bytes, got ${data.length}`);
  }
  const fields: readonly string[] = MESSAGES[name].fields;
  const reader = new Reader(data);
  expect(reader.array() === 3 + fields.length && reader.text() === name, `expected the message ${name}`);
  const context = reader.bytes();
  expect(context.length === 32, `${name}: expected a context of 32 bytes, got ${context.length}`);
  const client = reader.integer();
  expect(0 <= client && client < 2 ** 32, `${name}: a client outside of 0 ... 2^32 - 1`);
  const read = Object.fromEntries(fields.map((field) => [field, reader.bytes()]));
  reader.end();
  return { context, client: Number(client), fields: read as Fields<Name> };
}

function expect(holds: boolean, what: string): void {
  if (!holds) {
    throw new MalformedMessage(what);
  }
}

/** Return the name at the front of a message and the context behind it; what has the name of no message has neither. */
export function frontOf(message: Uint8Array): { readonly name: MessageName | ""; readonly context: Uint8Array } {
  const [array = 0, header = 0] = message;
  const end = 2 + (header & 31);
  const name = String.fromCharCode(...message.subarray(2, end));
  const known = array >> 4 === 0x9 && header >> 5 === 0b101 && Object.hasOwn(MESSAGES, name);
  return known
    ? { name: name as MessageName, context: message.subarray(end + 2, end + 34) }
    : { name: "", context: new Uint8Array(0) };
}

/** Return a list of ids as it travels. */
export function packIds(ids: readonly number[]): Bytes {
  return join(ids.map(le32));
}

/**
 * Return the ids of a packed list.
 *
 * @throws MalformedMessage unless they are whole, strictly ascending and below the number of clients.
 */
export function unpackIds(data: Uint8Array, clients: number): number[] {
  expect(data.length % 4 === 0, `expected a multiple of 4 bytes, got ${data.length}`);
  const ids = Array.from({ length: data.length / 4 }, (_, at) => readLe32(data, 4 * at));
  expect(
    ids.every((id, at) => at === 0 || ids[at - 1]! < id),
    "ids are not strictly ascending",
  );
  expect((ids.at(-1) ?? 0) < clients, `ids must be below ${clients}, got ${ids.at(-1)}`);
  return ids;
}

// Sets of clients as bitmaps (13.2)

/** Return the bytes of a set of clients. */
export function setBytes(clients: number): number {
  return Math.ceil(clients / 8);
}

/** Return the bitmap of a set; its members are below the number of clients. */
export function packSet(members: Iterable<number>, clients: number): Bytes {
  const data = new Uint8Array(setBytes(clients));
  for (const client of members) {
    data[Math.floor(client / 8)]! |= 1 << (client % 8);
  }
  return data;
}

/**
 * Return the members of a bitmap in ascending order.
 *
 * @throws MalformedMessage for a bitmap of another size, or with a bit that belongs to no client.
 */
export function unpackSet(data: Uint8Array, clients: number): number[] {
  if (data.length !== setBytes(clients)) {
    throw new MalformedMessage(`expected a set of ${setBytes(clients)} bytes, got ${data.length}`);
  }
  const members: number[] = [];
  data.forEach((byte, at) => {
    for (let bit = 0; bit < 8; bit++) {
      if ((byte >> bit) & 1) {
        members.push(8 * at + bit);
      }
    }
  });
  if ((members.at(-1) ?? 0) >= clients) {
    throw new MalformedMessage(`a set of ${clients} clients contains client ${members.at(-1)}`);
  }
  return members;
}

// Envelopes: the messages of one exchange of a series (14.2)

/** The maximum number of messages in an envelope: as many rounds overlap. */
const MOST_MESSAGES = 3;
const LENGTH = 4;

/** Return messages in one envelope; none in an empty one. */
export function packEnvelope(messages: readonly Uint8Array[]): Bytes {
  return frame(...messages);
}

/**
 * Return the messages of an envelope, where they lie.
 *
 * @throws MalformedMessage for more than three messages, and for lengths that are cut off, zero or beyond the end.
 */
export function unpackEnvelope(envelope: Bytes): Bytes[] {
  const messages: Bytes[] = [];
  for (let at = 0; at < envelope.length; ) {
    if (messages.length === MOST_MESSAGES) {
      throw new MalformedMessage(`an envelope has at most ${MOST_MESSAGES} messages`);
    }
    if (envelope.length - at < LENGTH) {
      throw new MalformedMessage("a length is cut off");
    }
    const length = readLe32(envelope, at);
    at += LENGTH;
    if (length === 0 || length > envelope.length - at) {
      throw new MalformedMessage(`a message claims ${length} bytes, but ${envelope.length - at} are left`);
    }
    messages.push(envelope.subarray(at, at + length));
    at += length;
  }
  return messages;
}
