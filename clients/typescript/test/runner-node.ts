/** The runner in Node: a command per line of standard input, an answer per line of standard output. */

import { createInterface } from "node:readline";

import { type Command, handle } from "./runner.js";

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await handle(JSON.parse(line) as Command).catch((error: unknown) => ({
    mistake: error instanceof Error ? (error.stack ?? error.message) : String(error),
  }));
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
