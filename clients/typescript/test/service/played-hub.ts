/** A hub that is played: a server of Node's whose answers a test chooses. */

import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

/** One call that came. */
export interface Came {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: Buffer;
}

/** What is answered. */
export interface Given {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string;
}

/** Return JSON. */
export function json(value: unknown, status = 200): Given {
  return { status, headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) };
}

/** Return a problem by its name. */
export function problem(status: number, name: string, more: Readonly<Record<string, unknown>> = {}): Given {
  const retry = more["retry_after"] === undefined ? {} : { "Retry-After": String(more["retry_after"]) };
  const document = { type: `urn:ccesa:problem:${name}`, status, title: name, detail: `it is ${name}`, ...more };
  return { status, headers: { "Content-Type": "application/problem+json", ...retry }, body: JSON.stringify(document) };
}

/** A hub on a loopback port. */
export class PlayedHub {
  readonly calls: Came[] = [];
  readonly #server: Server;

  /** @param answer - Gives the answer to a call; null breaks the connection. */
  constructor(answer: (call: Came) => Given | null | Promise<Given | null>) {
    this.#server = createServer(async (request, response) => {
      const [path, query] = [...(request.url ?? "").split("?"), ""] as [string, string];
      const body = Buffer.from(await text(request.setEncoding("latin1")), "latin1");
      const call = { method: request.method ?? "", path, query, headers: request.headers, body };
      this.calls.push(call);
      const given = await answer(call);
      if (given === null) {
        request.socket.destroy();
        return;
      }
      response.writeHead(given.status, { ...given.headers });
      response.end(request.method === "HEAD" ? undefined : given.body);
    });
  }

  /** Start to listen, and return the address. */
  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Run something against a played hub. */
export async function playing<T>(
  answer: (call: Came) => Given | null | Promise<Given | null>,
  work: (url: string, hub: PlayedHub) => Promise<T>,
): Promise<T> {
  const hub = new PlayedHub(answer);
  try {
    return await work(await hub.start(), hub);
  } finally {
    await hub.stop();
  }
}
