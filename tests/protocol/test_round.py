"""Whole rounds against the plain sum."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa.crypto import masks
from ccesa.errors import RoundFailed, TooFewClients
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.thresholds import Fixed, Linear
from ccesa.protocol.client import Client
from ccesa.protocol.round import in_memory, run_round
from ccesa.protocol.server import Server
from rounds import LOOSE, Play, checked_outcome, configure, steps_under
from strategies import thresholds

STEP_NAMES = [step.name for step in steps_under("curious")]
THREE_GRAPHS = {"erdos-renyi": ErdosRenyi(p=0.8), "harary": Harary(degree=16), "complete": Complete()}
SMALL_GRAPHS = {"erdos-renyi": ErdosRenyi(p=0.9), "harary": Harary(degree=8), "complete": Complete()}
NESTED = [ErdosRenyi(p=0.8, mask_p=0.5), Harary(degree=16, mask_degree=6), Complete(mask_degree=6)]

graphs = st.one_of(
    st.floats(0.2, 1).flatmap(lambda p: st.builds(ErdosRenyi, p=st.just(p), mask_p=st.none() | st.floats(0.1, p))),
    st.integers(1, 5).flatmap(
        lambda k: st.builds(
            Harary, degree=st.just(2 * k), mask_degree=st.none() | st.integers(1, k).map(lambda j: 2 * j)
        )
    ),
    st.just(Complete()),
)


@pytest.mark.parametrize("step", STEP_NAMES)
@pytest.mark.parametrize("graph", SMALL_GRAPHS.values(), ids=SMALL_GRAPHS)
def test_losing_any_one_client_at_each_step(graph, step):
    for lost in range(12):
        assert checked_outcome(Play(configure(12, graph=graph)), {step: {lost}}) == "aggregate"


@pytest.mark.parametrize("step", STEP_NAMES)
@pytest.mark.parametrize("graph", THREE_GRAPHS.values(), ids=THREE_GRAPHS)
def test_losing_any_tenth_of_the_clients_at_each_step(graph, step):
    tenths = np.random.default_rng(5).permutation(30).reshape(10, 3)  # everyone is lost once
    for lost in tenths.tolist():
        assert checked_outcome(Play(configure(30, graph=graph)), {step: set(lost)}) == "aggregate"


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_drop_pattern_gives_the_plain_sum_or_a_named_failure(data):
    n = data.draw(st.integers(3, 12))
    graph = data.draw(graphs)
    if isinstance(graph, Harary) and graph.degree >= n:
        graph = Complete()
    config = configure(
        n,
        graph=graph,
        threshold=data.draw(thresholds(graph, n)),
        bits=data.draw(st.sampled_from([8, 16, 32, 64])),
        length=data.draw(st.integers(1, 40)),
        generator=data.draw(st.sampled_from(["aes128-ctr", "chacha20"])),
    )
    gone = {step: data.draw(st.sets(st.integers(0, n - 1), max_size=n // 2)) for step in STEP_NAMES}
    checked_outcome(Play(config, seed=data.draw(st.integers(0, 100)), floor=LOOSE), gone)


@pytest.mark.parametrize("graph", NESTED, ids=["erdos-renyi", "harary", "complete"])
def test_masks_on_a_thinner_subgraph_cancel_as_well(graph):
    play = Play(configure(30, graph=graph))
    assert checked_outcome(play, {"advertise": {1}, "share": {2}, "mask": {3}, "unmask": {4}}) == "aggregate"
    assert play.server.aggregate.evolution.graph.carries_masks.mean() < 1


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads, monkeypatch):
    monkeypatch.setattr(masks, "helpful_threads", lambda most, size, count: most)
    config = configure(10, length=50_000, bits=32)
    play = Play(config, threads=threads)
    server = Server(config, threads=threads)
    aggregate = run_round(server, in_memory(play.clients, lambda step, i: (step.name, i) == ("mask", 3)))
    assert np.array_equal(aggregate.vector, play.expected(set(range(10)) - {3}))


def test_fixed_threshold_of_the_paper():
    config = configure(20, graph=ErdosRenyi(p=0.9), threshold=Fixed(t=11))
    assert checked_outcome(Play(config), {"mask": {0, 1}}) == "aggregate"


def test_a_linear_threshold_grows_with_the_neighbourhood():
    config = configure(20, graph=ErdosRenyi(p=0.8), threshold=Linear(slope=640, base=2))
    play = Play(config)
    play.step()
    degrees = play.server.graph.degrees
    assert np.array_equal(play.server._state.thresholds, 640 * degrees // 1024 + 2)
    assert len(set(play.server._state.thresholds.tolist())) > 1
    assert checked_outcome(play, {"mask": {0, 1}}) == "aggregate"


@pytest.mark.parametrize("threshold", [Fixed(t=14), Linear(slope=0, base=14)], ids=["fixed", "linear"])
def test_a_client_with_too_few_neighbours_is_left_out_and_the_round_goes_on(threshold):
    config = configure(20, graph=ErdosRenyi(p=0.75), threshold=threshold)
    left_out = 0
    for seed in range(10):
        play = Play(config, seed=seed)
        play.step()
        small = play.server.graph.degrees + 1 < 14
        assert set(play.requests) == set(np.flatnonzero(~small).tolist())
        left_out += int(small.sum())
        checked_outcome(play, {})
    assert left_out


def test_v2_is_pruned_until_everyone_has_enough_live_neighbours():
    play = Play(configure(20, graph=Harary(degree=4)))
    play.step()
    centre = 7
    near = play.server.graph.neighbours(centre).tolist()
    play.step(gone=near[:3])  # one of four neighbours is left: t = 3 needs two
    assert centre not in play.requests
    aggregate = play.finish()
    assert np.array_equal(aggregate.vector, play.expected(aggregate.survivors))


def test_vector_is_made_only_in_the_mask_step():
    config, made = configure(4), []
    clients = {i: Client(config, i, lambda i=i: (made.append(i), np.full(5, i, np.uint16))[1]) for i in range(4)}
    server = Server(config)

    def carry(step, requests):
        assert bool(made) == (step.name == "unmask")
        yield from in_memory(clients)(step, requests)

    aggregate = run_round(server, carry)
    assert made == [0, 1, 2, 3]
    assert aggregate.vector.tolist() == [6] * 5


def test_a_refused_reply_counts_as_dropped():
    config, refused = configure(6), []
    play = Play(config)
    server = Server(config)

    def carry(step, requests):
        for i, reply in in_memory(play.clients)(step, requests):
            yield i, b"garbage" if (step.name, i) == ("mask", 2) else reply

    aggregate = run_round(server, carry, refused.append)
    assert [fault.client for fault in refused] == [2]
    assert aggregate.survivors == (0, 1, 3, 4, 5)
    assert np.array_equal(aggregate.vector, play.expected(aggregate.survivors))


def test_too_few_survivors_fail_by_name():
    with pytest.raises(RoundFailed, match="needs 6"):
        Play(configure(8, min_survivors=6)).finish({"mask": {0, 1, 2}})


def test_bytes_a_neighbour_are_those_of_the_specification():
    traffic = {}
    for degree in (20, 40):
        play = Play(configure(60, graph=Harary(degree=degree), length=1, bits=8))
        traffic[degree] = 0
        while play.requests:
            traffic[degree] += len(play.requests[0])
            replies = play.replies()
            traffic[degree] += len(replies[0])
            for i, reply in replies.items():
                play.server.receive(i, reply)
            play.requests = play.server.close()
    assert 293 <= (traffic[40] - traffic[20]) / 20 < 294  # longer lists have slightly longer headers


def test_nobody_fit_to_take_part_fails_by_name():
    """So many vanish in step 0 that no neighbourhood reaches t: there is nobody to ask in step 1."""
    with pytest.raises(TooFewClients, match="0 of 17 have enough neighbours left"):
        Play(configure(20, threshold=Fixed(t=19))).finish({"advertise": {0, 1, 2}})
