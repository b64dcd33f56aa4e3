"""Calls that overlap, and calls that are cut off halfway."""

import threading
import traceback

import numpy as np
import pytest

from attacks.stage import ids
from ccesa import words
from ccesa.errors import FaultyClient, FaultyServer, OrderError, UsageError
from ccesa.protocol.client import Client
from rounds import CONFIGURE, Play, changed, configure, read


def test_a_second_request_while_the_first_is_answered_is_refused():
    """Otherwise two different mask requests get two answers, whose difference is a pair mask."""
    config, started, go_on = configure(6), threading.Event(), threading.Event()

    def slow():
        started.set()
        go_on.wait(10)
        return np.zeros(5, np.uint16)

    play = Play(config)
    play.clients[0] = Client(config, 0, slow)
    play.until("mask")
    replies = []
    worker = threading.Thread(target=lambda: replies.append(play.clients[0].receive(play.requests[0])))
    worker.start()
    started.wait(10)
    sealed = read(play.requests[0]).sealed
    other = changed(play.requests[0], dropped=ids(1), sealed=sealed[80:])
    with pytest.raises(OrderError, match="overlap"):
        play.clients[0].receive(other)
    go_on.set()
    worker.join()
    assert len(replies) == 1
    with pytest.raises(FaultyServer):  # and afterwards it is one request too many
        play.clients[0].receive(other)


def test_overlapping_calls_of_the_server_are_refused(monkeypatch):
    play = Play(configure(6)).until("mask")
    replies = play.replies()
    started, go_on, add = threading.Event(), threading.Event(), words.add

    def slow_add(*arguments):
        started.set()
        go_on.wait(10)
        return add(*arguments)

    monkeypatch.setattr("ccesa.words.add", slow_add)
    worker = threading.Thread(target=play.server.receive, args=(0, replies[0]))
    worker.start()
    started.wait(10)
    for call in (lambda: play.server.receive(1, replies[1]), play.server.close):
        with pytest.raises(OrderError, match="overlap"):
            call()
    go_on.set()
    worker.join()
    monkeypatch.undo()
    for i in range(1, 6):
        play.server.receive(i, replies[i])
    play.requests = play.server.close()
    assert np.array_equal(play.finish().vector, play.expected(range(6)))


def interrupting(interruption):
    def cut_off(*_):
        raise interruption

    return cut_off


INTERRUPTIONS = [KeyboardInterrupt, SystemExit, GeneratorExit]
interruptions = pytest.mark.parametrize("interruption", INTERRUPTIONS, ids=lambda kind: kind.__name__)
guards = pytest.mark.parametrize("make", CONFIGURE.values(), ids=CONFIGURE)


@guards
@interruptions
def test_a_client_that_was_interrupted_while_its_vector_was_made_says_so(make, interruption):
    """Ctrl-C in hours of training: whoever goes on with this object would not know what it has done."""
    play = Play(make(6)).until("mask")
    object.__setattr__(play.clients[0]._round, "vector", interrupting(interruption))
    with pytest.raises(interruption):
        play.clients[0].receive(play.requests[0])
    for call in (lambda: play.clients[0].receive(play.requests[0]), play.clients[0].suspend):
        with pytest.raises(OrderError, match="a call of this client was interrupted halfway; make a new one"):
            call()
    play.clients[0] = play.make_client(0)  # for another round; in this one it has dropped out
    play.step(gone={0})
    assert np.array_equal(play.finish().vector, play.expected(range(1, 6)))


@guards
@pytest.mark.parametrize("step", ["advertise", "share", "mask", "unmask"])
def test_a_client_and_a_server_that_were_interrupted_in_any_step_say_so(make, step, monkeypatch):
    play = Play(make(6)).until(step)
    reply = play.clients[1].receive(play.requests[1])
    with monkeypatch.context() as patched:
        patched.setattr("ccesa.protocol.messages.wire.decode", interrupting(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            play.clients[0].receive(play.requests[0])
        with pytest.raises(KeyboardInterrupt):
            play.server.receive(1, reply)
    with pytest.raises(OrderError, match="this client was interrupted halfway; make a new one"):
        play.clients[0].receive(play.requests[0])
    for call in (lambda: play.server.receive(1, reply), play.server.close):
        with pytest.raises(OrderError, match="this server was interrupted halfway; make a new one"):
            call()
    again = Play(make(6))
    assert np.array_equal(again.finish().vector, again.expected(range(6)))


def test_an_interrupted_client_stays_so_after_other_refusals():
    play = Play(configure(6)).until("mask")
    object.__setattr__(play.clients[0]._round, "vector", interrupting(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        play.clients[0].receive(play.requests[0])
    for request in (b"", play.requests[0], b"\xc1"):
        with pytest.raises(OrderError, match="interrupted"):
            play.clients[0].receive(request)


@pytest.mark.parametrize("failure", [MemoryError, ValueError, OSError], ids=lambda kind: kind.__name__)
def test_a_vector_that_failed_can_be_made_again(failure):
    """The caller's own exception has changed nothing."""
    made = [interrupting(failure), lambda: np.arange(5, dtype=np.uint16)]
    play = Play(configure(6)).until("mask")
    object.__setattr__(play.clients[0]._round, "vector", lambda: made.pop(0)())
    with pytest.raises(failure):
        play.clients[0].receive(play.requests[0])
    play.vectors[0] = np.arange(5, dtype=np.uint16)
    assert np.array_equal(play.finish().vector, play.expected(range(6)))


def test_a_refused_reply_interrupts_nothing():
    play = Play(configure(6))
    for _ in range(2):
        with pytest.raises(FaultyClient):
            play.server.receive(0, b"")
    assert np.array_equal(play.finish().vector, play.expected(range(6)))


@interruptions
def test_a_vector_that_was_half_added_is_in_no_sum(interruption, monkeypatch):
    play, add = Play(configure(6)).until("mask"), words.add
    replies = play.replies()

    def half(total, data):
        add(total[:2], data[: 2 * total.itemsize])
        raise interruption

    with monkeypatch.context() as patched:
        patched.setattr("ccesa.words.add", half)
        with pytest.raises(interruption):
            play.server.receive(0, replies[0])
    for i in range(6):
        with pytest.raises(OrderError, match="interrupted"):
            play.server.receive(i, replies[i])
    with pytest.raises(OrderError, match="no sum yet"):
        play.server.result()


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, MemoryError])
def test_a_server_that_was_interrupted_gives_no_sum_at_all(interruption, monkeypatch):
    """A half unmasked total must not be unmasked again."""
    from ccesa.protocol import summing

    play = Play(configure(6)).until("unmask")
    for i, reply in play.replies().items():
        play.server.receive(i, reply)
    add_masks_by = summing.add_masks_by

    def cut_off(*arguments):
        add_masks_by(*arguments)
        raise interruption

    monkeypatch.setattr(summing, "add_masks_by", cut_off)
    with pytest.raises(interruption):
        play.server.close()
    monkeypatch.undo()
    with pytest.raises(OrderError, match="interrupted"):
        play.server.close()
    with pytest.raises(OrderError):
        play.server.result()


def test_an_abort_leaves_no_secret_behind_in_the_exception():
    play = Play(configure(6)).until("mask")
    secret = play.clients[0]._state.self_secret
    request = changed(play.requests[0], sealed=read(play.requests[0]).sealed[:-1])
    with pytest.raises(FaultyServer) as error:
        play.clients[0].receive(request)
    assert error.value.__cause__ is None
    inside = error.value.__traceback__.tb_next  # the frame of this test knows the secret, of course
    frames = traceback.TracebackException(FaultyServer, error.value, inside, capture_locals=True)
    assert "sealed" in "".join(frames.format()) or "fault" in "".join(frames.format())
    assert repr(secret)[2:-1] not in "".join(frames.format())
    assert error.value.__context__ is None


def test_the_vector_is_not_kept_once_it_is_sent_or_the_round_is_over():
    sent, aborted = Play(configure(4)).until("unmask"), Play(configure(4))
    with pytest.raises(FaultyServer):
        aborted.clients[0].receive(b"")
    for client, vector in ((sent.clients[0], sent.vectors[0]), (aborted.clients[0], aborted.vectors[0])):
        assert client._round.vector is not vector
        with pytest.raises(OrderError):
            client._round.vector()


@pytest.mark.parametrize(
    ("client", "reply"), [("a", b"x"), (None, b"x"), (1.5, b"x"), (0, None), (0, "text"), (0, 123)]
)
def test_a_mistake_of_the_transport_costs_nothing(client, reply):
    """Neither the client nor the round: it is known before anything is touched."""
    play = Play(configure(6)).until("mask")
    with pytest.raises(UsageError):
        play.server.receive(client, reply)
    if not isinstance(reply, bytes):
        with pytest.raises(UsageError, match="a request must be bytes, not"):
            play.clients[0].receive(reply)
    aggregate = play.finish()
    assert np.array_equal(aggregate.vector, play.expected(aggregate.survivors))


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_any_kind_of_bytes_will_do(kind):
    play = Play(configure(6))
    reply = play.clients[0].receive(kind(play.requests[0]))
    play.server.receive(np.int64(0), kind(reply))
    play.server.receive(0, reply)
    assert play.server.waiting == set(range(1, 6))
