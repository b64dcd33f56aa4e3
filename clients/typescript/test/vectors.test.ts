/** Every vector of `vectors/` in Node; the same modules run in a browser. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { after, before, test } from "node:test";

import type { Engine } from "../src/crypto/engine.js";
import { systemEngine } from "../src/crypto/engines.js";
import type { Case } from "./vectors/check.js";
import { BESIDE, REPLAYS } from "./vectors/index.js";

// From build/test, where this file runs.
const FOLDER = new URL("../../../../vectors/", import.meta.url);
const FILES = readdirSync(FOLDER).filter((name) => name.endsWith(".json"));

interface Row {
  readonly file: string;
  readonly client: number;
  readonly server: number;
  readonly failures: readonly string[];
}

const table: Row[] = [];
let engine: Engine;

before(async () => {
  engine = await systemEngine();
});

after(() => {
  const lines = table.map(
    ({ file, client, server, failures }) =>
      `| ${[file.padEnd(26), client, client - failures.length, failures.length, server].join(" | ")} |`,
  );
  console.log(["| file | client's | passed | failed | server's |", "|---|--:|--:|--:|--:|", ...lines].join("\n"));
});

function contentOf(file: string | undefined): unknown {
  return file === undefined ? undefined : JSON.parse(readFileSync(new URL(file, FOLDER), "utf8"));
}

async function failureOf(vector: Case): Promise<string[]> {
  try {
    await vector.run(engine);
    return [];
  } catch (error) {
    return [`${vector.name}: ${error instanceof Error ? error.stack : String(error)}`];
  }
}

for (const file of FILES) {
  test(file, async () => {
    const replay = REPLAYS[file];
    assert(replay !== undefined, `${file} has no replay`);
    const cases = replay(contentOf(file), contentOf(BESIDE[file]));
    const own = cases.filter(({ side }) => side !== "server");
    const failures: string[] = [];
    for (const vector of own) {
      failures.push(...(await failureOf(vector)));
    }
    table.push({ file, client: own.length, server: cases.length - own.length, failures });
    assert(cases.length > 0, `${file} has no vector`);
    assert.equal(failures.length, 0, failures.slice(0, 10).join("\n"));
  });
}

test("every replay has its file", () => {
  assert.deepEqual(
    Object.keys(REPLAYS).filter((file) => !FILES.includes(file)),
    [],
  );
});
