"""The theorems against what really happens: server and eavesdropper on one side, predicates on the other."""

from functools import partial

import numpy as np
import pytest
from experiments.theorems import private, reliable
from hypothesis import event, given, settings
from hypothesis import strategies as st

from attacks.eavesdropper import Eavesdropper
from attacks.relaxed import Weakened, in_step, relaxed, skip, weaken, without
from ccesa.agreement.agreement import Trust
from ccesa.agreement.config import RoundConfig
from ccesa.errors import Disconnected, FaultyServer, RoundFailed, TooFewClients, Unreliable
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.assignment import Evolution, from_edges
from ccesa.graphs.thresholds import Fixed
from ccesa.protocol.server import Server
from ccesa.protocol.server_states import Settled
from ccesa.protocol.summing import settle
from ccesa.simulate import Exactly, simulate
from rounds import LOOSE, Play, configure, steps_under
from strategies import examples, thresholds

STEP_NAMES = [step.name for step in steps_under("curious")]


class Reckless(Weakened, Server):
    """A server without the refusals that come before unmasking, so that the theorems can be seen to fail."""

    weaker = weaken(mask=in_step(close=without(settle=relaxed(settle, check_connected=skip, check_reliable=skip))))


#: Some of these rounds are below the floor that a server has by itself: hardly anybody has a neighbour.
ANYTHING = Trust(floor=LOOSE)


class Tapped(Play):
    """A round on a tapped wire; a client that has fewer than t_i survivors around it aborts at the end."""

    def __init__(self, config: RoundConfig, **options) -> None:
        super().__init__(config, server=partial(Reckless, agreement=ANYTHING), **options)
        self.ear, self.v4 = Eavesdropper(config), set()

    def ask(self, client: int, request: bytes) -> bytes | None:
        try:
            reply = super().ask(client, request)
        except FaultyServer:
            assert self.server.step.name == "unmask"
            return None
        self.ear.overhear(client, reply)
        return reply

    def step(self, gone=()) -> None:
        for client, request in self.requests.items():
            self.ear.overhear(client, request)
        self.v4 = set()
        super().step(gone() if callable(gone) else gone)

    def hand_over(self, client: int, reply: bytes) -> None:
        super().hand_over(client, reply)
        self.v4.add(client)

    def overheard(self, gone) -> tuple[Eavesdropper, Evolution | None, RoundFailed | None]:
        """The whole round; the evolution is there if the last step was reached."""
        failure = None
        try:
            self.finish(gone)
        except RoundFailed as error:
            failure = error
        state = self.server._state
        if not isinstance(state, Settled):
            return self.ear, None, failure
        evolution = Evolution(state.graph, state.thresholds, state.v2, state.v3, state.graph.flags(self.v4))
        return self.ear, evolution, failure


@st.composite
def tiny_rounds(draw):
    n = draw(st.integers(3, 8))
    p = draw(st.floats(0.3, 1))
    graph = draw(
        st.sampled_from(
            [
                ErdosRenyi(p=p),
                ErdosRenyi(p=p, mask_p=p * draw(st.floats(0.2, 1))),
                Harary(degree=2) if n > 2 else Complete(),
                Harary(degree=4, mask_degree=2) if n > 4 else Complete(mask_degree=2),
                Complete(mask_p=draw(st.floats(0.2, 1))),
            ]
        )
    )
    gone = {name: draw(st.sets(st.integers(0, n - 1), max_size=max(1, n // 3))) for name in STEP_NAMES}
    threshold = draw(thresholds(graph, n))
    return configure(n, graph=graph, threshold=threshold, length=3, bits=64), gone


@settings(max_examples=examples(300, 600), deadline=None)
@given(tiny_rounds())
def test_server_and_eavesdropper_succeed_exactly_when_the_theorems_say_so(case):
    config, gone = case
    play = Tapped(config, floor=LOOSE)
    eavesdropper, evolution, failure = play.overheard(gone)
    if evolution is None or isinstance(failure, TooFewClients):
        return
    event(f"reliable {reliable(evolution).holds}, private {private(evolution).holds}")
    assert (failure is None) == reliable(evolution).holds
    if failure is None:
        survivors = play.server.aggregate.survivors
        assert np.array_equal(play.server.aggregate.vector, play.expected(survivors))
    else:
        assert failure.clients == reliable(evolution).evidence
    everyone = frozenset(evolution.ids(evolution.v3))
    sums = eavesdropper.partial_sums()
    for members, total in sums.items():
        assert np.array_equal(total, play.expected(members))
    proper = [members for members in sums if members < everyone]
    assert bool(proper) == (not private(evolution).holds)
    if proper:
        assert frozenset(private(evolution).evidence) in sums


@settings(max_examples=100, deadline=None)
@given(tiny_rounds())
def test_sums_the_eavesdropper_finds_are_all_there_are(case):
    """Brute force over all subsets: a subset can be opened only if it is a union of the ones found."""
    config, gone = case
    play = Tapped(config, floor=LOOSE)
    eavesdropper, evolution, _ = play.overheard(gone)
    if evolution is None:
        return
    sums = eavesdropper.partial_sums()
    graph, v2, v3 = evolution.graph, evolution.v2, evolution.v3
    known = graph.live_neighbours(evolution.v4) + evolution.v4 >= evolution.thresholds
    survivors = np.flatnonzero(v3).tolist()
    for choice in range(1, 2 ** len(survivors)):
        members = {node for place, node in enumerate(survivors) if choice >> place & 1}
        open_masks = [node for node in members if not known[node]]
        for node in members:
            for other in graph.mask_neighbours(node).tolist():
                hidden = v2[other] and (other not in members if v3[other] else not known[other])
                open_masks += [other] if hidden else []
        chosen = frozenset(graph.ids[sorted(members)].tolist())
        within = frozenset().union(*(found for found in sums if found <= chosen))
        assert (not open_masks) == (within == chosen)


def test_the_real_server_refuses_before_anything_leaks():
    """Same disconnected survivors: the real server asks for no share at all."""
    config = configure(12, graph=Harary(degree=8, mask_degree=2), bits=64)
    play = Play(config)
    play.until("mask")
    with pytest.raises(Disconnected) as error:
        play.step(gone=opposite_points(play))
    assert len(error.value.component) == 5
    assert play.server.finished


def test_disconnected_survivors_do_leak_without_the_refusal():
    config = configure(12, graph=Harary(degree=8, mask_degree=2), bits=64)
    play = Tapped(config)
    gone = {name: set() for name in STEP_NAMES}
    gone["mask"] = lambda: opposite_points(play)  # known only once the graph is drawn
    eavesdropper, _, _ = play.overheard(gone)
    sums = eavesdropper.partial_sums()
    assert sorted(len(members) for members in sums) == [5, 5]
    for members, total in sums.items():
        assert np.array_equal(total, play.expected(members))


def opposite_points(play: Play) -> set[int]:
    """Two opposite points of the mask circle: without them it falls into halves."""
    around = np.argsort(_circle(play))
    return {int(around[0]), int(around[6])}


def _circle(play: Play) -> np.ndarray:
    """Positions around the mask circle, by walking it."""
    graph = play.server.graph
    order, seen = [0], {0}
    while len(order) < graph.size:
        step = next(int(j) for j in graph.mask_neighbours(order[-1]) if int(j) not in seen)
        order.append(step)
        seen.add(step)
    positions = np.empty(graph.size, int)
    positions[order] = np.arange(graph.size)
    return positions


def test_unreliable_names_the_clients():
    config = configure(10, graph=Complete(), threshold=Fixed(t=8))
    with pytest.raises(Unreliable) as error:
        Play(config).finish({"unmask": {0, 1, 2}})
    assert error.value.clients == tuple(range(10))


def triangle_and_edge() -> Evolution:
    """0-1-2 all joined, 3-4 joined, nothing between; majority thresholds; all alive."""
    low, high = np.array([0, 0, 1, 3]), np.array([1, 2, 2, 4])
    graph = from_edges(np.array([10, 11, 12, 13, 14]), low, high, np.ones(4, bool))
    alive = np.ones(5, bool)
    return Evolution(graph, (graph.degrees + 1) // 2 + 1, alive, alive, alive)


def test_private_shows_the_smallest_open_component():
    verdict = private(triangle_and_edge())
    assert not verdict.holds
    assert verdict.evidence == (13, 14)


def test_disconnected_but_not_informative_is_private():
    evolution = triangle_and_edge()
    silent = Evolution(evolution.graph, evolution.thresholds, evolution.v2, evolution.v3, np.zeros(5, bool))
    assert private(silent).holds
    assert reliable(silent).evidence == (10, 11, 12, 13, 14)


def test_a_dropped_client_counts_only_where_a_survivor_carries_its_mask():
    low, high = np.array([0, 0, 1, 0, 1, 2]), np.array([1, 2, 2, 3, 3, 3])
    masked = np.array([True, True, True, False, False, False])
    graph = from_edges(np.arange(4), low, high, masked)
    everyone, survivors = np.ones(4, bool), np.array([True, True, True, False])
    thresholds = np.array([2, 2, 2, 4])  # client 3 could not be rebuilt
    assert reliable(Evolution(graph, thresholds, everyone, survivors, survivors)).holds
    graph = from_edges(np.arange(4), low, high, np.ones(6, bool))
    assert reliable(Evolution(graph, thresholds, everyone, survivors, survivors)).evidence == (3,)


def test_eavesdropper_of_a_simulated_round_gets_the_sum_and_nothing_else():
    config = configure(12, graph=Harary(degree=6), bits=32)
    eavesdropper = Eavesdropper(config)
    report = simulate(config, dropout=Exactly({"mask": {4}}), seed=1, overhear=eavesdropper.overhear)
    assert list(eavesdropper.partial_sums()) == [frozenset(report.result.survivors)]
