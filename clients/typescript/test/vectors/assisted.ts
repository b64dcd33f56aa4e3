/** Replays assisted_messages.json: charters with helpers, the messages of `assisted`, and check words. */

import { fromHex } from "../../src/bytes.js";
import { checkWords } from "../../src/crypto/check-words.js";
import type { Engine } from "../../src/crypto/engine.js";
import { charters } from "./charters.js";
import { type Case, type Replay, same, stream } from "./check.js";
import { activeMessages } from "./messages.js";

function checkWordsOf(vector: any): Case {
  const { generator, bits, length, context, seed, check_words } = vector;
  return {
    name: `check words, ${generator}, ${length} words of ${bits} bits`,
    async run(engine: Engine) {
      const bytes = (length * bits) / 8;
      const words = (await stream(engine, seed, bytes))(bytes);
      same(check_words, await checkWords(words, bits, { engine, generator, context: fromHex(context) }));
    },
  };
}

export const assistedMessages: Replay = (data) => [
  ...charters(data),
  ...activeMessages(data),
  ...data.check_words.map(checkWordsOf),
];
