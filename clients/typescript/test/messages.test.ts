import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import fc from "fast-check";

import { type Bytes, toHex } from "../src/bytes.js";
import { NO_GRAPH, NO_THRESHOLD, type RoundConfig } from "../src/config.js";
import { MalformedMessage } from "../src/errors.js";
import * as messages from "../src/protocol/messages.js";
import { packSet, setBytes, unpackSet } from "../src/protocol/messages.js";

const NAMES = Object.keys(messages.MESSAGES) as messages.MessageName[];
/** Those of rounds with helpers, whose tables have other columns, and the others. */
const ASSISTED = NAMES.slice(NAMES.indexOf("helper-keys-request"));
const ALONG_GRAPHS = NAMES.filter((name) => !ASSISTED.includes(name));
const PAGE = readFileSync(new URL("../../../../docs/protocol.md", import.meta.url), "utf8");

const CONFIG: RoundConfig = {
  version: 2,
  seriesId: new Uint8Array(32),
  number: 0,
  clients: 1000,
  length: 7,
  bits: 64,
  graph: { type: "harary", degree: 38, mask_degree: null },
  threshold: { type: "majority" },
  generator: "aes128-ctr",
  agreement: "x25519",
  accept: true,
  minSurvivors: 3,
  guard: "curious",
  charter: null,
};

const bytes = (least: number, most: number): fc.Arbitrary<Bytes> =>
  fc.uint8Array({ minLength: least, maxLength: most }) as fc.Arbitrary<Bytes>;

const anyMessage = fc.constantFrom(...NAMES).chain((name) =>
  fc.tuple(
    fc.constant(name),
    fieldsOf(name),
    bytes(32, 32),
    fc.maxSafeNat().map((k) => k % 2 ** 32),
  ),
);

function fieldsOf(name: messages.MessageName): fc.Arbitrary<messages.Fields<typeof name>> {
  const names: readonly string[] = messages.MESSAGES[name].fields;
  return fc
    .tuple(...names.map(() => bytes(0, 300)))
    .map((fields) => Object.fromEntries(fields.map((data, at) => [names[at]!, data]))) as fc.Arbitrary<
    messages.Fields<typeof name>
  >;
}

test("a message that is read is the one that was written", () => {
  fc.assert(
    fc.property(anyMessage, ([name, fields, context, client]) => {
      const data = messages.encodeMessage(name, context, client, fields);
      assert.deepEqual(messages.readMessage(data, name, data.length), { context, client, fields });
      assert.throws(() => messages.readMessage(data, name, data.length - 1), MalformedMessage);
    }),
  );
});

test("other bytes are refused, or the encoding of another message", () => {
  fc.assert(
    fc.property(anyMessage, fc.nat(), fc.integer({ min: 1, max: 255 }), ([name, fields, context, client], at, flip) => {
      const data = messages.encodeMessage(name, context, client, fields);
      // Headers are at the front, and rarely hit by chance in a long one.
      data[at % Math.min(data.length, 80)]! ^= flip;
      try {
        const read = messages.readMessage(data, name, data.length);
        assert.equal(toHex(messages.encodeMessage(name, read.context, read.client, read.fields)), toHex(data));
      } catch (error) {
        assert(error instanceof MalformedMessage, String(error));
      }
    }),
    { numRuns: 1000 },
  );
});

test("a client beyond 2^32 - 1 and a context of another size are refused", () => {
  const write = (context: Bytes, client: number): Bytes =>
    messages.encodeMessage("confirm-reply", context, client, { signature: context });
  for (const [size, client] of [
    [32, 2 ** 32],
    [32, -1],
    [31, 0],
    [33, 0],
  ] as const) {
    const data = write(new Uint8Array(size), client);
    assert.throws(() => messages.readMessage(data, "confirm-reply", 1024), MalformedMessage);
  }
});

/** Return the rows of the page's tables that begin with the name of a message and a number of columns. */
function rowsOfPage(columns: number): Map<string, string[]> {
  const rows = PAGE.split("\n").filter((line) => /^\| `[a-z-]+` \|/.test(line));
  const cells = rows.map((row) =>
    row
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
  return new Map(cells.filter(({ length }) => length === columns).map(([name, ...rest]) => [name!.slice(1, -1), rest]));
}

/** Return the sizes of section 2 that are numbers. */
function namedSizes(): Record<string, number> {
  const rows = [...PAGE.matchAll(/^\| `([A-Z_]+)` \| (\d+) \|/gm)];
  return Object.fromEntries(rows.map(([, name, size]) => [name, Number(size)]));
}

/** Return what a sum of sizes and numbers in the page's tables is. */
function sum(cell: string, sizes: Readonly<Record<string, number>>): number {
  return cell.split(" + ").reduce((total, term) => total + (sizes[term] ?? Number(term)), 0);
}

test("limits are those of the page's tables", () => {
  const rows = new Map([...rowsOfPage(4), ...rowsOfPage(6)]);
  const agreements = {
    x25519: { KEYS: 64, TEXT: 80, DEPOSIT: 0 },
    "x25519-mlkem768": { KEYS: 1248, TEXT: 1232, DEPOSIT: 48 },
  } as const;
  const graphs = [CONFIG.graph, { type: "erdos-renyi", p: 0.01, mask_p: null } as const];
  for (const agreement of ["x25519", "x25519-mlkem768"] as const) {
    for (const [graph, D] of [
      [graphs[0]!, 38],
      [graphs[1]!, 999],
    ] as const) {
      // VECTOR, SET and PROOF of 1000 clients, whose number has ten binary digits.
      const parts = [1, D, 7 * 8, 125, 32 * Math.min((D + 1) * 10, 2000)];
      const sizes = { ...namedSizes(), ...agreements[agreement] };
      for (const name of ALONG_GRAPHS) {
        const expected = rows.get(name)!.map((cell, at) => parts[at]! * sum(cell, sizes));
        const limit = messages.messageLimit(name, { ...CONFIG, agreement, graph });
        assert.equal(limit, 96 + expected.reduce((a, b) => a + b), `${name}, ${agreement}, ${D}`);
      }
    }
  }
});

test("limits of rounds with helpers are those of the page's table", () => {
  const rows = rowsOfPage(5);
  const round = { guard: "assisted", accept: false, graph: NO_GRAPH, threshold: NO_THRESHOLD, helpers: 3 } as const;
  const config: RoundConfig = { ...CONFIG, ...round, charter: new Uint8Array(32) };
  const agreements = {
    x25519: { BUNDLE: 32, CIPHERTEXT: 0, RECORD: 112 + 3 * 16 },
    "x25519-mlkem768": { BUNDLE: 1216, CIPHERTEXT: 1088, RECORD: 112 + 3 * 48 },
  } as const;
  for (const agreement of ["x25519", "x25519-mlkem768"] as const) {
    // Three helpers, 1000 members, and MASKED: two check words follow seven words of 64 bits.
    const parts = [1, 3, 1000, (7 + 2) * 8];
    const sizes = { ...namedSizes(), ...agreements[agreement] };
    for (const name of ASSISTED) {
      const expected = rows.get(name)!.map((cell, at) => parts[at]! * sum(cell, sizes));
      const limit = messages.messageLimit(name, { ...config, agreement });
      assert.equal(limit, 96 + expected.reduce((a, b) => a + b), `${name}, ${agreement}`);
    }
  }
});

test("a message above its limit is refused before it is read", () => {
  const data = new Uint8Array(messages.messageLimit("unmask-request", CONFIG) + 1);
  assert.throws(() => messages.decodeMessage(data, "unmask-request", CONFIG), /expected at most 248 bytes, got 249/);
});

test("headers have the sizes of the page's tables", () => {
  const [plain, helped] = [rowsOfPage(5), rowsOfPage(6)];
  const fixed: Readonly<Record<string, number>> = { number: 4, not_after: 8, tag: 16, signature: 64, receipt: 64 };
  const perNeighbour = ["neighbours", "masked", "sealed", "accused", "deposits", "dropped", "commitments", "vector"];
  const perMember = ["members", "records", "ciphertexts", "refused"];
  const apart = [...perNeighbour, ...perMember, "v1", "v2", "v3", "signatures", "confirmed", "proof"];
  const ofEach = ["keys", "not_after"]; // in requests
  for (const name of NAMES) {
    const rows = ASSISTED.includes(name) ? helped : plain;
    const sizes = Object.fromEntries(
      messages.MESSAGES[name].fields.map((field) => {
        const counted = apart.includes(field) || (ofEach.includes(field) && name.endsWith("request"));
        const keys = field === "keys" && !ASSISTED.includes(name) ? 64 : undefined;
        const boxes = field === "boxes" && name === "boxed-mask-reply" ? 0 : undefined;
        return [field, counted ? 0 : (keys ?? boxes ?? fixed[field] ?? 32)];
      }),
    );
    const fields = Object.fromEntries(Object.entries(sizes).map(([field, size]) => [field, new Uint8Array(size)]));
    const data = messages.encodeMessage(name, new Uint8Array(32), 0, fields as messages.Fields<typeof name>);
    assert.equal(data.length, Number(rows.get(name)![0]), name);
  }
});

const sets = fc.integer({ min: 3, max: 100 }).chain((clients) =>
  fc.tuple(
    fc.constant(clients),
    fc.uniqueArray(fc.nat(clients - 1)).map((ids) => ids.sort((a, b) => a - b)),
  ),
);

test("ids and sets that are read are those that were written", () => {
  fc.assert(
    fc.property(sets, ([clients, ids]) => {
      assert.deepEqual(messages.unpackIds(messages.packIds(ids), clients), ids);
      assert.deepEqual(unpackSet(packSet(ids, clients), clients), ids);
    }),
  );
  assert.deepEqual(messages.unpackIds(messages.packIds([5, 2 ** 32 - 2]), 2 ** 32 - 1), [5, 2 ** 32 - 2]);
});

test("other ids and sets are refused, or those of other clients", () => {
  fc.assert(
    fc.property(fc.integer({ min: 3, max: 40 }), fc.array(fc.nat(45), { maxLength: 5 }), (clients, ids) => {
      const fits = ids.every((id, at) => id < clients && (at === 0 || ids[at - 1]! < id));
      assert.equal(
        isRead(() => messages.unpackIds(messages.packIds(ids), clients)),
        fits,
      );
      const set = packSet(ids, 48);
      const bitsFit = ids.every((id) => id < clients);
      assert.equal(
        isRead(() => unpackSet(set.slice(0, setBytes(clients)), clients)),
        bitsOf(set, clients),
      );
      assert.equal(
        isRead(() => unpackSet(set, clients)),
        setBytes(clients) === 6 && bitsFit,
      );
    }),
  );
});

function bitsOf(set: Uint8Array, clients: number): boolean {
  return set.slice(0, setBytes(clients)).every((byte, at) => byte >> Math.max(0, Math.min(8, clients - 8 * at)) === 0);
}

function isRead(work: () => unknown): boolean {
  try {
    work();
    return true;
  } catch (error) {
    assert(error instanceof MalformedMessage, String(error));
    return false;
  }
}
