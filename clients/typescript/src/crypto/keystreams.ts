/**
 * Where keystreams come from: Node's own ciphers, WebCrypto, or an engine; the fastest first. All give the same bytes.
 */

import { wipe, type Bytes } from "../bytes.js";
import { builtin } from "../platform.js";
import { PIECE } from "./adding.js";
import type { Engine, Generator } from "./engine.js";

/** A keystream (6.2), read in order. */
export interface Keystream {
  /** Return the next bytes, at most a piece: whole blocks, except at the end. */
  next(bytes: number): Bytes | Promise<Bytes>;
}

/** Opens a keystream from a block on. */
export type Source = (generator: Generator, key: Bytes, block: number) => Keystream | Promise<Keystream>;

/** What is encrypted, so that the keystream is left. */
const zeros = new Uint8Array(PIECE);

interface NodeCrypto {
  createCipheriv(name: string, key: Uint8Array, iv: Uint8Array): { update(text: Uint8Array): Bytes };
  getCiphers(): string[];
}

const NODE_CIPHERS: Readonly<Record<Generator, string>> = { "aes128-ctr": "aes-128-ctr", chacha20: "chacha20" };

/** Node's own ciphers: no promise for each call, and ChaCha20 is there too. */
export function nodeSource(generator: Generator): Source | undefined {
  const crypto = builtin<NodeCrypto>("node:crypto");
  if (!crypto?.getCiphers().includes(NODE_CIPHERS[generator])) {
    return undefined;
  }
  return (_, key, block) => {
    const cipher = crypto.createCipheriv(NODE_CIPHERS[generator], key, START[generator](block));
    return { next: (bytes) => cipher.update(zeros.subarray(0, bytes)) };
  };
}

/** How a cipher of 16 bytes of counter and nonce is told where to begin. */
const START: Readonly<Record<Generator, (block: number) => Bytes>> = { "aes128-ctr": counterOf, chacha20: nonceOf };

function counterOf(block: number): Bytes {
  const counter = new Uint8Array(16);
  new DataView(counter.buffer).setBigUint64(8, BigInt(block));
  return counter;
}

function nonceOf(block: number): Bytes {
  const nonce = new Uint8Array(16);
  new DataView(nonce.buffer).setUint32(0, block, true);
  return nonce;
}

/** WebCrypto: AES alone. */
export function webSource(generator: Generator): Source | undefined {
  const subtle = (globalThis as { crypto?: Crypto }).crypto?.subtle as SubtleCrypto | undefined;
  return subtle && generator === "aes128-ctr" ? (_, key, block) => webKeystream(subtle, key, block) : undefined;
}

async function webKeystream(subtle: SubtleCrypto, raw: Bytes, block: number): Promise<Keystream> {
  const key = await subtle.importKey("raw", raw, "AES-CTR", false, ["encrypt"]);
  let at = block;
  return {
    async next(bytes) {
      const counter = counterOf(at);
      at += Math.ceil(bytes / 16);
      const text = zeros.subarray(0, bytes);
      return new Uint8Array(await subtle.encrypt({ name: "AES-CTR", counter, length: 128 }, key, text));
    },
  };
}

/** An engine's keystreams: what is left where the platform has none. */
export function engineSource(engine: Engine, blockBytes: number): Source {
  return (generator, key, block) => {
    let at = block;
    return {
      next(bytes) {
        const stream = engine.keystream(generator, key, at, bytes);
        at += Math.ceil(bytes / blockBytes);
        return stream;
      },
    };
  };
}

let nowhere: MessagePort | undefined;

/**
 * Wipe a keystream and give its memory back at once. Left to the garbage collector, hundreds of megabytes of streams
 * take fresh memory each, and that costs several times what the cipher does. What is sent to a port that nobody holds
 * the other end of is dropped.
 */
export function discard(stream: Bytes): void {
  wipe(stream);
  if (stream.byteLength === stream.buffer.byteLength && typeof MessageChannel !== "undefined") {
    nowhere ??= closedPort();
    nowhere.postMessage(0, [stream.buffer]);
  }
}

function closedPort(): MessagePort {
  const { port1, port2 } = new MessageChannel();
  port2.close();
  return port1;
}
