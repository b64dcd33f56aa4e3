"""P2: whatever is sent to a hub, it answers with a problem or not at all, never with 500, and goes on."""

import json
import logging
import random
import socket
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa.agreement.identity import in_base64
from ccesa.service.http import Limits
from desks import answer_challenge, served
from series_rounds import task_of

LIMITS = Limits(
    connections=200, header_seconds=2, idle_seconds=2, linger_seconds=1, grace_seconds=1, body_in_memory=4000
)
DEFAULT, MANY = 3_000, 100_000
METHODS = [
    b"GET",
    b"GET",
    b"PUT",
    b"PUT",
    b"PUT",
    b"PATCH",
    b"PATCH",
    b"POST",
    b"HEAD",
    b"DELETE",
    b"OPTIONS",
    b"TRACE",
    b"CONNECT",
    b"PURGE",
]
ODD_METHODS = [b"get", b"", b"G\0T", b"\xff\xfe", b"A" * 3000, b"GET GET", b"\r\n", b"M-SEARCH", b"PRI"]
VERSIONS = [b"HTTP/1.1"] * 90 + [b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/1.", b"HTCPCP/1.0", b"", b"\0"]
NUMBERS = [b"0", b"1", b"2", b"-1", b"00", b"999999999", b"9" * 30, b"9" * 5000, b"0x1", b"1e3", b"%31", b"\xd9\xa1"]
ODD_PATHS = [
    b"/",
    b"*",
    b"",
    b"//",
    b"/v1/../../../../etc/passwd",
    b"/v1/tasks/..%2f..%2f..%2fetc%2fpasswd",
    b"/v1/tasks/%2e%2e/%2e%2e/",
    b"/v1/series/1/exchanges/0/reply/../../../lock",
    b"/v1/series/1/exchanges/..%00/reply",
    b"/v1/federation%00",
    b"/v1/federation%0d%0aSet-Cookie:%20a=b",
    b"/v1/%ff%fe",
    b"/v1/\xff\xfe",
    b"/v1/\xe2\x98\x83",
    b"http://evil.example/v1/federation",
    b"https://evil.example",
    b"http://[::1/",
    b"/v1/federation#fragment",
    b"/v1/federation?" + b"a=b&" * 2000,
    b"/" + b"a/" * 5000,
    b"/v1/federation;jsessionid=1",
    b"evil.example:443",
    b"\\v1\\federation",
]
SIZES = [b"0", b"1", b"10", b"4001", b"-1", b"9" * 30, b"", b"0x10", b"1, 1", b"+1", b" 1 ", b"1e3", b"\0", b"4194305"]
VALUES = [b"", b"\xff", b"a" * 9000, b"*", b"wait=0", b"wait=1", b"wait=" + b"9" * 400, b"bytes=0-1", b"bytes=-"]
NAMES = [
    b"Range",
    b"If-Range",
    b"If-None-Match",
    b"Prefer",
    b"Expect",
    b"Content-Encoding",
    b"Connection",
    b"Host",
    b"Origin",
    b"Upgrade",
    b"Access-Control-Request-Method",
    b"X-Forwarded-For",
    b"Cookie",
    b"Te",
    b"Trailer",
    b" X",
    b"X\0",
    b"",
    b"a" * 3000,
]
CHUNKS = [b"0\r\n\r\n", b"5\r\nhello\r\n0\r\n\r\n", b"zz\r\nhello", b"-5\r\nhello\r\n", b"ffffffffffffffffff\r\n", b"5"]


class Sender:
    """Makes requests from a seed: most are nearly right, for those get furthest."""

    def __init__(self, hub, seed: int) -> None:
        self.hub, self.draw = hub, random.Random(seed)
        self.honest = hub.reply(0)
        self.session = json.dumps(answer_challenge(hub, bytes(56), 1)).encode()

    def request(self) -> bytes:
        draw = self.draw
        if draw.random() < 0.03:
            return draw.randbytes(draw.randrange(300))
        body = self.body()
        method = draw.choice(METHODS if draw.random() < 0.95 else ODD_METHODS)
        path = self.path()
        if draw.random() < 0.6:  # one that goes with the path
            method = b"POST" if b"sessions" in path else draw.choice([b"PUT", b"PATCH"]) if b"reply" in path else b"GET"
        line = b" ".join([method, path, draw.choice(VERSIONS)])
        data = b"\r\n".join([line, *self.headers(body), b"", b""]) + body
        return self.changed(data) if draw.random() < 0.1 else data

    def path(self) -> bytes:
        draw = self.draw
        if draw.random() < 0.2:
            return draw.choice(ODD_PATHS)
        number = lambda: draw.choice(NUMBERS[:3] if draw.random() < 0.8 else NUMBERS)  # noqa: E731
        found = draw.choice(
            [
                b"/v1/federation",
                b"/v1/challenge",
                b"/v1/sessions",
                b"/v1/series/%b/exchanges" % number(),
                b"/v1/series/%b/exchanges/%b/reply" % (number(), number()),
                self.hub.path().encode(),
                self.hub.path().encode(),
                self.hub.path().encode(),
                b"/v1/tasks/%b" % task_of(0).hex().encode(),
                b"/v1/tasks/%b" % draw.randbytes(32).hex().encode(),
                b"/v1/results/%b" % number(),
            ]
        )
        return found + b"?after=" + number() if draw.random() < 0.2 else found

    def headers(self, body: bytes) -> list[bytes]:
        draw, found = self.draw, []
        if draw.random() < 0.7:
            found.append(b"Authorization: Bearer token-%d" % draw.randrange(5))
        elif draw.random() < 0.5:
            found.append(b"Authorization: " + draw.choice(VALUES))
        kind = draw.random()
        if kind < 0.75:
            found.append(b"Content-Length: %d" % len(body))
        elif kind < 0.85:
            found.append(b"Content-Length: " + draw.choice(SIZES))
        if kind > 0.95:
            found.append(b"Transfer-Encoding: " + draw.choice([b"chunked", b"gzip, chunked", b"xchunked"]))
        if draw.random() < 0.4:
            found += [b"Upload-%b: %b" % (name, draw.choice(SIZES[:4] * 3 + SIZES)) for name in (b"Offset", b"Length")]
        while draw.random() < 0.4:
            name = draw.choice(NAMES if draw.random() < 0.2 else NAMES[:9])
            found.append(name + b": " + draw.choice(VALUES[2:]))
        if draw.random() < 0.01:
            found += [b"X-%d: 1" % number for number in range(draw.randrange(300))]
        return found

    def body(self) -> bytes:
        draw, kind = self.draw, self.draw.random()
        if kind < 0.4:
            return b""
        if kind < 0.6:
            return self.changed(self.honest) if draw.random() < 0.7 else self.honest
        if kind < 0.8:
            return self.changed(self.session) if draw.random() < 0.7 else self.session
        if kind < 0.9:
            return draw.choice(CHUNKS)
        return draw.choice([draw.randbytes(draw.randrange(5000)), b"[" * 2000, b"\xff" * 100, b'{"key":' * 300])

    def changed(self, data: bytes) -> bytes:
        """A copy with a few bytes flipped, cut, doubled or put in."""
        draw, changed = self.draw, bytearray(data)
        for _ in range(draw.randrange(1, 4)):
            place = draw.randrange(len(changed) + 1)
            kind = draw.randrange(5)
            if kind == 0 and place < len(changed):
                changed[place] ^= 1 << draw.randrange(8)
            elif kind == 1:
                del changed[place : place + draw.randrange(20)]
            elif kind == 2:
                changed[place:place] = draw.choice([b"\0", b"\r\n", b"\n", b"\xff" * 9, b"%", b":", b" ", b"\r"])
            elif kind == 3:
                changed += changed[:place]
            else:
                del changed[place:]
        return bytes(changed)


def answer_to(hub, data: bytes) -> bytes:
    """What a hub says to some bytes, after which its peer says no more."""
    with socket.create_connection(hub.address, timeout=20) as plain:
        found = []
        try:
            plain.sendall(data)
            plain.shutdown(socket.SHUT_WR)
            while piece := plain.recv(65536):
                found.append(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass
        except OSError as error:
            if error.errno != 107:  # not connected any more
                raise
        return b"".join(found)


def check(answer: bytes, data: bytes) -> int:
    """The status of an answer, which is one that a hub may give; 0 for none."""
    if not answer:
        return 0
    status = int(answer.removeprefix(b"HTTP/1.1 ")[:3])
    assert status < 500 or status == 503, (data, answer)
    assert status not in (100, 101), (data, answer) if b"xpect" not in data else status
    if status >= 400:
        assert b"application/problem+json" in answer, (data, answer)
    assert b"Traceback" not in answer
    assert b"server:" not in answer.partition(b"\r\n\r\n")[0].lower()
    return status


def is_whole(hub) -> None:
    """The hub has made no mistake, has nothing left to do, and honest clients can go on."""
    deadline = time.monotonic() + 10
    while hub.front.server_state.tasks:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert hub.count("refusals_total", reason="internal") == 0
    hub.do(hub.desk.open_next)
    exchange = hub.desk.view.exchange
    for client in range(4):
        with hub.client(client) as http:
            answer = http.put(hub.path(exchange), content=hub.reply(client))
            assert answer.status_code == 204, answer.text
    assert hub.desk.view.exchange == exchange + 1
    assert [path.name for path in hub.federation.spool.iterdir() if path.name != "lock"] == []


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    with served(tmp_path_factory.mktemp("fuzz"), "active", rounds=None, limits=LIMITS) as made:
        yield made


def fuzz(hub, count: int, seed: int, caplog) -> dict[int, int]:
    caplog.set_level(logging.WARNING)
    sender, seen = Sender(hub, seed), {}
    for number in range(count):
        if number % 1000 == 0:
            sender.honest = hub.reply(0)
        data = sender.request()
        status = check(answer_to(hub, data), data)
        seen[status] = seen.get(status, 0) + 1
    is_whole(hub)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    return seen


def test_p2_thousands_of_requests_that_are_nearly_right_break_nothing(hub, caplog):
    seen = fuzz(hub, DEFAULT, 20, caplog)
    # They reach every part: whoever changes the generator sees to that.
    assert seen.keys() >= {0, 200, 204, 400, 401, 404, 405, 409, 410, 411, 413, 431}


@pytest.mark.service
def test_p2_a_hundred_thousand_requests_break_nothing(hub, caplog):
    seen = fuzz(hub, MANY, 21, caplog)
    assert sum(seen.values()) == MANY


@settings(max_examples=300)
@given(st.binary(max_size=2000))
def test_p2_any_bytes_at_all_break_nothing(hub, data):
    check(answer_to(hub, data), data)


TOKENS = st.text(st.characters(min_codepoint=33, max_codepoint=255), max_size=40).map(str.encode)
HEADERS = st.lists(st.tuples(st.sampled_from(NAMES) | TOKENS, TOKENS | st.sampled_from(VALUES)), max_size=8)


@settings(max_examples=300)
@given(st.sampled_from(METHODS) | TOKENS, TOKENS | st.sampled_from(ODD_PATHS), HEADERS, st.binary(max_size=300))
def test_p2_any_request_breaks_nothing(hub, method, path, headers, body):
    lines = [method + b" /v1/" + path + b" HTTP/1.1", *(name + b": " + value for name, value in headers)]
    data = b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", body])
    check(answer_to(hub, data), data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=80).map(in_base64),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
KEYS = st.sampled_from(["key", "challenge", "origin", "signature"])


@settings(max_examples=200)
@given(st.dictionaries(KEYS, JSON, max_size=4))
def test_p2_any_answer_to_a_challenge_breaks_nothing(hub, changes):
    body = answer_challenge(hub, bytes(56), 1) | changes
    with hub.client(None) as http:
        answer = http.post("/v1/sessions", content=json.dumps(body).encode())
        assert answer.status_code in (400, 401, 413)


@settings(max_examples=200)
@given(st.binary(max_size=400), st.sampled_from(["PUT", "PATCH"]))
def test_p2_any_reply_breaks_nothing_and_none_counts(hub, reply, method):
    answered = dict(hub.desk.answered)
    with hub.client(3) as http:
        headers = {"Upload-Offset": "0", "Upload-Length": str(len(reply))}
        answer = http.request(method, hub.path(), content=reply, headers=headers)
        assert answer.status_code in (204, 409, 422)
    assert hub.desk.answered == answered or reply == b""


def test_p2_after_all_that_the_hub_is_whole(hub):
    is_whole(hub)
