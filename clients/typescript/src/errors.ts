/**
 * What can go wrong. The names are those of appendix B of docs/protocol.md: a caller's mistake, a faulty server, a
 * faulty neighbour, or something that is used up.
 */

import { shown } from "./shown.js";

/** The most characters of a text: names that others have chosen are in some of them. */
const LONGEST = 400;

/** The base of all errors of this package. Its text is one line of printable ASCII, whatever it was made of. */
export class CcesaError extends Error {
  // Names survive minifiers only if they are written out, and callers compare them.
  override readonly name: string = "CcesaError";

  constructor(text?: string, options?: ErrorOptions) {
    super(shown(text ?? "", LONGEST), options);
  }
}

/** A configuration, charter, list, identity or option that cannot be used. */
export class ConfigError extends CcesaError {
  override readonly name = "ConfigError";
}

/** A vector of another length or type than the round, or values that cannot be laid into one. */
export class VectorError extends CcesaError {
  override readonly name = "VectorError";
}

/** The client has contributed to the task as often as it may. */
export class TaskSpent extends CcesaError {
  override readonly name = "TaskSpent";
}

/** The ledger has no room for one more vector. */
export class BudgetSpent extends CcesaError {
  override readonly name = "BudgetSpent";
}

/** The ledger is not as it was written. */
export class DamagedLedger extends CcesaError {
  override readonly name = "DamagedLedger";
}

/** A call that is not possible now: after an abort, after the end, or for a masked vector that is not kept. */
export class OrderError extends CcesaError {
  override readonly name = "OrderError";
}

/** Bytes above a limit, or not in their one encoding. */
export class MalformedMessage extends CcesaError {
  override readonly name = "MalformedMessage";
}

/** A public key of small order, or an agreement that gives zero. */
export class LowOrderKey extends CcesaError {
  override readonly name = "LowOrderKey";
}

/** A public key that is none of ML-KEM-768. */
export class BadKey extends CcesaError {
  override readonly name = "BadKey";
}

/** A signature that does not verify. */
export class BadSignature extends CcesaError {
  override readonly name = "BadSignature";
}

/** A proof of another size than the tree needs, or for another root. */
export class WrongProof extends CcesaError {
  override readonly name = "WrongProof";
}

/** A sealed text that does not open. */
export class SealBroken extends CcesaError {
  override readonly name = "SealBroken";
}

/** An element outside of the field, or an odd number of bytes. */
export class OutsideField extends CcesaError {
  override readonly name = "OutsideField";
}

/** Shares that cannot be corrected. */
export class TooManyWrong extends CcesaError {
  override readonly name = "TooManyWrong";
}

/** An honest server would not send this; all secrets of the round are dropped. */
export class FaultyServer extends CcesaError {
  override readonly name = "FaultyServer";
}

/** The client has complained of neighbours and answers nothing else. */
export class FaultyNeighbour extends CcesaError {
  override readonly name = "FaultyNeighbour";

  constructor(
    /** The ids of those whose shares could not be used. */
    readonly neighbours: readonly number[],
  ) {
    super(`shares of clients ${neighbours.join(", ")} cannot be used: they, the server or the network are faulty`);
  }
}

/** The engine lacks something that the round needs, and the optional package for it is not installed. */
export class Unsupported extends CcesaError {
  override readonly name = "Unsupported";
}
