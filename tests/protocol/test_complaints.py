"""A client that cannot use what a neighbour sealed for it says so, and the round goes on without it."""

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attacks.relaxed import Weakened, in_step, relaxed, weaken, without
from attacks.stage import ids
from ccesa.crypto import shamir
from ccesa.errors import ConflictingMessage, FaultyNeighbour, FaultyServer, LateMessage, RoundFailed
from ccesa.evidence import Accusation
from ccesa.graphs import Complete, Harary
from ccesa.protocol import dealing
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from ccesa.protocol.server import Aggregate
from rounds import CONFIGURE, Play, accused_in, changed, configure, read, refuses
from strategies import randomness

N, GARBLER = 9, 4
guards = pytest.mark.parametrize("guard", CONFIGURE)


def fresh(guard: str, **options) -> Play:
    return Play(CONFIGURE[guard](N, **options))


def garbled(play: Play, victims: set[int]) -> Play:
    """In step mask, after one client has sealed garbage for these of its neighbours."""
    play.until("share")
    near = play.server.graph.ids[play.server.graph.neighbours(GARBLER)].tolist()

    def garble(i: int, reply: bytes) -> bytes:
        texts = m.items("sealed", read(reply).sealed, len(near), 80) if i == GARBLER else []
        garbage = [bytes(80) if j in victims else text for j, text in zip(near, texts, strict=bool(texts))]
        return changed(reply, sealed=b"".join(garbage)) if i == GARBLER else reply

    play.step(to_server=garble)
    return play


def of(accusers: set[int]) -> set[Accusation]:
    return {Accusation(accuser=one, dealer=GARBLER) for one in accusers}


others = st.integers(0, N - 1).filter(lambda i: i != GARBLER)


@guards
@settings(max_examples=30)
@given(victims=st.sets(others, min_size=1), graph=st.sampled_from([Complete(), Harary(degree=6)]))
def test_c9_garbled_neighbours_complain_and_are_left_out_like_dropouts(guard, victims, graph):
    """The round ends exactly as one with the same keys in which they dropped out."""
    play, twin = (seeded(fresh(guard, graph=graph, series_id=bytes(32))) for _ in range(2))
    garbled(play, victims)
    accusers = victims & set(play.server.graph.ids[play.server.graph.neighbours(GARBLER)].tolist())
    for i, reply in play.replies().items():
        assert isinstance(read(reply), m.Complaint) == (i in accusers)
        if i in accusers:
            assert accused_in(reply) == {GARBLER}
            assert play.clients[i].done
        play.server.receive(i, reply)
    outcome = ended(play)
    assert outcome == ended(twin, {"mask": accusers})
    result = play.server.failure or play.server.aggregate
    assert result.evidence.accusations == of(accusers)
    assert not result.evidence.wrong_shares
    if len(accusers) > 1:
        assert result.evidence.suspects(liars=1) == {GARBLER}


def seeded(play: Play) -> Play:
    for i, client in play.clients.items():
        object.__setattr__(client._round, "random", randomness(i))
    return play


def ended(play: Play, gone: Mapping[str, set[int]] = {}) -> tuple[type, tuple[int, ...]]:
    """From an open step whose replies may be in already: the sum of whom, or how it failed."""
    try:
        if not play.server.waiting:
            play.requests = play.server.close()
        aggregate = play.finish(gone)
    except RoundFailed as failure:
        return type(failure), getattr(failure, "clients", ())
    assert np.array_equal(aggregate.vector, play.expected(aggregate.survivors))
    return Aggregate, aggregate.survivors


@guards
def test_c9_one_garbler_cannot_lose_a_round_with_enough_left(guard):
    play = garbled(fresh(guard), {0, 8})
    aggregate = play.finish()
    assert aggregate.survivors == (1, 2, 3, 4, 5, 6, 7)
    assert aggregate.evidence.accusations == of({0, 8})


@guards
@pytest.mark.parametrize("later", ["mask", "unmask"])
def test_a_failure_in_any_later_step_has_the_complaints(guard, later):
    play = garbled(fresh(guard), {0, 8})
    with pytest.raises(RoundFailed, match="client 0 could not open what client 4 sealed for it") as failure:
        play.finish({later: {1, 2, 3}})
    assert failure.value.evidence.accusations == of({0, 8})
    assert not failure.value.evidence.wrong_shares


@guards
def test_complaints_and_wrong_shares_are_in_one_result(guard):
    play = garbled(fresh(guard), {0}).until("unmask")

    def spoil(i: int, reply: bytes) -> bytes:
        words = np.frombuffer(read(reply).shares, "<u2").reshape(-1, 16).astype(np.int64).copy()
        words[3] = (words[3] + 1) % 65521
        return changed(reply, shares=words.astype("<u2").tobytes()) if i == 7 else reply

    play.step(to_server=spoil)
    evidence = play.server.result().evidence
    assert evidence.accusations == of({0})
    assert {(one.sender, one.dealer) for one in evidence.wrong_shares} == {(7, 3)}
    assert list(evidence) == [*evidence.wrong_shares, *evidence.accusations]


def test_shares_outside_the_field_are_no_shares():
    """They open, and nobody can rebuild a secret from them."""

    class Dealing:
        def __getattr__(self, name: str):
            return getattr(shamir, name)

        def split(self, *arguments):
            shares = shamir.split(*arguments).copy()
            shares[[1, 7]] = 65535
            return shares

    class Dealer(Weakened, Client):
        weaker = weaken(share=in_step(answer=without(deal=relaxed(dealing.deal, shamir=Dealing()))))

    play = Play(configure(N))
    play.clients[8] = Dealer(play.config, 8, play.vectors[8])
    aggregate = play.finish()
    assert aggregate.evidence.accusations == {(1, 8), (7, 8)}
    assert np.array_equal(aggregate.vector, play.expected(i for i in range(N) if i not in (1, 7)))


# Complaints that are none


def complaint(play: Play, client: int, accused: bytes) -> bytes:
    return m.Complaint(context=play.config.context, client=client, accused=accused).encode()


#: Of a near client that is left, one that is gone, and a far one, what client 0 complains of.
FALSE = {
    "nobody": (lambda near, gone, far: b"", "the complaint names no client"),
    "itself": (lambda near, gone, far: ids(0), "whose shares it was not sent"),
    "somebody far away": (lambda near, gone, far: ids(far), "whose shares it was not sent"),
    "somebody who dropped out": (lambda near, gone, far: ids(gone), "whose shares it was not sent"),
    "one right, one wrong": (lambda near, gone, far: ids(*sorted([near, far])), "it was not sent"),
    "never enrolled": (lambda near, gone, far: ids(N), "never enrolled"),
    "twice": (lambda near, gone, far: ids(near, near), "not strictly ascending"),
    "out of order": (lambda near, gone, far: ids(*sorted([near, far])[::-1]), "not strictly ascending"),
    "half an id": (lambda near, gone, far: b"\1\0", "expected a multiple of 4 bytes"),
    "more than there are": (lambda near, gone, far: ids(*range(100)), "at most"),
}


@guards
@pytest.mark.parametrize("name", FALSE)
def test_c9_a_false_complaint_is_refused_and_the_vector_still_counts(guard, name):
    make, match = FALSE[name]
    play = fresh(guard, graph=Harary(degree=4)).until("share")
    neighbours = set(play.server.graph.ids[play.server.graph.neighbours(0)].tolist())
    near, gone, far = min(neighbours), max(neighbours), min(set(range(1, N)) - neighbours)
    play.step(gone={gone})
    refuses(play, 0, complaint(play, 0, make(near, gone, far)), match)
    assert not play.server._accusations
    aggregate = play.finish()
    assert aggregate.survivors == tuple(i for i in range(N) if i != gone)
    assert not aggregate.evidence


@guards
def test_a_complaint_again_is_no_news_and_another_is_a_conflict(guard):
    play = fresh(guard).until("mask")
    said = complaint(play, 0, ids(1, 2))
    vector = play.clients[0].receive(play.requests.pop(0))
    play.server.receive(0, said)
    play.server.receive(0, said)
    assert 0 not in play.server.waiting
    refuses(play, 0, complaint(play, 0, ids(1)), "second, different", ConflictingMessage)
    refuses(play, 0, vector, "second, different", ConflictingMessage)
    aggregate = play.finish()
    assert aggregate.survivors == tuple(range(1, N))
    assert np.array_equal(aggregate.vector, play.expected(range(1, N)))
    assert aggregate.evidence.accusations == {(0, 1), (0, 2)}


@guards
def test_a_complaint_after_the_vector_is_a_conflict(guard):
    play = fresh(guard).until("mask")
    play.server.receive(0, play.clients[0].receive(play.requests.pop(0)))
    refuses(play, 0, complaint(play, 0, ids(1)), "second, different", ConflictingMessage)
    aggregate = play.finish()
    assert aggregate.survivors == tuple(range(N))
    assert not aggregate.evidence


@guards
def test_a_complaint_belongs_to_the_step_in_which_texts_are_opened(guard):
    play = fresh(guard)
    while play.requests:
        name = play.server.step.name
        said = complaint(play, 0, ids(1))
        if name in ("advertise", "share"):
            refuses(play, 0, said, "step mask has not opened yet")
        elif name != "mask":
            refuses(play, 0, said, "step mask has closed", LateMessage)
        play.step()
    assert play.server.aggregate.survivors == tuple(range(N))


@guards
def test_a_complaint_of_somebody_who_is_out_comes_late(guard):
    play = fresh(guard).until("mask", {"share": {0}})
    refuses(play, 0, complaint(play, 0, ids(1)), "it left the round before step mask", LateMessage)


@guards
def test_a_client_that_complained_says_the_same_after_waking_up_and_nothing_else(guard):
    play = garbled(fresh(guard), {0})
    said = play.clients[0].receive(play.requests[0])
    asleep = play.clients[0].suspend()
    woken = play.make_client(0)
    woken.resume(asleep)
    assert woken.done
    assert woken.fault.clients == (GARBLER,)
    assert woken.receive(play.requests[0]) == said
    assert not vars(woken._state)


@guards
def test_a_client_that_complained_blames_the_neighbour_and_not_the_server(guard):
    """This neighbour, or the server in its name: the client cannot tell, so it accuses neither alone."""
    play = garbled(fresh(guard), {0, 1})
    client, others = play.clients[0], play.clients[1]
    assert client.fault is None
    said = client.receive(play.requests[0])
    assert client.fault.clients == (GARBLER,)
    assert not isinstance(client.fault, FaultyServer)
    for request in (others.receive(play.requests[1]), b"", play.requests[1]):
        with pytest.raises(FaultyNeighbour, match=f"client {GARBLER}: .*or the server passed on others"):
            client.receive(request)
    assert client.receive(play.requests[0]) == said  # the complaint itself may have been lost


@guards
def test_an_abort_over_the_server_names_no_neighbour(guard):
    play = fresh(guard).until("mask")
    with pytest.raises(FaultyServer):
        play.clients[0].receive(b"")
    assert play.clients[0].fault is None


@guards
def test_no_vector_is_made_for_a_complaint(guard):
    """It may take hours of training, and must not leave."""
    made = []
    play = garbled(fresh(guard), {0})
    object.__setattr__(play.clients[0]._round, "vector", lambda: made.append(1))
    assert accused_in(play.clients[0].receive(play.requests[0])) == {GARBLER}
    assert not made
