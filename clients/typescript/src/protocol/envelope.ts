/** Envelopes: what an exchange of a series has for a client, and what it answers (docs/protocol.md, 14.2). */

import { type Bytes, frame, readLe32 } from "../bytes.js";
import { MalformedMessage } from "../errors.js";

/** The maximum number of messages in an envelope: as many rounds overlap. */
const MOST = 3;
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
    if (messages.length === MOST) {
      throw new MalformedMessage(`an envelope has at most ${MOST} messages`);
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
