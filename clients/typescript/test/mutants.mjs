/**
 * Takes single checks out of the built client, one at a time, and sees a vector or a test fail.
 *
 *   npm run build:test && node test/mutants.mjs [part of a file's path] [every n-th]
 *
 * A check that nothing catches is listed, and makes this fail.
 */

import { spawnSync } from "node:child_process";
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const HERE = fileURLToPath(new URL("..", import.meta.url));
const MUTANT = `${HERE}build-mutant`; // beside build, so that vectors and packages are found
const [part = "", every = "1"] = process.argv.slice(2);

/** What refuses: a call that stands alone, up to its end, or a condition before a throw. */
const CALL = /^ *(?:await )?(?:honest|sized|check[A-Z]\w*|within)\((?:.|\n)*?\);$/gm;
const CONDITION = /\bif \([^\n]*\) \{(?=\n\s*throw )/g;

/** Checks that another one stands behind: without them the same is refused by the same name. */
const BACKED = [
  'sized(root, ROOT_BYTES, "root")', // a root of another size is not the one that follows from the proof
  "if (membership === null)", // steps under a charter are called with one only
  "checkKemKey(kem)", // engines refuse to encapsulate for such a key
  "if (helpers.length !== round.config.helpers)", // the configuration follows from the charter
  "honest(items.length > 0,", // no message is of no exchange, which is not one to enter
  "honest(!places.includes(-1),", // the exchange before a round's first is past once the round is in flight
];

/** List the mutants of a text: where it changes, and into what. */
function mutantsOf(text) {
  const calls = [...text.matchAll(CALL)].map(({ index, 0: call }) => ({ index, out: call, into: "" }));
  const conditions = [...text.matchAll(CONDITION)].map(({ index, 0: out }) => ({ index, out, into: "if (false) {" }));
  return [...calls, ...conditions]
    .filter(({ out }) => !BACKED.some((backed) => out.trim().startsWith(backed)))
    .sort((a, b) => a.index - b.index);
}

/** Tell whether vectors or tests fail with the mutant. */
function caught() {
  const vectors = spawnSync(process.execPath, [`${HERE}test/replay.mjs`, MUTANT], { timeout: 300_000 });
  if (vectors.status !== 0) {
    return true;
  }
  const tests = ["client", "series"].map((name) => `${MUTANT}/test/${name}.test.js`);
  return spawnSync(process.execPath, ["--test", ...tests], { timeout: 300_000 }).status !== 0;
}

rmSync(MUTANT, { recursive: true, force: true });
cpSync(`${HERE}build`, MUTANT, { recursive: true });
if (caught()) {
  throw new Error("vectors or tests fail without any mutant");
}
const files = readdirSync(`${HERE}build/src/protocol`, { recursive: true })
  .filter((name) => name.endsWith(".js") && name.includes(part))
  .sort();
const missed = [];
let [number, tried] = [0, 0];
for (const file of files) {
  const text = readFileSync(`${HERE}build/src/protocol/${file}`, "utf8");
  for (const { index, out, into } of mutantsOf(text)) {
    if (number++ % Number(every) !== 0) {
      continue;
    }
    const line = text.slice(0, index).split("\n").length;
    const shown = `${file}:${line} ${text.slice(index).trim().split("\n")[0]}`;
    writeFileSync(`${MUTANT}/src/protocol/${file}`, text.slice(0, index) + into + text.slice(index + out.length));
    const ok = caught();
    tried++;
    console.log(`${ok ? "caught" : "MISSED"}  ${shown}`);
    missed.push(...(ok ? [] : [shown]));
  }
  writeFileSync(`${MUTANT}/src/protocol/${file}`, text);
}
rmSync(MUTANT, { recursive: true, force: true });
console.log(`${tried} of ${number} checks taken out, ${missed.length} missed`);
process.exitCode = missed.length === 0 ? 0 : 1;
