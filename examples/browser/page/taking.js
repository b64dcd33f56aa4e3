/** Taking part in one round, with a look at every byte that leaves. */

import { decode, memoryInMemory, Participant, systemEngine, unpackEnvelope } from "./ccesa.js";

/**
 * @typedef {object} Left A message that has left this device, and that the hub has taken.
 * @property {string} name
 * @property {number} bytes
 * @property {Uint8Array | null} vector The masked vector, in the message that has it.
 *
 * @typedef {object} Taking
 * @property {import("./lobby.js").Play} play
 * @property {any} [identity] Under a charter.
 * @property {any} [charter]
 * @property {() => Promise<Uint32Array | Uint16Array>} contribute
 * @property {(left: Left) => void} left
 * @property {(reason: string) => void} out Is told why this device is out of the round.
 */

/** The least that this device takes part in, whatever a server says. */
export const LEAST = 3;

/**
 * Take part in a round until it is over.
 *
 * @param {Taking} taking
 * @returns {Promise<{ result: () => Promise<import("ccesa/service/results.js").Result> }>}
 */
export async function takePart({ play, identity, charter, contribute, left, out }) {
  const who = charter === undefined ? { token: play.token ?? "" } : { charter, identity };
  const site = new Participant({
    ...who,
    url: location.origin,
    // Neither token nor identity is used after this round, so nothing needs to be remembered after it.
    memory: memoryInMemory(),
    engine: await systemEngine(),
    floor: { clients: LEAST, survivors: LEAST },
    insecureHttp: true, // a demo in one's own network; the page says what that means
    wait: 1, // all tabs of a browser share six connections
    patience: 20,
    fetch: watched(play.number, left),
    contribute,
  });
  site.addEventListener("fault", ({ detail }) => out(detail.reason));
  await site.run();
  return { result: () => site.result(0) };
}

/** Return a `fetch` that goes to the hub of a round, and says what has left. @param {number} round @param {(left: Left) => void} left */
function watched(round, left) {
  return async (/** @type {any} */ address, /** @type {RequestInit} */ init = {}) => {
    const { pathname, search } = new URL(address);
    const response = await fetch(`/round/${round}${pathname}${search}`, init);
    if (init.method === "PUT" && response.status === 204) {
      unpackEnvelope(/** @type {any} */ (init.body)).map(messageIn).forEach(left);
    }
    return response;
  };
}

/** @param {Uint8Array} message @returns {Left} */
function messageIn(message) {
  const [name, , , ...fields] = /** @type {any[]} */ (decode(message));
  const hasVector = name === "mask-reply" || name === "signed-mask-reply";
  return { name, bytes: message.length, vector: hasVector ? fields.at(-1) : null };
}
