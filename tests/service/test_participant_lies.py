"""A hub that lies, or is none: an error by name or an empty reply, and no vector leaves."""

import base64
import json
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa.agreement.config import Floor
from ccesa.errors import CcesaError, ConfigError, FaultyServer, MalformedMessage
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.service.forms import AnyForm, Arrays, Statistics, Words
from ccesa.service.participant import core as results
from ccesa.service.participant.calls import MOST_JSON, Call, HubAnswer
from ccesa.service.participant.line import Line
from ccesa.service.tokens import new_token
from ccesa.statistics import Category, Schema
from played_hub import Played, PlayedHub, check_sums, play, problem
from rounds import charter
from series_rounds import GUARDS, configure_series

SCHEMA = Schema(name="beds", least_group=1, numbers=(), categories=(Category(name="ward", values=("a", "b")),))
OTHER = {"active": "curious", "curious": "active"}


def told(hub: PlayedHub, **changes) -> HubAnswer:
    """What the hub announces, but for this."""
    answer = PlayedHub.federation(hub, 0)
    said = {**json.loads(answer.body), **changes}
    return replace(answer, body=json.dumps({k: v for k, v in said.items() if v is not ...}).encode())


def in_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def another(guard: str, **options) -> str:
    return in_base64(configure_series(guard, **options).encode())


#: What is announced, by the guard of the site.
ANNOUNCED = {
    "nothing": lambda hub: HubAnswer(status=200),
    "a page": lambda hub: HubAnswer(status=200, body=b"<html>Please log in"),
    "no text": lambda hub: HubAnswer(status=200, body=b'{"guard": "\xff"}'),
    "a deep list": lambda hub: HubAnswer(status=200, body=b"[" * 100_000),
    "a list": lambda hub: HubAnswer(status=200, body=b"[]"),
    "too much": lambda hub: HubAnswer(status=200, body=told(hub).body + b" " * MOST_JSON),
    "not here": lambda hub: problem(404, "not-found"),
    "no guard": lambda hub: told(hub, guard=...),
    "an unknown guard": lambda hub: told(hub, guard="none"),
    "another guard": lambda hub: told(hub, guard=OTHER[hub.config.guard]),
    "no number": lambda hub: told(hub, series="1"),
    "a negative number": lambda hub: told(hub, series=-1),
    "a number beyond all": lambda hub: told(hub, series=2**53),
    "no configuration": lambda hub: told(hub, config=...),
    "an empty configuration": lambda hub: told(hub, config=""),
    "no base64": lambda hub: told(hub, config="%%%"),
    "bytes": lambda hub: told(hub, config=in_base64(b"\xc1" * 40)),
    "a long configuration": lambda hub: told(hub, config=in_base64(bytes(5000))),
    "a configuration of another guard": lambda hub: told(hub, config=another(OTHER[hub.config.guard])),
    "a round without accept": lambda hub: told(
        hub, config=in_base64(msgspec.structs.replace(hub.config, accept=False).encode())
    ),
    "no form": lambda hub: told(hub, form=None),
    "an unknown form": lambda hub: told(hub, form={"type": "everything"}),
    "arrays": lambda hub: told(hub, form={"type": "arrays", "clients": 6}),
}
UNDER_CHARTER = {
    "no charter": lambda hub: told(hub, charter=None),
    "another charter": lambda hub: told(hub, charter=charter(7).digest.hex()),
    "another charter's round": lambda hub: told(hub, config=another("active", clients=7)),
}
LIES = [
    *((guard, what, lie) for guard in GUARDS for what, lie in ANNOUNCED.items()),
    *(("active", what, lie) for what, lie in UNDER_CHARTER.items()),
]


@pytest.mark.parametrize(("guard", "what", "lie"), LIES, ids=[f"{guard}: {what}" for guard, what, _ in LIES])
def test_what_a_hub_announces_is_checked_before_anything_is_said_to_it(guard, what, lie):
    hub = PlayedHub(guard)
    player = Played(hub, 0)
    hub.federation = lambda after: lie(hub)
    with pytest.raises((ConfigError, FaultyServer, MalformedMessage)):
        play(hub, [player])
    assert {call.path.partition("?")[0] for call in player.calls} <= {"/v1/federation"}


def test_rounds_below_the_floor_of_a_site_without_a_charter():
    """It says who it is to a hub that it trusts, and nothing more."""
    hub = PlayedHub("curious", min_survivors=2)
    player = Played(hub, 0, floor=Floor(survivors=4))
    play(hub, [player])
    assert all("this client's floor is 4" in text for text in player.said("refused"))
    assert {reply for _, _, reply in hub.sent} == {b""}


# Answers of others than hubs

#: What boxes on the way say in place of a hub: portals, proxies, and networks that deliver.
NOT_HUBS = [
    *(HubAnswer(status=status) for status in (302, 403, 404, 407, 502, 511, 520)),
    HubAnswer(status=307, headers={"location": "https://evil.example"}),
    HubAnswer(status=401, headers={"www-authenticate": "Basic"}, body=b"who are you"),
    HubAnswer(status=200, headers={"content-type": "text/html; charset=utf-8"}, body=b"<html>Log in"),
    HubAnswer(status=404, body=b'{"type": "about:blank", "detail": "no such site"}'),
    HubAnswer(status=409, headers={"content-type": "text/html"}, body=b"<html>"),
]


@pytest.mark.parametrize("guard", GUARDS)
@settings(max_examples=20)
@given(boxes=st.dictionaries(st.integers(1, 150), st.sampled_from(NOT_HUBS), max_size=30))
def test_whoever_answers_in_place_of_the_hub_costs_time_and_nothing_else(guard, boxes):
    """Wherever it happens, and whatever they say: the hub is asked again."""
    hub = PlayedHub(guard, rounds=2)
    players = [Played(hub, client) for client in range(6)]
    players[1].changed(part_bytes=70)
    honest = hub.answer

    def answer(call: Call) -> HubAnswer | None:
        box = boxes.get(len(players[1].calls) + 1) if call is players[1].wish else None
        return box or honest(call)

    hub.answer = answer
    play(hub, players)
    check_sums(hub)
    assert [one.aggregate.survivors for one in hub.ended] == [tuple(range(6))] * 2
    assert not players[1].said("refused")


@pytest.mark.parametrize("box", NOT_HUBS)
def test_whoever_answers_in_place_of_the_hub_for_ever(box):
    """Tried as long as the site is patient, more and more rarely, and what they say is told."""
    hub = PlayedHub("active")
    player = Played(hub, 0, patience=100)
    hub.answer = lambda call: box
    with pytest.raises(TimeoutError, match=r"has been away .* this is not a hub's answer"):
        play(hub, [player])
    assert {(call.method, call.path) for call in player.calls} == {("GET", "/v1/federation?after=0")}
    assert 5 < len(player.calls) < 12


# Sessions

SIGNED = {
    "no JSON": lambda call: HubAnswer(status=200, body=b"no"),
    "no base64": lambda call: HubAnswer(status=200, body=b'{"challenge": "%", "expires_in": 1}'),
    "a short one": lambda call: HubAnswer(status=200, body=b'{"challenge": "AAAA", "expires_in": 1}'),
    "a long one": lambda call: HubAnswer(
        status=200, body=json.dumps({"challenge": in_base64(bytes(2000)), "expires_in": 1}).encode()
    ),
    "none here": lambda call: problem(404, "not-found"),
}


@pytest.mark.parametrize("lie", SIGNED.values(), ids=SIGNED)
def test_a_challenge_that_is_none_is_not_signed(lie):
    hub = PlayedHub("active")
    player = Played(hub, 0)
    honest = hub.answer
    hub.answer = lambda call: lie(call) if call.path == "/v1/challenge" else honest(call)
    with pytest.raises(FaultyServer):
        play(hub, [player])
    assert not any(call.method == "POST" for call in player.calls)


@pytest.mark.parametrize("token", ["", "a b", "a\r\nx-evil: 1", "\xe4", "x" * 5000])
def test_a_session_whose_token_no_header_can_have(token):
    hub = PlayedHub("active")
    player = Played(hub, 0)
    hub.new_session = lambda said: HubAnswer(status=201, body=json.dumps({"token": token}).encode())
    with pytest.raises(FaultyServer, match="the token contains characters not allowed in a header"):
        play(hub, [player])


def test_a_hub_that_lets_nobody_in_is_given_up():
    hub = PlayedHub("active")
    player = Played(hub, 0)
    hub.new_session = lambda said: problem(401, "unauthorized")
    with pytest.raises(FaultyServer, match=r"refused this member \(401: it is unauthorized"):
        play(hub, [player])
    assert sum(call.method == "POST" for call in player.calls) == 3


# Exchanges


def vectors_sent(hub: PlayedHub) -> int:
    messages = [one for _, _, reply in hub.sent for one in envelope.unpack(reply)]
    return sum(m.has_vector(m.kind_of(one)) for one in messages)


def with_header(answer: HubAnswer, **changes) -> HubAnswer:
    headers = {**answer.headers, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return replace(answer, headers={name: value for name, value in headers.items() if value is not None})


#: What is answered in place of an exchange that asks for vectors.
WRONG = {
    "no number": lambda answer: with_header(answer, ccesa_exchange=None),
    "a fraction": lambda answer: with_header(answer, ccesa_exchange="1.5"),
    "a negative number": lambda answer: with_header(answer, ccesa_exchange="-7"),
    "digits of another script": lambda answer: with_header(answer, ccesa_exchange="٣"),
    "thousands of digits": lambda answer: with_header(answer, ccesa_exchange="9" * 5000),
    "the exchange before": lambda answer: with_header(
        answer, ccesa_exchange=str(int(answer.headers["ccesa-exchange"]) - 1)
    ),
    "a task by its name": lambda answer: with_header(answer, ccesa_task="the task"),
    "a short digest": lambda answer: with_header(answer, ccesa_task="00" * 31),
    "created": lambda answer: replace(answer, status=201),
    "not here": lambda answer: problem(404, "not-found"),
    "too much": lambda answer: replace(answer, body=answer.body + bytes(1 << 20)),
}


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("lie", WRONG.values(), ids=WRONG)
def test_an_answer_that_is_no_exchange_ends_it(guard, lie):
    hub = PlayedHub(guard, rounds=1)
    players = [Played(hub, client) for client in range(6)]
    honest = hub.get

    def get(client, series, after):
        answer = honest(client, series, after)
        return lie(answer) if answer is not None and "ccesa-task" in answer.headers else answer

    hub.get = get
    with pytest.raises(FaultyServer):
        play(hub, players)
    assert vectors_sent(hub) == 0


def cut(body: bytes) -> bytes:
    return body[:-1]


def flipped(body: bytes) -> bytes:
    return body[:8] + bytes([body[8] ^ 1]) + body[9:]


def twice(body: bytes) -> bytes:
    return body + body


def of_another_client(body: bytes) -> bytes:
    """The same messages, as another client would get them."""
    messages = [m.decode(one, len(one)) for one in envelope.unpack(body)]
    return envelope.pack(msgspec.structs.replace(one, client=(one.client + 1) % 6).encode() for one in messages)


DAMAGE = [cut, flipped, twice, of_another_client, lambda body: b"\0" * 9, lambda body: body[4:]]


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("exchange", [0, 1, 2, 3])
def test_a_damaged_exchange_costs_the_site_its_rounds_and_no_vector(guard, damage, exchange):
    hub = PlayedHub(guard, rounds=1)
    players = [Played(hub, client) for client in range(6)]
    players[3].changed(client=3)
    honest = hub.get

    def get(client, series, after):
        answer = honest(client, series, after)
        damaged = client == 3 and answer is not None and hub.exchange == exchange and answer.status == 200
        return replace(answer, body=damage(answer.body)) if damaged else answer

    hub.get = get
    play(hub, players)
    replies = [reply for client, number, reply in hub.sent if client == 3 and number >= exchange]
    assert all(reply == b"" for reply in replies)
    assert players[3].said("refused") or players[3].said("out")
    assert [one.aggregate.survivors for one in hub.ended] == [(0, 1, 2, 4, 5)]


@pytest.mark.parametrize("guard", GUARDS)
def test_an_old_exchange_under_a_new_number_is_refused(guard):
    """As a hub would ask that wants a second vector, or the other share of a secret."""
    hub = PlayedHub(guard, rounds=4)
    players = [Played(hub, client) for client in range(6)]
    honest, seen = hub.get, []

    def get(client, series, after):
        answer = honest(client, series, after)
        if client != 3 or answer is None or answer.status != 200:
            return answer
        seen.append(answer.body)
        return replace(answer, body=seen[0]) if len(seen) > 4 else answer

    hub.get = get
    play(hub, players)
    assert len(seen) > 5
    assert players[3].said("refused") == ["an exchange that is over"] * (len(seen) - 4)
    late = [reply for client, exchange, reply in hub.sent if client == 3 and exchange >= 4]
    assert set(late) == {b""}


@pytest.mark.parametrize("guard", GUARDS)
def test_rounds_of_another_series_are_not_joined(guard):
    hub, other = PlayedHub(guard, rounds=1), PlayedHub(guard, rounds=1)
    player = Played(hub, 0)
    hub.open()
    other.open()
    hub.requests = other.requests
    while not hub.sent:
        player.step(hub.answer)
    assert hub.sent == [(0, 0, b"")]
    assert player.said("refused") == ["a message of another series"]


def test_a_strict_site_ends_with_what_a_hub_never_asks():
    hub, other = PlayedHub("active", rounds=1), PlayedHub("active", rounds=1)
    player = Played(hub, 0, strict=True)
    other.open()
    honest = hub.get
    hub.get = lambda *asked: replace(honest(*asked), body=other.requests[0])
    with pytest.raises(FaultyServer, match="another series"):
        play(hub, [player])
    assert hub.sent == []


# Tasks, and what becomes of replies

#: What is answered in place of a part of a task, and what is said about it.
PARTS = {
    "no range": (lambda answer: with_header(answer, content_range=None), "did not send the requested bytes"),
    "another part": (
        lambda answer: with_header(answer, content_range="bytes 1-10/10"),
        "a part that was not requested",
    ),
    "nothing": (
        lambda answer: HubAnswer(status=206, headers={"content-range": "bytes 0--1/9"}),
        "did not send the requested bytes",
    ),
    "more than there is": (
        lambda answer: with_header(answer, content_range=f"bytes 0-{len(answer.body) - 1}/{len(answer.body) - 1}"),
        "bytes in parts, got more",
    ),
    "more than fits": (
        lambda answer: with_header(answer, content_range=f"bytes 0-{len(answer.body) - 1}/{2**40}"),
        "1099511627776 bytes, and this site takes at most",
    ),
    "forbidden": (lambda answer: problem(403, "malformed"), "403: it is malformed"),
}


@pytest.mark.parametrize(("lie", "why"), PARTS.values(), ids=PARTS)
def test_a_task_that_does_not_come_as_it_was_asked_for(lie, why):
    hub = PlayedHub("active", rounds=1)
    players = [Played(hub, client) for client in range(6)]
    honest = hub.task
    hub.task = lambda *asked: lie(honest(*asked))
    with pytest.raises(FaultyServer, match=why):
        play(hub, players)
    assert vectors_sent(hub) == 0


@pytest.mark.parametrize(
    ("offset", "why"),
    [
        (0, "the server repeatedly rewound it"),
        (1, "the server repeatedly rewound it"),
        (-1, "an offset beyond its end"),
        (10**9, "an offset beyond its end"),
        (None, "an offset beyond its end"),
    ],
)
def test_an_upload_that_the_hub_never_takes_is_given_up(offset, why):
    hub = PlayedHub("active", rounds=1)
    player = Played(hub, 0, part_bytes=20)
    tries = iter(range(1000))  # then this test ends, whatever the site does

    def put(*_):
        next(tries)
        return problem(409, "upload-offset", upload_offset=offset)

    hub.put = put
    with pytest.raises(FaultyServer, match=why):
        play(hub, [player])


@pytest.mark.parametrize("status", [302, 400, 404, 413])
def test_a_reply_that_is_refused_as_no_hub_does(status):
    hub = PlayedHub("curious", rounds=1)
    player = Played(hub, 0)
    hub.put = lambda *asked: problem(status, "malformed")
    with pytest.raises(FaultyServer, match=f"answered {status}: it is malformed to a reply"):
        play(hub, [player])


def test_what_a_hub_says_is_shown_in_one_line_of_ascii():
    said = "\x1b[2J" + "ä\n" * 1000
    text = str(HubAnswer(status=422, body=json.dumps({"detail": said}).encode()))
    assert text.isascii()
    assert text.isprintable()
    assert len(text) < 400


def test_no_token_and_no_body_is_in_what_is_shown_of_a_call():
    hub = PlayedHub("curious", rounds=1)
    players = [Played(hub, client) for client in range(6)]
    play(hub, players)
    for call in players[0].calls:
        assert isinstance(call, Call)
        assert "body" not in repr(call)
        assert "token-0" not in repr(call)


# Whatever comes

FIELDS = [
    *("guard", "state", "series", "charter", "config", "form", "part_bytes", "question"),
    *("challenge", "token", "type", "detail", "upload_offset"),
]
NAMES = ["ccesa-exchange", "ccesa-task", "content-range", "retry-after", "upload-offset"]
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("AAAA" * 8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=8),
    max_leaves=8,
)
BODIES = st.binary(max_size=60) | JSONS.map(lambda value: json.dumps(value).encode())
ANSWERS = st.builds(
    HubAnswer,
    status=st.sampled_from([0, 200, 201, 204, 206, 301, 304, 400, 401, 404, 409, 410, 413, 416, 422, 500, 503]),
    headers=st.dictionaries(
        st.sampled_from(NAMES),
        st.integers(-2, 10).map(str) | st.text(max_size=8) | st.just("00" * 32) | st.just("bytes 0-9/10"),
    ),
    body=BODIES,
)


@pytest.mark.parametrize("guard", GUARDS)
@settings(max_examples=60)
@given(data=st.data())
def test_whatever_comes_ends_by_name_or_goes_on(guard, data):
    """Honest answers and others in any order: no errors but those of the package, and no vector too many."""
    hub = PlayedHub(guard, rounds=2)
    players = [Played(hub, client) for client in range(6)]
    honest, target, bad = hub.answer, players[2], st.integers(0, 5)

    def answer(call: Call) -> HubAnswer | None:
        return data.draw(ANSWERS) if call is target.wish and data.draw(bad) == 0 else honest(call)

    hub.answer = answer
    hub.open()
    for _ in range(60):
        for player in players:
            try:
                while not player.done and player.step(hub.answer):
                    pass
            except (CcesaError, TimeoutError):
                player.core = None
        if hub.state == "over":
            break
        hub.close()
    assert hub.ended[0].aggregate is not None
    sent = [one for client, _, reply in hub.sent if client == 2 for one in envelope.unpack(reply)]
    vectors = [(m.context_of(one), bytes(one)) for one in sent if m.has_vector(m.kind_of(one))]
    assert len(dict(vectors)) == len(set(vectors))


def result_of(form: AnyForm, value: object, **changes) -> list[dict]:
    """What a site makes of a result that a hub publishes."""
    said = {"question": 0, "outcome": "sum", "series": 1, "number": 0, "survivors": [1], "metrics": {}}
    body = json.dumps({**said, "head": "", "value": value, **changes}).encode()
    found: list[dict] = []
    core = results.fetch_results(Line(token=new_token(), part_bytes=1 << 26), form, 0, found.append)
    asked = next(core)
    with pytest.raises(StopIteration):
        core.send(HubAnswer(status=200, body=body[: asked.most + 1]))
    return [one["value"] for one in found]


REPORT = Statistics(schema=SCHEMA)
#: Results that grow in memory: empty lists take thirty times as many bytes as on the way.
GROWING = {
    "a report where words are": (Words(words=4), {"value": {"report": [[]] * 9}}),
    "lists where words are": (Words(words=4), {"value": {"words": [[]] * 9}}),
    "lists where arrays are": (Arrays(clients=4), {"value": [[]] * 9}),
    "too many words": (Words(words=4), {"value": {"words": "A" * (1 << 25), "bits": 32}}),
    "a long report": (REPORT, {"value": {"report": [[]] * (1 << 20), "text": ""}}),
    "a deep report": (REPORT, {"value": json.loads("[" * 900 + "]" * 900)}),
    "many survivors": (Arrays(clients=4), {"value": {"arrays": ""}, "survivors": [1] * (3 << 20)}),
    "lists for survivors": (REPORT, {"value": {}, "survivors": [[]] * 9}),
    "lists beside it": (Arrays(clients=4), {"value": {"arrays": ""}, "more": [[]] * (3 << 20)}),
}


@pytest.mark.parametrize(("form", "wrong"), GROWING.values(), ids=GROWING)
def test_a_result_is_of_the_form_and_nothing_that_grows_in_memory(form, wrong):
    with pytest.raises(FaultyServer):
        result_of(form, **{"value": {}, **wrong})


def test_results_of_each_form():
    words = Words(words=1 << 20)
    for form, value in (
        (words, words.for_json(np.zeros(1 << 20, np.uint32))),
        (Arrays(clients=4), {"arrays": "A" * (1 << 23), "weight": 2.5}),
        (REPORT, {"report": {"groups": [{"records": 4}]}, "text": "4 records"}),
    ):
        assert result_of(form, value) == [value]
