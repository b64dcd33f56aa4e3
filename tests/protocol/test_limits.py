"""How much is read of what others send: a message is measured by its name before it is copied or parsed."""

import itertools
import tracemalloc
from functools import partial

import numpy as np
import pytest

from assisted_rounds import AssistedPlay, federation
from ccesa.errors import FaultyClient, FaultyServer, LateMessage
from ccesa.protocol import messages as m
from rounds import CONFIGURE, Play, read, refuses, steps_under
from rounds import CONFIGURE as GUARDS

guards = pytest.mark.parametrize("guard", CONFIGURE)
steps = pytest.mark.parametrize(
    ("guard", "accept", "step"),
    [(guard, accept, step.name) for guard in GUARDS for accept in (False, True) for step in steps_under(guard, accept)],
)
kinds = pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
HUGE = 1 << 25
#: What a refusal may take: a traceback, a text.
LITTLE = 1 << 16


def opened(guard: str, step: str, **options) -> Play:
    return Play(CONFIGURE[guard](5, **options)).until(step)


def padded(message: bytes, size: int) -> bytes:
    return message.ljust(size, b"\0")


def peak(call) -> int:
    """The most memory that a call takes at a time."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@steps
@kinds
def test_an_oversize_reply_is_refused_by_its_length(guard, accept, step, kind):
    play = opened(guard, step, accept=accept)
    reply = play.clients[0].receive(play.requests[0])
    large = kind(padded(reply, HUGE))
    most = m.limit(type(read(reply)), play.config)

    def refused() -> None:
        with pytest.raises(FaultyClient, match=f"expected at most {most} bytes, got {HUGE}"):
            play.server.receive(0, large)

    assert peak(refused) < LITTLE
    play.server.receive(0, reply)


@steps
@kinds
def test_an_oversize_request_is_refused_by_its_length(guard, accept, step, kind):
    play = opened(guard, step, accept=accept)
    large = kind(padded(play.requests[0], HUGE))
    most = m.limit(type(read(play.requests[0])), play.config)

    def refused() -> None:
        with pytest.raises(FaultyServer, match=f"expected at most {most} bytes, got {HUGE}"):
            play.clients[0].receive(large)

    assert peak(refused) < LITTLE
    assert play.clients[0].done


@steps
def test_the_limit_is_that_of_the_message_and_no_more(guard, accept, step, monkeypatch):
    """One byte less than too much is parsed, and found to be no message; one byte more is not parsed."""
    play = opened(guard, step, accept=accept)
    reply = play.clients[0].receive(play.requests[0])
    most = m.limit(type(read(reply)), play.config)
    refuses(play, 0, padded(reply, most), "not a message")
    monkeypatch.setattr(m, "_DECODER", None)
    refuses(play, 0, padded(reply, most + 1), f"expected at most {most} bytes, got {most + 1}")


@pytest.mark.parametrize(
    ("guard", "accept", "step", "other"),
    [
        (guard, accept, *names)
        for guard in GUARDS
        for accept in (False, True)
        for pair in itertools.pairwise(step.name for step in steps_under(guard, accept))
        for names in (pair, pair[::-1])
    ],
)
def test_a_reply_to_another_step_is_not_even_parsed(guard, accept, step, other, monkeypatch):
    """However large: a vector has room in its own step only, and comes late to any after that."""
    replies = {one.name: one.reply for one in steps_under(guard, accept)}
    names = list(replies)
    play = opened(guard, step, accept=accept)
    name = replies[other].__struct_config__.tag.encode()
    data = padded(b"\x95" + bytes([0xA0 | len(name)]) + name, HUGE)
    monkeypatch.setattr(m, "_DECODER", None)
    error, text = (
        (LateMessage, f"step {other} has closed")
        if names.index(other) < names.index(step)
        else (FaultyClient, f"step {other} has not opened yet")
    )
    assert peak(lambda: refuses(play, 0, data, text, error)) < LITTLE


@guards
def test_a_late_vector_is_late_and_a_late_complaint_too(guard):
    play = opened(guard, "mask")
    late = play.clients[4].receive(play.requests[4])
    complaint = m.Complaint(context=play.config.context, client=4, accused=b"\0\0\0\0").encode()
    play.step(gone={4})
    while play.requests:
        refuses(play, 4, late, "step mask has closed", LateMessage)
        refuses(play, 4, complaint, "step mask has closed", LateMessage)
        play.step()
    assert play.server.aggregate.survivors == (0, 1, 2, 3)


@guards
def test_a_complaint_has_room_for_ids_and_not_for_a_vector(guard, monkeypatch):
    play = opened(guard, "mask", length=100_000)
    complaint = m.Complaint(context=play.config.context, client=0, accused=b"\1\0\0\0").encode()
    monkeypatch.setattr(m, "_DECODER", None)
    most = m.limit(m.Complaint, play.config)
    assert most < 200
    refuses(play, 0, padded(complaint, 100_000), f"expected at most {most} bytes, got 100000")


@guards
@pytest.mark.parametrize("data", [b"", b"\x95", b"\0" * HUGE, b"\x95\xa4what" + bytes(HUGE)], ids=len)
def test_what_has_no_name_of_a_reply_is_not_parsed(guard, data, monkeypatch):
    play = opened(guard, "mask")
    monkeypatch.setattr(m, "_DECODER", None)
    assert peak(lambda: refuses(play, 0, data, "got another message")) < LITTLE


@guards
@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_buffers_that_are_used_again_make_no_difference(guard, kind):
    """A transport may read into the same memory again and again: nobody holds on to it."""
    play = opened(guard, "advertise")
    while play.requests:
        for i, request in play.requests.items():
            there, back = bytearray(request), bytearray(b"")
            back += play.clients[i].receive(kind(there))
            there[:] = bytes(len(there))
            reply = bytes(back)
            play.server.receive(i, kind(back))
            back[:] = bytes(len(back))
            play.server.receive(i, reply)  # the same again is no news
        play.requests = play.server.close()
    assert np.array_equal(play.server.result().vector, play.expected(range(5)))


# With helpers


def helped(name: str) -> tuple[AssistedPlay, int]:
    """A round in which this is due: a reply of the first party that is asked."""
    play = AssistedPlay().until(name)
    return play, min(play.requests)


def refused(receive, data, error, text: str) -> None:
    with pytest.raises(error, match=text):
        receive(data)


@pytest.mark.parametrize("name", ["key", "mask", "confirm", "unmask"])
@kinds
def test_oversize_messages_of_rounds_with_helpers_are_refused_by_their_length(name, kind):
    """To a member, to a helper and to a server; and the limit is that of the message and no more."""
    play, party = helped(name)
    parties = play.helpers | play.members
    request, reply = play.requests[party], parties[party].receive(play.requests[party])
    other = play.new_helper(party) if party in play.helpers else play.new_member(party)
    for message, receive, error in (
        (request, other.receive, FaultyServer),
        (reply, lambda data: play.server.receive(party, data), FaultyClient),
    ):
        most = m.limit(type(read(message)), play.config)
        assert len(message) <= most
        large, small = kind(padded(message, HUGE)), kind(padded(message, most))
        assert peak(partial(refused, receive, large, error, f"expected at most {most} bytes")) < LITTLE
        if error is FaultyClient or party in play.helpers:  # a member has aborted
            refused(receive, small, error, "not a message")
    play.server.receive(party, reply)


def test_the_largest_messages_of_a_round_with_helpers_have_room():
    """All members in one request, all of them refused, under both agreements and with the most helpers."""
    for agreement, helpers in (("x25519", 2), ("x25519-mlkem768", 16)):
        config = federation(300, helpers, agreement=agreement).charter.config(length=1)
        every = m.pack_ids(np.arange(300))
        size, text = m.record_bytes(agreement, helpers), 1088 * (agreement != "x25519")
        head = {"context": config.context, "client": config.clients + helpers - 1}
        fields = {"number": bytes(4), "task": bytes(32), "keyring": bytes(32), "members": every}
        boxes = {"records": bytes(300 * size), "ciphertexts": bytes(300 * text)}
        for message in (
            m.ConfirmBoxesRequest(**head, **fields, **boxes),
            m.UnmaskSumRequest(**head, **fields, **boxes),
            m.ConfirmBoxesReply(**head, boxes=bytes(32), refused=every, signature=bytes(64)),
        ):
            spare = m.limit(type(message), config) - len(message.encode())
            assert 0 <= spare <= m.OVERHEAD_BYTES
