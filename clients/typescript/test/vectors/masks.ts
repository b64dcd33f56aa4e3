/** Slices of both generators' streams in all word sizes. */

import { fromHex } from "../../src/bytes.js";
import { BLOCK_BYTES, type Engine, type Generator } from "../../src/crypto/engine.js";
import { type Replay, same } from "./check.js";

export const masks: Replay = (data) =>
  data.slices.map((c: any) => ({
    name: `${c.generator}, ${c.bits} bits: ${c.count} words from ${c.start} on`,
    run: async (engine: Engine) => {
      const size = BLOCK_BYTES[c.generator as Generator];
      const [start, bytes] = [(c.start * c.bits) / 8, (c.count * c.bits) / 8];
      const skipped = start % size;
      const stream = await engine.keystream(c.generator, fromHex(c.key), (start - skipped) / size, skipped + bytes);
      const words = stream.subarray(skipped);
      same(c.words ?? c.sha256, c.words === undefined ? await engine.sha256(words) : words);
    },
  }));
