"""Who is blamed: pairs of clients of whom one lied, and nobody beyond that, however many lie."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attacks.relaxed import Weakened, in_step, relaxed, weaken, without
from attacks.stage import ids
from ccesa.crypto import shamir
from ccesa.crypto.shamir import FIELD
from ccesa.errors import CorruptShares, RoundFailed
from ccesa.evidence import Accusation, Evidence, WrongShare
from ccesa.graphs import Complete, ErdosRenyi, Graph, Harary
from ccesa.graphs.thresholds import Fixed
from ccesa.protocol import dealing
from ccesa.protocol import messages as m
from ccesa.protocol.client import Client
from rounds import Play, changed, configure, read

#: More than anybody lies in these tales.
SURE = 20

# The arithmetic of blame


@st.composite
def tales(draw: st.DrawFn) -> tuple[Evidence, frozenset[int], int]:
    """Pairs with at least one liar each; who lied; how many liars anyone has beside it."""
    liars = draw(st.frozensets(st.integers(0, 11), min_size=1, max_size=4))
    edges = draw(st.sets(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=40))
    pairs = [pair for pair in edges if not liars.isdisjoint(pair)]
    pairs = [(a, b) for a, b in pairs if a != b or a in liars]
    shares = frozenset(WrongShare(*pair, SURE) for pair in pairs if draw(st.booleans()))
    accusations = frozenset(Accusation(*pair) for pair in pairs if WrongShare(*pair, SURE) not in shares)
    most = max(len({liar for a, b in pairs for liar in liars if {a, b} == {i, liar}}) for i in range(12))
    return Evidence(wrong_shares=shares, accusations=accusations), liars, most


@settings(max_examples=300)
@given(tales())
def test_only_liars_are_suspected_where_nobody_has_more_liars_beside_it_than_was_said(tale):
    evidence, liars, most = tale
    for number in range(most, most + 3):
        assert evidence.suspects(number) <= liars


@given(tales())
def test_pairs_are_of_clients_not_of_roles(tale):
    evidence, _, _ = tale
    named = [*((one.sender, one.dealer) for one in evidence.wrong_shares), *evidence.accusations]
    assert evidence.pairs() == {frozenset(pair) for pair in named}
    assert bool(evidence) == bool(evidence.pairs())
    assert len(list(evidence)) == len(evidence.wrong_shares) + len(evidence.accusations)


def test_the_same_two_in_both_roles_and_in_both_ways_are_one_pair():
    evidence = Evidence(
        wrong_shares=frozenset({WrongShare(1, 2, SURE), WrongShare(2, 1, SURE)}),
        accusations=frozenset({Accusation(1, 2)}),
    )
    assert evidence.pairs() == {frozenset({1, 2})}
    assert evidence.suspects(liars=1) == set()


def test_a_wrong_share_of_ones_own_secret_needs_no_second_witness():
    evidence = Evidence(wrong_shares=frozenset({WrongShare(3, 3, SURE)}))
    assert evidence.suspects(liars=SURE) == {3}


def test_what_so_many_liars_can_make_up_counts_for_nothing():
    unsure = frozenset(WrongShare(sender, 3, 2) for sender in (1, 2, 3, 4, 5))
    evidence = Evidence(wrong_shares=unsure)
    assert evidence.suspects(liars=2) == {3}
    assert evidence.suspects(liars=3) == set()
    assert evidence.pairs(liars=3) == set()


def test_a_text_shows_a_few_pairs_and_how_many_more_there_are():
    evidence = Evidence(wrong_shares=frozenset(WrongShare(sender, 7, SURE) for sender in range(6)))
    assert str(evidence).count("sent a wrong share that client 7 dealt") == 4
    assert str(evidence).endswith("and 2 more such pairs")
    assert str(Evidence()) == ""
    assert str(Evidence(accusations=frozenset({Accusation(1, 2)}))) == (
        "client 1 could not open what client 2 sealed for it"
    )


# Rounds with many liars


def lying_dealer(places: np.ndarray) -> type[Client]:
    """Deals wrong shares to the holders in these places of its neighbourhood."""

    class Dealing:
        def __getattr__(self, name: str):
            return getattr(shamir, name)

        def split(self, *arguments):
            shares = shamir.split(*arguments).copy()
            some = places[: len(shares)]
            shares[some] = (shares[some].astype(np.int64) + 1) % FIELD
            return shares

    class Dealer(Weakened, Client):
        weaker = weaken(share=in_step(answer=without(deal=relaxed(dealing.deal, shamir=Dealing()))))

    return Dealer


def spoilt(reply: bytes, rows: np.ndarray) -> bytes:
    """Some of the shares that are released, off by one."""
    words = np.frombuffer(read(reply).shares, "<u2").reshape(-1, 16).astype(np.int64).copy()
    some = rows[: len(words)]
    words[some] = (words[some] + 1) % FIELD
    return changed(reply, shares=words.astype("<u2").tobytes())


def played(clients: int, graph: Graph, liars: set[int], dealing: float, sending: float, seed: int) -> Play:
    """A round in which each liar lies about so many of the shares it deals, and of those it sends."""
    rng = np.random.default_rng(seed)
    play = Play(configure(clients, graph=graph, length=2))
    for liar in liars:
        dealt = rng.random(clients) < dealing
        play.clients[liar] = lying_dealer(dealt)(play.config, liar, play.vectors[liar])
    try:
        play.until("unmask", {"mask": set(rng.choice(clients, 2, replace=False).tolist()) - liars})
        play.step(to_server=lambda i, reply: spoilt(reply, rng.random(clients) < sending) if i in liars else reply)
    except RoundFailed:
        assert play.server.aggregate is None
    return play


GRAPHS = st.sampled_from([Complete(), ErdosRenyi(p=0.6), Harary(degree=24)])
PARTS = st.sampled_from([0.0, 0.3, 1.0])


@settings(max_examples=10)
@given(st.integers(40, 60), GRAPHS, PARTS, PARTS, st.integers(0, 1000))
def test_c12_with_a_fifth_of_liars_every_pair_has_one_and_only_liars_are_suspects(n, graph, deal, send, seed):
    liars = set(np.random.default_rng(seed).choice(n, n // 5, replace=False).tolist())
    play = played(n, graph, liars, deal, send, seed)
    failure, aggregate = play.server.failure, play.server.aggregate
    evidence = (failure or aggregate).evidence
    drawn = play.server.graph
    near = [set(drawn.ids[drawn.neighbours(node)].tolist()) for node in range(drawn.size)]
    around = max(len(some & liars) for some in near)
    assert all(pair & liars for pair in evidence.pairs(around))
    assert evidence.suspects(around) <= liars
    if aggregate is not None:
        assert np.array_equal(aggregate.vector, play.expected(aggregate.survivors))
    if isinstance(failure, CorruptShares):
        node = play.server.graph.nodes[failure.client]
        spare = int(drawn.degrees[node]) + 1 - int(play.server._state.thresholds[node])
        budget = (spare - 2) // 2  # two clients have dropped out
        assert failure.client in liars or len(near[node] & liars) > budget
        assert "dealt wrong shares, or too many of its neighbours sent wrong ones" in str(failure)


def test_liars_that_are_caught_are_suspects():
    """8 of 40 send nothing but wrong shares: each stands beside everyone, and honest ones beside eight."""
    liars = {1, 5, 9, 13, 17, 21, 25, 29}
    play = played(40, Complete(), liars, dealing=0.0, sending=1.0, seed=1)
    assert play.server.aggregate.evidence.suspects(liars=8) == liars


def test_without_liars_there_is_no_evidence():
    play = played(40, ErdosRenyi(p=0.6), set(), 1.0, 1.0, seed=2)
    assert not play.server.aggregate.evidence


def test_a_failure_has_the_wrong_shares_of_all_other_secrets():
    """Client 3 promises another secret than it deals; client 7 sends wrong shares, which are found too."""
    play = Play(configure(20, length=2))
    play.clients[3] = lying_dealer(np.ones(20, bool))(play.config, 3, play.vectors[3])
    play.until("unmask")
    with pytest.raises(CorruptShares) as failure:
        play.step(to_server=lambda i, reply: spoilt(reply, np.ones(20, bool)) if i == 7 else reply)
    assert failure.value.client == 3
    found = {(one.sender, one.dealer) for one in failure.value.evidence.wrong_shares}
    assert found >= {(7, dealer) for dealer in range(20) if dealer != 3}
    assert all({3, 7} & set(pair) for pair in found)


# Framing


@pytest.mark.parametrize("k", [1, 2, 4])
def test_c12_liars_that_spoil_the_shares_of_one_dealer_do_not_make_it_a_suspect(k):
    victim, liars = 11, set(range(k))
    play = Play(configure(20, length=2)).until("unmask")
    only = np.arange(20) == victim
    play.step(to_server=lambda i, reply: spoilt(reply, only) if i in liars else reply)
    evidence = play.server.result().evidence
    assert {(one.sender, one.dealer) for one in evidence.wrong_shares} == {(liar, victim) for liar in liars}
    assert evidence.suspects(liars=k) == set()
    assert victim in evidence.suspects(liars=k - 1)  # which is why the number has to be a certified one


@pytest.mark.parametrize("k", [1, 2, 4])
def test_c12_liars_that_complain_of_one_client_do_not_make_it_a_suspect(k):
    victim, liars = 11, set(range(k))
    play = Play(configure(20, length=2)).until("mask")
    for liar in liars:
        del play.requests[liar]
        said = m.Complaint(context=play.config.context, client=liar, accused=ids(victim))
        play.server.receive(liar, said.encode())
    aggregate = play.finish()
    assert victim in aggregate.survivors
    assert np.array_equal(aggregate.vector, play.expected(range(k, 20)))
    assert aggregate.evidence.accusations == {(liar, victim) for liar in liars}
    assert aggregate.evidence.suspects(liars=k) == set()


def test_c12_liars_that_agree_on_other_shares_of_the_same_secrets_frame_nobody():
    """They add a polynomial that is zero at zero and at t - 2 honest holders, with few shares to spare.

    Secrets and sum stay right, and the one honest holder that is left looks like the liar.
    """
    liars, gone, helpers, victim = {7, 8, 9}, {5, 6}, range(4), 4
    play = Play(configure(10, length=2, threshold=Fixed(t=6))).until("unmask")

    def other(liar: int, reply: bytes) -> bytes:
        x = liar + 1
        added = x * int(np.prod([x - (holder + 1) for holder in helpers])) % FIELD
        words = np.frombuffer(read(reply).shares, "<u2").reshape(-1, 16).astype(np.int64).copy()
        honest = [dealer for dealer in range(10) if dealer not in liars]
        words[honest] = (words[honest] + added) % FIELD
        return changed(reply, shares=words.astype("<u2").tobytes())

    play.step(gone=gone, to_server=lambda i, reply: other(i, reply) if i in liars else reply)
    aggregate = play.server.result()
    assert np.array_equal(aggregate.vector, play.expected(range(10)))
    assert any(victim in pair for pair in aggregate.evidence.pairs())  # the frame is there
    assert aggregate.evidence.suspects(liars=len(liars)) == set()
