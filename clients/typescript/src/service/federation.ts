/** The hub's announcement, checked against the participant's options before anything is sent to the hub. */

import { type Bytes, equal, fromHex } from "../bytes.js";
import type { Charter } from "../charter/charter.js";
import { decodeConfig, guardOf, isAssisted, MOST_CONFIG_BYTES, type RoundConfig } from "../config.js";
import { ConfigError, FaultyServer } from "../errors.js";
import { type Fields, fieldsOf, fromBase64, inWords, numberOf, textOf } from "./answers.js";
import { shown } from "./errors.js";
import type { Line } from "./line.js";

const MOST_PART = 1 << 26;
const PART = 1 << 23;

/** The announcement of a hub. */
export interface Announcement {
  readonly over: boolean;
  /** The newest series, 1 or greater; 0 before the first one. */
  readonly series: number;
  /** The latest question that is over, or -1. */
  readonly question: number;
  readonly partBytes: number;
  /** The hub's form of contributions. It counts only without a charter. */
  readonly form: unknown;
  /** The configuration of the series' first round; not there before the first series. */
  readonly config?: RoundConfig;
}

/** Return what the hub announces, when there is a series after this one or the time is up. */
export async function announced(
  line: Line,
  charter: Charter | null,
  after: number,
  wait: number,
): Promise<Announcement> {
  const answer = await line.call({ method: "GET", path: `/v1/federation?after=${after}`, open: true, wait });
  if (answer.status !== 200) {
    throw new FaultyServer(`the hub did not describe a federation (${inWords(answer)}): check the hub's address`);
  }
  return announcementIn(fieldsOf(answer.body), charter);
}

/**
 * Return what these fields announce.
 *
 * @throws ConfigError if the federation does not match this participant's options.
 * @throws FaultyServer or MalformedMessage for an invalid announcement.
 */
export function announcementIn(fields: Fields, charter: Charter | null): Announcement {
  checkGuard(fields, charter);
  const series = numberOf(fields, "series", 0);
  const question = numberOf(fields, "question", -1);
  const over = textOf(fields, "state") === "over";
  const announcement = { over, series, question, form: fields["form"], partBytes: part(fields) };
  return over || series === 0 ? announcement : { ...announcement, config: configIn(fields, charter) };
}

function checkGuard(fields: Fields, charter: Charter | null): void {
  const [guard, expected] = [textOf(fields, "guard"), charter === null ? "curious" : guardOf(charter)];
  if (guard !== expected) {
    const how = charter === null ? "it needs a charter and an identity" : "it has no charter, or another one";
    throw new ConfigError(`the hub's rounds use the guard ${shown(guard, 20)}, not ${expected}: ${how}`);
  }
  if (charter !== null && !isDigest(fields["charter"], charter.digest)) {
    throw new ConfigError("the hub uses another charter than this member: compare their digests");
  }
}

function isDigest(value: unknown, digest: Bytes): boolean {
  return typeof value === "string" && /^[0-9a-f]{64}$/.test(value) && equal(fromHex(value), digest);
}

function part(fields: Fields): number {
  const bytes = fields["part_bytes"];
  return typeof bytes === "number" && Number.isSafeInteger(bytes) && bytes > 0 ? Math.min(bytes, MOST_PART) : PART;
}

function configIn(fields: Fields, charter: Charter | null): RoundConfig {
  const config = decodeConfig(fromBase64(textOf(fields, "config"), MOST_CONFIG_BYTES), charter ?? undefined);
  if (!config.accept && !isAssisted(config)) {
    throw new FaultyServer("rounds of a series need the step accept, which the hub's rounds lack");
  }
  return config;
}
