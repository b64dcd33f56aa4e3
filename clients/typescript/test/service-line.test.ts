/** The line to a hub: what is asked again and when, what ends it, and what is never followed or read. */

import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, connect, createServer as connectionServer, type Socket } from "node:net";
import { test } from "node:test";

import fc from "fast-check";
import { ascii, frame, toHex } from "../src/bytes.js";
import { toBase64 } from "../src/charter/base64.js";
import { systemEngine } from "../src/crypto/engines.js";
import { identityFromSeed, verify } from "../src/crypto/signatures.js";
import { ConfigError, FaultyServer, OrderError } from "../src/errors.js";
import { originOf } from "../src/service/address.js";
import { contentOf, fieldsOf, fromBase64, inWords, numberOf, textOf } from "../src/service/answers.js";
import { HubAway, Stopped, shown } from "../src/service/errors.js";
import { type Call, Line, sleep } from "../src/service/line.js";
import { openSession } from "../src/service/session.js";
import { fetchTask, taskDigest } from "../src/service/tasks.js";
import { send } from "../src/service/upload.js";
import { type Came, type Given, json, playing, problem } from "./service/played-hub.js";

const GET: Call = { method: "GET", path: "/v1/x" };

interface Told {
  readonly pauses: number[];
  readonly stop: AbortController;
}

function lineTo(origin: string, token?: string, patience = 1000, silence = 1): Line & Told {
  const [pauses, stop] = [[] as number[], new AbortController()];
  const line = new Line(
    {
      origin,
      signal: stop.signal,
      patience,
      silence,
      fetch: globalThis.fetch,
      sleep: async (seconds) => void pauses.push(seconds),
      away: () => undefined,
    },
    token,
  );
  return Object.assign(line, { pauses, stop });
}

// Addresses

const ORIGINS = {
  "https://hub.example": "https://hub.example",
  "https://hub.example/": "https://hub.example",
  "https://HUB.example:443": "https://hub.example",
  "https://hub.example:8443": "https://hub.example:8443",
  "http://127.0.0.1:8470": "http://127.0.0.1:8470",
  "http://localhost:80": "http://localhost",
  "http://[::1]:8470/": "http://[::1]:8470",
};
const NONE = [
  ...["", "hub.example", "ftp://hub.example", "https://", "https://hub.example/v1", "https://hub.example?x"],
  ...["https://hub.example#x", "https://user:word@hub.example", "https://hub.example:99999", "https://[::1"],
  ...["https://h\u00fcb.example", "http://hub.example", "http://127.0.0.1.evil.example", "http://10.0.0.1"],
  ...["https:\\\\hub.example", " https://hub.example", "https://hub.example\n"],
];

test("an address has one spelling", () => {
  for (const [url, origin] of Object.entries(ORIGINS)) {
    assert.equal(originOf(url), origin);
    assert.equal(originOf(origin), origin);
  }
  for (const url of NONE) {
    assert.throws(() => originOf(url), ConfigError, url);
  }
  assert.equal(originOf("http://hub.example", true), "http://hub.example");
});

// What is asked again

test("a hub that is away is asked again, more and more rarely, with the same bytes", async () => {
  const page = { "Content-Type": "text/html; charset=utf-8" };
  const hubs = [problem(408, "timeout"), problem(429, "busy"), problem(500, "internal"), problem(503, "stopping")];
  const proxies = [403, 404, 407, 413, 500, 502, 503, 504, 520].map(
    (status): Given => ({ status, headers: page, body: "<p>" }),
  );
  const others: Given[] = [
    { status: 302, headers: { Location: "/" } },
    { status: 200, headers: page, body: "<h1>Log in" },
  ];
  const large: Given = { status: 404, body: new Uint8Array(3 << 20) };
  for (const away of [...hubs, ...proxies, ...others, large, { status: 401 }]) {
    let left = 5;
    await playing(
      () => (left-- > 0 ? away : { status: 200, body: "here" }),
      async (url, hub) => {
        const line = lineTo(url);
        const answer = await line.call({ ...GET, method: "PUT", body: ascii("same") });
        assert.equal(String.fromCharCode(...answer.body), "here");
        assert.ok(line.pauses.every((pause, at) => pause >= 0.5 * 2 ** at && pause <= 0.75 * 2 ** at));
        assert.deepEqual(new Set(hub.calls.map(({ body }) => body.toString())), new Set(["same"]));
      },
    );
  }
});

test("a broken connection counts as away, and patience ends", async () => {
  await playing(
    () => null,
    async (url) => {
      await assert.rejects(lineTo(url, undefined, 3).call(GET), (error: Error) => {
        return error instanceof HubAway && error.message.includes("no answer from the hub for 3 seconds");
      });
    },
  );
});

test("a page is told that the hub may not name its origin", async () => {
  const page = { origin: "https://page.example" };
  Object.defineProperty(globalThis, "location", { value: page, configurable: true });
  try {
    await playing(
      () => null,
      async (url) => assert.rejects(lineTo(url, undefined, 3).call(GET), /configuration lack https:\/\/page\.example/),
    );
  } finally {
    Reflect.deleteProperty(globalThis, "location");
  }
});

test("a hub says when to come back, within reason", async () => {
  const told = ["7", "86400", "x", "0"];
  await playing(
    () => (told.length > 0 ? { status: 503, headers: { "Retry-After": told.shift()! } } : { status: 204 }),
    async (url) => {
      const line = lineTo(url);
      await line.call(GET);
      [
        [7, 10.5],
        [30, 45],
        [2, 3],
        [4, 6],
      ].forEach(([least, most], at) => {
        assert.ok(line.pauses[at]! >= least! && line.pauses[at]! <= most!, `${line.pauses}`);
      });
    },
  );
});

test("a hub that says nothing at all counts as away", async () => {
  let asked = 0;
  await playing(
    (): Given | Promise<Given> => (asked++ === 0 ? new Promise(() => undefined) : { status: 204 }),
    async (url) => {
      const line = lineTo(url);
      assert.equal((await line.call(GET)).status, 204);
      assert.equal(line.pauses.length, 1);
    },
  );
});

test("whoever stops it waits for nothing", async () => {
  await playing(
    (): Promise<Given> => new Promise(() => undefined),
    async (url) => {
      const line = lineTo(url);
      const asked = line.call({ ...GET, wait: 600 });
      setTimeout(() => line.stop.abort(), 50);
      await assert.rejects(asked, Stopped);
      await assert.rejects(line.call(GET), Stopped);
      await assert.rejects(sleep(600, line.stop.signal), Stopped);
    },
  );
});

// What is never followed or read

test("no redirect is followed, and no token goes elsewhere", async () => {
  await playing(
    () => ({ status: 204 }),
    async (elsewhere, other) => {
      for (const status of [301, 302, 303, 307, 308]) {
        const answer = { status, headers: { Location: `${elsewhere}/v1/x` } };
        await playing(
          () => answer,
          async (url) => assert.rejects(lineTo(url, "secret", 3).call(GET), /a redirect, which is not followed/),
        );
      }
      assert.equal(other.calls.length, 0);
    },
  );
});

test("an answer is read up to its limit, whether it says its size or not", async () => {
  for (const headers of [{}, { "Transfer-Encoding": "chunked" }]) {
    await playing(
      () => ({ status: 200, headers, body: "x".repeat(1001) }),
      async (url) => {
        await assert.rejects(lineTo(url).call({ ...GET, most: 1000 }), /at most 1000 bytes/);
        assert.equal((await lineTo(url).call({ ...GET, most: 1001 })).body.length, 1001);
      },
    );
  }
});

test("where there are no streams an answer is read whole, and refused above its limit all the same", async () => {
  const whole = {
    headers: new Headers(),
    body: null,
    arrayBuffer: async () => new ArrayBuffer(1001),
  } as unknown as Response;
  await assert.rejects(
    contentOf(whole, 1000, () => undefined),
    /at most 1000 bytes/,
  );
  assert.equal((await contentOf(whole, 1001, () => undefined)).length, 1001);
});

test("what somebody else wrote is shown in one line of ASCII", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 400 }), (text) => {
      const body = new TextEncoder().encode(JSON.stringify({ type: "urn:ccesa:problem:x", detail: text }));
      const line = inWords({ status: 400, headers: new Headers(), body });
      assert.match(line, /^[\x20-\x7e]{3,220}$/);
      assert.match(shown(text), /^[\x20-\x7e]*$/);
    }),
  );
});

test("JSON of any shape is an object or refused", () => {
  for (const text of ["", "[]", "null", "1", "<html>", "[".repeat(100_000), '{"a":']) {
    assert.throws(() => fieldsOf(ascii(text)), FaultyServer);
  }
  assert.throws(() => fieldsOf(Uint8Array.of(0x7b, 0xff, 0x7d)), FaultyServer);
  assert.deepEqual(fieldsOf(ascii('{"a":1}')), { a: 1 });
  const list = fieldsOf(ascii('{"a":[[1]]}'));
  assert.throws(() => textOf(list, "a"), FaultyServer);
  assert.throws(() => numberOf(list, "a", 0), FaultyServer);
});

test("JSON that is larger in memory than on the way is refused before it is read", () => {
  const nested = (depth: number): Uint8Array => ascii(`{"a":${"[".repeat(depth)}${"]".repeat(depth)}}`);
  const many = (count: number): Uint8Array => ascii(`{"a":[${"[],".repeat(count)}1]}`);
  assert.throws(() => fieldsOf(nested(400_000)), /64 deep/);
  assert.throws(() => fieldsOf(nested(64)), /64 deep/);
  assert.deepEqual(fieldsOf(nested(2)), { a: [[]] });
  assert.throws(() => fieldsOf(many(600_000)), /at most 1048576 values/);
  assert.equal((fieldsOf(many(100))["a"] as unknown[]).length, 101);
});

test("what is in a text of JSON counts as one value, however it is escaped", () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom("[", "{", '"', "\\", ",", "a"), maxLength: 90 }), (text) => {
      const fields = { a: text.repeat(30), b: [text] };
      assert.deepEqual(fieldsOf(ascii(JSON.stringify(fields))), fields);
    }),
  );
});

test("base64 is what was written, or refused", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 80 }), (data) => {
      assert.deepEqual(fromBase64(toBase64(data), 80), Uint8Array.from(data));
    }),
  );
  for (const text of ["A", "AA", "AAA", "AA=A", "A===", "AAA%", "AA-_", "AAAA\n", "AAAAAAAA"]) {
    assert.throws(() => fromBase64(text, 3), FaultyServer, text);
  }
});

// Tokens and sessions

test("401 is a new session once, and then a question for people", async () => {
  let valid = "second";
  await playing(
    ({ headers }) => (headers.authorization === `Bearer ${valid}` ? { status: 204 } : problem(401, "unauthorized")),
    async (url) => {
      await assert.rejects(lineTo(url, "wrong").call(GET), /refused this participant's token/);
      const line = lineTo(url);
      const sessions = ["first", "second", "third"];
      line.enter = async () => sessions.shift()!;
      assert.equal((await line.call(GET)).status, 204);
      valid = "none";
      await assert.rejects(line.call(GET), ConfigError);
      assert.equal(sessions.length, 0);
    },
  );
});

const CHARTER = new Uint8Array(32).fill(7);
const member = async () => identityFromSeed(await systemEngine(), new Uint8Array(32).fill(1));
const challenge = toBase64(new Uint8Array(32).fill(5));

test("a member signs the charter, the origin that it talks to and the challenge", async () => {
  const [engine, identity] = [await systemEngine(), await member()];
  let lost = true;
  const answer = ({ path }: Came): Given | null => {
    if (path === "/v1/challenge") {
      return json({ challenge, expires_in: 120 });
    }
    lost = !lost;
    return lost ? json({ token: "token", expires_in: 60, client: 3 }, 201) : problem(401, "unauthorized");
  };
  await playing(answer, async (url, hub) => {
    assert.equal(await openSession(lineTo(url), CHARTER, identity), "token");
    const said = JSON.parse(hub.calls.at(-1)!.body.toString());
    assert.equal(said.origin, url);
    const text = frame(ascii("ccesa-service-1 session"), CHARTER, ascii(url), new Uint8Array(32).fill(5));
    await verify(engine, identity.publicKey, text, Uint8Array.from(Buffer.from(said.signature, "base64")));
    assert.equal(said.key, toBase64(identity.publicKey));
    assert.ok(hub.calls.every(({ headers }) => headers.authorization === undefined));
  });
});

test("a challenge that is none is not signed, and a token that no header can have is refused", async () => {
  const challenges = [{}, { challenge: "%" }, { challenge: "AAAA" }, { challenge: toBase64(new Uint8Array(2000)) }, []];
  for (const given of [...challenges.map((one) => json(one)), problem(404, "not-found"), { status: 200, body: "no" }]) {
    await playing(
      () => given,
      async (url, hub) => {
        await assert.rejects(openSession(lineTo(url), CHARTER, await member()), FaultyServer);
        assert.ok(hub.calls.every(({ method }) => method === "GET"));
      },
    );
  }
  for (const token of ["", "a b", "a\r\nx-evil: 1", "\u00e4", "x".repeat(5000), 7]) {
    await playing(
      ({ path }) => (path === "/v1/challenge" ? json({ challenge }) : json({ token }, 201)),
      async (url) => assert.rejects(openSession(lineTo(url), CHARTER, await member()), /not allowed in a header/),
    );
  }
  await playing(
    ({ path }) => (path === "/v1/challenge" ? json({ challenge }) : json({ token: "token" }, 200)),
    async (url) => assert.rejects(openSession(lineTo(url), CHARTER, await member()), /did not open a session/),
  );
  await playing(
    ({ path }) => (path === "/v1/challenge" ? json({ challenge }) : problem(401, "unauthorized")),
    async (url) => assert.rejects(openSession(lineTo(url), CHARTER, await member()), /refused this member/),
  );
});

// Tasks

function ranged(payload: Uint8Array): (call: Came) => Given {
  return ({ headers }) => {
    const [first, last] = /bytes=(\d+)-(\d+)/
      .exec(headers.range ?? "")!
      .slice(1)
      .map(Number) as [number, number];
    if (first >= payload.length) {
      return { ...problem(416, "range"), headers: { "Content-Range": `bytes */${payload.length}` } };
    }
    const body = payload.subarray(first, last + 1);
    return {
      status: 206,
      headers: { "Content-Range": `bytes ${first}-${first + body.length - 1}/${payload.length}` },
      body,
    };
  };
}

test("a task comes in parts, and its digest is computed from what came", async () => {
  const engine = await systemEngine();
  for (const [size, part] of [
    [0, 10],
    [1, 10],
    [10, 10],
    [11, 10],
    [1000, 77],
  ] as const) {
    const payload = Uint8Array.from({ length: size }, (_, at) => at);
    await playing(ranged(payload), async (url, hub) => {
      const named = new Uint8Array(32);
      const task = await fetchTask(lineTo(url, "t"), engine, named, part, 1000);
      assert.deepEqual(task!.payload, payload);
      assert.deepEqual(task!.digest, await taskDigest(engine, payload));
      assert.equal(hub.calls.length, Math.max(1, Math.ceil(size / part)));
      assert.equal(hub.calls[0]!.path, `/v1/tasks/${toHex(named)}`);
    });
  }
});

test("a hub that has no ranges gives the whole, and one that has no task none", async () => {
  const engine = await systemEngine();
  await playing(
    () => ({ status: 200, body: "whole" }),
    async (url) => assert.equal((await fetchTask(lineTo(url), engine, CHARTER, 2, 100))!.payload.length, 5),
  );
  await playing(
    () => problem(404, "not-found"),
    async (url) => assert.equal(await fetchTask(lineTo(url), engine, CHARTER, 2, 100), null),
  );
});

test("a task that does not come as it was asked for is refused", async () => {
  const body = "0123456789";
  const part = (range: string, given = body): Given => ({
    status: 206,
    headers: { "Content-Range": range },
    body: given,
  });
  const wrong = {
    "no range": { status: 206, body },
    "another part": part("bytes 1-10/20"),
    nothing: part("bytes 0--1/9", ""),
    "fewer than there are": part("bytes 0-8/20", "012345678"),
    "more than there is": part("bytes 0-9/9"),
    "more than fits": part("bytes 0-9/1001"),
    "more than was asked for": part("bytes 0-10/20", "01234567890"),
    forbidden: problem(403, "malformed"),
    behind: problem(416, "range"),
    "too much": { status: 200, body: "x".repeat(1001) },
  };
  const engine = await systemEngine();
  for (const [name, given] of Object.entries(wrong)) {
    await playing(
      () => given,
      async (url) => assert.rejects(fetchTask(lineTo(url), engine, CHARTER, 10, 1000), FaultyServer, name),
    );
  }
  let asked = 0;
  await playing(
    () => (asked++ === 0 ? part("bytes 0-9/20") : part("bytes 10-19/30")),
    async (url) =>
      assert.rejects(fetchTask(lineTo(url), engine, CHARTER, 10, 1000), /expected 20 bytes in all, got 30/),
  );
});

// Replies

/** Takes parts as a hub does. */
class Uploads {
  taken = Buffer.alloc(0);
  whole: Buffer | null = null;

  answer = ({ method, headers, body }: Came): Given => {
    if (method === "PUT") {
      this.whole = body;
      return { status: 204 };
    }
    const offset = { "Upload-Offset": `${this.taken.length}` };
    if (method === "HEAD") {
      return { status: 200, headers: offset };
    }
    if (Number(headers["upload-offset"]) !== this.taken.length) {
      return problem(409, "upload-offset", { upload_offset: this.taken.length });
    }
    this.taken = Buffer.concat([this.taken, body]);
    if (this.taken.length === Number(headers["upload-length"])) {
      this.whole = this.taken;
      return { status: 204 };
    }
    return { status: 204, headers: { "Upload-Offset": `${this.taken.length}` } };
  };
}

const REPLY = Uint8Array.from({ length: 1000 }, (_, at) => at * 7);

test("a reply goes whole, or in parts that are taken up where the hub has them", async () => {
  for (const part of [1000, 999, 100, 77]) {
    const uploads = new Uploads();
    await playing(uploads.answer, async (url, hub) => {
      const sent: number[] = [];
      assert.deepEqual(await send(lineTo(url), "/reply", REPLY, part, (done) => sent.push(done)), { kind: "counted" });
      assert.deepEqual(new Uint8Array(uploads.whole!), REPLY);
      assert.equal(sent.at(-1), 1000);
      const largest = Math.max(...hub.calls.map(({ body }) => body.length));
      assert.equal(largest, part);
    });
  }
});

test("answers that are lost on the way change nothing of an upload", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uniqueArray(fc.integer({ min: 0, max: 20 }), { maxLength: 6 }),
      fc.integer({ min: 60, max: 400 }),
      async (lost, part) => {
        const uploads = new Uploads();
        let calls = 0;
        await playing(
          (call) => {
            const given = uploads.answer(call);
            return lost.includes(calls++) ? null : given;
          },
          async (url) => {
            assert.equal((await send(lineTo(url), "/reply", REPLY, part, () => undefined)).kind, "counted");
            assert.deepEqual(new Uint8Array(uploads.whole!), REPLY);
          },
        );
      },
    ),
    { numRuns: 20 },
  );
});

test("who was too slow sends smaller parts", async () => {
  const uploads = new Uploads();
  const answer = (call: Came): Given => (call.body.length > 300 ? problem(408, "timeout") : uploads.answer(call));
  await playing(answer, async (url, hub) => {
    assert.equal((await send(lineTo(url), "/reply", REPLY, 2000, () => undefined)).kind, "counted");
    assert.deepEqual(new Uint8Array(uploads.whole!), REPLY);
    assert.deepEqual(hub.calls.map(({ method }) => method)[0], "PUT");
  });
});

/** Every row of the table of problems that a reply can get, and what becomes of it. */
const PROBLEMS: readonly (readonly [status: number, name: string, outcome: string | (new (text: string) => Error)])[] =
  [
    [400, "malformed", FaultyServer],
    [404, "not-found", FaultyServer],
    [405, "method-not-allowed", FaultyServer],
    [409, "conflict", OrderError],
    [410, "late", "late"],
    [410, "series-over", "late"],
    [411, "length-required", FaultyServer],
    [413, "too-large", FaultyServer],
    [415, "encoded", FaultyServer],
    [416, "range", FaultyServer],
    [422, "faulty", "faulty"],
    [431, "header-too-large", FaultyServer],
    [401, "unauthorized", ConfigError],
    [429, "busy", HubAway],
    [500, "internal", HubAway],
    [503, "unavailable", HubAway],
    [503, "full", HubAway],
    [503, "stopping", HubAway],
  ];

test("every problem that a reply can meet has one outcome", async () => {
  for (const [status, name, outcome] of PROBLEMS) {
    await playing(
      () => problem(status, name),
      async (url) => {
        const sending = send(lineTo(url, "t", 5), "/reply", REPLY, 5000, () => undefined);
        if (typeof outcome === "string") {
          assert.equal((await sending).kind, outcome, name);
        } else {
          await assert.rejects(sending, outcome, name);
        }
      },
    );
  }
});

test("a conflict about an empty reply is the answer of an earlier start", async () => {
  await playing(
    () => problem(409, "conflict"),
    async (url) => assert.equal((await send(lineTo(url), "/reply", new Uint8Array(), 9, () => undefined)).kind, "late"),
  );
});

test("an upload that the hub never takes is given up", async () => {
  for (const [offset, why] of [
    [0, /repeatedly rewound/],
    [1, /repeatedly rewound/],
    [-1, /outside it/],
    [1e9, /outside it/],
    [null, /outside it/],
  ] as const) {
    await playing(
      ({ method }) =>
        method === "HEAD"
          ? { status: 200, headers: { "Upload-Offset": "0" } }
          : problem(409, "upload-offset", { upload_offset: offset }),
      async (url) =>
        assert.rejects(
          send(lineTo(url), "/reply", REPLY, 100, () => undefined),
          why,
        ),
    );
  }
});

// Bad lines

/** Takes uploads as a hub does, with what has come of one that broke off. */
class Spool {
  taken = Buffer.alloc(0);
  whole: Buffer | null = null;
  readonly #server = createServer((request, response) => void this.#answer(request, response).catch(() => undefined));

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method, headers } = request;
    if (method === "HEAD") {
      response.writeHead(204, { "Upload-Offset": `${this.taken.length}` }).end();
      return;
    }
    if (method === "PATCH" && Number(headers["upload-offset"]) !== this.taken.length) {
      const { status, body, headers: named } = problem(409, "upload-offset", { upload_offset: this.taken.length });
      response.writeHead(status, { ...named }).end(body);
      return;
    }
    for await (const piece of request) {
      this.taken = Buffer.concat([this.taken, piece as Buffer]);
    }
    this.whole = method === "PUT" || this.taken.length === Number(headers["upload-length"]) ? this.taken : null;
    response.writeHead(204).end();
  }

  async start(): Promise<number> {
    this.#server.on("clientError", (_, socket) => void socket.destroy());
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return (this.#server.address() as AddressInfo).port;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

/** A box on the way: what comes from the client goes on, until `spoil` makes something of the connection. */
async function behind(
  port: number,
  spoil: (connection: number, came: number, socket: Socket) => boolean,
): Promise<{ url: string; came: () => number; stop: () => void }> {
  let [connections, all] = [0, 0];
  const sockets = new Set<Socket>();
  const box = connectionServer((socket) => {
    const [number, onward] = [connections++, connect(port, "127.0.0.1")];
    let [came, spoilt] = [0, false];
    for (const one of [socket, onward]) {
      sockets.add(one);
      one
        .on("error", () => undefined)
        .on("close", () => {
          socket.destroy();
          onward.destroy();
        });
    }
    onward.on("data", (data) => void (spoilt || socket.write(data)));
    socket.on("data", (data) => {
      all += data.length;
      came += data.length;
      spoilt ||= spoil(number, came, socket);
      spoilt || onward.write(data);
    });
  });
  await new Promise<void>((resolve) => box.listen(0, "127.0.0.1", resolve));
  const stop = (): void => {
    sockets.forEach((socket) => socket.destroy());
    box.close();
  };
  return { url: `http://127.0.0.1:${(box.address() as AddressInfo).port}`, came: () => all, stop };
}

const cutting = (most: number) => (_: number, came: number, socket: Socket) => {
  if (came > most) {
    socket.destroy();
  }
  return came > most;
};
const refusing = (status: string) => (connection: number, came: number, socket: Socket) => {
  const refuses = connection < 6 && came > 0;
  if (refuses) {
    socket.end(`HTTP/1.1 ${status}\r\nContent-Length: 0\r\nLocation: /\r\nConnection: close\r\n\r\n`);
  }
  return refuses;
};
const BOXES = {
  "cuts each connection after 400 kB": cutting(400_000),
  "cuts each connection after 1 MB": cutting(1_000_000),
  "falls silent on the first connections": (connection: number, came: number) => connection < 2 && came > 700_000, // a part of it is missed after a second
  "redirects for a while": refusing("302 Found"),
  "forbids for a while": refusing("403 Forbidden"),
  "finds nothing for a while": refusing("404 Not Found"),
  "finds it too large for a while": refusing("413 Too Large"),
  "has no hub for a while": refusing("502 Bad Gateway"),
  "has its own status for a while": refusing("520 Unknown"),
};
const LARGE = Uint8Array.from({ length: 8_000_000 }, (_, at) => (at * at) >> 5);

for (const [name, spoil] of Object.entries(BOXES)) {
  test(`a reply of 8 MB arrives through a box that ${name}`, async () => {
    const spool = new Spool();
    const box = await behind(await spool.start(), spoil);
    try {
      const most = name.includes("silent") ? 1 << 14 : 8 << 20;
      const line = lineTo(box.url, "t", 1000, 0.3);
      assert.equal((await send(line, "/reply", LARGE, most, () => undefined)).kind, "counted");
      assert.ok(Buffer.compare(spool.whole!, LARGE) === 0);
      assert.ok(box.came() <= 1.3 * LARGE.length, `${box.came()} bytes`);
    } finally {
      box.stop();
      spool.stop();
    }
  });
}
