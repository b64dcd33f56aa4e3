/** The events of a participant. No event contains anything of an unmasked vector. */

import type { Bytes } from "../bytes.js";
import type { CcesaError } from "../errors.js";
import type { Result } from "./results.js";

/** The stages of a participant, in their usual order. */
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

/** A change of stage. */
export interface Progress {
  readonly stage: Stage;
  /** The stage in words. */
  readonly text: string;
  /** The number of the round, if there is one. */
  readonly round?: number;
  /** While masking and sending: the bytes done, and their total. */
  readonly done?: number;
  readonly all?: number;
}

/** A masked vector was sent. Nothing else of the contribution leaves this site. */
export interface Sent {
  readonly round: number;
  /** The size of the masked vector. */
  readonly bytes: number;
  /** Its first bytes, to show people what was sent. */
  readonly beginning: Bytes;
}

/** One round, or all rounds in flight, go on without this participant. */
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

/** Dispatches one event. */
export type Tell = <Name extends keyof ParticipantEvents>(name: Name, detail: ParticipantEvents[Name]) => void;
