/** What clients refuse, repeat or complain about: refused*.json and active_refused.json. */

import { fromHex } from "../../src/bytes.js";
import type { Engine } from "../../src/crypto/engine.js";
import type { RoundClient } from "../../src/protocol/client.js";
import { encodeMessage, packIds } from "../../src/protocol/messages.js";
import { type Case, littleEndian, type Replay, refuses, same } from "./check.js";
import { type Compare, join, type Noted, type Party, Told } from "./parties.js";

/** A client, and the exchanges of a round that goes well. */
interface Player extends Party {
  readonly name: string;
  readonly exchanges: readonly { readonly request: string; readonly reply: string }[];
}

/** A request and what becomes of it; a number is that of an exchange of the player. */
interface Step {
  readonly request: string | number;
  readonly reply?: string | number;
  readonly error?: string;
  readonly memory?: readonly Noted[];
}

interface Scene {
  readonly party: string;
  readonly reason: string;
  readonly after: number;
  readonly steps: readonly Step[];
}

/** Return the scenes of a file with `parties` and `exchanges`. */
export function exchanges(data: { parties?: Player[]; exchanges?: Scene[] }, compare: Compare = same): Case[] {
  const players = new Map((data.parties ?? []).map((party) => [party.name, party]));
  return (data.exchanges ?? []).map((scene) => ({
    name: `${scene.party}: ${scene.reason}`,
    side: sideOf(players.get(scene.party)!),
    run: (engine) => play(engine, players.get(scene.party)!, scene, compare),
  }));
}

function sideOf({ helps }: Party): "client" | "server" {
  return helps === true ? "server" : "client";
}

async function play(engine: Engine, player: Player, scene: Scene, compare: Compare): Promise<void> {
  const tasks = player.memory && (await new Told().tell(player.memory));
  const client = await join(engine, player, { tasks });
  for (const [at, { request, reply }] of player.exchanges.slice(0, scene.after).entries()) {
    compare(reply, await client.receive(fromHex(request)), `exchange ${at}`);
  }
  for (const step of scene.steps) {
    if (step.memory !== undefined) {
      await tasks!.tell(step.memory);
    }
    await feed(client, player, step, compare);
  }
}

async function feed(client: RoundClient, { exchanges }: Player, step: Step, compare: Compare): Promise<void> {
  const { request, reply, error } = step;
  const data = fromHex(typeof request === "number" ? exchanges[request]!.request : request);
  if (error === undefined) {
    compare(typeof reply === "number" ? exchanges[reply]!.reply : reply!, await client.receive(data), "reply");
    return;
  }
  await refuses(error, () => client.receive(data));
  if (error === "FaultyServer") {
    await refuses("OrderError", () => client.receive(data));
  }
}

function joining(party: Party & { reason: string; error?: string }): Case {
  return {
    name: `joining: ${party.reason}`,
    side: sideOf(party),
    run: async (engine) => {
      const tasks = party.memory && (await new Told().tell(party.memory));
      const work = (): Promise<RoundClient> => join(engine, party, { tasks });
      await (party.error === undefined ? work() : refuses(party.error, work));
    },
  };
}

/** A share-request with more neighbours than a secret can have holders; too long to be written down. */
function many(player: Player, neighbours: number, error: string): Case {
  const ids = Array.from({ length: neighbours }, (_, id) => id);
  return {
    name: `${player.name}: ${neighbours} neighbours`,
    run: async (engine) => {
      const client = await join(engine, player);
      for (const { request } of player.exchanges) {
        await client.receive(fromHex(request));
      }
      const keys = new Uint8Array(64 * neighbours);
      for (let key = 0; key < 2 * neighbours; key++) {
        keys.set(littleEndian(2n ** 64n + BigInt(key), 32), 32 * key);
      }
      const fields = { neighbours: packIds(ids), keys, masked: new Uint8Array(neighbours).fill(1) };
      const request = encodeMessage("share-request", client.context, client.client, fields);
      await refuses(error, () => client.receive(request));
    },
  };
}

/** Replay the requests that clients refuse, and the configurations that they do not join. */
export const refused: Replay = (data) => [
  ...exchanges(data),
  ...(data.joining ?? []).map(joining),
  ...(data.many ?? []).map((entry: { party: string; neighbours: number; error: string }) =>
    many(
      data.parties.find(({ name }: Player) => name === entry.party),
      entry.neighbours,
      entry.error,
    ),
  ),
];

interface LiesAboutRound {
  readonly round: string;
  readonly client: number;
  readonly requests: readonly Lie[];
  readonly complaints: readonly { readonly reason: string; readonly request: string; readonly reply: string }[];
  readonly replies: readonly { readonly reason: string }[];
}

interface Lie {
  readonly reason: string;
  readonly step: string;
  readonly request: string;
  readonly error: string;
}

/** Replay what a lying server sends in a round of active_round.json. */
export const activeRefused: Replay = (data: LiesAboutRound, { rounds }) => {
  const { clients, steps, ...round } = rounds.find(({ name }: { name: string }) => name === data.round);
  // Step by step, and nothing after the last.
  const names: string[] = [...steps.map(({ step }: { step: string }) => step), "done"];
  const exchanges = steps.map((step: { exchanges: { client: number }[] }) =>
    step.exchanges.find(({ client }) => client === data.client),
  );
  const player: Player = { ...round, ...clients[data.client], exchanges };
  const scene = (reason: string, step: string, what: Step): Case => ({
    name: reason,
    run: (engine) =>
      play(engine, player, { party: data.round, reason, after: names.indexOf(step), steps: [what] }, same),
  });
  return [
    ...data.requests.map(({ reason, step, request, error }) => scene(reason, step, { request, error })),
    ...data.complaints.map(({ reason, request, reply }) => scene(reason, "mask", { request, reply })),
    ...serverCases(data.replies),
  ];
};

/** Replay what members refuse, and count what their server and helpers do. */
export const refusedAssisted: Replay = (data) => [...refused(data), ...serverCases(data.replies)];

/** Count the replies that a server refuses. */
export const refusedReplies: Replay = (data) => serverCases(data.replies);

function serverCases(replies: readonly { readonly reason: string }[]): Case[] {
  return replies.map(({ reason }) => ({ name: reason, side: "server", run: async () => undefined }));
}
