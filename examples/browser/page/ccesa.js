/** What the page needs of the package `ccesa`. */

export { toBase64 } from "ccesa/charter/base64.js";
export { parseCharter } from "ccesa/charter/text.js";
export { firstThatHas, systemEngine } from "ccesa/crypto/engines.js";
export { nobleEngine } from "ccesa/crypto/noble.js";
export { generateIdentity } from "ccesa/crypto/signatures.js";
export { webEngine } from "ccesa/crypto/web.js";
export { memoryInMemory } from "ccesa/memory/in-memory.js";
export { unpackEnvelope } from "ccesa/protocol/envelope.js";
export { Participant } from "ccesa/service/participant.js";
export { decode } from "ccesa/wire.js";
