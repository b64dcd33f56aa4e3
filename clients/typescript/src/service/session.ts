/** A session of a member: it signs the hub's challenge together with the charter and with the origin it talks to. */

import { ascii, type Bytes } from "../bytes.js";
import { toBase64 } from "../charter/base64.js";
import type { Identity } from "../crypto/signatures.js";
import { ConfigError, FaultyServer } from "../errors.js";
import { labelled } from "../labels.js";
import { type Answer, fieldsOf, fromBase64, inWords, problemOf, textOf } from "./answers.js";
import type { Line } from "./line.js";

const SHORTEST_CHALLENGE = 16;
const LONGEST_CHALLENGE = 1024;
const TOKEN = /^[\x21-\x7e]{1,4096}$/;

/** Tell whether a header can have the token. */
export function isToken(token: unknown): token is string {
  return typeof token === "string" && TOKEN.test(token);
}

/**
 * Return the token of a new session.
 *
 * @param charter - The digest of the member's own charter.
 * @throws ConfigError when the hub does not let the member in, FaultyServer for an invalid challenge or token.
 */
export async function openSession(line: Line, charter: Bytes, identity: Identity): Promise<string> {
  let answer = await answered(line, charter, identity);
  if (answer.status === 401) {
    // The answer to the first may have been lost on the way, and a challenge works once.
    answer = await answered(line, charter, identity);
  }
  if (answer.status === 401) {
    throw new ConfigError(`the hub refused this member (${inWords(answer)})`);
  }
  if (answer.status !== 201) {
    throw new FaultyServer(`the hub did not open a session (${inWords(answer)})`);
  }
  const { token } = fieldsOf(answer.body);
  if (!isToken(token)) {
    throw new FaultyServer("the hub's session token contains characters not allowed in a header");
  }
  return token;
}

/** Return what a member signs to be given a session. */
export function sessionText(charter: Bytes, origin: string, challenge: Bytes): Bytes {
  return labelled("serviceSession", charter, ascii(origin), challenge);
}

async function answered(line: Line, charter: Bytes, identity: Identity): Promise<Answer> {
  const challenge = await challengeOf(line);
  const text = sessionText(charter, line.origin, challenge);
  const said = {
    key: toBase64(identity.publicKey),
    challenge: toBase64(challenge),
    origin: line.origin,
    signature: toBase64(await identity.sign(text)),
  };
  return line.call({
    method: "POST",
    path: "/v1/sessions",
    headers: { "Content-Type": "application/json" },
    body: ascii(JSON.stringify(said)),
    open: true,
  });
}

async function challengeOf(line: Line): Promise<Bytes> {
  const answer = await line.call({ method: "GET", path: "/v1/challenge", open: true });
  if (answer.status !== 200) {
    const none = problemOf(answer).name === "not-found" ? ": it has no charter" : "";
    throw new FaultyServer(`the hub did not send a challenge (${inWords(answer)})${none}`);
  }
  const challenge = fromBase64(textOf(fieldsOf(answer.body), "challenge"), LONGEST_CHALLENGE);
  if (challenge.length < SHORTEST_CHALLENGE) {
    throw new FaultyServer(
      `the hub's challenge must have at least ${SHORTEST_CHALLENGE} bytes, got ${challenge.length}`,
    );
  }
  return challenge;
}
