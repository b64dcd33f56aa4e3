/**
 * Sharing over GF(65521) (docs/protocol.md, section 5).
 *
 * JavaScript cannot promise constant time. So arithmetic on secrets has no branch and no look-up that depends on them,
 * only multiplications, additions and remainders of numbers below 2^32. The words that a draw throws away say nothing
 * about those that it keeps. `@noble/*` is as careful as a script can be; platforms' own primitives come first.
 */

import { type Bytes, wipe } from "../bytes.js";
import { ConfigError, OutsideField } from "../errors.js";
import { inRange } from "./checked.js";
import type { Random } from "./engine.js";

/** The size of the field. */
export const FIELD = 65521;

/** How many elements a secret has. */
export const SECRET_ELEMENTS = 16;

/** How many elements a row of shares has: of b_i, then of the secret of s_i. */
export const ROW_ELEMENTS = 2 * SECRET_ELEMENTS;

/** The maximum number of holders of a secret: their x-coordinates are distinct and not zero. */
export const MOST_HOLDERS = FIELD - 1;

/** Draw `count` uniform elements, in the order of 5.1. */
export function drawElements(random: Random, count: number): Uint16Array {
  const elements = new Uint16Array(count);
  for (let at = 0; at < count; ) {
    const drawn = random(2 * (count - at));
    for (const word of words(drawn)) {
      if (word < FIELD) {
        elements[at++] = word;
      }
    }
    wipe(drawn);
  }
  return elements;
}

/**
 * Split a row of secrets among holders, of whom `threshold` can join it.
 *
 * @param secret - The elements of the secret, a_0 of 5.2.
 * @param coefficients - a_1, a_2, ... one after the other: `threshold - 1` rows as long as the secret.
 * @returns The shares for x = 1, 2, ..., `holders`.
 * @throws ConfigError for a number of holders, a threshold or coefficients that do not fit.
 */
export function split(
  secret: Uint16Array,
  coefficients: Uint16Array,
  threshold: number,
  holders: number,
): Uint16Array[] {
  inRange(holders, 1, MOST_HOLDERS, "holders");
  inRange(threshold, 1, holders, "threshold");
  if (coefficients.length !== secret.length * (threshold - 1)) {
    throw new ConfigError(`expected ${secret.length * (threshold - 1)} coefficients, got ${coefficients.length}`);
  }
  return Array.from({ length: holders }, (_, rank) => valueAt(rank + 1, secret, coefficients));
}

/** Return the value of every element's polynomial at x, by Horner's rule from the highest coefficient down. */
function valueAt(x: number, secret: Uint16Array, coefficients: Uint16Array): Uint16Array {
  const width = secret.length;
  const value = new Uint16Array(width);
  for (let row = coefficients.length - width; row >= 0; row -= width) {
    for (let element = 0; element < width; element++) {
      value[element] = next(value[element]!, x, coefficients[row + element]!);
    }
  }
  return value.map((sum, element) => next(sum, x, secret[element]!));
}

/** Return sum * x + term in the field; 65520 * 65520 + 65520 is below 2^32, so 32 bits without a sign hold it. */
function next(sum: number, x: number, term: number): number {
  return ((Math.imul(sum, x) + term) >>> 0) % FIELD;
}

/** Return elements as bytes, `LE16` each. */
export function toBytes(elements: Uint16Array): Bytes {
  const data = new Uint8Array(2 * elements.length);
  elements.forEach((element, at) => {
    data[2 * at] = element;
    data[2 * at + 1] = element >>> 8;
  });
  return data;
}

/** Return the elements in bytes. Throws OutsideField. */
export function fromBytes(data: Uint8Array): Uint16Array {
  if (data.length % 2 !== 0) {
    throw new OutsideField(`elements have 2 bytes each, got ${data.length} bytes`);
  }
  const elements = words(data);
  if (elements.some((word) => word >= FIELD)) {
    wipe(elements);
    throw new OutsideField(`an element must be below ${FIELD}`);
  }
  return elements;
}

function words(data: Uint8Array): Uint16Array {
  return Uint16Array.from({ length: data.length >> 1 }, (_, at) => data[2 * at]! | (data[2 * at + 1]! << 8));
}
