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

/**
 * Return the 32 bits of a number as dots, the highest first.
 *
 * @param {number} word
 * @returns {number[]}
 */
export function bitsOf(word) {
  return Array.from({ length: 32 }, (_, bit) => ((word >>> (31 - bit)) & 1 ? 255 : 0));
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

/**
 * Show the words of a masked vector, or of a sum of such, as a picture.
 *
 * @param {HTMLCanvasElement} canvas
 * @param {Uint32Array | Uint16Array} words
 */
export function paintWords(canvas, words) {
  const isNumber = words instanceof Uint32Array;
  [canvas.width, canvas.height] = isNumber ? [8, 4] : [28, 28];
  canvas.classList.toggle("bits", isNumber);
  paint(canvas, isNumber ? bitsOf(words[0] ?? 0) : greyOf(words));
}
