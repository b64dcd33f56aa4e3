/** The way to the lobby: who is here, and which round is on. The ticket of this tab outlives a reload, not the tab. */

/**
 * @typedef {object} Play
 * @property {number} number
 * @property {"preparing" | "running" | "over"} phase
 * @property {string[]} names
 * @property {boolean[]} gone
 * @property {boolean[]} answered
 * @property {{ step: string, asked: number, answered: number } | null} step
 * @property {{ kind: "sum" } | { kind: "lost", reason: string } | null} outcome
 * @property {number[]} vectors
 * @property {number | null} client
 * @property {string | null} token
 * @property {string | null} charter
 *
 * @typedef {object} Told
 * @property {string} ticket
 * @property {"curious" | "active"} guard
 * @property {number} least
 * @property {number} pace
 * @property {string} name
 * @property {boolean} ready
 * @property {{ name: string, ready: boolean, you: boolean }[]} people
 * @property {number | null} starts_in
 * @property {Play | null} play
 *
 * @typedef {"number" | "drawing"} Topic
 */

const PAUSE_MS = 500;

/** One tab in the lobby. */
export class Lobby {
  /** @param {(told: Told) => void} tell @param {() => void} away Is called when the server does not answer. */
  constructor(tell, away) {
    this.tell = tell;
    this.away = away;
    /** @type {Topic} */
    this.topic = "number";
    this.ticket = "";
    addEventListener("pagehide", () => this.#leave());
    addEventListener("pageshow", (event) => event.persisted && location.reload());
    this.#comeBack();
  }

  /** A tab that was duplicated has this one's storage, but has not left: it gets a ticket of its own. */
  #comeBack() {
    const kept = sessionStorage.getItem("left");
    sessionStorage.removeItem("left");
    if (kept !== null) {
      const [topic, ticket] = kept.split(" ");
      this.topic = topic === "drawing" ? "drawing" : "number";
      this.ticket = ticket ?? "";
    }
  }

  #leave() {
    sessionStorage.setItem("left", `${this.topic} ${this.ticket}`);
    navigator.sendBeacon(`/lobby/${this.topic}/leave`, this.ticket);
  }

  /** Go to another room. @param {Topic} topic */
  change(topic) {
    navigator.sendBeacon(`/lobby/${this.topic}/leave`, this.ticket);
    [this.topic, this.ticket] = [topic, ""];
    return this.ask();
  }

  /** Press the button, or take it back. @param {boolean} ready @param {string} key */
  press(ready, key) {
    return this.ask({ ready, key });
  }

  /** Ask what there is to know. @param {object} more */
  async ask(more = {}) {
    const { topic } = this;
    const body = JSON.stringify({ ticket: this.ticket, ...more });
    try {
      const response = await fetch(`/lobby/${topic}`, { method: "POST", body, cache: "no-store" });
      if (!response.ok) {
        throw new Error(`${response.status}`);
      }
      const told = /** @type {Told} */ (await response.json());
      if (topic === this.topic) {
        this.ticket = told.ticket;
        this.tell(told);
      }
    } catch {
      this.away();
    }
  }

  /** Ask again and again. */
  async follow() {
    for (;;) {
      await this.ask();
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
}
