/** A pad of 28 by 28 dots to draw a digit on, with a finger, a mouse or the keyboard. */

import { paint } from "./pictures.js";

const SIDE = 28;
const PEN = 1.5;

/** Strokes of digits, in tenths of the pad: good enough to be recognised. @type {readonly (readonly [number, number][])[][]} */
const DIGITS = [
  [
    [
      [5, 2],
      [3, 3],
      [2.6, 5],
      [3, 7],
      [5, 8],
      [7, 7],
      [7.4, 5],
      [7, 3],
      [5, 2],
    ],
  ],
  [
    [
      [3.6, 3.4],
      [5.4, 2],
      [5.4, 8],
    ],
  ],
  [
    [
      [3, 3.4],
      [4.2, 2.1],
      [6, 2.2],
      [6.8, 3.6],
      [5.8, 5.2],
      [3, 8],
      [7.2, 8],
    ],
  ],
  [
    [
      [3.2, 2.6],
      [5, 2],
      [6.6, 3],
      [6.2, 4.4],
      [4.8, 5],
      [6.6, 5.8],
      [6.8, 7.2],
      [5, 8],
      [3.1, 7.3],
    ],
  ],
  [
    [
      [6.2, 8],
      [6.2, 2],
      [2.8, 6.2],
      [7.4, 6.2],
    ],
  ],
  [
    [
      [6.8, 2],
      [3.6, 2],
      [3.3, 4.8],
      [5.4, 4.4],
      [6.9, 5.7],
      [6.4, 7.4],
      [4.7, 8],
      [3, 7.2],
    ],
  ],
  [
    [
      [6.2, 2],
      [4, 3.8],
      [3.1, 6.2],
      [4, 7.8],
      [6, 7.8],
      [6.8, 6.2],
      [5.6, 5],
      [3.4, 5.7],
    ],
  ],
  [
    [
      [3, 2],
      [7.1, 2],
      [4.6, 8],
    ],
  ],
  [
    [
      [5, 5],
      [3.4, 4],
      [3.8, 2.4],
      [5, 2],
      [6.3, 2.4],
      [6.6, 4],
      [5, 5],
      [3.2, 6.3],
      [3.6, 7.6],
      [5, 8],
      [6.4, 7.6],
      [6.9, 6.3],
      [5, 5],
    ],
  ],
  [
    [
      [6.6, 4.2],
      [5, 5.2],
      [3.5, 4.4],
      [3.6, 2.7],
      [5, 2],
      [6.5, 2.8],
      [6.6, 4.2],
      [6.1, 8],
    ],
  ],
];

/** Where people draw. */
export class Pad {
  /** @param {HTMLCanvasElement} canvas @param {() => void} changed Is called whenever the drawing has changed. */
  constructor(canvas, changed) {
    this.canvas = canvas;
    this.changed = changed;
    this.grey = new Uint8ClampedArray(SIDE * SIDE);
    this.locked = false;
    this.cursor = [14, 14];
    /** @type {[number, number] | null} */
    this.last = null;
    canvas.addEventListener("pointerdown", (event) => this.#begin(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    for (const end of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(end, () => (this.last = null));
    }
    canvas.addEventListener("keydown", (event) => this.#key(event));
    canvas.addEventListener("blur", () => this.#show());
    this.#show();
  }

  /** Whether there is nothing on it. */
  get empty() {
    return this.grey.every((value) => value === 0);
  }

  /** Begin anew. */
  clear() {
    this.grey.fill(0);
    this.#show();
    this.changed();
  }

  /** Draw a digit, never twice the same. */
  scribble() {
    this.grey.fill(0);
    const [lean, dx, dy] = [Math.random() * 0.4 - 0.2, Math.random() * 2 - 1, Math.random() * 2 - 1];
    for (const stroke of DIGITS[Math.floor(Math.random() * DIGITS.length)] ?? []) {
      const points = stroke.map(([x, y]) => [2.8 * x + dx + lean * (14 - 2.8 * y), 2.8 * y + dy]);
      points.slice(1).forEach((to, at) => this.#line(/** @type {any} */ (points[at]), /** @type {any} */ (to)));
    }
    this.#show();
    this.changed();
  }

  /** @param {PointerEvent} event */
  #begin(event) {
    event.preventDefault();
    this.canvas.focus();
    this.canvas.setPointerCapture(event.pointerId);
    this.last = this.#at(event);
    this.#draw(this.last, this.last);
  }

  /** @param {PointerEvent} event */
  #move(event) {
    for (const one of this.last === null ? [] : [...(event.getCoalescedEvents?.() ?? []), event]) {
      const to = this.#at(one);
      this.#draw(this.last ?? to, to);
      this.last = to;
    }
  }

  /** @param {PointerEvent} event @returns {[number, number]} */
  #at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * SIDE, ((event.clientY - box.top) / box.height) * SIDE];
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const move = moves[/** @type {keyof typeof moves} */ (event.key)];
    const [x = 0, y = 0] = this.cursor;
    if (move !== undefined) {
      const inside = (/** @type {number} */ at) => Math.min(SIDE - 1, Math.max(0, at));
      this.cursor = [inside(x + (move[0] ?? 0)), inside(y + (move[1] ?? 0))];
      this.#show();
    } else if (event.key === " ") {
      this.#draw([x + 0.5, y + 0.5], [x + 0.5, y + 0.5]);
    } else if (event.key === "Delete" || event.key === "Backspace") {
      this.clear();
    } else {
      return;
    }
    event.preventDefault();
  }

  /** @param {[number, number]} from @param {[number, number]} to */
  #draw(from, to) {
    if (!this.locked) {
      this.#line(from, to);
      this.#show();
      this.changed();
    }
  }

  /** @param {[number, number]} from @param {[number, number]} to */
  #line([x0, y0], [x1, y1]) {
    const steps = Math.max(1, Math.ceil(2 * Math.hypot(x1 - x0, y1 - y0)));
    for (let step = 0; step <= steps; step++) {
      this.#dot(x0 + ((x1 - x0) * step) / steps, y0 + ((y1 - y0) * step) / steps);
    }
  }

  /** @param {number} x @param {number} y */
  #dot(x, y) {
    for (let row = 0; row < SIDE; row++) {
      for (let column = 0; column < SIDE; column++) {
        const near = PEN + 0.5 - Math.hypot(column + 0.5 - x, row + 0.5 - y);
        const at = SIDE * row + column;
        this.grey[at] = Math.max(this.grey[at] ?? 0, 255 * Math.min(1, Math.max(0, near)));
      }
    }
  }

  #show() {
    paint(this.canvas, this.grey);
    if (document.activeElement === this.canvas && this.canvas.matches(":focus-visible")) {
      const pen = /** @type {CanvasRenderingContext2D} */ (this.canvas.getContext("2d"));
      const [x = 0, y = 0] = this.cursor;
      pen.fillStyle = "#6cc5bb";
      pen.fillRect(x, y, 1, 1);
    }
  }
}
