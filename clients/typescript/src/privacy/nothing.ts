/** The vector of a client that has no data to send, in rounds with noise. Silence would reveal something. */

import type { Bytes } from "../bytes.js";
import type { Engine } from "../crypto/engine.js";
import { pack } from "../quantize/fields.js";
import { draw } from "./draw.js";
import type { PrivacyTable } from "./table.js";
import { thresholdsFor } from "./thresholds.js";

/** Return a vector of noise around zeros. It is for one round. */
export async function aroundZero(
  engine: Engine,
  { dimension, variance, gridBits, fieldBits }: PrivacyTable,
): Promise<Bytes> {
  const numbers = new Float64Array(dimension);
  await draw(engine, thresholdsFor(variance, gridBits), numbers);
  return pack(numbers, fieldBits);
}
