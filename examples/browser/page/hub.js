/** What the hub has of the latest round. */

import { paint, paintWords, wordsOf } from "./pictures.js";
import { counted, inFigures } from "./words.js";

/** @typedef {"number" | "drawing"} Topic */

/** @param {string} id @returns {any} */
const at = (id) => document.getElementById(id);
/** @type {Topic} */
let topic = "number";
let shown = "";

/** @param {string} text */
function bytesIn(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** @param {any} seen */
function render(seen) {
  at("sums").hidden = seen.round === null || seen.vectors.length === 0;
  if (seen.round === null) {
    at("title").textContent = "No round yet";
    at("says").textContent = "Waiting for a round.";
    at("arrived").replaceChildren();
    return;
  }
  at("title").textContent = `Round ${seen.round}`;
  at("says").textContent = saying(seen);
  const vectors = seen.vectors.map((/** @type {any} */ one) => ({
    name: seen.names[one.client],
    words: wordsOf(bytesIn(one.words), topic),
  }));
  if (at("arrived").children.length !== vectors.length) {
    at("arrived").replaceChildren(...vectors.map(card));
  }
  if (vectors.length > 0) {
    renderSums(seen, vectors);
  }
}

/** @param {any} seen */
function saying({ outcome, step, vectors, names }) {
  if (outcome?.kind === "lost") {
    return `Over without a sum: ${outcome.reason}.`;
  }
  if (outcome !== null) {
    return `Over. ${counted(vectors.length, "value has", "values have")} come in, and none can be read.`;
  }
  const missing = names.length - vectors.length;
  return step === null
    ? "Waiting for everyone's device."
    : `Step: ${step.step}. ${counted(missing, "value is", "values are")} still to come.`;
}

/** @param {{ name: string, words: Uint32Array | Uint16Array }} one */
function card({ name, words }) {
  const item = document.createElement("li");
  const figure = document.createElement("figure");
  const [canvas, caption] = [document.createElement("canvas"), document.createElement("figcaption")];
  canvas.className = "picture";
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `The masked value from ${name}: noise`);
  paintWords(canvas, words);
  caption.textContent = words instanceof Uint32Array ? `${name}: ${inFigures(words[0] ?? 0)}` : name;
  figure.append(canvas, caption);
  item.append(figure);
  return item;
}

/** @param {any} seen @param {{ words: Uint32Array | Uint16Array }[]} vectors */
function renderSums(seen, vectors) {
  const first = /** @type {{ words: Uint32Array | Uint16Array }} */ (vectors[0]).words;
  const total = first.slice();
  vectors.slice(1).forEach(({ words }) => words.forEach((word, place) => (total[place] = (total[place] ?? 0) + word)));
  paintWords(at("running"), total);
  const isNumber = total instanceof Uint32Array;
  at("running-text").textContent =
    `the sum of ${counted(vectors.length, "masked value", "masked values")}${isNumber ? `: ${inFigures(total[0] ?? 0)}` : ""}`;
  const { result } = seen;
  at("sum").parentElement.hidden = result === null;
  if (result !== null) {
    const words = wordsOf(bytesIn(result.value.words), topic);
    const people = result.survivors.length;
    paintWords(at("sum"), words);
    if (!isNumber) {
      paint(
        at("sum"),
        Array.from(words, (word) => word / people),
      );
    }
    at("sum-text").textContent = isNumber
      ? `without masks: the sum of ${people} people, ${inFigures(words[0] ?? 0)}`
      : `without masks: the average of ${people} drawings`;
  }
}

async function follow() {
  for (;;) {
    const response = await fetch(`/lobby/${topic}/seen`, { cache: "no-store" }).catch(() => null);
    const text = response?.ok ? await response.text() : shown;
    if (text !== shown && text !== "") {
      shown = text;
      render(JSON.parse(text));
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

at("topics").addEventListener("change", (/** @type {any} */ event) => {
  topic = event.target.value;
  at("arrived").replaceChildren();
});
void follow();
