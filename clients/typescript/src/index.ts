/** Secure aggregation for browsers and Node: the client of docs/protocol.md. */

export * from "./errors.js";
