/** Bytes: the notation of section 2 of docs/protocol.md. */

export type Bytes = Uint8Array<ArrayBuffer>;

/** Return the parts one after the other. */
export function concat(...parts: readonly Uint8Array[]): Bytes {
  return join(parts);
}

/** Return the parts of a list one after the other. The list may be longer than a call can have arguments. */
export function join(parts: readonly Uint8Array[]): Bytes {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Compare two byte strings. Use it for public values only: it stops at the first difference. */
export function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}

/** Return x as four bytes, little-endian: a client id in frames and packed lists, a length. */
export function le32(x: number): Bytes {
  return new Uint8Array([x, x >>> 8, x >>> 16, x >>> 24]);
}

/** Return the four bytes at a place as a number. */
export function readLe32(data: Uint8Array, at: number): number {
  return new DataView(data.buffer, data.byteOffset, data.byteLength).getUint32(at, true);
}

/** Return the eight bytes at a place as a whole number: a time may have all of its bits. */
export function readLe64(data: Uint8Array, at: number): bigint {
  return new DataView(data.buffer, data.byteOffset, data.byteLength).getBigUint64(at, true);
}

/** Return each part behind its length: no two lists of parts have the same frame. */
export function frame(...parts: readonly Uint8Array[]): Bytes {
  return concat(...parts.flatMap((part) => [le32(part.length), part]));
}

/** Return the bytes of an ASCII text. */
export function ascii(text: string): Bytes {
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

/** Return bytes in lower-case hexadecimal digits. */
export function toHex(data: Uint8Array): string {
  return Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Return the bytes that hexadecimal digits stand for; throws a RangeError for anything else. */
export function fromHex(text: string): Bytes {
  if (text.length % 2 !== 0 || /[^0-9a-fA-F]/.test(text)) {
    throw new RangeError("the text is not hexadecimal");
  }
  return Uint8Array.from({ length: text.length / 2 }, (_, at) => parseInt(text.slice(2 * at, 2 * at + 2), 16));
}

/** Overwrite secrets that nobody needs any more. */
export function wipe(...secrets: readonly (Uint8Array | Uint16Array | Uint32Array | undefined)[]): void {
  for (const secret of secrets) {
    secret?.fill(0);
  }
}
