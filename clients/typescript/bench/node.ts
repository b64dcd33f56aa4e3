/** The bench in Node: a command per line of standard input, an answer per line of standard output. */

import { createInterface } from "node:readline";

import { type Command, handle } from "./timed.js";

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await handle(JSON.parse(line) as Command))}\n`);
}
