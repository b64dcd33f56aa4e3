"""Every state against every input: one message is legal, all others are refused in the right way."""

import itertools
from types import UnionType
from typing import get_args, get_type_hints

import numpy as np
import pytest

from ccesa.agreement.config import ConfigError
from ccesa.errors import FaultyClient, FaultyServer, OrderError, VectorError
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.server import Server
from rounds import CONFIGURE, Play, changed, configure, read, steps_under
from rounds import CONFIGURE as GUARDS

ROUND = {"series_id": bytes(32)}
#: A guard, without *accept* and with it.
WAYS = {f"{guard}{' with accept' * accept}": (guard, accept) for guard in GUARDS for accept in (False, True)}
TABLES = {way: steps_under(*what) for way, what in WAYS.items()}
NAMES = {way: [step.name for step in steps] for way, steps in TABLES.items()}


def fresh(way: str) -> Play:
    guard, accept = WAYS[way]
    return Play(CONFIGURE[guard](5, accept=accept, **ROUND))


def transcript(way: str) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Client 0's request and reply of every step of one round."""
    play, requests, replies = fresh(way), {}, {}
    while play.requests:
        name = play.server.step.name
        requests[name] = play.requests[0]
        answers = play.replies()
        replies[name] = answers[0]
        for i, reply in answers.items():
            play.server.receive(i, reply)
        play.requests = play.server.close()
    return requests, replies


TRANSCRIPTS = {way: transcript(way) for way in WAYS}
REQUESTS = {way: requests for way, (requests, _) in TRANSCRIPTS.items()}
REPLIES = {way: replies for way, (_, replies) in TRANSCRIPTS.items()}
STATES = [(way, state) for way in WAYS for state in NAMES[way]]
PAIRS = [(way, state, other) for way, state in STATES for other in NAMES[way]]
WRONG = [(way, state, other) for way, state, other in PAIRS if state != other]
#: A message of the other guard, or with another word on *accept*, where that is another message.
FOREIGN = [(way, state, other) for way, state in STATES for other in WAYS if other != way and state in NAMES[other]]


def test_the_table_has_a_message_type_for_each_step():
    kinds = [kind for steps in TABLES.values() for step in steps for kind in (step.request, *step.replies)]
    assert set(kinds) == set(m.MESSAGES[: m.MESSAGES.index(m.HelperKeysRequest)])


@pytest.mark.parametrize("way", WAYS)
def test_each_step_gets_the_state_that_the_one_before_returns(way):
    """Types hold each row of a table together; this holds one row to the next."""

    def next_state(function):
        returned = get_type_hints(function)["return"]
        first = next(iter(get_args(returned) if isinstance(returned, UnionType) else [returned]))
        return get_args(first)[0]

    for row, following in itertools.pairwise(TABLES[way]):
        assert issubclass(next_state(row.answer), following.state)
        assert issubclass(next_state(row.close), get_type_hints(following.close)["state"])


@pytest.mark.parametrize(("way", "state", "wrong"), WRONG)
def test_client_takes_only_the_request_of_its_step(way, state, wrong):
    play = fresh(way).until(state)
    # These two are the same bytes in every round of this id and these survivors: a mere repeat.
    if (state, wrong) in {("share", "advertise"), ("unmask", "confirm")}:
        assert play.clients[0].receive(REQUESTS[way][wrong])
        return
    # And so is this one, after which the vector is not kept.
    if "accept" in NAMES[way] and wrong == "mask" and NAMES[way].index(state) == NAMES[way].index("mask") + 1:
        with pytest.raises(OrderError, match="was already returned"):
            play.clients[0].receive(REQUESTS[way][wrong])
        return
    with pytest.raises(FaultyServer):
        play.clients[0].receive(REQUESTS[way][wrong])
    assert play.clients[0].done


@pytest.mark.parametrize(("way", "state", "reply"), PAIRS)
def test_client_never_takes_a_reply(way, state, reply):
    play = fresh(way).until(state)
    with pytest.raises(FaultyServer):
        play.clients[0].receive(REPLIES[way][reply])


@pytest.mark.parametrize(("way", "state", "wrong"), WRONG)
def test_server_takes_only_the_replies_of_its_step(way, state, wrong):
    play = fresh(way).until(state)
    with pytest.raises(FaultyClient):
        play.server.receive(0, REPLIES[way][wrong])


@pytest.mark.parametrize(("way", "state", "other"), FOREIGN)
def test_nobody_takes_a_message_of_another_guard(way, state, other):
    """Not even with the right context on it."""
    play = fresh(way).until(state)
    context = play.config.context
    for foreign, receive, refusal in (
        (REQUESTS[other][state], play.clients[0].receive, FaultyServer),
        (REPLIES[other][state], lambda data: play.server.receive(0, data), FaultyClient),
    ):
        if read(foreign).__class__ in {kind for step in TABLES[way] for kind in (step.request, *step.replies)}:
            continue  # both guards have it
        with pytest.raises(refusal):
            receive(changed(foreign, context=context))


@pytest.mark.parametrize(("way", "state"), STATES)
def test_client_after_each_step_repeats_itself_and_only_itself(way, state):
    play = fresh(way).until(state)
    first = play.clients[0].receive(play.requests[0])
    if state == "mask":  # as large as the model: the transport keeps it
        with pytest.raises(OrderError, match="was already returned"):
            play.clients[0].receive(play.requests[0])
    else:
        assert play.clients[0].receive(play.requests[0]) == first
    for i in range(1, 5):
        play.server.receive(i, play.clients[i].receive(play.requests[i]))
    play.server.receive(0, first)
    play.requests = play.server.close()
    play.finish() if play.requests else None
    assert np.array_equal(play.server.aggregate.vector, play.expected(range(5)))


def test_the_server_says_what_is_out_of_order():
    server = Server(configure(5))
    with pytest.raises(OrderError, match="not been opened"):
        server.close()
    with pytest.raises(OrderError, match="not been opened"):
        server.receive(0, b"")
    server.open()
    with pytest.raises(OrderError, match="opened already"):
        server.open()
    with pytest.raises(OrderError, match="no sum yet"):
        server.result()


def test_the_server_is_over_when_it_is_over():
    play = Play(configure(5))
    play.finish()
    for call in (play.server.close, lambda: play.server.receive(0, REPLIES["curious"]["unmask"])):
        with pytest.raises(OrderError, match="over"):
            call()


def test_waiting_names_who_is_due():
    play = Play(configure(5))
    play.server.receive(2, play.clients[2].receive(play.requests[2]))
    assert play.server.waiting == {0, 1, 3, 4}


@pytest.mark.parametrize(
    "vector",
    [np.zeros(4, np.uint16), np.zeros(5, np.uint32), np.zeros(5), [0] * 5, np.zeros((5, 1), np.uint16), None],
    ids=["short", "wide", "float", "list", "matrix", "none"],
)
def test_a_vector_of_another_shape_or_type_is_the_callers_mistake(vector):
    with pytest.raises(VectorError):
        Client(configure(5), 0, vector)


def test_a_wrong_vector_from_a_function_loses_nothing():
    made = [np.zeros(4, np.uint16), np.arange(5, dtype=np.uint16)]
    config = configure(5)
    play = Play(config)
    play.clients[0] = Client(config, 0, lambda: made.pop(0))
    play.until("mask")
    with pytest.raises(VectorError):
        play.clients[0].receive(play.requests[0])
    play.vectors[0] = np.arange(5, dtype=np.uint16)
    assert np.array_equal(play.finish().vector, play.expected(range(5)))


@pytest.mark.parametrize("number", [-1, 5])
def test_a_client_that_is_not_enrolled(number):
    with pytest.raises(ConfigError, match="not in"):
        Client(configure(5), number, np.zeros(5, np.uint16))


def test_threads_are_counted_from_zero():
    with pytest.raises(ConfigError, match="threads must be 0 or greater"):
        Client(configure(5), 0, np.zeros(5, np.uint16), threads=-1)
    with pytest.raises(ConfigError, match="threads must be 0 or greater"):
        Server(configure(5), threads=-1)
