/**
 * All errors. The names are those of appendix B of docs/protocol.md: a caller's mistake, a faulty server, a
 * faulty neighbour, or a budget that is used up.
 */

import { shown } from "./shown.js";

/** The maximum length of a text. Some texts contain names that others have chosen. */
const LONGEST = 400;

/** The base of all errors of this package. Its text is always one line of printable ASCII. */
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

/** A vector with the wrong length or type, or values that do not fit into a vector. */
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

/** The ledger has been changed or damaged. */
export class DamagedLedger extends CcesaError {
  override readonly name = "DamagedLedger";
}

/** A call that is not possible now: after an abort, after the end, or for a masked vector that was not kept. */
export class OrderError extends CcesaError {
  override readonly name = "OrderError";
}

/** Bytes that exceed a limit or are not in the canonical encoding. */
export class MalformedMessage extends CcesaError {
  override readonly name = "MalformedMessage";
}

/** A public key of small order, or an agreement that gives zero. */
export class LowOrderKey extends CcesaError {
  override readonly name = "LowOrderKey";
}

/** Not a valid ML-KEM-768 public key. */
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

/** A request that no honest server sends. The client drops all secrets of the round. */
export class FaultyServer extends CcesaError {
  override readonly name = "FaultyServer";
}

/** The client has complained about neighbours and answers no other request. */
export class FaultyNeighbour extends CcesaError {
  override readonly name = "FaultyNeighbour";

  constructor(
    /** The ids of the neighbours whose shares were unusable. */
    readonly neighbours: readonly number[],
  ) {
    super(`shares of clients ${neighbours.join(", ")} are unusable: the clients, the server or the network are faulty`);
  }
}

/** The engine lacks something that the round needs, and the optional package for it is not installed. */
export class Unsupported extends CcesaError {
  override readonly name = "Unsupported";
}
