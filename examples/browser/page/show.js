/** What the page shows: who is in the round, its steps, what has left, and the result. */

import { webEngine } from "ccesa";
import { paint, paintWords, wordsOf } from "./pictures.js";
import { counted, hexOf, inFigures, listed, MESSAGES, STEPS } from "./words.js";

/** @typedef {import("./lobby.js").Told} Told @typedef {import("./lobby.js").Play} Play */

/** Return what has this id. @param {string} id @returns {any} */
export const at = (id) => document.getElementById(id);

/** @param {Told} told */
export function renderPeople(told) {
  const { play } = told;
  const playing = play !== null && play.phase !== "over";
  const people = playing
    ? play.names.map((name, client) => ({ name, you: client === play.client, mark: markOf(play, client) }))
    : told.people.map(({ name, you, ready }) => ({ name, you, mark: ready ? "ready" : "here" }));
  const others = playing ? told.people.filter(({ name }) => !play.names.includes(name)) : [];
  const all = [...people, ...others.map(({ name, you }) => ({ name, you, mark: "next round" }))];
  at("people").replaceChildren(...all.map(chip));
}

/** @param {Play} play @param {number} client */
function markOf(play, client) {
  if (play.gone[client]) {
    return play.vectors.includes(client) ? "left, but its value is in" : "left";
  }
  return play.vectors.includes(client) ? "masked value sent" : play.answered[client] ? "answered" : "at work";
}

/** @param {{ name: string, you: boolean, mark: string }} person */
function chip({ name, you, mark }) {
  const item = document.createElement("li");
  item.className = `chip ${mark.split(/[ ,]/)[0]}`;
  item.append(element("strong", you ? `${name} (you)` : name), element("span", mark));
  return item;
}

/** @param {string} kind @param {string} text */
function element(kind, text, name = "") {
  const made = document.createElement(kind);
  made.textContent = text;
  made.className = name;
  return made;
}

/** @param {Told} told */
export function renderSteps(told) {
  const { play } = told;
  const steps = STEPS.filter((step) => !step.active || told.guard === "active");
  const over = play?.phase === "over";
  const now = play === null || over ? -1 : steps.findIndex((step) => step.name === play.step?.step);
  const done = over && play?.outcome?.kind === "sum" ? steps.length : now;
  const list = at("steps");
  if (list.children.length !== steps.length) {
    list.replaceChildren(
      ...steps.map(({ title, text }) => {
        const item = document.createElement("li");
        item.append(element("h3", title), element("p", text), element("p", "", "count"));
        return item;
      }),
    );
  }
  steps.forEach((_, place) => {
    const item = list.children[place];
    item.className = place < done ? "done" : place === now ? "now" : "";
    place === now ? item.setAttribute("aria-current", "step") : item.removeAttribute("aria-current");
    item.lastChild.textContent = place === now ? `${play?.step?.answered} of ${play?.step?.asked} devices` : "";
  });
  at("round-number").textContent = play === null ? "" : `round ${play.number}`;
}

/**
 * Show every message that has left, and the masked vector.
 *
 * @param {readonly import("./taking.js").Left[]} left @param {import("./lobby.js").Topic} topic
 */
export function renderLeft(left, topic) {
  const all = left.reduce((sum, one) => sum + one.bytes, 0);
  at("messages").hidden = left.length === 0;
  at("messages-size").textContent = `${inFigures(all)} bytes`;
  at("message-list").replaceChildren(
    ...left.map((one) => element("li", `${inFigures(one.bytes)} bytes: ${MESSAGES[one.name] ?? one.name}`)),
  );
  const vector = left.find((one) => one.vector !== null)?.vector ?? null;
  at("nothing").hidden = vector !== null;
  at("left").hidden = vector === null;
  if (vector !== null) {
    const words = wordsOf(vector, topic);
    paintWords(at("masked"), words);
    at("leaves-size").textContent = counted(vector.length, "byte", "bytes");
    at("masked-text").textContent =
      topic === "number"
        ? `the same 32 bits with their masks: ${inFigures(words[0] ?? 0)}`
        : "the same 784 dots under their masks";
    at("hex").textContent = hexOf(vector);
  } else {
    at("leaves-size").textContent = "";
  }
}

/**
 * Show the average, over whom, and what became of the others.
 *
 * @param {import("ccesa").Result} result @param {Play} play
 * @param {import("./lobby.js").Topic} topic @param {Uint32Array | Uint16Array} own
 */
export function renderResult({ survivors, value }, play, topic, own) {
  const people = survivors.length;
  const sum = value.type === "words" ? Array.from(/** @type {ArrayLike<number>} */ (value.words)) : [];
  const [isNumber, isIn] = [topic === "number", play.client !== null && survivors.includes(play.client)];
  at("result").hidden = false;
  /** @type {any} */ (document.querySelector(".of-result-number")).hidden = !isNumber;
  /** @type {any} */ (document.querySelector(".of-result-drawing")).hidden = isNumber;
  if (isNumber) {
    at("average-number").textContent = inFigures((sum[0] ?? 0) / people);
    at("result-text").textContent =
      `is the average of ${people} people. Their sum is ${inFigures(sum[0] ?? 0)}. Your ${inFigures(own[0] ?? 0)} is ${isIn ? "in it, and nobody can see it there" : "not in it"}.`;
  } else {
    paint(
      at("average"),
      sum.map((word) => word / people),
    );
    at("average-text").textContent = `the average of ${people} drawings`;
    at("result-text").textContent =
      `${people} drawings are in this picture, ${isIn ? "yours too" : "but not yours"}. Nobody has seen anyone else's drawing.`;
  }
  const names = (/** @type {(client: number) => boolean} */ which) => play.names.filter((_, client) => which(client));
  const missing = names((client) => !survivors.includes(client));
  const stayed = names((client) => survivors.includes(client) && play.gone[client] === true);
  const notes = [
    missing.length > 0 && `${listed(missing)} left before a value was sent. The others still got their sum.`,
    stayed.length > 0 &&
      `${listed(stayed)} left after the masked value was sent. It is in the sum: the others had the pieces that remove its masks.`,
    `In: ${listed(names((client) => survivors.includes(client)))}.`,
  ];
  at("result-notes").replaceChildren(...notes.filter((one) => one !== false).map((one) => element("li", String(one))));
  at("others").textContent =
    `${people} people are in this sum. If the other ${people - 1} work together, they can subtract their values and learn yours.`;
  at("result").scrollIntoView({ behavior: "smooth", block: "nearest" });
}

/** Say which cryptography this page runs on. */
export async function renderEngine() {
  at("engine").textContent = (await hasWebCrypto())
    ? "Cryptography: WebCrypto, your browser's own."
    : "Cryptography: @noble, a library in JavaScript. Browsers offer their own only to pages over https.";
  at("plain-http").hidden = isSecureContext;
}

async function hasWebCrypto() {
  try {
    await webEngine().x25519PublicKey(new Uint8Array(32));
    return true;
  } catch {
    return false;
  }
}
