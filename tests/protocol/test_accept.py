"""The step *accept*: what a client cannot open costs an edge, or a liar, and never the round."""

import math
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache, partial

import msgspec
import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from attacks.stage import ids
from ccesa import plan
from ccesa.errors import ConflictingMessage, FaultyServer, LateMessage, RoundFailed, TooFewClients
from ccesa.evidence import Accusation
from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.thresholds import Fixed
from ccesa.protocol import messages as m
from ccesa.protocol.active_server import leave_out
from ccesa.protocol.server import Server
from ccesa.simulate.enrolment import NOTHING
from rounds import CONFIGURE, Play, accused_in, changed, configure, read, refuses
from strategies import without_thin_masks

guards = pytest.mark.parametrize("guard", CONFIGURE)
DROPOUT = 0.1  # what a server expects of whom nobody told it


def fresh(guard: str, clients: int = 9, liars: int = 0, **options) -> Play:
    """A round with *accept*; under ``active`` the charter says how many may lie around anyone."""
    if guard == "active" and liars:
        options["certificate"] = msgspec.structs.replace(NOTHING, around=liars)
    return Play(CONFIGURE[guard](clients, accept=True, **options))


def near(play: Play, client: int) -> set[int]:
    graph = play.server.graph
    return set(graph.ids[graph.neighbours(graph.nodes[client])].tolist())


def garbled(reply: bytes) -> bytes:
    return changed(reply, sealed=bytes(len(read(reply).sealed)))


def lied(play: Play, garblers: set[int], accused: Mapping[int, set[int]], gone: Mapping[str, set[int]] = {}) -> Play:
    """Play until the masks: some seal garbage for everyone, some accuse others besides whom they should."""
    play.until("share", gone)
    play.step(gone.get("share", ()), to_server=lambda i, reply: garbled(reply) if i in garblers else reply)
    return accusing(play, accused, gone)


def accusing(play: Play, accused: Mapping[int, set[int]], gone: Mapping[str, set[int]] = {}) -> Play:
    """Play the step *accept*, in which some accuse neighbours besides whom they should."""

    def accuse(i: int, reply: bytes) -> bytes:
        whom = accused.get(i, set()) & near(play, i) & set(play.requests)
        return changed(reply, accused=ids(*sorted(accused_in(reply) | whom)))

    play.step(gone.get("accept", ()), to_server=accuse)
    return play


def said(play: Play) -> set[Accusation]:
    """All accusations that the server was sent."""
    return {Accusation(i, one) for i, reply in play.said["accept"].items() for one in accused_in(reply)}


# What the rules say, in sets of clients


def with_enough_left(play: Play, alive: set[int], cut: set[frozenset[int]], spare: set[int]) -> set[int]:
    """Leave out who has too few holders left, or nobody to mask with, until nobody has."""
    graph, config = play.drawn, play.config
    of = {i: set(graph.ids[graph.neighbours(graph.nodes[i])].tolist()) for i in graph.nodes}
    masks = {i: set(graph.ids[graph.mask_neighbours(graph.nodes[i])].tolist()) for i in graph.nodes}
    while True:
        left = {i: {j for j in of[i] & alive if frozenset((i, j)) not in cut} for i in alive}
        need = {
            i: config.threshold.of(len(of[i])) + (math.ceil(DROPOUT * len(of[i])) if i in spare else 0) for i in alive
        }
        if config.guard == "curious":
            kept = {i for i in alive if len(left[i]) + 1 >= need[i]}
        else:
            ready = {i for i in alive if len(left[i]) >= config.threshold.of(len(of[i]))}
            kept = {i for i in alive if len(left[i] & ready) + (i in ready) >= need[i]}
        kept = {i for i in kept if left[i] & masks[i]}
        if kept == alive:
            return kept
        alive = kept


def held_together(play: Play, alive: set[int], cut: set[frozenset[int]], spare: set[int]) -> set[int]:
    """Of masks that have fallen apart keep the largest part."""
    graph = play.drawn
    masks = {i: set(graph.ids[graph.mask_neighbours(graph.nodes[i])].tolist()) for i in graph.nodes}
    while True:
        alive, parts = with_enough_left(play, alive, cut, spare), []
        for i in sorted(alive):
            if not any(i in part for part in parts):
                part, ends = {i}, {i}
                while ends:
                    ends = {j for k in ends for j in masks[k] & alive if frozenset((j, k)) not in cut} - part
                    part |= ends
                parts.append(part)
        if len(parts) < 2:
            return alive
        alive = max(parts, key=len)


def expected_v2(play: Play, around: int) -> set[int]:
    accusations, answered = said(play), set(play.said["accept"])
    pairs = {frozenset(one) for one in accusations}
    if play.config.guard == "curious":
        return held_together(play, answered, pairs, set().union(*pairs))
    counts = Counter(client for pair in pairs for client in pair)
    out = {client for client, count in counts.items() if count > max(1, around)}
    for pair in sorted(map(sorted, pairs)):
        if out.isdisjoint(pair):
            out.update(pair)
    return held_together(play, answered - out, set(), set())


class Watched(Play):
    """A round that keeps the graph that was drawn."""

    drawn = None

    def close(self) -> None:
        super().close()
        if self.drawn is None:
            self.drawn = self.server.graph


@st.composite
def stories(draw: st.DrawFn):
    """A round with liars, and dropouts in every step."""
    clients, guard = draw(st.integers(5, 40)), draw(st.sampled_from(sorted(CONFIGURE)))
    half = draw(st.integers(1, (clients - 1) // 2))
    graph = draw(
        st.sampled_from(
            [
                Complete(),
                Complete(mask_degree=2 * draw(st.integers(1, half))),
                Harary(degree=2 * half),
                Harary(degree=2 * half, mask_degree=2 * draw(st.integers(1, half))),
                ErdosRenyi(p=draw(st.floats(0.5, 1))),
                ErdosRenyi(p=0.9, mask_p=draw(st.floats(0.3, 0.9))),
            ]
        )
    )
    graph = graph if guard == "curious" else without_thin_masks(graph)
    some = st.sets(st.integers(0, clients - 1), max_size=max(1, clients // 6))
    names = ["advertise", "share", "accept", "mask", "confirm", "unmask"]
    few = st.sets(st.integers(0, clients - 1), max_size=max(1, clients // 12))
    gone = {name: draw(few) for name in names if draw(st.booleans())}
    accused = {i: draw(st.sets(st.integers(0, clients - 1), max_size=4)) for i in draw(some)}
    around = draw(st.integers(0, 4))
    options = {"graph": graph, "accept": True}
    if guard == "active":
        options["certificate"] = msgspec.structs.replace(NOTHING, around=around)
    return Watched(CONFIGURE[guard](clients, **options)), draw(some), accused, gone, around


@settings(max_examples=50, deadline=None)
@given(stories())
def test_v2_is_as_the_rules_say_and_the_sum_is_exact_over_whoever_is_left(story):
    play, garblers, accused, gone, around = story
    v2 = set()
    try:
        lied(play, garblers, accused, gone)
        if play.requests:
            v2 = expected_v2(play, around)
            assert set(play.requests) == v2
            if play.config.guard == "curious":
                kept = play.server.graph
                cut = {frozenset(one) for one in said(play)}
                assert not any(frozenset((i, j)) in cut for i in v2 for j in kept.ids[kept.neighbours(kept.nodes[i])])
        play.to_the_end(gone)
    except RoundFailed as failure:
        event(type(failure).__name__)
    assert (play.server.failure or play.server.result()).evidence.accusations == said(play)
    if play.server.failure is not None:
        return
    aggregate = play.server.result()
    event("aggregate" + " after accusations" * bool(said(play)))
    assert not aggregate.evidence.wrong_shares
    assert np.array_equal(aggregate.vector, play.expected(aggregate.survivors))
    assert set(aggregate.survivors) == v2 - set(gone.get("mask", ()))


# As many liars as a plan allows for


@lru_cache
def planned(clients: int, guard: str) -> dict:
    made = plan.plan(clients, 0.1, collusion=0.1, guard=guard)
    agreed = {"graph": made.graph, "threshold": made.threshold, "min_survivors": made.min_survivors}
    if guard == "active":
        agreed["least_roster"] = made.least_roster
        agreed["certificate"] = msgspec.structs.replace(NOTHING, around=made.around)
    return agreed


def with_liars(clients: int, guard: str, percent: int, seed: int) -> None:
    """So many seal garbage for all their neighbours, and as many accuse some of theirs, or all."""
    rng = np.random.default_rng([seed, clients, percent])
    count = max(1, clients * percent // 100)
    chosen = rng.permutation(clients)[: 2 * count].tolist()
    garblers, accusers = set(chosen[:count]), chosen[count:]
    agreed = planned(clients, guard)
    play = Play(CONFIGURE[guard](clients, accept=True, length=4, **agreed), seed=seed)
    most = agreed["certificate"].around if guard == "active" else clients
    victims = rng.permutation(clients)
    accused = {
        i: set(victims[: rng.integers(1, most + 1)].tolist()) if rng.random() < 0.7 else set(range(clients))
        for i in accusers
    }
    aggregate = lied(play, garblers, accused).finish()
    honest, out = set(range(clients)) - set(chosen), set(range(clients)) - set(aggregate.survivors)
    assert np.array_equal(aggregate.vector, play.expected(aggregate.survivors))
    assert len(honest & out) <= (len(out - honest) if guard == "active" else 0)
    assert all(set(one) & set(chosen) for one in aggregate.evidence.accusations)
    assert {one.dealer for one in aggregate.evidence.accusations} >= garblers


@guards
@pytest.mark.parametrize("percent", [1, 5])
def test_c9_liars_cost_no_round_and_nobody_but_themselves(guard, percent):
    with_liars(100, guard, percent, seed=0)


@pytest.mark.slow
@guards
@pytest.mark.parametrize("clients", [100, 300])
@pytest.mark.parametrize("percent", [1, 2, 5])
def test_c9_no_round_of_a_hundred_is_lost_to_liars(guard, clients, percent):
    for seed in range(100):
        with_liars(clients, guard, percent, seed)


# Who is left out under ``active``


@st.composite
def tales(draw: st.DrawFn) -> tuple[set[tuple[int, int]], set[int], int]:
    """Accusations with a liar in each; how many liars an honest client has beside it at most."""
    liars = draw(st.sets(st.integers(0, 19), min_size=1, max_size=8))
    pairs = st.tuples(st.integers(0, 19), st.integers(0, 19)).filter(lambda pair: pair[0] < pair[1])
    edges = {pair for pair in draw(st.sets(pairs, max_size=60)) if liars & set(pair)}
    counts = Counter(i for pair in edges for i in pair if i not in liars)
    return edges, liars, draw(st.integers(max(counts.values(), default=0), 10))


@settings(max_examples=300)
@given(tales())
def test_s35_each_honest_client_that_is_left_out_costs_a_liar(tale):
    edges, liars, around = tale
    out = leave_out(edges, around)
    assert len(out - liars) <= len(out & liars)
    assert all(out & set(pair) for pair in edges)
    assert out <= {i for pair in edges for i in pair}


def test_s35_one_that_accuses_more_than_can_lie_goes_alone():
    assert leave_out({(0, i) for i in range(1, 8)}, liars=3) == {0}
    assert leave_out({(0, 5), (1, 5), (2, 5)}, liars=3) == {0, 5}
    assert leave_out(set(), liars=3) == set()


@pytest.mark.parametrize("k", [1, 2, 3])
@guards
def test_s35_accusers_of_one_honest_client(guard, k):
    """Under ``curious`` it loses edges to them; under ``active`` it is out, and with it the first of them."""
    gang, victim = {1, 3, 5} & set(range(2 * k)), 7
    play = lied(fresh(guard, 12, liars=k), set(), {one: {victim} for one in gang})
    aggregate = play.finish()
    everyone = set(range(12))
    assert set(aggregate.survivors) == (everyone if guard == "curious" else everyone - {1, victim})
    assert np.array_equal(aggregate.vector, play.expected(aggregate.survivors))
    assert aggregate.evidence.accusations == {(one, victim) for one in gang}
    assert aggregate.evidence.suspects(liars=k) == set()  # C12: pairs, and nobody alone


@guards
def test_one_that_accuses_everyone_goes_alone_whatever_was_certified(guard):
    play = lied(fresh(guard), set(), {4: set(range(9))})
    aggregate = play.finish()
    assert set(aggregate.survivors) == set(range(9)) - {4}
    assert aggregate.evidence.suspects(liars=1) == {4}


# What is reported


@guards
@pytest.mark.parametrize("later", ["mask", "unmask"])
def test_c9_a_sum_and_a_failure_name_accusers_and_dealers(guard, later):
    found = {(i, 4) for i in range(9) if i != 4} | {(2, 7)}
    play = lied(fresh(guard, liars=2), {4}, {2: {7}})
    assert play.finish().evidence.accusations == found
    play = lied(fresh(guard, liars=2), {4}, {2: {7}})
    with pytest.raises(RoundFailed, match="client 0 could not open what client 4 sealed for it") as failure:
        play.finish({later: {0, 1, 3, 5, 6, 8}})
    assert failure.value.evidence.accusations == found


@guards
def test_a_round_without_liars_has_no_accusations(guard):
    play = fresh(guard)
    assert not play.finish({"accept": {3}}).evidence
    assert set(play.server.result().survivors) == set(range(9)) - {3}
    assert not any(accused_in(reply) for reply in play.said["accept"].values())


FALSE = {
    "itself": (lambda near, gone, far: ids(0), "whose shares it was not sent"),
    "somebody far away": (lambda near, gone, far: ids(far), "whose shares it was not sent"),
    "somebody who has not shared": (lambda near, gone, far: ids(gone), "whose shares it was not sent"),
    "one right, one wrong": (lambda near, gone, far: ids(*sorted([near, far])), "it was not sent"),
    "never enrolled": (lambda near, gone, far: ids(9), "never enrolled"),
    "twice": (lambda near, gone, far: ids(near, near), "not strictly ascending"),
    "half an id": (lambda near, gone, far: b"\1\0", "expected a multiple of 4 bytes"),
    "more than there are": (lambda near, gone, far: ids(*range(100)), "at most"),
}


@guards
@pytest.mark.parametrize("name", FALSE)
def test_c9_an_accusation_that_cannot_be_is_refused_and_the_right_answer_still_counts(guard, name):
    make, match = FALSE[name]
    play = fresh(guard, graph=Harary(degree=4)).until("share")
    neighbours = near(play, 0)
    close, gone, far = min(neighbours), max(neighbours), min(set(range(1, 9)) - neighbours)
    play.step(gone={gone})
    reply = play.clients[0].receive(play.requests[0])
    refuses(play, 0, changed(reply, accused=make(close, gone, far)), match)
    assert not play.server._accusations
    aggregate = play.finish()
    assert 0 in aggregate.survivors
    assert not aggregate.evidence


@guards
def test_a_second_different_list_of_accused_changes_nothing(guard):
    play = fresh(guard).until("accept")
    reply = play.clients[0].receive(play.requests[0])
    play.server.receive(0, reply)
    refuses(play, 0, changed(reply, accused=ids(3)), "a second, different answer", ConflictingMessage)
    play.server.receive(0, reply)
    play.step()
    refuses(play, 0, reply, "step accept has closed", LateMessage)
    assert not play.finish().evidence


# What a client refuses


def aborts(play: Play, client: int, request: bytes, match: str) -> None:
    with pytest.raises(FaultyServer, match=match):
        play.clients[client].receive(request)
    assert play.clients[client].done
    assert vars(play.clients[client]._state) == {}


def among(play: Play, client: int, members: set[int]) -> bytes:
    """The mask request of a client, with another V2."""
    request = play.requests[client]
    if play.config.guard == "active":
        return changed(request, v2=m.pack_members(members, play.config.clients))
    known = set(play.clients[client]._state.near.members.tolist())
    return changed(request, dropped=ids(*sorted(known - members)))


@guards
def test_a_client_refuses_a_v2_with_a_neighbour_that_it_accused(guard):
    play = lied(fresh(guard, liars=1), {4}, {})
    everyone = set(range(9))
    assert set(play.requests) == everyone - {4}
    aborts(play, 0, among(play, 0, everyone), "client 4 is in V2, and this client accused it")
    assert play.clients[1].receive(among(play, 1, everyone - {4}))


def not_shown(guard: str) -> Play:
    """Client 0 is told that 4 has not shared, which everyone else has seen."""
    play = fresh(guard).until("accept")
    request = read(play.requests[0])
    texts, promised = (m.each(request, name, play.config) for name in ("sealed", "commitments"))
    del texts[3], promised[3]
    hidden = changed(play.requests[0], dropped=ids(4), sealed=b"".join(texts), commitments=b"".join(promised))
    play.step(to_client=lambda i, asked: hidden if i == 0 else asked)
    return play


def test_a_client_refuses_a_v2_with_a_neighbour_whose_text_it_was_not_shown():
    play = not_shown("active")
    aborts(play, 0, play.requests[0], "a neighbour is in V2 whose shares this client was not shown")


def test_under_curious_a_vector_that_was_masked_with_fewer_is_not_taken():
    """The list of the dropped cannot bring back whom it was not shown; the server finds another V2 in it."""
    play = not_shown("curious")
    reply = play.clients[0].receive(play.requests.pop(0))
    refuses(play, 0, reply, "masked among another V2")
    assert play.finish().survivors == tuple(range(1, 9))
    play = not_shown("curious")
    aborts(play, 0, changed(play.requests[0], dropped=ids(4)), "client 4 .* is not a live neighbour")


@guards
def test_too_few_left_to_mask_with_after_accept(guard):
    play = fresh(guard).until("mask")
    aborts(play, 0, among(play, 0, {0, 1, 2}), "2 live neighbours .* threshold 5")


@guards
def test_too_few_have_shared(guard):
    play = fresh(guard).until("accept")
    request = changed(play.requests[0], dropped=ids(*range(3, 9)), sealed=bytes(160), commitments=bytes(64))
    aborts(play, 0, request, "2 live neighbours .* threshold 5")


@guards
@pytest.mark.parametrize("name", ["sealed", "commitments"])
@pytest.mark.parametrize("more", [-1, 1])
def test_sizes_of_what_is_to_be_accepted(guard, name, more):
    play = fresh(guard).until("accept")
    data = getattr(read(play.requests[0]), name)
    aborts(play, 0, changed(play.requests[0], **{name: (data + b"x")[: len(data) + more]}), f"{name}: expected")


@guards
@pytest.mark.parametrize("name", ["sealed", "commitments"])
def test_a_text_or_a_commitment_that_is_changed_on_its_way_is_accused(guard, name):
    """The commitment is bound to the text: a dealer that promised something else is noticed at once."""
    play = fresh(guard).until("accept")
    data = bytearray(getattr(read(play.requests[0]), name))
    data[3 * len(data) // 8] ^= 1  # of the fourth of eight neighbours
    reply = play.clients[0].receive(changed(play.requests[0], **{name: bytes(data)}))
    assert accused_in(reply) == {4}


@guards
def test_another_commitment_for_the_server_than_for_the_neighbours_is_accused_by_all(guard):
    play = fresh(guard, liars=1).until("share")
    play.step(to_server=lambda i, reply: changed(reply, commitment=bytes(32)) if i == 4 else reply)
    assert play.finish().evidence.accusations == {(i, 4) for i in range(9) if i != 4}


# Masks that hold together


def ring(play: Play) -> list[int]:
    """The clients of a thin circle of masks, one after the other."""
    graph, order = play.server.graph, [0]
    while len(order) < graph.size:
        order.append(next(j for j in graph.mask_neighbours(order[-1]).tolist() if j not in order[-2:]))
    return order


@pytest.mark.parametrize("size", [0, 3, 8])
def test_of_a_mask_graph_that_accusations_cut_apart_the_largest_part_is_left(size):
    """Where that part has too few holders, the round is lost before a vector has left."""
    play = Play(configure(20, graph=Complete(mask_degree=2), accept=True)).until("accept")
    order = ring(play)
    accused = {order[k]: {order[k + 1]} for k in (0, size)}
    if size == 8:
        with pytest.raises(TooFewClients):
            accusing(play, accused)
    else:
        accusing(play, accused)
        assert set(play.finish().survivors) == set(range(20)) - set(order[1 : size + 1])


def test_c9_liars_that_cut_themselves_off_together_cost_no_round():
    """Each has holders enough, and a mask in common with the other: nobody else has one with them."""
    play = Play(configure(20, graph=Complete(mask_degree=4), accept=True)).until("accept")
    graph, one = play.server.graph, 0
    other = int(graph.mask_neighbours(one)[0])
    accusing(play, {i: set(graph.mask_neighbours(i).tolist()) - {one, other} for i in (one, other)})
    assert set(play.finish().survivors) == set(range(20)) - {one, other}


def test_who_loses_all_its_masks_is_leave_out():
    play = Play(configure(12, graph=Complete(mask_degree=2), accept=True)).until("accept")
    order = ring(play)
    accusing(play, {order[0]: {order[1]}, order[2]: {order[1]}})
    assert set(play.requests) == set(range(12)) - {order[1]}


def test_what_the_server_expects_to_drop_out_decides_who_is_leave_out():
    """An accusation costs both a holder; with one more than t they stay only if nobody is to leave."""
    for dropout, left in ((0.0, range(20)), (0.1, range(2, 20))):
        play = Play(configure(20, threshold=Fixed(t=18), accept=True), server=partial(Server, dropout=dropout))
        assert set(lied(play, set(), {0: {1}}).requests) == set(left)
