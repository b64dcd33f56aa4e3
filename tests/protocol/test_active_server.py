"""Clients that misbehave: every check of the server under the guard ``active``."""

import numpy as np
import pytest

from active_rounds import flipped, played
from ccesa.errors import ConflictingMessage, LateMessage, TooFewClients
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.round import in_memory, run_round
from ccesa.protocol.server import Server
from rounds import Play, changed, charter_of, configure_active, identity, read, refuses, revectored, total_of


@pytest.mark.parametrize("step", ["advertise", "mask", "confirm"])
@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda signature: flipped(signature), "signature that does not verify"),
        (lambda signature: signature[:-1], "signature: expected 64 bytes, got 63"),
        (lambda signature: b"", "signature: expected 64 bytes, got 0"),
        (lambda signature: bytes(64), "signature that does not verify"),
    ],
    ids=["flipped", "short", "none", "zeros"],
)
def test_a_bad_signature_is_refused_and_its_sender_named(step, change, match):
    play = played(step)
    for i in range(12):
        reply = play.clients[i].receive(play.requests[i])
        if i == 4:
            refuses(play, i, changed(reply, signature=change(read(reply).signature)), match)
        play.server.receive(i, reply)
    play.requests = play.server.close()
    aggregate = play.finish()
    assert np.array_equal(aggregate.vector, play.expected(range(12)))


def test_s11_an_identity_that_was_never_admitted():
    play = played("advertise")
    reply = read(play.clients[4].receive(play.requests[4]))
    text = signed_texts.bundle_text(play.config.context, 4, reply.keys)
    refuses(play, 4, changed(reply.encode(), signature=identity(99).sign(text)), "does not verify")


def test_a_bundle_of_somebody_else():
    play = played("advertise")
    other = play.clients[5].receive(play.requests[5])
    refuses(play, 4, changed(other, client=4), "does not verify")
    refuses(play, 4, other, "in the name of client 5")


@pytest.mark.parametrize("size", [0, 32, 63, 65, 96])
def test_a_signature_on_more_or_less_than_two_keys(size):
    """The signature is on all bytes that there are; they still have to be two keys."""
    play = played("advertise")
    reply = read(play.clients[4].receive(play.requests[4]))
    keys = (reply.keys + reply.keys)[:size]
    signature = identity(4).sign(signed_texts.bundle_text(play.config.context, 4, keys))
    cut = changed(reply.encode(), keys=keys, signature=signature)
    refuses(play, 4, cut, f"keys: expected 64 bytes, got {size}")


def test_a_vector_under_the_signature_of_another_round_or_step():
    play = played("mask")
    advertised = read(play.said["advertise"][4]).signature
    reply = play.clients[4].receive(play.requests[4])
    refuses(play, 4, changed(reply, signature=advertised), "does not verify")
    refuses(play, 4, changed(reply, vector=b""), "vector: expected 10 bytes, got 0")
    play.server.receive(4, reply)
    other = revectored(play.config, reply, bytes(10))
    refuses(play, 4, other, "different answer", ConflictingMessage)
    refuses(play, 4, changed(reply, vector=bytes(10)), "not the one that its digest was made of")


def test_a_confirmation_that_is_a_signature_on_v2_only():
    play = played("mask")
    masked = {i: read(reply).signature for i, reply in play.replies().items()}
    play = played("confirm")
    reply = play.clients[4].receive(play.requests[4])
    refuses(play, 4, changed(reply, signature=masked[4]), "does not verify")
    refuses(play, 4, changed(reply, signature=read(play.said["mask"][4]).signature), "does not verify")


def test_a_confirmation_that_comes_late():
    play = played("confirm")
    late = play.clients[4].receive(play.requests[4])
    play.step(gone={4})
    assert 4 not in play.requests
    refuses(play, 4, late, "step confirm has closed", LateMessage)
    assert np.array_equal(play.finish().vector, play.expected(range(12)))


def test_a_refused_client_counts_as_dropped():
    play, refused = played("advertise"), []
    server = Server(play.config, charter_of(play.config))

    def carry(step, requests):
        for i, reply in in_memory(play.clients)(step, requests):
            yield i, changed(reply, signature=bytes(64)) if (step.name, i) == ("confirm", 2) else reply

    aggregate = run_round(server, carry, refused.append)
    assert [fault.client for fault in refused] == [2]
    assert np.array_equal(aggregate.vector, play.expected(range(12)))


def test_nothing_unsigned_is_taken_whatever_the_table_of_steps_says():
    play = Play(configure_active(6))
    signed = read(play.clients[0].receive(play.requests[0]))
    head = {"context": signed.context, "client": 0}
    unsigned = m.AdvertiseReply(**head, keys=signed.keys)
    everyone = m.pack_set(np.ones(6, bool))
    among = signed_texts.among(play.config.context, 0, everyone)
    vector = m.MaskReply(**head, vector=bytes(10), tag=bytes(16), among=among, task=m.NO_TASK)
    refuses(play, 0, unsigned.encode(), "expected signed-advertise-reply, got another message")
    for step, message in (("advertise", unsigned), ("mask", vector)):
        play.until(step)
        with pytest.raises(AttributeError, match="signature"):
            play.server.step.take(play.server._round, play.server._state, 0, message)
    assert not total_of(play.server).any()


@pytest.mark.parametrize("absent", [2, 3])
def test_a_roster_that_every_client_would_refuse_is_not_shown_to_anyone(absent):
    play = Play(configure_active(8, least_roster=6))
    if absent == 2:
        play.step(gone=range(absent))
        assert np.array_equal(play.finish().vector, play.expected(range(2, 8)))
        return
    with pytest.raises(TooFewClients, match="5 answered, the charter demands 6"):
        play.step(gone=range(absent))
