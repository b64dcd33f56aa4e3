/** Tests that mostly wait: those of a file run at the same time. */

import { describe, it } from "node:test";

const TOGETHER = 6;
const tests: [name: string, body: () => unknown][] = [];

/** Add a test. */
export function test(name: string, body: () => unknown): void {
  tests.push([name, body]);
}

setImmediate(() => {
  describe("at once", { concurrency: TOGETHER }, () => {
    for (const [name, body] of tests) {
      it(name, async () => void (await body()));
    }
  });
});
