"""P1: nobody acts for another client, with a stolen or old token, a replayed signature, or by asking."""

import asyncio
import base64
import hmac
import os
import socket
import time
from types import SimpleNamespace

import pytest

from ccesa import labels
from ccesa.agreement.identity import Identity, in_base64
from ccesa.service.http import asking
from ccesa.service.tokens import signed_text
from desks import answer_challenge, served
from rounds import identity
from test_http import problem


@pytest.fixture
def hub(tmp_path):
    with served(tmp_path, "active") as made:
        yield made


def challenge_of(http) -> bytes:
    return base64.b64decode(http.get("/v1/challenge").json()["challenge"])


def refused(hub, body) -> str:
    """Why a session was refused; a connection that fails too often is closed, so each has its own."""
    before = dict(hub.desk.tokens)
    with hub.client(None) as http:
        answer = http.post("/v1/sessions", json=body)
    assert problem(answer) == "unauthorized"
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="ccesa"'
    assert hub.desk.tokens == before
    return answer.json()["detail"]


def test_p1_a_challenge_works_once(hub):
    with hub.client(None) as http:
        body = answer_challenge(hub, challenge_of(http), 1)
        assert http.post("/v1/sessions", json=body).status_code == 201
        assert "used before" in refused(hub, body)
        other = answer_challenge(hub, base64.b64decode(body["challenge"]), 2)
        assert "used before" in refused(hub, other)


def test_p1_a_challenge_that_another_hub_passed_on_opens_nothing(hub):
    """The member signs what it talks to, and that is not this hub."""
    with hub.client(None) as http:
        challenge = challenge_of(http)
    relayed = answer_challenge(hub, challenge, 1, origin="https://evil.example")
    assert "signed another address" in refused(hub, relayed)
    assert "http://hub.test" in refused(hub, relayed)  # what it has to be called
    assert "no member of this federation made" in refused(hub, relayed | {"origin": "http://hub.test"})


def test_p1_a_signature_of_another_charter_or_another_member_opens_nothing(hub):
    with hub.client(None) as http:
        challenge = challenge_of(http)
    body = answer_challenge(hub, challenge, 1)
    mine, others = Identity.new(), answer_challenge(hub, challenge, 2)
    forged = in_base64(mine.sign(signed_text(hub.federation.agreement.digest, "http://hub.test", challenge)))
    elsewhere = in_base64(identity(1).sign(signed_text(bytes(32), "http://hub.test", challenge)))
    wrong = [
        {"key": others["key"]},
        {"signature": forged},
        {"key": in_base64(mine.public), "signature": forged},
        {"key": in_base64(mine.public)},
        {"key": in_base64(b"short"), "signature": forged},
        {"signature": elsewhere},
        {"signature": in_base64(b"abc")},
    ]
    said = {refused(hub, body | one) for one in wrong}
    assert len(said) == 1, "nobody learns whether a key is a member's"
    assert "no member of this federation made" in said.pop()


def test_p1_a_stranger_s_signature_is_verified_like_a_member_s(hub, monkeypatch):
    """Else the time that a refusal takes tells whose key is known."""
    with hub.client(None) as http:
        challenge = challenge_of(http)
    body, verified, verify = answer_challenge(hub, challenge, 1), [], asking.primitives.verify
    monkeypatch.setattr(asking.primitives, "verify", lambda *args: verified.append(1) or verify(*args))
    refused(hub, body | {"key": in_base64(Identity.new().public)})
    refused(hub, body | {"signature": in_base64(bytes(64))})
    assert verified == [1, 1]


def test_p1_a_challenge_that_no_hub_gave_out_or_long_ago_opens_nothing(hub):
    def made(age: int, secret: bytes) -> bytes:
        stated = os.urandom(16) + int(time.time() - age).to_bytes(8, "little")
        return stated + hmac.digest(secret, labels.frame(labels.CHALLENGE, stated), "sha256")

    own = hub.desk.secret
    for challenge in (b"", bytes(24), bytes(56), os.urandom(57), made(0, bytes(32)), made(0, own) + b"\0"):
        assert "this challenge is not from this hub" in refused(hub, answer_challenge(hub, challenge, 1))
    for age in (asking.CHALLENGE_SECONDS + 2, -60, 10**9):
        assert "too old" in refused(hub, answer_challenge(hub, made(age, own), 1))
    with hub.client(None) as http:
        body = answer_challenge(hub, made(asking.CHALLENGE_SECONDS - 10, own), 1)
        assert http.post("/v1/sessions", json=body).json()["client"] == 1


NO_ANSWERS = [
    b"",
    b"{}",
    b"[]",
    b"null",
    b"\xff",
    b"[" * 2000,
    b'{"key": 1}',
    b'{"key":"*"}',
    b"\x00" * 2000,
    b'{"key":"","challenge":"","origin":"","signature":"","more":""}',
]


def test_what_is_not_an_answer_to_a_challenge_is_malformed(hub):
    with hub.client(None) as http:
        for body in NO_ANSWERS:
            assert problem(http.post("/v1/sessions", content=body)) == "malformed"


def test_an_answer_that_is_too_large_or_has_no_size_is_not_read(hub):
    with hub.client(None) as http:
        assert problem(http.post("/v1/sessions", content=bytes(2049))) == "too-large"
        assert problem(http.post("/v1/sessions", content=iter([b"{}"]))) == "length-required"


def test_p1_a_session_ends(hub):
    with hub.client(None) as http:
        token = http.post("/v1/sessions", json=answer_challenge(hub, challenge_of(http), 1)).json()["token"]
        own = {"Authorization": f"Bearer {token}"}
        assert http.get("/v1/series/1/exchanges", headers=own).status_code == 200
        hub.do(lambda: hub.desk.tokens.pop(token))
        answer = http.get("/v1/series/1/exchanges", headers=own)
        assert problem(answer) == "unauthorized"
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="ccesa"'


def test_p1_a_client_is_who_its_token_says_whatever_else_it_claims(hub):
    """A reply in the name of another client counts for the sender, and is faulty there."""
    with hub.client(2) as http:
        claims = {"X-Client": "1", "Ccesa-Client": "1", "X-Forwarded-User": "client-1", "From": "client-1"}
        asked = http.get("/v1/series/1/exchanges", params={"client": 1}, headers=claims)
        assert asked.content == hub.do(lambda: hub.desk.view.requests[2])
        stolen = hub.reply(1)
        answer = http.put(hub.path(), content=stolen, params={"client": 1}, headers=claims)
        assert problem(answer) == "faulty"
        assert hub.desk.answered == {}
    with hub.client(1) as http:
        assert http.put(hub.path(), content=stolen).status_code == 204
        assert set(hub.desk.answered) == {1}


NO_TOKENS = [
    "",
    "Bearer",
    "Basic token-0",
    "token-0",
    "Bearer token-9",
    "Bearer token-0 token-1",
    "Bearer token-0,token-1",
    "Bearer " + "a" * 201,
    "bearertoken-0",
    b"Bearer \xfc",
    b"Bearer token-0\xa0",
]


def test_p1_whoever_has_no_token_is_told_nothing(hub):
    for value in NO_TOKENS:
        for method, path in [
            ("GET", "/v1/series/1/exchanges"),
            ("PUT", hub.path()),
            ("PATCH", hub.path()),
            ("GET", "/v1/results/0"),
            ("GET", f"/v1/tasks/{'00' * 32}"),
        ]:
            with hub.client(None) as http:
                answer = http.request(method, path, headers={"Authorization": value})
                assert problem(answer) == "unauthorized"
    assert hub.desk.heard == []


def test_a_connection_is_closed_after_three_failures(hub):
    with socket.create_connection(hub.address, timeout=10) as plain:
        for _ in range(3):
            plain.sendall(b"GET /v1/results/0 HTTP/1.1\r\nAuthorization: Bearer guess\r\n\r\n")
            answer = b""
            while not answer.endswith(b"}"):
                answer += plain.recv(4096)
            assert answer.startswith(b"HTTP/1.1 401 ")
        assert plain.recv(1) == b""


def test_strangers_that_guess_do_not_make_members_wait(hub):
    """Of tokens on unknown connections only so many are looked up at a time."""
    guesses, slow = [], asyncio.Event()
    known = hub.desk.member_of

    async def member_of(token):
        if token.startswith("guess"):
            await slow.wait()
        return await known(token)

    hub.desk.member_of = member_of
    with hub.client(1) as member:
        assert member.get("/v1/series/1/exchanges").status_code == 200
        for number in range(hub.limits.lookups + 1):
            guesses.append(socket.create_connection(hub.address, timeout=10))
            guesses[-1].sendall(b"GET /v1/results/0 HTTP/1.1\r\nAuthorization: Bearer guess-%d\r\n\r\n" % number)
        assert guesses[-1].recv(4096).startswith(b"HTTP/1.1 503 ")
        assert member.get("/v1/series/1/exchanges").status_code == 200
        hub.do(slow.set)
        assert guesses[0].recv(4096).startswith(b"HTTP/1.1 401 ")
    for one in guesses:
        one.close()


def test_a_member_opens_only_so_many_sessions(hub, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(asking, "time", SimpleNamespace(time=time.time, monotonic=lambda: clock[0]))
    with hub.client(None) as http:
        for number in range(hub.limits.sessions_per_minute + 1):
            answer = http.post("/v1/sessions", json=answer_challenge(hub, challenge_of(http), 1))
            assert answer.status_code == (201 if number < hub.limits.sessions_per_minute else 429)
        assert problem(answer) == "busy"
        answer = http.post("/v1/sessions", json=answer_challenge(hub, challenge_of(http), 2))
        assert answer.status_code == 201
        clock[0] += 61
        answer = http.post("/v1/sessions", json=answer_challenge(hub, challenge_of(http), 1))
        assert answer.status_code == 201


def test_p1_failures_are_logged_and_do_not_fill_the_log(hub, caplog):
    for _ in range(20):
        with hub.client(77) as http:
            assert problem(http.get("/v1/results/0")) == "unauthorized"
    lines = [record for record in caplog.records if record.getMessage() == "unauthorized"]
    assert 1 <= len(lines) <= 10
    assert lines[0].fields["address"] == "127.0.0.1"
    assert "token-77" not in str([record.fields for record in lines])
    assert hub.count("refusals_total", reason="unauthorized") == 20


def test_without_a_charter_there_are_no_sessions(tmp_path):
    with served(tmp_path, "curious") as hub, hub.client(None) as http:
        assert problem(http.get("/v1/challenge")) == "not-found"
        assert problem(http.post("/v1/sessions", json={})) == "not-found"


def test_every_challenge_is_another(hub):
    with hub.client(None) as http:
        assert len({challenge_of(http) for _ in range(50)}) == 50
        assert http.get("/v1/challenge").headers["Cache-Control"].startswith("no-store")


def test_tokens_and_replies_are_never_logged(hub, caplog):
    caplog.set_level(0)
    with hub.client(2) as http:
        http.get("/v1/series/1/exchanges")
        http.put(hub.path(), content=hub.reply(1))
        http.get("/v1/results/0", headers=hub.own(77))
    hub.stop()
    own = [record for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]
    assert not any("token-" in record.getMessage() for record in own)


def test_a_member_that_is_set_aside_gets_no_results(tmp_path):
    with served(tmp_path) as hub, hub.client(1) as http:
        hub.desk.aside.add(1)
        answer = http.get("/v1/results/0")
        assert problem(answer) == "set-aside"
        assert answer.status_code == 404
        hub.desk.aside.clear()
        assert problem(http.get("/v1/results/9")) != "set-aside"


def test_what_a_member_knows_is_heard(tmp_path):
    """It asks for what comes after that: a hub whose database has gone back has no such exchange."""
    with served(tmp_path) as hub, hub.client(1) as http:
        assert http.get("/v1/series/7/exchanges?after=41").status_code == 204
        assert (7, 41) in hub.desk.known
        assert problem(http.put("/v1/series/7/exchanges/42/reply", content=b"a reply")) == "unavailable"
        assert (7, 42) in hub.desk.known
