/** Replays messages.json and active_messages.json: encodings of messages, lists of ids and configurations. */

import { type Bytes, fromHex, toHex } from "../../src/bytes.js";
import { checkConfig, decodeConfig, encodeConfig, type RoundConfig } from "../../src/config.js";
import {
  encodeMessage,
  type Fields,
  MESSAGES,
  type MessageName,
  packIds,
  readMessage,
  unpackIds,
} from "../../src/protocol/messages.js";
import { type Case, equals, type Replay, refuses, same } from "./check.js";

const NAMES = Object.keys(MESSAGES) as MessageName[];

function message(vector: any): Case {
  const name: MessageName = vector.type;
  const fields = Object.fromEntries(MESSAGES[name].fields.map((field) => [field, fromHex(vector[field])]));
  return {
    name: `${name} of client ${vector.client}`,
    async run() {
      const encoding = fromHex(vector.encoding);
      same(vector.encoding, encodeMessage(name, fromHex(vector.context), vector.client, fields as Fields<typeof name>));
      const read = readMessage(encoding, name, vector.most);
      equals([vector.client, vector.context], [read.client, toHex(read.context)], "client and context");
      equals(entries(fields), entries(read.fields), "fields");
      for (const other of NAMES.filter((one) => one !== name)) {
        await refuses("MalformedMessage", () => readMessage(encoding, other, vector.most));
      }
    },
  };
}

function entries(fields: Readonly<Record<string, Bytes>>): [string, string][] {
  return Object.entries(fields).map(([name, data]) => [name, toHex(data)]);
}

function badMessage(vector: any): Case {
  return {
    name: vector.reason,
    async run() {
      for (const name of NAMES) {
        await refuses(vector.error, () => readMessage(fromHex(vector.encoding), name, vector.most));
      }
    },
  };
}

function ids(vector: any): Case {
  return {
    name: `packed ids ${vector.ids.join(" ")}`,
    async run() {
      same(vector.data, packIds(vector.ids));
      equals(vector.ids, unpackIds(fromHex(vector.data), vector.clients));
    },
  };
}

function badIds(vector: any): Case {
  return {
    name: `packed ids, ${vector.reason}`,
    run: () => refuses(vector.error, () => unpackIds(fromHex(vector.data), vector.clients)),
  };
}

/** Return the configuration that the fields of a vector say, within the limits or not. */
export function configOf(fields: any): RoundConfig {
  const { series_id, min_survivors, charter, type: _, ...others } = fields;
  const digest = charter === undefined ? null : fromHex(charter);
  return { ...others, seriesId: fromHex(series_id), minSurvivors: min_survivors, charter: digest };
}

function configuration(vector: any): Case {
  return {
    name: `configuration, ${vector.name}`,
    async run() {
      same(vector.encoding, encodeConfig(configOf(vector.fields)));
      same(vector.encoding, encodeConfig(decodeConfig(fromHex(vector.encoding))));
    },
  };
}

function badConfiguration(vector: any): Case {
  return {
    name: `configuration, ${vector.reason}`,
    async run() {
      const encoding = fromHex(vector.encoding + "00".repeat(vector.append_zeros ?? 0));
      await refuses(vector.error, () => decodeConfig(encoding));
      if (vector.fields !== undefined) {
        await refuses("ConfigError", () => checkConfig(configOf(vector.fields)));
      }
    },
  };
}

export const activeMessages: Replay = (data) => [...data.messages.map(message), ...data.bad_messages.map(badMessage)];

export const messages: Replay = (data) => [
  ...activeMessages(data),
  ...data.packed_ids.map(ids),
  ...data.bad_packed_ids.map(badIds),
  ...data.configurations.map(configuration),
  ...data.bad_configurations.map(badConfiguration),
];
