/**
 * Clients that somebody else drives, command by command: the tests in Python, in Node over lines of JSON and in a browser
 * over a function of the page. All bytes are hexadecimal.
 */

import { type Bytes, fromHex, toHex } from "../src/bytes.js";
import type { Charter } from "../src/charter/charter.js";
import { parseCharter } from "../src/charter/text.js";
import { parseToml, type TomlTable, type TomlValue } from "../src/charter/toml.js";
import { TomlTime } from "../src/charter/toml-values.js";
import { decodeConfig, type RoundConfig } from "../src/config.js";
import type { Engine } from "../src/crypto/engine.js";
import { systemEngine } from "../src/crypto/engines.js";
import { identityFromSeed } from "../src/crypto/signatures.js";
import { CcesaError, ConfigError } from "../src/errors.js";
import { ActiveClient, Client, type RoundClient } from "../src/protocol/client.js";
import { SeriesClient } from "../src/protocol/series.js";
import { type Case, stream } from "./vectors/check.js";
import { REPLAYS } from "./vectors/index.js";

/** A client of one round, in words that travel. */
interface Part {
  readonly config: string;
  readonly client: number;
  readonly vector: string;
  readonly task: string;
  readonly seed?: string;
  readonly charter?: string;
  readonly identity?: string;
  readonly now?: number;
}

/** A client of a series: a part for each of its rounds. */
interface SeriesPart {
  readonly config: string;
  readonly charter?: string;
  readonly rounds: readonly Part[];
}

/** What a request got: a reply, or the name of a refusal. */
type Outcome = { readonly reply: string } | { readonly error: string; readonly text: string };

export type Command =
  | { readonly op: "join"; readonly id: string; readonly part: Part }
  | { readonly op: "series"; readonly id: string; readonly part: SeriesPart }
  | { readonly op: "receive"; readonly id: string; readonly request: string }
  | { readonly op: "replay"; readonly part: Part; readonly requests: readonly string[] }
  | { readonly op: "replay-series"; readonly part: SeriesPart; readonly requests: readonly string[] }
  | { readonly op: "toml"; readonly texts: readonly string[] }
  | { readonly op: "vectors"; readonly file: string; readonly data: unknown; readonly beside?: unknown };

interface Driven {
  receive(request: Uint8Array): Promise<Bytes>;
}

const driven = new Map<string, Driven>();
const charters = new Map<string, Promise<Charter>>();

/** Carry a command out. */
export async function handle(command: Command): Promise<unknown> {
  const engine = await systemEngine();
  switch (command.op) {
    case "join":
      return attempt(async () => keep(command.id, await joined(engine, command.part)));
    case "series":
      return attempt(async () => keep(command.id, await inSeries(engine, command.part)));
    case "receive":
      return answered(known(command.id), command.request);
    case "replay":
      return replayed(() => joined(engine, command.part), command.requests);
    case "replay-series":
      return replayed(() => inSeries(engine, command.part), command.requests);
    case "toml":
      return command.texts.map(readToml);
    case "vectors":
      return counted(engine, REPLAYS[command.file]?.(command.data, command.beside) ?? []);
  }
}

function keep(id: string, client: Driven): string {
  driven.set(id, client);
  return "";
}

function known(id: string): Driven {
  const client = driven.get(id);
  if (client === undefined) {
    throw new Error(`no client ${id}`);
  }
  return client;
}

async function replayed(join: () => Promise<Driven>, requests: readonly string[]): Promise<Outcome[]> {
  let client: Driven;
  try {
    client = await join();
  } catch (error) {
    return [refusal(error)];
  }
  const outcomes: Outcome[] = [];
  for (const request of requests) {
    outcomes.push(await answered(client, request));
  }
  return outcomes;
}

async function joined(engine: Engine, part: Part): Promise<RoundClient> {
  const charter = await charterOf(part.charter);
  return joinedRound(engine, part, decodeConfig(fromHex(part.config), charter), charter);
}

async function joinedRound(
  engine: Engine,
  part: Part,
  config: RoundConfig,
  charter: Charter | undefined,
): Promise<RoundClient> {
  const options = {
    engine,
    config,
    vector: fromHex(part.vector),
    task: fromHex(part.task),
    ...(part.seed === undefined ? {} : { random: await stream(engine, part.seed) }),
  };
  if (charter === undefined) {
    return Client.join({ ...options, client: part.client });
  }
  const identity = await identityFromSeed(engine, fromHex(part.identity ?? ""));
  return ActiveClient.join({ ...options, charter, identity, tasks: null, now: part.now });
}

async function inSeries(engine: Engine, part: SeriesPart): Promise<Driven> {
  const charter = await charterOf(part.charter);
  const first = decodeConfig(fromHex(part.config), charter);
  return new SeriesClient({
    engine,
    config: first,
    client: (config) => joinedRound(engine, part.rounds[config.number - first.number]!, config, charter),
  });
}

function charterOf(text: string | undefined): Promise<Charter> | undefined {
  if (text === undefined) {
    return undefined;
  }
  const before = charters.get(text) ?? parseCharter(text);
  charters.set(text, before);
  return before;
}

function answered(client: Driven, request: string): Promise<Outcome> {
  return attempt(async () => toHex(await client.receive(fromHex(request))));
}

async function attempt(work: () => Promise<string>): Promise<Outcome> {
  try {
    return { reply: await work() };
  } catch (error) {
    return refusal(error);
  }
}

/** Only what is typed is a refusal; everything else is a mistake, which must not pass for one. */
function refusal(error: unknown): Outcome {
  if (error instanceof CcesaError) {
    return { error: error.name, text: error.message };
  }
  throw error;
}

/** Read a text of TOML; null where it is refused. */
function readToml(text: string): unknown {
  try {
    return formOf(parseToml(text));
  } catch (error) {
    if (error instanceof ConfigError) {
      return null;
    }
    throw error;
  }
}

/** Return a value with its type, in what JSON has. */
function formOf(value: TomlValue): readonly [type: string, value: unknown] {
  if (Array.isArray(value)) {
    return ["array", value.map(formOf)];
  }
  if (value instanceof TomlTime) {
    return [value.kind, value.seconds];
  }
  if (typeof value === "object") {
    return ["table", Object.entries(value as TomlTable).map(([key, each]) => [key, formOf(each)])];
  }
  if (typeof value === "number") {
    return ["number", toHex(new Uint8Array(Float64Array.of(value).buffer))];
  }
  return [typeof value, typeof value === "bigint" ? String(value) : value];
}

async function counted(engine: Engine, cases: readonly Case[]): Promise<unknown> {
  const failed: string[] = [];
  let passed = 0;
  const ours = cases.filter((one) => one.side !== "server");
  for (const one of ours) {
    try {
      await one.run(engine);
      passed += 1;
    } catch (error) {
      failed.push(`${one.name}: ${String(error)}`);
    }
  }
  return { cases: ours.length, passed, failed, servers: cases.length - ours.length };
}
