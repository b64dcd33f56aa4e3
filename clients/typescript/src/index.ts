/**
 * Secure aggregation for browsers and Node: add up vectors so that nobody, the server included, sees anything but the
 * sum.
 *
 * `Participant` takes part in a federation of `ccesa serve`. `Client`, `ActiveClient` and `SeriesClient` take and give
 * bytes, for a transport of your own. The specification is docs/protocol.md.
 */

export * from "./errors.js";
export type { Bytes } from "./bytes.js";

// A participant of `ccesa serve`, and what it remembers.
export { Participant } from "./service/participant.js";
export type { ParticipantOptions } from "./service/options.js";
export type { Fault, ParticipantEvents, Progress, Sent, Stage } from "./service/events.js";
export { ContributionFailed, HubAway, Stopped } from "./service/errors.js";
export type { ArraysLike, Contribution } from "./service/forms.js";
export { packArrays, unpackArrays, type Arrays, type NamedArray, type Numbers } from "./service/arrays.js";
export type { Result, ResultValue, Words } from "./service/results.js";
export type { About, Account, Entry, Memory, UsedRounds } from "./memory.js";
export { memoryInMemory } from "./memory/in-memory.js";
export { indexedDbIdentity } from "./memory/identity.js";
export { indexedDbMemory } from "./memory/indexed-db.js";
export { fileMemory } from "./memory/files.js";
export { fileLedger, indexedDbLedger, ledgerInMemory } from "./memory/ledgers.js";

// Clients without a transport.
export { ActiveClient, Client, type RoundClient } from "./protocol/client.js";
export { NO_TASK, type ActiveOptions, type ClientOptions, type CommonOptions } from "./protocol/joining.js";
export { SeriesClient, type SeriesOptions } from "./protocol/series.js";
export { contextOf, decodeConfig, encodeConfig, numbered, underCharter } from "./config.js";
export type { Particulars, Terms } from "./config.js";
export { checkConfig } from "./rules.js";
export type { AgreementName, Bits, Graph, Guard, RoundConfig, Threshold } from "./rules.js";
export { checkFloor, floorOf, type Floor } from "./floor.js";
export { maskHere, type Mask, type MaskOptions, type Masker } from "./crypto/masks.js";
export { Workers } from "./worker/host.js";

// Who one is, and what a federation has agreed on.
export { generateIdentity, generateKeyPair, identityFromKeyPair, identityFromSeed } from "./crypto/signatures.js";
export type { Identity } from "./crypto/signatures.js";
export { parseIdentityFile, writeIdentityFile, type IdentityFile } from "./charter/identity-file.js";
export { admissionLine, parseAdmissionList, type Admitted } from "./charter/lists.js";
export { checkCurrent } from "./charter/charter.js";
export type { Articles, Certificate, Charter, Learning, Member } from "./charter/charter.js";
export { encodeCharter, parseCharter } from "./charter/text.js";

// From values to words, and back.
export { Quantizer, type Mean, type Tensor, type Values } from "./quantize/quantizer.js";
export type { QuantizerSettings, Rounding } from "./quantize/settings.js";
export { NoisyQuantizer, type NoisyOptions } from "./privacy/noisy.js";
export type { Pause } from "./privacy/draw.js";
export { checkNoisyRound, checkPrivacy, mechanismDigest, privacyLength, type PrivacyTable } from "./privacy/table.js";
export { Ledger, type Budget, type LedgerStore } from "./privacy/ledger.js";
export { countRecords, type Cell, type TableRecord } from "./statistics/count.js";
export { groupLabels, schemaLength, type Quantity } from "./statistics/layout.js";
export type { CategoryColumn, Measure, NumberColumn, Schema } from "./statistics/schema.js";
export { readSums, type Sums } from "./statistics/sums.js";
export { tableVector } from "./statistics/vector.js";

// Where primitives come from.
export { systemEngine } from "./crypto/engines.js";
export { nobleEngine } from "./crypto/noble.js";
export { nodeEngine } from "./crypto/node.js";
export { webEngine } from "./crypto/web.js";
export type { Engine, Generator, Primitives, Random } from "./crypto/engine.js";
