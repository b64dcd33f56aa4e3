/** Words for people. */

/** The steps of a round, by the hub's names. */
export const STEPS = [
  {
    name: "advertise",
    title: "Keys",
    text: "Every device makes new keys for this round and publishes the public half.",
  },
  {
    name: "share",
    title: "Pieces",
    text: "It splits the secrets behind its masks into pieces and seals one for each other device.",
  },
  { name: "accept", title: "Check", text: "Every device checks the pieces that it received." },
  {
    name: "mask",
    title: "Mask",
    text: "The device masks your value and sends it. To everyone else it looks like noise.",
  },
  {
    name: "confirm",
    title: "Sign",
    text: "Every device signs the list of people in the sum, so that the server cannot show different lists.",
    active: true,
  },
  {
    name: "unmask",
    title: "Unmask",
    text: "The devices send only the pieces that remove the masks from the sum.",
  },
];

/** What each message has, by its name. @type {Readonly<Record<string, string>>} */
export const MESSAGES = {
  "advertise-reply": "public keys",
  "signed-advertise-reply": "public keys, signed",
  "share-reply": "sealed pieces for the others",
  "accept-reply": "which pieces were good",
  "mask-reply": "your value, masked",
  "signed-mask-reply": "your value, masked and signed",
  "confirm-reply": "a signature over who is in it",
  "unmask-reply": "pieces that open the sum",
};

/**
 * Return a number for people, with at most two places.
 *
 * @param {number} value
 */
export function inFigures(value) {
  return value.toLocaleString("en", { maximumFractionDigits: 2 });
}

/**
 * Return names as in "a, b and c".
 *
 * @param {readonly string[]} names
 */
export function listed(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

/**
 * Return so many of something.
 *
 * @param {number} count @param {string} one @param {string} several
 */
export function counted(count, one, several) {
  return `${inFigures(count)} ${count === 1 ? one : several}`;
}

/**
 * Return bytes as words that can be read aloud, two bytes in each.
 *
 * @param {Uint8Array} bytes
 */
export function spoken(bytes) {
  const [consonants, vowels] = ["bdfghjklmnprstvz", "aiou"];
  return Array.from({ length: bytes.length / 2 }, (_, place) => {
    const value = (bytes[2 * place] ?? 0) * 256 + (bytes[2 * place + 1] ?? 0);
    const letter = (/** @type {string} */ letters, /** @type {number} */ shift) =>
      letters[(value >> shift) % letters.length];
    return [
      letter(consonants, 12),
      letter(vowels, 10),
      letter(consonants, 6),
      letter(vowels, 4),
      letter(consonants, 0),
    ].join("");
  }).join(" ");
}

/**
 * Return bytes in hexadecimal, with spaces between them.
 *
 * @param {Uint8Array} bytes
 */
export function hexOf(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(" ");
}
