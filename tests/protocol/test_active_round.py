"""Whole rounds under the guard ``active``."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from active_rounds import STEP_NAMES, bundles_of, introduction
from ccesa.errors import FaultyServer, RoundFailed, TooFewClients, Unreliable
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.assignment import draw
from ccesa.graphs.thresholds import Fixed, Linear, Majority
from ccesa.protocol import signed_texts
from ccesa.protocol.round import in_memory, run_round
from ccesa.protocol.server import Server
from rounds import Play, charter_of, checked_outcome, configure_active
from strategies import active_graphs, graphs, thresholds

THREE_GRAPHS = {"erdos-renyi": ErdosRenyi(p=0.97), "harary": Harary(degree=12), "complete": Complete()}


# Whole rounds


@settings(max_examples=60)
@given(st.data())
def test_any_drop_pattern_gives_the_plain_sum_or_a_named_failure(data):
    n = data.draw(st.integers(3, 12))
    graph = data.draw(active_graphs(n))
    config = configure_active(
        n,
        graph=graph,
        threshold=data.draw(thresholds(graph, n, "active")),
        bits=data.draw(st.sampled_from([8, 16, 32, 64])),
        length=data.draw(st.integers(1, 20)),
        generator=data.draw(st.sampled_from(["aes128-ctr", "chacha20"])),
    )
    gone = {step: data.draw(st.sets(st.integers(0, n - 1), max_size=n // 3)) for step in STEP_NAMES}
    checked_outcome(Play(config, seed=data.draw(st.integers(0, 100))), gone)


@pytest.mark.parametrize("step", STEP_NAMES)
@pytest.mark.parametrize("graph", THREE_GRAPHS.values(), ids=THREE_GRAPHS)
def test_losing_any_two_clients_at_each_step(graph, step):
    rng = np.random.default_rng(5)
    for _ in range(3):
        lost = set(rng.choice(20, 2, replace=False).tolist())
        play = Play(configure_active(20, graph=graph))
        assert checked_outcome(play, {step: lost}) == "aggregate"
        stay = step in ("confirm", "unmask")
        assert set(play.server.aggregate.survivors) == set(range(20)) - (set() if stay else lost)


FIXED = {"erdos-renyi": Fixed(t=10), "harary": Fixed(t=9), "complete": Fixed(t=11)}


@pytest.mark.parametrize("rule", ["majority", "fixed", "linear"])
@pytest.mark.parametrize("name", THREE_GRAPHS)
def test_somebody_drops_in_every_step(name, rule):
    threshold = {"majority": Majority(), "fixed": FIXED[name], "linear": Linear(slope=640, base=1)}[rule]
    gone = {"advertise": {2}, "share": {5}, "mask": {11}, "confirm": {7}, "unmask": {13}}
    config = configure_active(20, graph=THREE_GRAPHS[name], threshold=threshold)
    assert checked_outcome(Play(config), gone) == "aggregate"


@pytest.mark.parametrize("absent", [{0}, {19}, {0, 1, 8, 19}, set(range(0, 18, 2))], ids=str)
def test_ids_that_never_join(absent):
    play = Play(configure_active(20, graph=Harary(degree=8)))
    assert checked_outcome(play, {"advertise": absent}) == "aggregate"
    assert set(play.server.aggregate.survivors) == set(range(20)) - absent


def test_the_smallest_round():
    play = Play(configure_active(3, threshold=Fixed(t=2)))
    assert checked_outcome(play, {}) == "aggregate"


def test_the_driver_knows_nothing_of_the_guard():
    play = Play(configure_active(8))
    server = Server(play.config, charter_of(play.config))
    aggregate = run_round(server, in_memory(play.clients, lambda step, i: (step.name, i) == ("confirm", 3)))
    assert np.array_equal(aggregate.vector, play.expected(range(8)))


def test_a_vector_counts_although_its_sender_does_not_confirm():
    play = Play(configure_active(9))
    aggregate = play.finish({"confirm": {4}})
    assert aggregate.survivors == tuple(range(9))
    assert np.array_equal(aggregate.vector, play.expected(range(9)))


def test_too_few_confirmations_fail_before_a_share_is_asked_for():
    """Each of five needs four neighbours that confirmed, and has three."""
    play = Play(configure_active(6)).until("confirm")
    with pytest.raises(Unreliable) as failure:
        play.step(gone={0, 1})
    assert failure.value.clients == tuple(range(6))


def test_too_few_survivors_to_confirm_fail_before_anybody_is_asked_to():
    """Four of six are left, and each of them needs four others."""
    play = Play(configure_active(6)).until("mask")
    with pytest.raises(Unreliable) as failure:
        play.step(gone={0, 1})
    assert failure.value.clients == tuple(range(6))
    assert play.server.finished


# As many neighbours as the threshold, and one fewer


@settings(max_examples=40)
@given(st.data())
def test_an_honest_round_in_which_everybody_needs_all_its_neighbours_succeeds(data):
    """t_i = d_i: each of them confirms, and the client itself does not count."""
    n = data.draw(st.integers(4, 14))
    half = data.draw(st.integers(1, (n - 1) // 2))
    every = Linear(slope=1024, base=0)  # the degree itself
    graph, threshold = data.draw(
        st.sampled_from(
            [
                (Complete(), Fixed(t=n - 1)),
                (Complete(), every),
                (Harary(degree=2 * half), Fixed(t=2 * half)),
                (Harary(degree=2 * half), every),
                (ErdosRenyi(p=0.95), every),
            ]
        )
    )
    play = Play(configure_active(n, graph=graph, threshold=threshold))
    play.step()
    if play.server.graph.degrees.min() < 2:  # a majority of one neighbour would be two
        return
    aggregate = play.finish()
    assert aggregate.survivors == tuple(range(n))
    assert np.array_equal(aggregate.vector, play.expected(range(n)))


def test_whoever_would_need_itself_does_not_take_part():
    """Where degrees vary, t = d + 1 is seen with the graph: such a client could never release a share."""
    config, short = configure_active(30, graph=ErdosRenyi(p=0.5), threshold=Fixed(t=12)), []
    while not short:
        play = Play(config)
        play.step()
        degrees = play.server.graph.degrees
        for node, degree in enumerate(degrees.tolist()):
            assert (node in play.requests) == (12 <= degree < 23)  # 2 t > d + 1
        short = np.flatnonzero(degrees == 11).tolist()
    request = introduction(play, bundles_of(play), short[0])
    with pytest.raises(FaultyServer, match="threshold 12 with 11 neighbours"):
        play.clients[short[0]].receive(request)


@pytest.mark.parametrize(("gone", "succeeds"), [(set(), True), ({0}, False)], ids=["all there", "one gone"])
def test_clients_that_have_lost_a_neighbour_they_need_are_left_out_before_they_mask(gone, succeeds):
    """t = 6 of 6 on a circle of 7: without one of them nobody could be shown enough confirmations."""
    play = Play(configure_active(7, graph=Harary(degree=6), threshold=Fixed(t=6))).until("share")
    if succeeds:
        assert play.finish().survivors == tuple(range(7))
        return
    with pytest.raises(TooFewClients, match="step share: 0"):
        play.step(gone=gone)


def test_fewer_than_min_survivors_confirm():
    with pytest.raises(TooFewClients, match="step confirm"):
        Play(configure_active(12, min_survivors=11)).finish({"confirm": {0, 1}})


@settings(max_examples=60)
@given(st.data())
def test_whoever_confirmed_is_asked_for_shares_in_a_reliable_round(data):
    """t_i holders that can be shown enough are t_i neighbours that confirmed: nobody is left over."""
    n = data.draw(st.integers(4, 12))
    graph = data.draw(active_graphs(n))
    gone = data.draw(st.sets(st.integers(0, n - 1), max_size=n // 3))  # before keys make a difference
    play = Play(configure_active(n, graph=graph))
    try:
        play.until("confirm")
        confirmed = set(play.requests) - gone
        play.step(gone)
    except RoundFailed:
        return
    assert set(play.requests) == confirmed


def test_vectors_are_not_in_what_the_server_hands_on():
    """Requests grow with the neighbourhood and the roster, never with the vector."""
    sizes = []
    for length in (1, 3000):
        play, size = Play(configure_active(6, length=length, series_id=bytes(32))), 0
        while play.requests:
            size += sum(map(len, play.requests.values()))
            play.step()
        sizes.append(size)
    assert sizes[0] == sizes[1]


# Neighbourhoods


@given(st.data())
def test_a_neighbourhood_is_that_of_the_whole_graph(data):
    enrolled = data.draw(st.integers(3, 40))
    kind = data.draw(graphs(enrolled))
    chosen = data.draw(st.sets(st.integers(0, 2**32 - 2), min_size=1, max_size=enrolled))
    ids, seed = np.array(sorted(chosen)), data.draw(st.binary(min_size=32, max_size=32))
    whole = draw(kind, seed, ids)
    for node in range(ids.size):
        assert np.array_equal(kind.neighbours(seed, ids, node), whole.neighbours(node))


@pytest.mark.parametrize("graph", THREE_GRAPHS.values(), ids=THREE_GRAPHS)
def test_clients_derive_the_neighbours_that_the_server_drew(graph):
    play = Play(configure_active(20, graph=graph)).until("mask", {"advertise": {3, 4}})
    drawn = play.server.graph
    for i in play.requests:
        node = play.server.graph.nodes[i]
        assert play.clients[i]._state.near.neighbours == drawn.ids[drawn.neighbours(node)].tolist()


def test_another_root_is_another_graph():
    seeds = {signed_texts.seed(bytes(32), bytes([k]) * 32) for k in range(50)}
    assert len({draw(Harary(degree=4), seed, np.arange(20)).columns.tobytes() for seed in seeds}) == 50
