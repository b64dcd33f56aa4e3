"""Clients that misbehave: rows C1 to C8 of the threat table."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attacks.relaxed import Weakened, in_step, relaxed, weaken, without
from ccesa.crypto import shamir
from ccesa.crypto.keys import AGREEMENTS
from ccesa.crypto.shamir import SHARE_BYTES
from ccesa.errors import ConflictingMessage, CorruptShares, FaultyClient, LateMessage, RoundFailed
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.thresholds import Fixed
from ccesa.protocol import dealing, summing
from ccesa.protocol.client import Client
from rounds import Play, changed, configure, read, refuses, revectored, steps_under

STEP_NAMES = [step.name for step in steps_under("curious")]


def spoil(reply: bytes, dealers: list[int] | None = None) -> bytes:
    """The shares of these places (all, by default) off by one, still in the field."""
    words = np.frombuffer(read(reply).shares, "<u2").astype(np.int64).reshape(-1, 16).copy()
    places = slice(None) if dealers is None else dealers
    words[places] = (words[places] + 1) % 65521
    return changed(reply, shares=words.astype("<u2").tobytes())


def named(aggregate) -> set[tuple[int, int]]:
    """The pairs (sender, dealer) of all wrong shares."""
    return {(one.sender, one.dealer) for one in aggregate.evidence.wrong_shares}


@pytest.mark.parametrize("liars", [{0}, {1, 2}, {0, 3}, {10}, {9, 10}], ids=str)
def test_c1_wrong_shares_are_corrected_and_their_senders_suspected(liars):
    play = Play(configure(12, threshold=Fixed(t=7))).until("unmask", {"mask": {11}})
    play.step(to_server=lambda i, reply: spoil(reply) if i in liars else reply)
    aggregate = play.server.aggregate
    assert np.array_equal(aggregate.vector, play.expected(range(11)))
    assert named(aggregate) == {(liar, dealer) for liar in liars for dealer in range(12)}
    assert aggregate.evidence.suspects(liars=len(liars)) == liars


@pytest.mark.parametrize("wronged", [[1], [8], [2, 7]], ids=str)
def test_c1_a_share_that_was_dealt_wrong_is_a_pair_with_its_dealer(wronged):
    """Who sent it cannot be told from who dealt it: the pair is reported."""

    class Dealer(Weakened, Client):
        weaker = weaken(share=in_step(answer=without(deal=relaxed(dealing.deal, shamir=Dealing(wronged)))))

    play = Play(configure(10, threshold=Fixed(t=6)))
    play.clients[9] = Dealer(play.config, 9, play.vectors[9])
    aggregate = play.finish()
    assert np.array_equal(aggregate.vector, play.expected(range(10)))
    assert named(aggregate) == {(holder, 9) for holder in wronged}
    assert aggregate.evidence.suspects(liars=1) == ({9} if len(wronged) > 1 else set())
    assert aggregate.evidence.suspects(liars=len(wronged)) == set()


class Dealing:
    """Shamir's sharing, with wrong shares for some."""

    def __init__(self, wronged: list[int]) -> None:
        self._wronged = wronged

    def __getattr__(self, name: str):
        return getattr(shamir, name)

    def split(self, *arguments):
        shares = shamir.split(*arguments).copy()
        shares[self._wronged] = (shares[self._wronged].astype(np.int64) + 1) % 65521
        return shares


def test_c1_no_honest_client_is_named_in_a_sparse_round_with_dropouts():
    config = configure(40, graph=ErdosRenyi(p=0.6))
    play = Play(config).until("unmask", {"share": {3}, "mask": {5, 17}})
    play.step(gone={8, 30}, to_server=lambda i, reply: spoil(reply) if i in (39, 2) else reply)
    aggregate = play.server.aggregate
    assert np.array_equal(aggregate.vector, play.expected(aggregate.survivors))
    assert aggregate.evidence.suspects(liars=2) == {2, 39}


def test_c1_more_wrong_shares_than_can_be_corrected_fail_without_a_sum():
    play = Play(configure(12, threshold=Fixed(t=7))).until("unmask")
    with pytest.raises(CorruptShares):
        # Twelve shares, t = 7: two at most.
        play.step(to_server=lambda i, reply: spoil(reply) if i < 3 else reply)
    assert play.server.aggregate is None


def test_c1_wrong_share_and_none_to_spare():
    play = Play(configure(9, threshold=Fixed(t=7))).until("unmask")
    with pytest.raises(CorruptShares):
        play.step(gone={7, 8}, to_server=lambda i, reply: spoil(reply) if i == 0 else reply)


@pytest.mark.parametrize("victim", ["self", "mask"])
def test_c2_shares_that_do_not_fit_together_name_the_dealer(victim, monkeypatch):
    """Client 4 deals shares of something that is not what it promised."""
    from ccesa.protocol import dealing as client_module

    split = client_module.shamir.split
    play = Play(configure(8)).until("share")

    def crooked(secret, *rest):
        wrong = secret.copy()
        wrong[:16] = (wrong[:16] + 1) % 65521
        wrong[16:] = (wrong[16:] + 1) % 65521
        return split(wrong, *rest)

    replies = {}
    for i, request in play.requests.items():
        monkeypatch.setattr(client_module.shamir, "split", crooked if i == 4 else split)
        replies[i] = play.clients[i].receive(request)
    for i, reply in replies.items():
        play.server.receive(i, reply)
    play.requests = play.server.close()
    with pytest.raises(CorruptShares, match="the secret of client 4 cannot be rebuilt") as error:
        play.finish({"mask": {4}} if victim == "mask" else {})
    assert error.value.client == 4
    assert not error.value.evidence  # all shares fit together: nobody else can have done it
    assert play.server.aggregate is None


def test_c3_a_value_outside_the_field():
    play = Play(configure(8)).until("unmask")
    reply = play.clients[2].receive(play.requests[2])
    bad = changed(reply, shares=b"\xf1\xff" + read(reply).shares[2:])  # 65521
    refuses(play, 2, bad, "outside the field")
    play.server.receive(2, reply)


@pytest.mark.parametrize("size", [0, SHARE_BYTES - 1, SHARE_BYTES, 8 * SHARE_BYTES + 1])
def test_c3_shares_of_the_wrong_size(size):
    play = Play(configure(8)).until("unmask")
    reply = play.clients[2].receive(play.requests[2])
    refuses(play, 2, changed(reply, shares=bytes(size)), f"shares: expected 256 bytes, got {size}")


@pytest.mark.parametrize("field", ["sealing_key", "mask_key"])
@pytest.mark.parametrize(
    "key",
    [bytes(32), b"\1" + bytes(31), b"\xff" * 32, b"\xed" + b"\xff" * 30 + b"\x7f", b"short"],
    ids=["zero", "one", "all-ones", "p", "short"],
)
def test_c4_low_order_or_malformed_key(field, key):
    play = Play(configure(8))
    reply = play.clients[3].receive(play.requests[3])
    sealing, masking = AGREEMENTS["x25519"].public_keys(read(reply).keys)
    lied = key + masking if field == "sealing_key" else sealing + key
    refuses(play, 3, changed(reply, keys=lied), "key")
    play.step(gone={3})
    aggregate = play.finish()
    assert aggregate.survivors == (0, 1, 2, 4, 5, 6, 7)


def test_c5_the_same_key_under_two_ids():
    play = Play(configure(8))
    replies = play.replies()
    play.server.receive(0, replies[0])
    (_, other), (sealing, masking) = (AGREEMENTS["x25519"].public_keys(read(replies[i]).keys) for i in (0, 1))
    for pair in ((sealing, other), (other, masking), (masking, masking)):
        refuses(play, 1, changed(replies[1], keys=b"".join(pair)), "advertised before")
    play.server.receive(1, replies[1])


@pytest.mark.parametrize("size", [0, 9, 11, 12])
def test_c6_vector_of_the_wrong_length(size):
    play = Play(configure(8)).until("mask")
    reply = play.clients[0].receive(play.requests[0])
    refuses(play, 0, changed(reply, vector=bytes(size)), f"vector: expected 10 bytes, got {size}|at most")


def test_c6_oversize_is_refused_before_it_is_parsed(monkeypatch):
    from ccesa.protocol import messages

    play = Play(configure(8)).until("mask")
    reply = play.clients[0].receive(play.requests[0])
    monkeypatch.setattr(messages, "_DECODER", None)  # parsing would fail with another error
    refuses(play, 0, reply.ljust(5000), "expected at most 186 bytes, got 5000")


@pytest.mark.parametrize(
    "data",
    [b"", b"\xc1", b"\x91" * 400, b"\x93\xaamask-reply", b"[1]", b"\xdc\xff\xff"],
    ids=["empty", "reserved", "deep", "truncated", "json", "huge-array"],
)
def test_c6_bytes_that_are_no_message(data):
    play = Play(configure(8)).until("mask")
    refuses(play, 0, data, "not a message|got another message")


def test_c6_trailing_bytes():
    play = Play(configure(8)).until("mask")
    refuses(play, 0, play.clients[0].receive(play.requests[0]) + b"\0", "not a message")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_c6_random_bytes_only_ever_raise_faulty_client(data):
    play = Play(configure(3))
    with pytest.raises(FaultyClient):
        play.server.receive(0, data)


def test_c6_unknown_sender_and_wrong_name():
    play = Play(configure(8))
    reply = play.clients[0].receive(play.requests[0])
    for stranger in (-1, 8, 2**40):
        with pytest.raises(FaultyClient, match="never enrolled"):
            play.server.receive(stranger, reply)
    refuses(play, 1, reply, "in the name of client 0")


@pytest.mark.parametrize("step", STEP_NAMES)
def test_c7_repeated_conflicting_and_reordered(step):
    play = Play(configure(8)).until(step)
    replies = play.replies()
    kind = steps_under("curious")[STEP_NAMES.index(step)].reply
    field = kind.__struct_fields__[-1]
    honest = replies[0]
    other = bytearray(getattr(read(honest), field))
    other[0] ^= 1
    for i in reversed(replies):  # any order
        play.server.receive(i, replies[i])
        play.server.receive(i, replies[i])  # the same again is no news
    conflict = changed(honest, **{field: bytes(other)})
    if step == "mask":
        conflict = revectored(play.config, honest, bytes(10))
    refuses(play, 0, conflict, "second, different", ConflictingMessage)
    play.requests = play.server.close()
    if not play.server.finished:
        refuses(play, 0, honest, "has closed", LateMessage)
        play.finish()
    assert np.array_equal(play.server.aggregate.vector, play.expected(range(8)))


@pytest.mark.parametrize("step", STEP_NAMES[1:])
def test_c7_an_answer_to_a_step_that_has_not_opened(step):
    ahead = Play(configure(8, series_id=bytes(32))).until(step)
    behind = Play(configure(8, series_id=bytes(32)))
    refuses(behind, 0, ahead.clients[0].receive(ahead.requests[0]), "not opened")


def test_c7_a_request_in_place_of_a_reply():
    play = Play(configure(8))
    refuses(play, 0, play.requests[0], "expected advertise-reply, got another message")


def test_c7_a_reply_of_another_round():
    ours, theirs = Play(configure(8)), Play(configure(8))
    refuses(ours, 0, theirs.clients[0].receive(theirs.requests[0]), "another round")


def test_c7_an_answer_of_a_client_that_was_left_out():
    play = Play(configure(8)).until("share")
    reply = play.clients[0].receive(play.requests[0])
    play.step(gone={0})
    faked = changed(reply, commitment=bytes(32))
    refuses(play, 0, faked, "has closed", LateMessage)
    vector = changed(play.clients[1].receive(play.requests[1]), client=0)
    refuses(play, 0, vector, "left the round", LateMessage)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_c8_leaving_at_any_step_alone_or_together(data):
    gone = {step: data.draw(st.sets(st.integers(0, 9), max_size=6)) for step in STEP_NAMES}
    graph = data.draw(st.sampled_from([Complete(), Harary(degree=6)]))
    play = Play(configure(10, graph=graph))
    try:
        aggregate = play.finish(gone)
    except RoundFailed:
        assert play.server.aggregate is None
        assert play.server.finished
    else:
        assert np.array_equal(aggregate.vector, play.expected(aggregate.survivors))


def test_c1_one_liar_stands_beside_everyone():
    play = Play(configure(20)).until("unmask")
    play.step(to_server=lambda i, reply: spoil(reply) if i == 0 else reply)
    assert np.array_equal(play.server.aggregate.vector, play.expected(range(20)))
    assert named(play.server.aggregate) == {(0, dealer) for dealer in range(20)}


def test_c1_known_liars_are_passed_over_where_they_are_too_many_to_be_told():
    """Four of 20 can be told, t = 11. Five of client 19's shares are wrong, from liars known elsewhere."""
    lies = {0: [*range(18), 19], 1: None, 2: None, 3: None, 4: [18, 19]}
    play = Play(configure(20)).until("unmask")
    play.step(to_server=lambda i, reply: spoil(reply, lies[i]) if i in lies else reply)
    aggregate = play.server.result()
    assert np.array_equal(aggregate.vector, play.expected(range(20)))
    assert {sender for sender, _ in named(aggregate)} == lies.keys()
    assert 19 not in {dealer for _, dealer in named(aggregate)}


def test_own_share_is_used_where_every_share_is_needed(monkeypatch):
    monkeypatch.setattr(summing.shamir, "wrong_places", None)  # must not be needed
    play = Play(configure(9, threshold=Fixed(t=9)))
    assert np.array_equal(play.finish().vector, play.expected(range(9)))
