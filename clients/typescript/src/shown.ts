/** Text of others, for people: nothing in it can break out of a line, or change how the rest of it is seen. */

/** Return what somebody else wrote as one short line of printable ASCII. */
export function shown(text: unknown, most = 200): string {
  const line = written(text)
    .slice(0, most + 1)
    .replace(/[^\x20-\x7e]+/g, "?");
  return line.length > most ? `${line.slice(0, most)}...` : line;
}

/** A value that others throw may throw again when it is inspected. */
function written(text: unknown): string {
  try {
    return String(text);
  } catch {
    return "something that cannot be shown";
  }
}
