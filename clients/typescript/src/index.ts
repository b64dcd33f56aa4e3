/**
 * Secure aggregation for browsers and Node: add up vectors so that nobody, the server included, sees anything but the
 * sum.
 *
 * `Participant` takes part in a federation of `ccesa serve`. `Client`, `ActiveClient` and `SeriesClient` take and give
 * bytes, for a transport of your own. The specification is docs/protocol.md.
 */

export type { Bytes } from "./bytes.js";
export type { Articles, Certificate, Charter, Learning, Member } from "./charter/charter.js";
export { checkCurrent } from "./charter/charter.js";
export { type IdentityFile, parseIdentityFile, writeIdentityFile } from "./charter/identity-file.js";
export { type Admitted, admissionLine, parseAdmissionList } from "./charter/lists.js";
export { encodeCharter, parseCharter } from "./charter/text.js";
export type { Particulars, Terms } from "./config.js";
export { contextOf, decodeConfig, encodeConfig, numbered, underCharter } from "./config.js";
export type { Engine, Generator, Primitives, Random } from "./crypto/engine.js";
// Where primitives come from.
export { systemEngine } from "./crypto/engines.js";
export { type Mask, type Masker, type MaskOptions, maskHere } from "./crypto/masks.js";
export { nobleEngine } from "./crypto/noble.js";
export { nodeEngine } from "./crypto/node.js";
export type { Identity } from "./crypto/signatures.js";
// Identities, and the agreement of a federation.
export { generateIdentity, generateKeyPair, identityFromKeyPair, identityFromSeed } from "./crypto/signatures.js";
export { webEngine } from "./crypto/web.js";
export * from "./errors.js";
export { checkFloor, type Floor, floorOf } from "./floor.js";
export { fileMemory } from "./memory/files.js";
export { indexedDbIdentity } from "./memory/identity.js";
export { memoryInMemory } from "./memory/in-memory.js";
export { indexedDbMemory } from "./memory/indexed-db.js";
export { fileLedger, indexedDbLedger, ledgerInMemory } from "./memory/ledgers.js";
export type { About, Account, Entry, Memory, UsedRounds } from "./memory.js";
export type { Pause } from "./privacy/draw.js";
export { type Budget, Ledger, type LedgerStore } from "./privacy/ledger.js";
export { type NoisyOptions, NoisyQuantizer } from "./privacy/noisy.js";
export { checkNoisyRound, checkPrivacy, mechanismDigest, type PrivacyTable, privacyLength } from "./privacy/table.js";
// Clients without a transport.
export { ActiveClient, Client, type RoundClient } from "./protocol/client.js";
export { type ActiveOptions, type ClientOptions, type CommonOptions, NO_TASK } from "./protocol/joining.js";
export { SeriesClient, type SeriesOptions } from "./protocol/series.js";
// From values to words, and back.
export { type Mean, Quantizer, type Tensor, type Values } from "./quantize/quantizer.js";
export type { QuantizerSettings, Rounding } from "./quantize/settings.js";
export type { AgreementName, Bits, Graph, Guard, RoundConfig, Threshold } from "./rules.js";
export { checkConfig } from "./rules.js";
export { type Arrays, type NamedArray, type Numbers, packArrays, unpackArrays } from "./service/arrays.js";
export { ContributionFailed, HubAway, Stopped } from "./service/errors.js";
export type { Fault, ParticipantEvents, Progress, Sent, Stage } from "./service/events.js";
export type { ArraysLike, Contribution } from "./service/forms.js";
export type { ParticipantOptions } from "./service/options.js";
// A participant of `ccesa serve`, and what it remembers.
export { Participant } from "./service/participant.js";
export type { Result, ResultValue, Words } from "./service/results.js";
export { type Cell, countRecords, type TableRecord } from "./statistics/count.js";
export type { CategoryColumn, Measure, NumberColumn, Schema } from "./statistics/schema.js";
export { groupLabels, type Quantity, schemaLength } from "./statistics/schema.js";
export { readSums, type Sums } from "./statistics/sums.js";
export { tableVector } from "./statistics/vector.js";
export { Workers } from "./worker/host.js";
