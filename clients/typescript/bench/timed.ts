/** Clients whose steps are timed where they run, without the way of a request to them: in Node and in a browser alike. */

import { fromHex, toHex } from "../src/bytes.js";
import { decodeConfig } from "../src/config.js";
import { systemEngine } from "../src/crypto/engines.js";
import { Client } from "../src/protocol/client.js";
import { Workers } from "../src/worker/host.js";

export type Command =
  | { readonly op: "join"; readonly config: string; readonly client: number; readonly task: string }
  | { readonly op: "receive"; readonly client: number; readonly request: string };

/** What a request took; replies as large as vectors stay where they are. */
export interface Timed {
  readonly ms: number;
  readonly bytes: number;
  readonly reply: string;
}

const LARGE = 1 << 20;
const workers = new Workers();
const clients = new Map<number, Client>();

/** Carry a command out. */
export async function handle(command: Command): Promise<Timed | null> {
  if (command.op === "receive") {
    return timed(clients.get(command.client)!, fromHex(command.request));
  }
  const config = decodeConfig(fromHex(command.config));
  const vector = new Uint8Array((config.length * config.bits) / 8).fill(command.client + 1);
  await workers.start();
  const [engine, task] = [await systemEngine(), fromHex(command.task)];
  clients.set(
    command.client,
    await Client.join({ config, client: command.client, vector, task, engine, masker: workers.mask }),
  );
  return null;
}

async function timed(client: Client, request: Uint8Array): Promise<Timed> {
  const start = performance.now();
  const reply = await client.receive(request);
  const ms = performance.now() - start;
  return { ms, bytes: reply.length, reply: reply.length < LARGE ? toHex(reply) : "" };
}
