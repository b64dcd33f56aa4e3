/** What a participant says about itself while it takes part. No event has anything of a vector before it was masked. */

import type { Bytes } from "../bytes.js";
import type { CcesaError } from "../errors.js";
import type { Result } from "./results.js";

/** Where a participant stands, in the order in which it usually gets there. */
export type Stage =
  | "connecting"
  | "waiting"
  | "joined"
  | "contributing"
  | "masking"
  | "sending"
  | "summed"
  | "over"
  | "away"
  | "late"
  | "out"
  | "nothing"
  | "stopped";

/** One step forward, or back. */
export interface Progress {
  readonly stage: Stage;
  /** The same in words. */
  readonly text: string;
  /** The number of the round, where it is about one. */
  readonly round?: number;
  /** Of masking and sending: how many bytes are done, and of how many. */
  readonly done?: number;
  readonly all?: number;
}

/** A masked vector has left: what the hub has of this round's contribution, which is all that leaves of it. */
export interface Sent {
  readonly round: number;
  /** The size of the masked vector. */
  readonly bytes: number;
  /** Its first bytes, for people who want to see what leaves. */
  readonly beginning: Bytes;
}

/** A round, or all rounds in flight, go on without this participant. */
export interface Fault {
  readonly round?: number;
  readonly reason: string;
  readonly error: CcesaError;
}

/** The events by their names; each is a CustomEvent with one of these as `detail`. */
export interface ParticipantEvents {
  progress: Progress;
  sent: Sent;
  fault: Fault;
  result: Result;
}

/** Says one event. */
export type Tell = <Name extends keyof ParticipantEvents>(name: Name, detail: ParticipantEvents[Name]) => void;
