/** Pictures of words: grey dots, one for each word or for each bit. */

/**
 * Paint grey dots, row by row.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {ArrayLike<number>} grey 0 is black, 255 white.
 */
export function paint(canvas, grey) {
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = pen.createImageData(canvas.width, canvas.height);
  for (let at = 0; at < canvas.width * canvas.height; at++) {
    const value = grey[at] ?? 0;
    image.data.set([value, value, value, 255], 4 * at);
  }
  pen.putImageData(image, 0, 0);
}

const [CELL, GAP] = [20, 3];

/**
 * Paint the 32 bits of a number, the highest first: lit where they are 1.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {number} word
 * @param {string} colour
 */
export function paintBits(canvas, word, colour) {
  [canvas.width, canvas.height] = [8 * CELL, 4 * CELL];
  canvas.classList.add("bits");
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  for (let bit = 0; bit < 32; bit++) {
    pen.fillStyle = (word >>> (31 - bit)) & 1 ? colour : "#2b323b";
    pen.fillRect((bit % 8) * CELL + GAP, Math.floor(bit / 8) * CELL + GAP, CELL - 2 * GAP, CELL - 2 * GAP);
  }
}

/**
 * Return words of 16 bits as grey dots, from black for 0 to white for all bits set.
 *
 * @param {Uint16Array} words
 * @returns {number[]}
 */
export function greyOf(words) {
  return Array.from(words, (word) => word >>> 8);
}

/**
 * Return the words of a vector: of 32 bits for a number, of 16 for a drawing.
 *
 * @param {Uint8Array} bytes
 * @param {"number" | "drawing"} topic
 * @returns {Uint32Array | Uint16Array}
 */
export function wordsOf(bytes, topic) {
  const { buffer } = bytes.slice();
  return topic === "number" ? new Uint32Array(buffer) : new Uint16Array(buffer);
}

/** The colours of what is one's own, and of what everyone may see. */
export const [OWN, OPEN] = ["#e3b866", "#6cc5bb"];

/**
 * Show the words of a masked vector, or of a sum, as a picture.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {Uint32Array | Uint16Array} words
 */
export function paintWords(canvas, words) {
  if (words instanceof Uint32Array) {
    paintBits(canvas, words[0] ?? 0, OPEN);
    return;
  }
  [canvas.width, canvas.height] = [28, 28];
  canvas.classList.remove("bits");
  paint(canvas, greyOf(words));
}
