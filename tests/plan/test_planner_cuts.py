"""Colluders who see the graph and choose who drops out: how few honest clients they can split off.

The server follows the protocol, so everyone is told the same V2 and V3. A part is a connected component of
the honest clients of V3, over masks that nobody but them knows.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.assignment import draw, extended, flags, informative
from ccesa.graphs.thresholds import Fixed, Linear, Majority
from ccesa.plan import plan
from experiments import samples
from strategies import examples

FULL = [Harary(degree=4), Harary(degree=6), ErdosRenyi(p=0.6), Complete()]
RULES = [Majority(), Fixed(t=4), Linear(slope=512, base=2)]


def drawn(graph, clients, seed):
    return draw(graph, np.random.default_rng(seed).bytes(32), np.arange(clients))


def opened_parts(graph, t, colludes, v3):
    """Every part whose sum can be opened with the shares of all in V3; everyone was in V2.

    Its members' self masks have to be known, and the keys of all who dropped and share a mask with one.
    """
    known = informative(graph, t, v3)
    for part in graph.mask_components(v3 & ~colludes):
        members = flags(graph.size, part)
        if known[extended(graph, members, ~colludes) & ~colludes].all():
            yield members


def every_v3(colludes):
    honest = np.flatnonzero(~colludes)
    for stays in itertools.product([False, True], repeat=honest.size):
        v3 = colludes.copy()
        v3[honest] = stays
        yield v3


def smallest_parts(graph, t, colludes):
    """Over all V3 there are."""
    return [part for v3 in every_v3(colludes) for part in opened_parts(graph, t, colludes, v3)]


@settings(deadline=None, max_examples=examples(10, 25))
@given(st.sampled_from(FULL), st.sampled_from(RULES), st.integers(0, 2), st.integers(0, 1000))
def test_with_masks_on_every_edge_no_part_is_smaller_than_promised(kind, rule, colluders, seed):
    graph, colludes = drawn(kind, 9 + colluders, seed), np.arange(9 + colluders) < colluders
    t = rule.of(graph.degrees)
    promised = t - graph.live_neighbours(colludes)
    for members in smallest_parts(graph, t, colludes):
        around = graph.live_neighbours(members) + 1
        assert (around >= promised)[members].all()
        assert members.sum() >= promised[members].max()


def test_the_promise_is_reached():
    """Among nine honest clients who all know each other, any t - c can be split off."""
    graph, colludes = drawn(Complete(), 11, 0), np.arange(11) < 2
    t = Fixed(t=7).of(graph.degrees)
    assert min(part.sum() for part in smallest_parts(graph, t, colludes)) == 7 - 2


@pytest.mark.parametrize("kind", [Harary(degree=6, mask_degree=2), Complete(mask_degree=2)], ids=repr)
def test_with_thin_masks_one_client_is_split_off(kind):
    graph, colludes = drawn(kind, 10, 0), np.arange(10) < 1
    t = Majority().of(graph.degrees)
    assert min(part.sum() for part in smallest_parts(graph, t, colludes)) == 1


def alone(graph, colludes, victim):
    """V3 where just the honest clients are gone that share a mask with this one."""
    v3 = np.ones(graph.size, bool)
    near = graph.mask_neighbours(victim)
    v3[near[~colludes[near]]] = False
    return v3


def shrunk(graph, t, colludes, victim, rng):
    """The smallest part around a client that leaving out one after the other leads to."""
    part = flags(graph.size, [*graph.neighbours(victim), victim]) & ~colludes
    for other in rng.permutation(np.flatnonzero(part)):
        fewer = part & (np.arange(graph.size) != other)
        v3 = ~extended(graph, fewer, ~colludes) | fewer | colludes
        if other != victim and any(members[victim] for members in opened_parts(graph, t, colludes, v3)):
            part = fewer
    return part


@pytest.mark.parametrize("kind", ["best", "erdos-renyi", "complete"])
def test_no_cut_of_a_planned_graph_is_smaller_than_the_plan_says(kind):
    """Whoever the colluders are; they take every client that they may for their victim."""
    made, rng = plan(120, 0.1, 0.1, graph=kind, privacy_bits=20), np.random.default_rng(4)
    graph = drawn(made.graph, 120, 4)
    colludes = flags(120, rng.choice(120, made.colluders, replace=False))
    t = made.threshold.of(graph.degrees)
    assert graph.live_neighbours(colludes)[~colludes].max() <= made.around
    assert (t - graph.live_neighbours(colludes))[~colludes].min() >= made.least_honest >= 2
    for victim in np.flatnonzero(~colludes)[:10]:
        assert not any(
            members.sum() < made.least_honest
            for members in opened_parts(graph, t, colludes, alone(graph, colludes, victim))
        )
        assert shrunk(graph, t, colludes, victim, rng).sum() >= made.least_honest


def test_the_same_search_opens_one_client_where_masks_are_thin():
    """The graph that was planned for 1,000 clients, a tenth of them colluding, while thin masks were."""
    kind, rng = Harary(degree=46, mask_degree=26), np.random.default_rng(5)
    graph, colludes = drawn(kind, 1000, 5), flags(1000, rng.choice(1000, 100, replace=False))
    t = Fixed(t=26).of(graph.degrees)
    victims = [
        victim
        for victim in np.flatnonzero(~colludes)[:200]
        if any(
            members[victim] and members.sum() == 1
            for members in opened_parts(graph, t, colludes, alone(graph, colludes, victim))
        )
    ]
    assert victims


def counted(made, size, graphs, rng):
    """In so many graphs over a roster of this size with all colluders in it: least t - c, and most c."""
    shares, _ = samples.draw(made.graph, (graphs, size), rng)
    colludes = rng.permuted(np.broadcast_to(np.arange(size) < made.colluders, (graphs, size)), axis=1)
    colluding = shares.neighbours(colludes)
    t = made.threshold.of(shares.neighbours(np.ones((graphs, size), bool)))
    return np.where(colludes, size, t - colluding).min(axis=1), np.where(colludes, 0, colluding).max(axis=1)


def within(happened, log2):
    bound = 2.0**log2
    return np.mean(happened) <= bound + 4 * math.sqrt(bound / happened.size)


@pytest.mark.parametrize("kind", ["harary", "erdos-renyi"])
@pytest.mark.parametrize("guard", ["curious", "active"])
def test_few_honest_clients_are_as_rare_as_the_plan_says(kind, guard):
    """Counted over random graphs of everyone: t_i - c_i below the promise, and above it."""
    made = plan(150, 0.05, 0.2, guard, graph=kind, privacy_bits=4, reliability_bits=3)
    least, crowd = counted(made, 150, 4000, np.random.default_rng(6))
    assert within(least < made.least_honest, made.least_honest_fails)
    assert within(crowd > made.around, -4)
    assert np.mean(least < made.least_honest + 3) > 2**-4 / 20  # it is not far from the truth


@pytest.mark.parametrize(
    ("kind", "clients", "dropout", "collusion", "bits"),
    [
        ("harary", 1000, 0.3, 0.1, 8),
        ("harary", 300, 0.1, 0.1, 8),
        ("harary", 150, 0.05, 0.2, 4),
        ("erdos-renyi", 150, 0.05, 0.2, 4),
        ("complete", 60, 0.1, 0.1, 8),
    ],
)
@pytest.mark.parametrize("exact", [False, True])
def test_colluders_that_stay_while_honest_clients_leave(kind, clients, dropout, collusion, bits, exact):
    """In every roster that a round accepts. In the smallest the bound is off by what a union over clients
    with common neighbours gives away.
    """
    made = plan(clients, dropout, collusion, graph=kind, privacy_bits=bits, exact_dropout=exact)
    rng, sizes = np.random.default_rng(6), np.linspace(made.config().min_survivors, clients, 3).astype(int)
    found = [counted(made, size, 2000, rng) for size in sizes.tolist()]
    for least, crowd in found:
        assert within(least < made.least_honest, made.least_honest_fails)
        assert within(least < 2, made.certificate.exposed)
        assert within(crowd > made.around, -bits)
    least, _ = found[0]
    bounds = {more: 2 ** made._log2(made._fewer(made.least_honest + more)) for more in range(1, 12)}
    more = max((more for more, bound in bounds.items() if bound < 1), default=None)
    assert (more is None) == (kind == "complete")
    assert more is None or np.mean(least < made.least_honest + more) > bounds[more] / 32
