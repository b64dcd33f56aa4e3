/** The page: one person, one device. */

import { generateIdentity, parseCharter, systemEngine } from "ccesa";
import { Lobby } from "./lobby.js";
import { Pad } from "./pad.js";
import { OWN, paintBits } from "./pictures.js";
import { at, renderEngine, renderLeft, renderPeople, renderResult, renderSteps } from "./show.js";
import { LEAST, takePart } from "./taking.js";
import { counted, spoken } from "./words.js";

/** @typedef {import("./lobby.js").Told} Told @typedef {import("./lobby.js").Play} Play */

const MOST = 1_000_000;
const AWAY = "The server does not answer. Is the demo still running?";

/** What this tab knows. @type {any} */
const state = {
  /** @type {Told | null} */ told: null,
  /** The number of the round that this tab is in, and of the one it was in before it was reloaded. */
  mine: 0,
  before: Number(sessionStorage.getItem("round") ?? 0),
  /** @type {Uint32Array | Uint16Array | null} */ vector: null,
  /** @type {import("./taking.js").Left[]} */ left: [],
  identity: null,
  says: "",
  away: false,
  leavesAt: 0,
  out: "",
  shown: 0,
  /** @type {(() => void) | null} */ agree: null,
};

const pad = new Pad(at("pad"), () => renderButton());
const lobby = new Lobby(heard, () => {
  state.away = true;
  say(AWAY);
});

// ---- What stays here

/** @returns {number | null} */
function numberGiven() {
  const text = at("number").value.replace(/[\s,.'_]/g, "");
  return /^[0-9]{1,7}$/.test(text) && Number(text) <= MOST ? Number(text) : null;
}

/** Return what would be added up, or null where there is nothing yet. */
function vectorGiven() {
  if (lobby.topic === "drawing") {
    return pad.empty ? null : Uint16Array.from(pad.grey);
  }
  const number = numberGiven();
  return number === null ? null : Uint32Array.of(number);
}

function renderNumber() {
  const number = numberGiven();
  const wrong = at("number").value !== "" && number === null;
  at("number-wrong").textContent = wrong ? "Enter a whole number from 0 to 1,000,000." : "";
  at("number").setAttribute("aria-invalid", String(wrong));
  paintBits(at("plain-bits"), number ?? 0, OWN);
  renderButton();
}

function renderTopic() {
  for (const topic of ["number", "drawing"]) {
    document.querySelectorAll(`.of-${topic}`).forEach((part) => {
      part.toggleAttribute("hidden", topic !== lobby.topic);
    });
  }
  /** @type {any} */ (document.querySelector(`input[value=${lobby.topic}]`)).checked = true;
  renderButton();
}

// ---- The button

function inRound() {
  const play = state.told?.play;
  return play !== undefined && play !== null && play.client !== null && play.phase !== "over";
}

function renderButton() {
  const { told } = state;
  const [waits, playing] = [told?.ready === true, inRound()];
  const button = at("press");
  button.disabled = told === null || playing || (!waits && vectorGiven() === null);
  button.textContent = playing
    ? "In the round"
    : waits
      ? "Not ready: undo"
      : state.shown > 0
        ? "Play again"
        : "Take part";
  button.classList.toggle("main", !waits);
  pad.locked = at("number").disabled = at("clear").disabled = at("scribble").disabled = waits || playing;
  at("topics").disabled = waits || playing;
}

async function press(/** @type {Event} */ event) {
  event.preventDefault();
  const { told } = state;
  if (told === null || at("press").disabled) {
    return;
  }
  const ready = !told.ready;
  state.vector = ready ? vectorGiven() : null;
  state.identity = ready && told.guard === "active" ? await generateIdentity(await systemEngine()) : null;
  await lobby.press(ready, state.identity === null ? "" : btoa(String.fromCharCode(...state.identity.publicKey)));
}

// ---- What the lobby says

/** @param {Told} told */
function heard(told) {
  Object.assign(state, { told, away: false });
  const { play } = told;
  at("you").textContent = `You are ${told.name}`;
  at("guard-curious").hidden = told.guard === "active";
  at("guard-active").hidden = told.guard !== "active";
  if (told.ready && state.vector === null) {
    void lobby.press(false, ""); // this tab was reloaded, and has forgotten what it gave
  }
  if (
    play !== null &&
    play.client !== null &&
    play.phase === "running" &&
    state.mine !== play.number &&
    isReachable(play)
  ) {
    begin(play);
  }
  render();
}

/** @param {Play} play */
function isReachable(play) {
  return play.token !== null || play.charter !== null;
}

/** @param {Play} play */
function begin(play) {
  state.mine = play.number;
  if (state.vector === null || state.before === play.number) {
    state.out =
      "This tab was reloaded in the middle of the round. Its keys are gone, so it cannot take part in this one.";
    return;
  }
  sessionStorage.setItem("round", String(play.number));
  Object.assign(state, { left: [], out: "", leavesAt: 0 });
  renderLeft(state.left, lobby.topic);
  at("result").hidden = true;
  const vector = state.vector;
  state.vector = null;
  takeIn(play, vector).catch((error) => {
    state.out = `This device is out of the round: ${error.message}`;
    render();
  });
}

/** @param {Play} play @param {Uint32Array | Uint16Array} vector */
async function takeIn(play, vector) {
  const charter = play.charter === null ? undefined : await agreed(play.charter);
  const { topic } = lobby;
  const { result } = await takePart({
    play,
    topic,
    charter,
    identity: state.identity,
    contribute: async () => {
      const seconds = state.told.pace * (0.5 + Math.random());
      state.leavesAt = performance.now() + 1000 * seconds;
      render();
      await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
      return vector;
    },
    left: (left) => {
      state.left.push(left);
      renderLeft(state.left, topic);
    },
    out: (reason) => {
      state.out = `This device is out of the round: ${reason}`;
      render();
    },
  });
  if ((await outcomeOf(play.number))?.kind === "sum") {
    renderResult(await result(), asOf(play), topic, vector);
  }
  state.shown = play.number;
  render();
}

/** Return what the lobby knows of a round by now. @param {Play} play @returns {Play} */
function asOf(play) {
  return state.told.play?.number === play.number ? state.told.play : play;
}

/** Wait until the lobby knows how a round ended. @param {number} number @returns {Promise<Play["outcome"]>} */
async function outcomeOf(number) {
  for (;;) {
    const play = state.told.play;
    if (play === null || play.number !== number || play.outcome !== null) {
      return play?.number === number ? play.outcome : null;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Show the words of a charter, and wait until somebody has compared them. @param {string} text */
async function agreed(text) {
  const charter = await parseCharter(text, await systemEngine());
  if (charter.minSurvivors < LEAST || (charter.leastRoster ?? LEAST) < LEAST) {
    throw new Error("its rules allow a sum over fewer than three people");
  }
  at("charter-words").textContent = spoken(charter.digest.subarray(0, 16));
  at("compare").hidden = false;
  await new Promise((resolve) => (state.agree = () => resolve(undefined)));
  at("compare").hidden = true;
  state.agree = null;
  return charter;
}

// ---- What is shown

/** @param {string} text */
function say(text) {
  if (text !== state.says) {
    state.says = at("says").textContent = text;
  }
}

function render() {
  const { told } = state;
  say(state.away ? AWAY : saying(told));
  renderButton();
  renderPeople(told);
  renderSteps(told);
}

/** @param {Told} told */
function saying(told) {
  const { play } = told;
  if (play !== null && play.phase !== "over") {
    return play.client === null
      ? "A round without you is running. The next one begins when it is over."
      : sayingIn(play);
  }
  const ready = told.people.filter((one) => one.ready).length;
  if (told.starts_in !== null) {
    return `${counted(ready, "person is", "people are")} ready. The round begins in ${Math.ceil(told.starts_in)} s.`;
  }
  const missing = Math.max(1, told.least - ready);
  if (play !== null && !told.ready && ready === 0) {
    return endOf(play);
  }
  const waits = `${told.ready ? "You are in. Waiting" : "A round waits"} for ${counted(missing, "more person", "more people")} to press the button: a sum needs three people.`;
  const open = told.people.length < told.least ? " Open this page in another tab, or on a phone." : "";
  return waits + open;
}

/** @param {Play} play */
function endOf(play) {
  return play.outcome?.kind === "lost"
    ? `Round ${play.number} ended without a sum: ${play.outcome.reason}. No masks were removed. Try again?`
    : `Round ${play.number} is over. ${play.client === null ? "Join the next one!" : "Play again with the same value or another one?"}`;
}

/** @param {Play} play */
function sayingIn(play) {
  if (state.out !== "") {
    return state.out;
  }
  if (play.phase === "preparing") {
    return "The round begins. The hub is starting.";
  }
  if (state.agree !== null) {
    return "Compare the words before the round begins.";
  }
  const wait = (state.leavesAt - performance.now()) / 1000;
  if (wait > 0) {
    return `Your value leaves in ${Math.ceil(wait)} s. A good moment to close one of the tabs.`;
  }
  if (state.left.some((/** @type {any} */ one) => one.vector !== null)) {
    return "Your masked value was sent. If you close this tab now, it is still in the sum.";
  }
  return play.step === null ? "Waiting for everyone's device." : "The devices prepare their masks.";
}

// ---- Begin

at("give").addEventListener("submit", press);
at("number").addEventListener("input", renderNumber);
at("clear").addEventListener("click", () => pad.clear());
at("scribble").addEventListener("click", () => pad.scribble());
at("same").addEventListener("click", () => state.agree?.());
at("topics").addEventListener("change", (/** @type {any} */ event) => {
  void lobby.change(event.target.value);
  Object.assign(state, { left: [], shown: 0 });
  at("result").hidden = true;
  renderLeft(state.left, lobby.topic);
  renderTopic();
});
setInterval(() => state.told !== null && inRound() && render(), 250);
renderTopic();
renderNumber();
void renderEngine();
void lobby.follow();
