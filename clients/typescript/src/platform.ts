/** Modules that Node has and browsers lack, found without an import that would fail in browsers. */

interface Process {
  readonly getBuiltinModule?: (name: string) => unknown;
}

/** Return a module of Node's own, or undefined in a browser. */
export function builtin<Module>(name: string): Module | undefined {
  const { process } = globalThis as { process?: Process };
  return process?.getBuiltinModule?.(name) as Module | undefined;
}

/** Let the other work of this thread have its turn: a page stays alive, and no timer's minimum is waited for. */
export function turn(): Promise<void> {
  return new Promise((resolve) => {
    const { setImmediate } = globalThis as { setImmediate?: (work: () => void) => void };
    if (setImmediate) {
      setImmediate(resolve);
    } else {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => {
        port1.close();
        resolve();
      };
      port2.postMessage(0);
    }
  });
}

/** Return how many threads can work at the same time. */
export function cores(): number {
  const { navigator } = globalThis as { navigator?: { hardwareConcurrency?: number } };
  const os = builtin<{ availableParallelism(): number }>("node:os");
  return navigator?.hardwareConcurrency ?? os?.availableParallelism() ?? 1;
}
