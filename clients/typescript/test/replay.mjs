/** Replays the vectors of whole clients on a build, up to the first failure: node test/replay.mjs FOLDER */

import { readFileSync } from "node:fs";

const folder = process.argv[2];
const { BESIDE, REPLAYS } = await import(`${folder}/test/vectors/index.js`);
const { systemEngine } = await import(`${folder}/src/crypto/engines.js`);
const engine = await systemEngine();

const FILES = [
  ...["refused", "active_refused", "refused_active", "refused_accept", "series", "hybrid_round", "roster", "messages"],
  ...["refused_assisted", "assisted_series", "assisted_round", "assisted_hybrid", "assisted_messages"],
  ...["active_messages", "round", "accept_round", "active_round", "active_accept_round", "hybrid_active_round"],
];

function contentOf(file) {
  return file && JSON.parse(readFileSync(new URL(`../../../vectors/${file}`, import.meta.url), "utf8"));
}

for (const file of FILES.map((name) => `${name}.json`)) {
  for (const { name, side, run } of REPLAYS[file](contentOf(file), contentOf(BESIDE[file]))) {
    if (side !== "server") {
      await run(engine).catch((error) => {
        console.log(`${file}: ${name}: ${error}`);
        process.exit(1);
      });
    }
  }
}
