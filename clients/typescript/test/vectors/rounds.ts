/** Whole rounds: round.json, accept_round.json, the same under the other guards, and with the hybrid agreement. */

import { fromHex } from "../../src/bytes.js";
import type { Engine } from "../../src/crypto/engine.js";
import type { RoundClient } from "../../src/protocol/client.js";
import { type Case, type Replay, same } from "./check.js";
import { butTexts, type Compare, join, type Party } from "./parties.js";
import { exchanges } from "./refused.js";

interface WholeRound extends Pick<Party, "config" | "charter" | "task" | "now"> {
  readonly name: string;
  readonly clients: readonly Omit<Party, "config" | "charter" | "task">[];
  /** Their requests and replies are among those of the steps. */
  readonly helpers?: readonly { readonly client: number }[];
  readonly steps: readonly {
    readonly step: string;
    readonly exchanges: readonly { readonly client: number; readonly request: string; readonly reply: string | null }[];
  }[];
}

function casesOf(round: WholeRound, compare: Compare): Case[] {
  return [
    { name: round.name, run: (engine) => replay(engine, round, compare) },
    { name: `${round.name}: requests and outcome`, side: "server", run: async () => undefined },
  ];
}

async function replay(engine: Engine, round: WholeRound, compare: Compare): Promise<void> {
  const clients = new Map<number, RoundClient>();
  for (const party of round.clients) {
    const client = await join(engine, { ...round, ...party });
    clients.set(client.client, client);
  }
  const helpers = new Set(round.helpers?.map(({ client }) => client));
  for (const { step, exchanges } of round.steps) {
    for (const { client, request, reply } of exchanges) {
      if (reply !== null && !helpers.has(client)) {
        compare(reply, await clients.get(client)!.receive(fromHex(request)), `${step} of ${client}`);
      }
    }
  }
}

/** Replay whole rounds, every byte of them. */
export const rounds: Replay = (data) => data.rounds.flatMap((round: WholeRound) => casesOf(round, same));

/** Replay rounds with the hybrid agreement, and what a client of such a round refuses or accuses. */
export const hybridRounds: Replay = (data) => [
  ...data.rounds.flatMap((round: WholeRound) => casesOf(round, butTexts)),
  ...exchanges(data, butTexts),
];
