/** Taking part in one round, with a look at every byte that leaves. */

import { memoryInMemory, Participant, systemEngine } from "ccesa";

/**
 * @typedef {object} Left A message that has left this device, and that the hub has taken.
 * @property {string} name
 * @property {number} bytes
 * @property {Uint8Array | null} vector The masked vector, in the message that has it.
 *
 * @typedef {object} Taking
 * @property {import("./lobby.js").Play} play
 * @property {import("./lobby.js").Topic} topic
 * @property {any} [identity] Under a charter.
 * @property {any} [charter]
 * @property {() => Promise<Uint32Array | Uint16Array>} contribute
 * @property {(left: Left) => void} left
 * @property {(reason: string) => void} out Is told why this device is out of the round.
 */

/** How many bytes a contribution has: a word of 32 bits, or 28 by 28 of 16. */
const VECTOR_BYTES = { number: 4, drawing: 28 * 28 * 2 };

/** The least that this device takes part in, whatever a server says. */
export const LEAST = 3;

/**
 * Take part in a round until it is over.
 *
 * @param {Taking} taking
 * @returns {Promise<{ result: () => Promise<import("ccesa").Result> }>}
 */
export async function takePart({ play, topic, identity, charter, contribute, left, out }) {
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
    fetch: watched(play.number, VECTOR_BYTES[topic], left),
    contribute,
  });
  site.addEventListener("fault", ({ detail }) => out(detail.reason));
  await site.run();
  return { result: () => site.result(0) };
}

/**
 * Return a `fetch` that goes to the hub of a round, and says what has left.
 *
 * @param {number} round @param {number} vectorBytes @param {(left: Left) => void} left
 * @returns {typeof fetch}
 */
function watched(round, vectorBytes, left) {
  return async (address, init = {}) => {
    const { pathname, search } = new URL(String(address));
    const response = await fetch(`/round/${round}${pathname}${search}`, init);
    if (init.method === "PUT" && response.status === 204 && init.body instanceof Uint8Array && init.body.length > 0) {
      left(messageIn(init.body, vectorBytes));
    }
    return response;
  };
}

/**
 * Return what a reply is. There is one round, so it is four bytes of length and one message (docs/protocol.md, 7 and 14.2):
 * its second byte has the length of its name, and a vector is its end.
 *
 * @param {Uint8Array} reply @param {number} vectorBytes @returns {Left}
 */
function messageIn(reply, vectorBytes) {
  const message = reply.subarray(4);
  const name = new TextDecoder().decode(message.subarray(2, 2 + ((message[1] ?? 0) & 0x1f)));
  const hasVector = name === "mask-reply" || name === "signed-mask-reply";
  return { name, bytes: message.length, vector: hasVector ? message.slice(-vectorBytes) : null };
}
