"""The harnesses of fuzz/ without a fuzzer: the corpus, and thousands of mutations of it, always the same."""

import itertools
import random
from functools import reduce
from operator import or_

import msgspec
import pytest

from ccesa.agreement.charter import Charter
from ccesa.crypto import primitives
from ccesa.errors import MalformedMessage
from ccesa.protocol import assisted_helper, assisted_server, envelope
from ccesa.protocol import messages as m
from fuzz import (
    admission,
    assisted_replies,
    assisted_requests,
    assisted_stage,
    charter,
    configuration,
    identity,
    messages,
    requests,
    series_stage,
    stage,
    suspended,
)
from fuzz.corpus import seeds
from fuzz.harnesses import CORPUS, NAMES, corpus, harness
from fuzz.mutate import MOST_BYTES, mutations

#: Mutations of each; feeding clients and servers is the slowest.
COUNTS = dict.fromkeys(NAMES, 4000) | {
    "requests": 1500,
    "replies": 1500,
    "envelopes": 1500,
    "assisted_requests": 1000,
    "assisted_replies": 1500,
    "helper_keys": 1000,
}


@pytest.mark.parametrize("name", NAMES)
def test_corpus(name):
    one = harness(name)
    assert len(corpus(name)) >= 6
    for data in corpus(name):
        one(data)


@pytest.mark.parametrize("name", NAMES)
def test_mutations_of_the_corpus(name):
    one = harness(name)
    for data in itertools.islice(mutations(corpus(name), random.Random(name)), COUNTS[name]):
        one(data)


def test_there_is_a_corpus_for_every_harness_and_no_other():
    assert {path.name for path in CORPUS.iterdir()} == set(NAMES) == set(seeds())


def test_the_corpus_has_every_message_of_every_step():
    found = set()
    for data in corpus("messages"):
        try:
            found.add(type(m.decode(data, len(data))))
        except MalformedMessage:
            continue
    assert found == set(m.MESSAGES)
    for name in ("requests", "replies", "suspended"):
        assert {data[0] for data in corpus(name)} == set(range(len(stage.PLACES)))
    accusing = 2 * len(stage.WITH_GRAPHS)  # complaints, and replies of accept
    assert len(corpus("replies")) == len(stage.PLACES) + accusing


@pytest.mark.parametrize("name", ["requests", "replies"])
def test_what_the_parties_are_fed_is_still_what_they_accept(name):
    """Otherwise every mutation would be refused at the door. After a change: python -m fuzz.corpus."""
    for data in corpus(name):
        stand = stage.new_stand(stage.PLACES[data[0]])
        if name == "requests":
            stand.clients[requests.WHO].receive(data[1:])
        else:
            stand.server.receive(requests.WHO, data[1:])


def test_parties_of_rounds_with_helpers_accept_what_they_are_fed():
    """Otherwise every mutation would be refused at the door. After a change: python -m fuzz.corpus."""
    inputs = {name: set(corpus(name)) for name in ("assisted_requests", "assisted_replies")}
    for index, place in enumerate(assisted_stage.REQUESTS):
        assert bytes([index]) + assisted_stage.requests()[place] in inputs["assisted_requests"]
    for index, place in enumerate(assisted_stage.REPLIES):
        server, reply = assisted_stage.new_stand(place)
        assert bytes([index]) + reply in inputs["assisted_replies"]
        server.receive(assisted_stage.MEMBER if place == "mask" else assisted_stage.HELPER, reply)
    assert assisted_stage.new_member(assisted_stage.MEMBER).receive(assisted_stage.requests()["member"])
    for place in ("key", "confirm", "unmask", "answered"):
        helper = assisted_stage.new_helper(0, assisted_stage.home_before(place))
        assert helper.receive(assisted_stage.requests()[place])
    series = assisted_stage.new_series_helper(assisted_stage.new_home())
    assert len(envelope.unpack(series.receive(assisted_stage.requests()["series"]))) == 3


@pytest.mark.parametrize("name", ["member", "helper", "server"])
def test_harnesses_notice_a_party_that_checks_nothing(monkeypatch, name):
    """One check is taken away, and the corpus with its mutations finds it."""
    if name == "member":
        monkeypatch.setattr(primitives, "verify", lambda *_: None)
    elif name == "helper":
        monkeypatch.setattr(assisted_helper, "note_question", lambda *_: None)
        monkeypatch.setattr(assisted_helper, "question_digest", lambda *_: bytes(32))
    else:
        monkeypatch.setattr(assisted_server, "check_helper_signed", lambda *_: None)
    module = assisted_replies if name == "server" else assisted_requests
    inputs = [*corpus(module.__name__.removeprefix("fuzz."))]
    with pytest.raises(AssertionError):
        list(map(module.one, [*inputs, *itertools.islice(mutations(inputs, random.Random(3)), 3000)]))


def test_envelopes_of_the_corpus_are_answered_in_full():
    """Otherwise every mutation would be refused at the door."""
    for data in corpus("envelopes"):
        messages, place = len(data) > 1 and data[1:], series_stage.chosen(data)
        if data == bytes([data[0]]) + series_stage.played(*place)[0][0]:
            reply = series_stage.stopped(*place).receive(messages)
            assert len(envelope.unpack(reply)) == len(envelope.unpack(messages)) > 0
    assert {data[0] for data in corpus("envelopes")} == set(range(len(series_stage.PLACES)))


def test_the_charter_of_the_corpus_is_the_one_of_the_rounds(monkeypatch):
    """And the harness reads it to the end, as it lies in its file."""
    read, decode = [], Charter.decode
    monkeypatch.setattr(Charter, "decode", lambda self, data: read.append(self) or decode(self, data))
    for data in corpus("charter"):
        charter.one(data)
    assert stage.CHARTER in read
    assert len(read) >= 4


def test_suspended_clients_of_the_corpus_can_still_be_resumed():
    for data in corpus("suspended"):
        place = stage.PLACES[data[0]]
        client = stage.new_client(stage.configuration(place.guard, place.accept), suspended.WHO)
        client.resume(suspended.sealed(data[1:]))
        client.receive(stage.stand(place).requests[suspended.WHO])


def test_mutations_repeat_and_are_bounded():
    first, again = (list(itertools.islice(mutations(corpus("messages"), random.Random(1)), 500)) for _ in range(2))
    assert first == again
    assert len(set(first)) > 400
    assert max(map(len, first)) <= MOST_BYTES


def test_harnesses_notice_a_second_encoding(monkeypatch):
    """A decoder that forgets to compare with the only encoding is found by the corpus and its mutations."""
    loose = msgspec.msgpack.Decoder(reduce(or_, m.MESSAGES))

    def decode(data, most):
        try:
            return loose.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedMessage(str(error)) from error

    monkeypatch.setattr(m, "decode", decode)
    inputs = itertools.islice(mutations(corpus("messages"), random.Random(2)), 4000)
    with pytest.raises(AssertionError, match="two encodings"):
        list(map(messages.one, inputs))


@pytest.mark.parametrize("module", [messages, configuration, admission, charter, identity])
def test_harnesses_let_foreign_exceptions_through(monkeypatch, module):
    def broken(*_):
        raise KeyError("a fault of our own")

    name = {
        messages: "fuzz.messages.m.decode",
        configuration: "fuzz.configuration.RoundConfig.decode",
        admission: "fuzz.admission.Admission.load",
        charter: "fuzz.charter.Charter.load",
        identity: "fuzz.identity.Identity.load",
    }[module]
    monkeypatch.setattr(name, broken)
    with pytest.raises(KeyError):
        module.one(corpus(module.__name__.removeprefix("fuzz."))[0])
