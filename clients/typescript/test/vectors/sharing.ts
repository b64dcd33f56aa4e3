/** Splitting from given randomness, joining, correcting, and what must fail. */

import { fromHex, toHex } from "../../src/bytes.js";
import type { Random } from "../../src/crypto/engine.js";
import { commitment } from "../../src/crypto/keys.js";
import { drawElements, fromBytes, split, toBytes } from "../../src/crypto/sharing.js";
import { correct, join } from "../server/sharing.js";
import { equals, type Replay, refuses, same } from "./check.js";

const elements = (hex: string): Uint16Array => fromBytes(fromHex(hex));

/** Names of refusals that are another in this package: the page leaves them to each. */
const NAMES: Readonly<Record<string, string>> = { ValueError: "ConfigError" };

/** Return a source that has these bytes and no more. */
function source(hex: string): { random: Random; left(): number } {
  const data = fromHex(hex);
  let at = 0;
  const random: Random = (bytes) => {
    if (at + bytes > data.length) {
      throw new Error(`asked for ${bytes} bytes, but ${data.length - at} are left`);
    }
    at += bytes;
    return data.slice(at - bytes, at);
  };
  return { random, left: () => data.length - at };
}

export const sharing: Replay = (data) => [
  ...data.split.map((c: any) => ({
    name: `split: ${c.name}`,
    run: async () => {
      const secret = elements(c.secret);
      const { random, left } = source(c.randomness);
      const coefficients = drawElements(random, secret.length * (c.threshold - 1));
      equals(0, left(), "randomness left over");
      const shares = split(secret, coefficients, c.threshold, c.holders);
      equals(c.shares.length, shares.length);
      shares.forEach((share, at) => same(c.shares[at], toBytes(share)));
      for (const xs of c.joins as number[][]) {
        same(
          c.secret,
          toBytes(
            join(
              xs,
              xs.map((x) => shares[x - 1]!),
            ),
          ),
        );
      }
    },
  })),
  ...data.bad_split.map((c: any) => ({
    name: `bad_split: ${c.threshold} of ${c.holders}`,
    run: () => {
      const coefficients = new Uint16Array(16 * Math.max(0, c.threshold - 1));
      return refuses(NAMES[c.error]!, () => split(new Uint16Array(16), coefficients, c.threshold, c.holders));
    },
  })),
  ...data.bad_join.map((c: any) => ({
    name: `bad_join: ${c.reason}`,
    run: async (engine: any) => {
      const joined = toBytes(join(c.xs, c.shares.map(elements)));
      same(c.joined, joined);
      same(c.commitment, await commitment(engine, fromHex(c.secret), fromHex(c.context), c.client));
      const other = await commitment(engine, joined, fromHex(c.context), c.client);
      equals(false, toHex(other) === c.commitment, "another secret with this commitment");
    },
  })),
  ...data.correct.map((c: any) => ({
    name: `correct: ${c.name}`,
    side: "server",
    run: async () => {
      const work = () => correct(c.xs, c.shares.map(elements), c.threshold);
      if (c.error !== undefined) {
        return refuses(c.error, work);
      }
      same(c.secret, toBytes(work().secret));
      equals(c.wrong, work().wrong);
    },
  })),
  ...data.words.map((c: any) => ({
    name: `words: ${c.name}`,
    run: async () => {
      equals(c.elements, [...elements(c.data)]);
      same(c.data, toBytes(Uint16Array.from(c.elements)));
    },
  })),
  ...data.bad_words.map((c: any) => ({
    name: `bad_words: ${c.reason}`,
    run: () => refuses(c.error, () => elements(c.data)),
  })),
];
