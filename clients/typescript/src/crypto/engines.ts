/** The engine of each primitive: it comes from the first that gives the known answer to a known question. */

import { Unsupported } from "../errors.js";
import { systemRandom } from "./checked.js";
import type { Engine, Primitives } from "./engine.js";
import { nobleEngine } from "./noble.js";
import { nodeEngine } from "./node.js";
import { type Part, PROBES } from "./probes.js";
import { webEngine } from "./web.js";

type Makers = readonly (() => Engine)[];

const PLATFORM_FIRST: Makers = [nodeEngine, webEngine, nobleEngine];

// WebCrypto needs a call for every block of AES. Neither seeds of graphs nor keys of rotations are secret.
const ORDER: Partial<Record<Part, Makers>> = { aesBlocks: [nodeEngine, nobleEngine, webEngine] };

const CHOSEN = new Map<Part, Promise<Engine>>();

/**
 * Return the engine of this platform: what it has itself, and `@noble/*` for the rest, if that is installed.
 *
 * Each primitive is tried out when it is first called, once; Unsupported names the package that has it.
 */
export async function systemEngine(): Promise<Engine> {
  return {
    name: "this platform",
    random: systemRandom,
    sha256: pick("sha256"),
    hkdf: pick("hkdf"),
    x25519PublicKey: pick("x25519PublicKey"),
    x25519: pick("x25519"),
    ed25519PublicKey: pick("ed25519PublicKey"),
    ed25519Sign: pick("ed25519Sign"),
    ed25519Verify: pick("ed25519Verify"),
    gcmSeal: pick("gcmSeal"),
    gcmOpen: pick("gcmOpen"),
    aesBlocks: pick("aesBlocks"),
    keystream: async (generator, ...rest) => (await chosen(generator)).keystream(generator, ...rest),
    kemPublicKey: pick("kemPublicKey"),
    kemEncapsulate: pick("kemEncapsulate"),
    kemDecapsulate: pick("kemDecapsulate"),
  };
}

function pick<K extends Exclude<keyof Primitives, "keystream">>(primitive: K): Primitives[K] {
  const call = async (...inputs: unknown[]): Promise<unknown> => {
    const engine = await chosen(primitive);
    return (engine[primitive] as (...inputs: unknown[]) => unknown)(...inputs);
  };
  return call as Primitives[K];
}

/** Return the engine that a part comes from; a choice that failed is tried again, as a package may come late. */
function chosen(part: Part): Promise<Engine> {
  const before = CHOSEN.get(part);
  if (before !== undefined) {
    return before;
  }
  const choice = firstThatHas(part, ORDER[part] ?? PLATFORM_FIRST);
  CHOSEN.set(part, choice);
  choice.catch(() => CHOSEN.delete(part));
  return choice;
}

/** Return the first engine that gives the known answer. Throws Unsupported. */
export async function firstThatHas(part: Part, makers: Makers): Promise<Engine> {
  for (const make of makers) {
    try {
      const engine = make();
      if (await PROBES[part].holds(engine)) {
        return engine;
      }
    } catch {
      // Not there, or not as it should be: what comes next may have it.
    }
  }
  const { packages } = PROBES[part];
  throw new Unsupported(`this platform has no ${part}: npm install ${packages}`);
}
