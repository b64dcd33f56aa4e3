/** Replays service.json: the texts of sessions, and digests of tasks. */

import { fromHex } from "../../src/bytes.js";
import type { Engine } from "../../src/crypto/engine.js";
import { identityFromSeed, verify } from "../../src/crypto/signatures.js";
import { sessionText } from "../../src/service/session.js";
import { taskDigest } from "../../src/service/tasks.js";
import { type Case, type Replay, same } from "./check.js";

interface Session {
  readonly name: string;
  readonly seed: string;
  readonly public: string;
  readonly charter: string;
  readonly origin: string;
  readonly challenge: string;
  readonly text: string;
  readonly signature: string;
}

interface Task {
  readonly name: string;
  readonly payload: string;
  readonly digest: string;
}

function session(told: Session): Case {
  const run = async (engine: Engine): Promise<void> => {
    const text = sessionText(fromHex(told.charter), told.origin, fromHex(told.challenge));
    same(told.text, text, "text");
    const member = await identityFromSeed(engine, fromHex(told.seed));
    same(told.public, member.publicKey, "public key");
    await verify(engine, fromHex(told.public), text, fromHex(told.signature));
    await verify(engine, fromHex(told.public), text, await member.sign(text));
  };
  return { name: `session: ${told.name}`, run };
}

function task(told: Task): Case {
  const run = async (engine: Engine): Promise<void> => {
    same(told.digest, await taskDigest(engine, fromHex(told.payload)), "digest");
  };
  return { name: `task: ${told.name}`, run };
}

export const service: Replay = (data) => [...data.sessions.map(session), ...data.tasks.map(task)];
