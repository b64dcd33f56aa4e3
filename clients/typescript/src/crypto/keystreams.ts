/**
 * Where keystreams come from: Node's own ciphers, WebCrypto, or an engine; the fastest first. All give the same bytes.
 */

import type { Bytes } from "../bytes.js";
import { builtin } from "../platform.js";
import { PIECE } from "./adding.js";
import { BLOCK_BYTES, type Engine, type Generator } from "./engine.js";
import { NODE_CIPHERS } from "./node.js";
import { PROBES } from "./probes.js";
import { ctrBlock } from "./web.js";

/** A keystream (6.2), read in order. */
export interface Keystream {
  /** Return the next bytes, at most a piece: whole blocks, except at the end. */
  next(bytes: number): Bytes | Promise<Bytes>;
}

/** Opens a keystream from a block on. */
export type KeystreamSource = (generator: Generator, key: Bytes, block: number) => Keystream | Promise<Keystream>;

/** Zeros to encrypt, which leaves the keystream. */
const zeros = new Uint8Array(PIECE);

interface NodeCrypto {
  createCipheriv(name: string, key: Uint8Array, iv: Uint8Array): { update(text: Uint8Array): Bytes };
  getCiphers(): string[];
}

const FOUND = new Map<Generator, Promise<KeystreamSource | undefined>>();

/** Return the platform's own keystreams: the first that give the known answer, or undefined if none do. */
export function platformSource(generator: Generator): Promise<KeystreamSource | undefined> {
  const found = FOUND.get(generator) ?? firstRight(generator);
  FOUND.set(generator, found);
  return found;
}

async function firstRight(generator: Generator): Promise<KeystreamSource | undefined> {
  for (const source of [nodeSource(generator), webSource(generator)]) {
    if (source !== undefined && (await isRight(source, generator))) {
      return source;
    }
  }
  return undefined;
}

async function isRight(source: KeystreamSource, generator: Generator): Promise<boolean> {
  const keystream: Engine["keystream"] = async (_, key, block, bytes) =>
    (await source(generator, key as Bytes, block)).next(bytes);
  try {
    return await PROBES[generator].holds({ keystream } as Engine);
  } catch {
    return false; // not there after all: what comes next may have it
  }
}

/** Node's own ciphers: no promise for each call, and ChaCha20, too. */
export function nodeSource(generator: Generator): KeystreamSource | undefined {
  const crypto = builtin<NodeCrypto>("node:crypto");
  const { name, start } = NODE_CIPHERS[generator];
  if (!crypto?.getCiphers().includes(name)) {
    return undefined;
  }
  return (_, key, block) => {
    const cipher = crypto.createCipheriv(name, key, start(block));
    return { next: (bytes) => cipher.update(zeros.subarray(0, bytes)) };
  };
}

/** WebCrypto: AES alone. */
export function webSource(generator: Generator): KeystreamSource | undefined {
  const subtle = (globalThis as { crypto?: Crypto }).crypto?.subtle as SubtleCrypto | undefined;
  return subtle && generator === "aes128-ctr" ? (_, key, block) => webKeystream(subtle, key, block) : undefined;
}

async function webKeystream(subtle: SubtleCrypto, raw: Bytes, block: number): Promise<Keystream> {
  const key = await subtle.importKey("raw", raw, "AES-CTR", false, ["encrypt"]);
  let at = block;
  return {
    async next(bytes) {
      const counter = ctrBlock(at);
      at += Math.ceil(bytes / 16);
      const text = zeros.subarray(0, bytes);
      return new Uint8Array(await subtle.encrypt({ name: "AES-CTR", counter, length: 128 }, key, text));
    },
  };
}

/** An engine's keystreams: what is left where the platform has none. */
export function engineSource(engine: Engine): KeystreamSource {
  return (generator, key, block) => {
    let at = block;
    return {
      next(bytes) {
        const stream = engine.keystream(generator, key, at, bytes);
        at += Math.ceil(bytes / BLOCK_BYTES[generator]);
        return stream;
      },
    };
  };
}

let nowhere: MessagePort | undefined;

/**
 * Give the memory of a buffer back at once. Left to the garbage collector, each keystream takes fresh memory, hundreds
 * of megabytes in all, and that costs several times what the cipher does; given back, the next one is written over the
 * one before. Messages to a port without another end are dropped.
 */
export function discard({ buffer, byteLength }: Bytes): void {
  if (byteLength === buffer.byteLength && typeof MessageChannel !== "undefined") {
    nowhere ??= closedPort();
    nowhere.postMessage(0, [buffer]);
  }
}

function closedPort(): MessagePort {
  const { port1, port2 } = new MessageChannel();
  port2.close();
  return port1;
}
