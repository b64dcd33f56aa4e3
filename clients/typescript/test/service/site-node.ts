/** A site in Node: what it is told comes as the first line of standard input, events go out as lines of JSON. */

import { createInterface } from "node:readline";

import { fileMemory } from "../../src/memory/files.js";
import { participant, type Said } from "./site.js";

const lines = createInterface({ input: process.stdin });
const said = JSON.parse((await lines[Symbol.asyncIterator]().next()).value as string) as Said & { memory?: string };
const write = (event: object): void => void process.stdout.write(`${JSON.stringify(event)}\n`);
const site = await participant(said, said.memory === undefined ? undefined : fileMemory(said.memory), write);
process.on("SIGTERM", () => site.stop());
try {
  write({ event: "ended", with: await site.run() });
} catch (error) {
  write({ event: "ended", with: (error as Error).name, text: (error as Error).message });
}
lines.close();
