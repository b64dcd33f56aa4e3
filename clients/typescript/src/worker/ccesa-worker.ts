/** The worker's side: it does one job after the other, and says how far it is. */

import { builtin } from "../platform.js";
import { buffersOf, doJob, type Order, type Report } from "./jobs.js";

/** The page or the thread that started this one. */
interface Owner {
  postMessage(report: Report, transfer?: ArrayBuffer[]): void;
  addEventListener?(event: "message", listener: (event: { data: Order }) => void): void;
  on?(event: "message", listener: (order: Order) => void): void;
}

const parent = builtin<{ parentPort: Owner | null }>("node:worker_threads")?.parentPort;
const owner = parent ?? (globalThis as unknown as Owner);

async function work(order: Order): Promise<void> {
  try {
    const progress = (done: number, all: number): void => owner.postMessage({ kind: "progress", done, all });
    const answer = await doJob(order, { progress });
    owner.postMessage({ kind: "answer", answer }, buffersOf(answer));
  } catch (error) {
    const { name, message } = error instanceof Error ? error : new Error(String(error));
    owner.postMessage({ kind: "error", name, message });
  }
}

if (parent) {
  parent.on?.("message", (order) => void work(order));
} else {
  owner.addEventListener?.("message", ({ data }) => void work(data));
}
owner.postMessage({ kind: "ready" });
