/** One worker, in a browser or in Node. Nothing is sent to it before it has started: messages cannot be taken back. */

import * as errors from "../errors.js";
import { CcesaError } from "../errors.js";
import { builtin } from "../platform.js";
import { buffersOf, type JobOptions, type Order, type Report } from "./jobs.js";

/** The common part of browsers' workers and Node's. */
interface Port {
  postMessage(order: Order, transfer: ArrayBuffer[]): void;
  terminate(): unknown;
  ref?(): void;
  unref?(): void;
}

/** A caller that waits for a worker. */
interface Listener {
  report(report: Report): void;
  stopped(): void;
}

/** A worker of its own, which has one job at a time. */
export class Thread {
  private listener: Listener = { report: () => undefined, stopped: () => undefined };
  private port: Port | undefined;

  /** Start a worker; undefined if the platform has none, or if the page may not have one. */
  static async start(): Promise<Thread | undefined> {
    const thread = new Thread();
    const ready = await new Promise<boolean>((resolve) => {
      thread.listener = { report: () => resolve(true), stopped: () => resolve(false) };
      thread.port = open({ report: (report) => thread.listener.report(report), stopped: () => thread.end() });
      if (!thread.port) {
        resolve(false);
      }
    });
    thread.port?.unref?.(); // an idle worker keeps no process alive
    return ready ? thread : undefined;
  }

  /** Tell whether it has ended, by itself or not. */
  get ended(): boolean {
    return this.port === undefined;
  }

  /** Do a job; the buffers of what is asked are moved. Throws what the worker throws. */
  async run(order: Order, { progress, signal }: JobOptions): Promise<unknown> {
    const stop = (): void => this.end();
    signal?.addEventListener("abort", stop);
    this.port?.ref?.();
    try {
      return await new Promise((resolve, reject) => {
        this.listener = {
          report: (report) => {
            try {
              REPORTS[report.kind](report as never, { resolve, reject, progress });
            } catch (error) {
              // The caller's own `progress` threw. The worker ends, too, or its answer would be the next job's.
              reject(error);
              this.end();
            }
          },
          stopped: () => reject(signal?.aborted ? (signal.reason as Error) : new CcesaError("the worker has stopped")),
        };
        if (this.port) {
          this.port.postMessage(order, buffersOf(order));
        } else {
          this.listener.stopped();
        }
      });
    } finally {
      signal?.removeEventListener("abort", stop);
      this.port?.unref?.();
    }
  }

  /** End the worker, and with it whatever it does. */
  end(): void {
    this.port?.terminate();
    this.port = undefined;
    this.listener.stopped();
  }
}

interface Waiting {
  resolve(answer: unknown): void;
  reject(error: unknown): void;
  readonly progress: JobOptions["progress"] | undefined;
}

type Reading = { [Kind in Report["kind"]]: (report: Extract<Report, { kind: Kind }>, waiting: Waiting) => void };

const REPORTS: Reading = {
  ready: () => undefined,
  progress: ({ done, all }, { progress }) => progress?.(done, all),
  answer: ({ answer }, { resolve }) => resolve(answer),
  error: ({ name, message }, { reject }) => reject(errorOf(name, message)),
};

/** Return an error of the type that it has in the worker. */
function errorOf(name: string, message: string): Error {
  const type = (errors as unknown as Record<string, (new (message: string) => Error) | undefined>)[name];
  return type ? new type(message) : new Error(`${name}: ${message}`);
}

function open(listener: Listener): Port | undefined {
  try {
    return typeof Worker === "undefined" ? openNode(listener) : openWeb(listener);
  } catch {
    return undefined; // a page may forbid workers
  }
}

// Bundled, the file is beside a page's own: its name is one that none of those has, as another worker never answers.
function openWeb(listener: Listener): Port {
  const worker = new Worker(new URL("./ccesa-worker.js", import.meta.url), { type: "module" });
  worker.onmessage = ({ data }: { data: Report }) => listener.report(data);
  worker.onerror = worker.onmessageerror = () => listener.stopped();
  return worker;
}

interface NodeWorker extends Port {
  on(event: string, listener: (content: unknown) => void): void;
}

function openNode(listener: Listener): Port | undefined {
  const threads = builtin<{ Worker: new (url: URL) => NodeWorker }>("node:worker_threads");
  if (!threads) {
    return undefined;
  }
  const worker = new threads.Worker(new URL("./ccesa-worker.js", import.meta.url));
  worker.on("message", (report) => listener.report(report as Report));
  for (const event of ["error", "messageerror", "exit"]) {
    worker.on(event, () => listener.stopped());
  }
  return worker;
}
