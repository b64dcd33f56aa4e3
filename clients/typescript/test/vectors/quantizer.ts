/** Appendix A: quantizer.json. */

import { fromHex } from "../../src/bytes.js";
import type { Random } from "../../src/crypto/engine.js";
import { Quantizer, type Tensor } from "../../src/quantize/quantizer.js";
import type { QuantizerSettings } from "../../src/quantize/settings.js";
import { type Case, equals, type Replay, refuses, same } from "./check.js";

/** Return a number of the files, where those that JSON does not have are text. */
export function number(value: number | string): number {
  const names: Record<string, number> = { nan: NaN, inf: Infinity, "-inf": -Infinity };
  return typeof value === "string" ? names[value]! : value;
}

type Nested = number | string | readonly Nested[];

/** Return nested arrays of numbers as flat ones with their shape. */
export function tensor(nested: Nested): { shape: number[]; data: number[] } {
  if (!Array.isArray(nested)) {
    return { shape: [], data: [number(nested as number)] };
  }
  const parts = (nested as Nested[]).map(tensor);
  return { shape: [parts.length, ...(parts[0]?.shape ?? [])], data: parts.flatMap((part) => part.data) };
}

function settings(data: any): QuantizerSettings {
  const clip = Array.isArray(data.clip) ? data.clip.map(number) : number(data.clip);
  const names = { field_bits: "fieldBits", bits: "bits", precision: "precision", max_weight: "maxWeight" };
  const given = Object.entries(names).filter(([key]) => key in data);
  const rest = Object.fromEntries(given.map(([key, name]) => [name, number(data[key])]));
  return { shapes: data.shapes, clients: data.clients, clip, rounding: data.rounding, ...rest };
}

/** Return random bytes that become these numbers in [0, 1), multiples of 2^-53. */
function randomOf(draws: readonly number[]): Random {
  return (count) => {
    const view = new DataView(new ArrayBuffer(count));
    draws.forEach((draw, at) => {
      const whole = draw * 2 ** 53;
      view.setUint32(8 * at, (whole % 2 ** 26) << 6, true);
      view.setUint32(8 * at + 4, Math.floor(whole / 2 ** 26) << 5, true);
    });
    return new Uint8Array(view.buffer);
  };
}

export const quantizer: Replay = (data) => {
  const cases: Case[] = [];
  const add = (name: string, error: string | undefined, work: () => void): void => {
    cases.push({ name, run: async () => (error === undefined ? work() : refuses(error, work)) });
  };
  const made = (at: number): Quantizer => new Quantizer(settings(data.settings[at]));
  for (const [at, each] of data.settings.entries()) {
    add(`settings ${at}`, each.error, () => {
      const { fieldBits, perWord, levels, digits, length } = made(at);
      equals(each.gives, { field_bits: fieldBits, per_word: perWord, levels, digits, length });
    });
  }
  for (const each of data.encoded) {
    add(`encoded: ${each.name}`, each.error, () => {
      const arrays: Tensor[] = each.arrays.map(tensor);
      same(each.words, made(each.settings).encode(arrays, number(each.weight), randomOf(each.draws ?? [])));
    });
  }
  for (const each of data.decoded) {
    add(`decoded: ${each.name}`, each.error, () => {
      const { arrays, weight } = made(each.settings).decode(fromHex(each.sum));
      const mean = arrays.map((array) => Array.from(array));
      equals(
        each.mean.map((nested: Nested) => tensor(nested).data),
        mean,
        "mean",
      );
      equals(each.weight, weight, "weight");
    });
  }
  return cases;
};
