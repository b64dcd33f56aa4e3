/** A step: a state and a request in, the next state and a reply out. */

import { type Bytes, equal, wipe } from "../bytes.js";
import { decodeMessage, encodeMessage, type Fields, type MessageName } from "./messages.js";
import { honest, type Round } from "./round.js";
import type { Secret, State, StateKind, StateOf } from "./states.js";

/** The result of a request: the next state, and the bytes for the server. */
export interface Answer {
  readonly state: State;
  readonly reply: Bytes;
  /** Whether the reply is kept for a repeat of the request: all are but masked vectors. */
  readonly kept: boolean;
}

/** One step: where it begins, the request that is due there, and what is checked and done. */
export interface Step {
  readonly from: StateKind;
  readonly request: MessageName;
  /**
   * Read a request at once, which is measured before anything of it is copied, and return what answers it in a state.
   * Either throws what the request is refused for: then nothing has changed but what is the caller's.
   */
  read(round: Round, request: Uint8Array): (state: State) => Promise<Answer>;
}

/** Make a step of a function on the one kind of state that it begins in, and the fields of the one request. */
export function step<Kind extends StateKind, Name extends MessageName>(
  from: Kind,
  request: Name,
  answer: (round: Round, state: StateOf<Kind>, fields: Fields<Name>) => Promise<Answer>,
): Step {
  const read = (round: Round, data: Uint8Array) => {
    const fields = fieldsOf(round, request, data);
    return (state: State) => answer(round, state as StateOf<Kind>, fields);
  };
  return { from, request, read };
}

/** Points 4 and 5 of section 9: the one message that is due, of this round and for this client. */
function fieldsOf<Name extends MessageName>(round: Round, name: Name, request: Uint8Array): Fields<Name> {
  const { context, client, fields } = decodeMessage(request, name, round.config);
  honest(equal(context, round.context), "the request belongs to another round");
  honest(client === round.client, `the request is for client ${client}`);
  return fields;
}

/** Return the answer with this message. */
export function answered<Name extends MessageName>(
  round: Round,
  state: State,
  name: Name,
  fields: Fields<Name>,
  kept = true,
): Answer {
  return { state: Object.freeze(state), reply: encodeMessage(name, round.context, round.client, fields), kept };
}

/** Run what needs secrets that no state holds yet; those that the next state does not hold are overwritten. */
export async function holding(fresh: readonly Secret[], work: () => Promise<Answer>): Promise<Answer> {
  let kept: readonly Secret[] = [];
  try {
    const answer = await work();
    kept = answer.state.secrets;
    return answer;
  } finally {
    wipeBut(fresh, kept);
  }
}

/** Overwrite secrets, but for those that are kept. */
export function wipeBut(secrets: readonly Secret[], kept: readonly Secret[]): void {
  const needed = new Set(kept);
  secrets.forEach((secret) => needed.has(secret) || wipe(secret));
}
