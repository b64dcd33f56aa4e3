/** Replays graphs.json: every client's neighbourhood in graphs of every kind. */

import { fromHex } from "../../src/bytes.js";
import { neighbourhood } from "../../src/graphs.js";
import { type Case, equals, type Replay } from "./check.js";

export const graphs: Replay = (data) =>
  data.graphs.map(
    (vector: any): Case => ({
      name: vector.name,
      async run(engine) {
        for (const [rank, client] of vector.ids.entries()) {
          const drawn = await neighbourhood(engine, vector, fromHex(vector.seed), vector.ids, client);
          equals(vector.neighbours[rank], drawn.neighbours, `neighbours of ${client}`);
          equals(vector.masked[rank], drawn.masked.map(Number), `mask edges of ${client}`);
        }
      },
    }),
  );
