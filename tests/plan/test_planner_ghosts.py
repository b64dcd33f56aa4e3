"""Rosters padded with members that never advertised: they do not help a server that lies.

A client goes on only if each of its neighbours has signed its keys: a ghost among them ends its round. What a
server hopes for is a neighbourhood without ghosts and with many colluders.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from ccesa.graphs import Complete, ErdosRenyi, Harary
from ccesa.graphs.assignment import draw

MOST = 11


def on_a_circle(m, colluders, ghosts, d, c):
    """P(no ghost and c colluders among the d neighbours of an honest client), in a roster of m places."""
    honest = m - 1 - colluders - ghosts
    return Fraction(math.comb(colluders, c) * math.comb(honest, d - c), math.comb(m - 1, d))


def among_edges(m, colluders, ghosts, h, c, p):
    """P(no ghost, h honest and c colluding neighbours), each pair an edge with probability p."""
    honest = m - 1 - colluders - ghosts
    ways = math.comb(colluders, c) * math.comb(honest, h)
    return ways * p ** (h + c) * (1 - p) ** (m - 1 - h - c)


def places():
    """Every roster with at least one more ghost to come: m, colluders, ghosts."""
    for m in range(2, MOST + 1):
        for colluders in range(m):
            for ghosts in range(m - 1 - colluders):
                yield m, colluders, ghosts


def test_the_chance_of_a_circle_is_that_of_counting_all_neighbourhoods():
    for m, colluders, ghosts in places():
        kinds = ["c"] * colluders + ["g"] * ghosts + ["h"] * (m - 1 - colluders - ghosts)
        for d in range(m):
            chosen = [some for some in itertools.combinations(kinds, d) if "g" not in some]
            for c in range(d + 1):
                counted = Fraction(sum(some.count("c") == c for some in chosen), math.comb(m - 1, d))
                assert on_a_circle(m, colluders, ghosts, d, c) == counted


def test_one_more_ghost_never_makes_any_neighbourhood_likelier():
    """Term by term, so whatever a server hopes for; and there are fewer clients to hope for."""
    for m, colluders, ghosts in places():
        for d in range(m):
            for c in range(d + 1):
                fewer, more = (on_a_circle(m, colluders, g, d, c) for g in (ghosts, ghosts + 1))
                assert more <= fewer


@pytest.mark.parametrize("p", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)])
def test_nor_in_an_erdos_renyi_graph(p):
    for m, colluders, ghosts in places():
        for h, c in itertools.product(range(m), repeat=2):
            fewer, more = (among_edges(m, colluders, g, h, c, p) for g in (ghosts, ghosts + 1))
            assert more <= fewer


@pytest.mark.parametrize("kind", [Harary(degree=8), ErdosRenyi(p=0.2), Complete()], ids=repr)
def test_real_graphs_with_ghosts_have_fewer_crowded_clients(kind):
    """Honest clients with three colluders around them and no ghost, over many drawn graphs."""
    m, colluders, graphs, rng = 40, 6, 300, np.random.default_rng(9)
    colludes = np.arange(m) < colluders
    crowded = dict.fromkeys((0, 2, 8), 0)
    for ghosts in crowded:
        haunts = np.arange(m) >= m - ghosts
        for _ in range(graphs):
            graph = draw(kind, rng.bytes(32), np.arange(m))
            goes_on = graph.live_neighbours(haunts) == 0
            held = graph.live_neighbours(colludes)
            crowded[ghosts] += int((~colludes & ~haunts & goes_on & (held >= 3)).sum())
    none, few, many = crowded.values()
    assert none > few > many or (kind == Complete() and none > few == many == 0)
