"""Every state against every input: one message is legal, all others are refused in the right way."""

import numpy as np
import pytest

from ccesa.config import ConfigError
from ccesa.errors import FaultyClient, FaultyServer, OrderError, VectorError
from ccesa.protocol import messages as m
from ccesa.protocol.client import STEP_FUNCTIONS, Client
from ccesa.protocol.server import Server
from ccesa.protocol.steps import STEPS
from rounds import Play, configure

STEP_LIST = STEPS["curious"]
NAMES = [step.name for step in STEP_LIST]
ROUND = {"round_id": bytes(32)}


def transcript() -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Client 0's request and reply of every step of one round."""
    play, requests, replies = Play(configure(5, **ROUND)), {}, {}
    while play.requests:
        name = play.server.step.name
        requests[name] = play.requests[0]
        answers = play.replies()
        replies[name] = answers[0]
        for i, reply in answers.items():
            play.server.receive(i, reply)
        play.requests = play.server.close()
    return requests, replies


REQUESTS, REPLIES = transcript()


def test_the_table_has_a_message_type_for_each_step():
    kinds = [kind for step in STEP_LIST for kind in (step.request, step.reply)]
    assert kinds == list(m.MESSAGES)
    assert list(STEP_FUNCTIONS) == NAMES


WRONG = [(state, wrong) for state in NAMES for wrong in NAMES if state != wrong]


@pytest.mark.parametrize(("state", "wrong"), WRONG)
def test_client_takes_only_the_request_of_its_step(state, wrong):
    play = Play(configure(5, **ROUND)).until(state)
    if (state, wrong) == ("share", "advertise"):  # the same for every round of this id: a mere repeat
        assert play.clients[0].receive(REQUESTS[wrong])
        return
    with pytest.raises(FaultyServer):
        play.clients[0].receive(REQUESTS[wrong])
    assert play.clients[0].done


@pytest.mark.parametrize("reply", NAMES)
@pytest.mark.parametrize("state", NAMES)
def test_client_never_takes_a_reply(state, reply):
    play = Play(configure(5, **ROUND)).until(state)
    with pytest.raises(FaultyServer):
        play.clients[0].receive(REPLIES[reply])


@pytest.mark.parametrize(("state", "wrong"), WRONG)
def test_server_takes_only_the_replies_of_its_step(state, wrong):
    play = Play(configure(5, **ROUND)).until(state)
    with pytest.raises(FaultyClient):
        play.server.receive(0, REPLIES[wrong])


@pytest.mark.parametrize("state", NAMES)
def test_client_after_each_step_repeats_itself_and_only_itself(state):
    play = Play(configure(5, **ROUND)).until(state)
    first = play.clients[0].receive(play.requests[0])
    if state == "mask":  # as large as the model: the transport keeps it
        with pytest.raises(OrderError, match="handed over already"):
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
    for call in (play.server.close, lambda: play.server.receive(0, REPLIES["unmask"])):
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


@pytest.mark.parametrize("threads", [0, -1])
def test_threads_are_counted_from_one(threads):
    with pytest.raises(ConfigError, match="threads"):
        Client(configure(5), 0, np.zeros(5, np.uint16), threads=threads)
    with pytest.raises(ConfigError, match="threads"):
        Server(configure(5), threads=threads)
