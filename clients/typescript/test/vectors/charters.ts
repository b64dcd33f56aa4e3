/** Replays charters.json: charters with their encodings and digests, and configurations under them. */

import { fromHex } from "../../src/bytes.js";
import { encodeCharter, parseCharter } from "../../src/charter/text.js";
import { contextOf, decodeConfig, encodeConfig, underCharter } from "../../src/config.js";
import type { Engine } from "../../src/crypto/engine.js";
import { equals, type Replay, refuses, same } from "./check.js";
import { texts, type Written } from "./lists.js";

interface Chartered extends Written {
  readonly encoding: string;
  readonly digest: string;
  readonly series_id: string;
  readonly number: number;
  readonly length: number;
  readonly accept: boolean;
  readonly config: string;
  readonly context: string;
}

async function checkCharter(text: string | Uint8Array, expected: Chartered, engine: Engine): Promise<void> {
  const charter = await parseCharter(text, engine);
  same(expected.encoding, encodeCharter(charter), "encoding");
  same(expected.digest, charter.digest, "digest");
  const { series_id, number, length, accept } = expected;
  const config = underCharter(charter, { seriesId: fromHex(series_id), number, length, accept });
  same(expected.config, encodeConfig(config), "configuration");
  same(expected.context, await contextOf(engine, config), "context");
  equals(config, decodeConfig(fromHex(expected.config), charter), "decoded");
}

export const charters: Replay = (data) => {
  const plain = data.charters[0];
  return [
    ...texts<Chartered>("charter", data.charters, checkCharter),
    ...texts("same", data.same, async (text, _, engine) =>
      same(plain.digest, (await parseCharter(text, engine)).digest, "digest"),
    ),
    ...texts("bad charter", data.bad_charters, (text, _, engine) => parseCharter(text, engine)),
    ...data.bad_configurations.map((bad: { reason: string; encoding: string; error: string }) => ({
      name: `bad configuration: ${bad.reason}`,
      run: async (engine: Engine) => {
        const charter = await parseCharter(plain.text, engine);
        await refuses(bad.error, () => decodeConfig(fromHex(bad.encoding), charter));
      },
    })),
  ];
};
