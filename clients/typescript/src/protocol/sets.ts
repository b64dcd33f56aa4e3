/** Sets of clients as bitmaps (docs/protocol.md, 13.2). */

import type { Bytes } from "../bytes.js";
import { MalformedMessage } from "../errors.js";

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
 * @throws MalformedMessage for a bitmap of another size, or with a bit for nobody.
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
