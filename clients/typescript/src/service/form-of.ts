/** The form of contributions: by the charter, or without one by the hub's word. */

import type { Charter } from "../charter/charter.js";
import { ConfigError } from "../errors.js";
import type { Fields } from "./answers.js";
import { shown } from "./errors.js";
import type { Announcement } from "./federation.js";
import { arraysForm, type Form, noisyForm, statisticsForm, WORDS } from "./forms.js";

/**
 * Return the form of contributions.
 *
 * @throws ConfigError for one that a hub without a charter announces and that does not exist, or has noise.
 */
export function formOf(charter: Charter | null, announcement: Announcement): Form {
  return charter === null ? announcedForm(announcement) : charteredForm(charter);
}

function charteredForm({ learning, members, privacy, statistics }: Charter): Form {
  if (statistics !== null) {
    return statisticsForm(statistics, privacy);
  }
  if (privacy !== null) {
    return noisyForm(privacy);
  }
  return learning === null ? WORDS : arraysForm({ ...learning, clients: members.length });
}

/** The forms of hubs without a charter, by their names. */
const ANNOUNCED: Readonly<Record<string, (form: Fields, announcement: Announcement) => Form>> = {
  words: (form, { config }) => {
    if (form["words"] !== config?.length || form["bits"] !== config?.bits) {
      throw new ConfigError("the hub's form does not match the words of its rounds");
    }
    return WORDS;
  },
  arrays: (form, { config }) => {
    if ((form["privacy"] ?? null) !== null) {
      throw new ConfigError("noise needs a charter, which this hub does not have");
    }
    if (form["clients"] !== config?.clients) {
      throw new ConfigError("the hub's form does not match the number of clients in its rounds");
    }
    return arraysForm({
      clients: Number(form["clients"]),
      clip: Number(form["clip"] ?? 2),
      maxWeight: Number(form["max_weight"] ?? 1),
      fieldBits: Number(form["field_bits"] ?? 32),
    });
  },
};

function announcedForm(announcement: Announcement): Form {
  const form = announcement.form as Fields | null;
  const type = typeof form === "object" && form !== null ? form["type"] : undefined;
  const made = typeof type === "string" && Object.hasOwn(ANNOUNCED, type) ? ANNOUNCED[type] : undefined;
  if (form === null || made === undefined) {
    throw new ConfigError(`this package does not support the form that the hub asks for: ${shown(type, 20)}`);
  }
  return made(form, announcement);
}
