import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ccesa.graphs import Complete, ErdosRenyi, Harary, kinds
from ccesa.graphs.assignment import AssignmentGraph, draw, from_edges
from strategies import graphs, probabilities

graph_seeds = st.binary(min_size=32, max_size=32)
SEED = bytes(range(32))


@st.composite
def drawn(draw_value, families=None):
    """A graph over ids with gaps, often fewer than the configuration enrolled."""
    enrolled = draw_value(st.integers(3, 40))
    kind = draw_value(graphs(enrolled) if families is None else families)
    ids = draw_value(st.sets(st.integers(0, 1000), min_size=1, max_size=enrolled))
    return draw(kind, draw_value(graph_seeds), np.array(sorted(ids)))


def edges_of(graph: AssignmentGraph) -> set[tuple[int, int]]:
    return {(i, j) for i in range(graph.size) for j in graph.neighbours(i).tolist()}


def mask_edges_of(graph: AssignmentGraph) -> set[tuple[int, int]]:
    return {(i, j) for i in range(graph.size) for j in graph.mask_neighbours(i).tolist()}


def id_edges_of(graph: AssignmentGraph) -> set[tuple[int, int]]:
    return {(int(graph.ids[i]), int(graph.ids[j])) for i, j in edges_of(graph)}


def components_of(nodes: set[int], edges: set[tuple[int, int]]) -> set[frozenset[int]]:
    """Search by hand."""
    found, left = set(), set(nodes)
    while left:
        component, border = set(), [min(left)]
        while border:
            node = border.pop()
            component.add(node)
            border += [j for i, j in edges if i == node and j in nodes and j not in component]
        left -= component
        found.add(frozenset(component))
    return found


@given(drawn())
def test_graphs_are_symmetric_without_loops_and_nested(graph):
    edges, mask_edges = edges_of(graph), mask_edges_of(graph)
    assert mask_edges <= edges
    for some in (edges, mask_edges):
        assert all(i != j and (j, i) in some for i, j in some)


@given(drawn())
def test_neighbour_lists_are_strictly_ascending_and_complete(graph):
    assert graph.starts[0] == 0
    assert graph.starts[-1] == graph.columns.size == graph.carries_masks.size
    for node in range(graph.size):
        near = graph.neighbours(node)
        assert near.size == graph.degrees[node]
        assert np.all(np.diff(near) > 0)


@given(drawn())
def test_reverse_swaps_the_ends_of_every_edge_and_undoes_itself(graph):
    assert np.array_equal(graph.rows[graph.reverse], graph.columns)
    assert np.array_equal(graph.columns[graph.reverse], graph.rows)
    assert np.array_equal(graph.carries_masks[graph.reverse], graph.carries_masks)
    assert np.array_equal(graph.reverse[graph.reverse], np.arange(graph.columns.size))


@given(st.integers(2, 40), st.data())
def test_edges_given_once_come_back_in_both_directions(size, data):
    pairs = data.draw(st.lists(st.sampled_from(list(itertools.combinations(range(size), 2))), unique=True))
    masked = data.draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs)))
    low, high = np.array(pairs, np.int64).reshape(-1, 2).T
    graph = from_edges(np.arange(size), low, high, np.array(masked, bool))
    both = {*pairs, *((j, i) for i, j in pairs)}
    chosen = {pair for pair, mask in zip(pairs, masked, strict=True) if mask}
    assert edges_of(graph) == both
    assert mask_edges_of(graph) == chosen | {(j, i) for i, j in chosen}


@given(st.integers(3, 80), st.data(), graph_seeds)
def test_harary_degrees_are_exact(size, data, seed):
    half = data.draw(st.integers(1, (size - 1) // 2))
    mask_half = data.draw(st.integers(1, half))
    graph = draw(Harary(degree=2 * half, mask_degree=2 * mask_half), seed, np.arange(size))
    assert set(graph.degrees.tolist()) == {2 * half}
    assert {graph.mask_neighbours(i).size for i in range(size)} == {2 * mask_half}


@given(st.integers(3, 60), st.data(), graph_seeds)
def test_harary_joins_the_nearest_of_one_circle(size, data, seed):
    """With degree 2 the graph is the circle itself; larger degrees join what is within reach on it."""
    half = data.draw(st.integers(1, (size - 1) // 2))
    circle = edges_of(draw(Harary(degree=2), seed, np.arange(size)))
    within = set(circle)
    for _ in range(half - 1):
        within |= {(i, k) for i, j in within for j2, k in circle if j == j2 and i != k}
    assert edges_of(draw(Harary(degree=2 * half), seed, np.arange(size))) == within
    masks = draw(Complete(mask_degree=2 * half), seed, np.arange(size))
    assert mask_edges_of(masks) == within


@given(st.integers(3, 60), graph_seeds)
def test_a_circle_is_connected(size, seed):
    graph = draw(Harary(degree=2), seed, np.arange(size))
    assert len(graph.mask_components(np.ones(size, bool))) == 1


@given(st.integers(1, 20), st.integers(10, 30), st.data(), graph_seeds)
def test_fewer_clients_than_the_degree_are_all_joined(size, half, data, seed):
    mask_half = data.draw(st.integers(1, half))
    families = [Harary(degree=2 * half, mask_degree=2 * mask_half), Complete(mask_degree=2 * mask_half)]
    for graph in [draw(kind, seed, np.arange(size)) for kind in families]:
        assert set(graph.degrees.tolist()) == {size - 1}
        assert {graph.mask_neighbours(i).size for i in range(size)} == {min(2 * mask_half, size - 1)}


@given(st.integers(1, 40), graph_seeds)
def test_the_complete_graph_joins_everyone_and_masks_everywhere(size, seed):
    everyone = set(itertools.permutations(range(size), 2))
    for kind in (Complete(), ErdosRenyi(p=1.0), Complete(mask_p=1.0), ErdosRenyi(p=1.0, mask_p=1.0)):
        graph = draw(kind, seed, np.arange(size))
        assert edges_of(graph) == mask_edges_of(graph) == everyone


@given(drawn(), st.data())
def test_counts_of_live_neighbours(graph, data):
    alive = np.array(data.draw(st.lists(st.booleans(), min_size=graph.size, max_size=graph.size)))
    live, live_masks = graph.live_neighbours(alive), graph.live_mask_neighbours(alive)
    for node in range(graph.size):
        assert live[node] == alive[graph.neighbours(node)].sum()
        assert live_masks[node] == alive[graph.mask_neighbours(node)].sum()


sparse = st.builds(ErdosRenyi, p=st.floats(0.01, 0.3))


@given(drawn(sparse | st.just(Harary(degree=4, mask_degree=2))), st.data())
def test_components_are_those_of_a_search_by_hand(graph, data):
    alive = np.array(data.draw(st.lists(st.booleans(), min_size=graph.size, max_size=graph.size)))
    found = graph.mask_components(alive)
    assert {frozenset(nodes.tolist()) for nodes in found} == components_of(
        set(np.flatnonzero(alive).tolist()), mask_edges_of(graph)
    )
    assert sum(map(len, found)) == alive.sum()
    assert [len(nodes) for nodes in found] == sorted(map(len, found), reverse=True)


# From a seed


@given(st.data(), graph_seeds)
def test_the_same_seed_draws_the_same_graph(data, seed):
    kind = data.draw(graphs(20))
    one, other = draw(kind, seed, np.arange(20)), draw(kind, seed, np.arange(20))
    assert np.array_equal(one.columns, other.columns)
    assert np.array_equal(one.carries_masks, other.carries_masks)


@given(graph_seeds, graph_seeds)
def test_another_seed_draws_another_graph(seed, other):
    assume(seed[:16] != other[:16] and seed[16:] != other[16:])
    for kind in (ErdosRenyi(p=0.5), Harary(degree=2)):
        assert edges_of(draw(kind, seed, np.arange(60))) != edges_of(draw(kind, other, np.arange(60)))
    for kind in (Complete(mask_p=0.5), Complete(mask_degree=2), ErdosRenyi(p=1, mask_p=0.5)):
        assert mask_edges_of(draw(kind, seed, np.arange(60))) != mask_edges_of(draw(kind, other, np.arange(60)))


@given(st.sets(st.integers(0, 2**32 - 2), min_size=2, max_size=30), probabilities, graph_seeds, st.data())
def test_an_erdos_renyi_edge_depends_on_its_two_ids_only(ids, p, seed, data):
    some = data.draw(st.sets(st.sampled_from(sorted(ids)), min_size=1))
    whole = id_edges_of(draw(ErdosRenyi(p=p), seed, np.array(sorted(ids))))
    part = id_edges_of(draw(ErdosRenyi(p=p), seed, np.array(sorted(some))))
    assert part == {(i, j) for i, j in whole if i in some and j in some}


@given(probabilities, probabilities, graph_seeds)
def test_a_higher_probability_only_adds_edges(p, q, seed):
    fewer, more = (edges_of(draw(ErdosRenyi(p=x), seed, np.arange(25))) for x in sorted([p, q]))
    assert fewer <= more


@given(probabilities, graph_seeds, st.data())
def test_mask_edges_are_the_edges_of_the_thinner_graph(p, seed, data):
    mask_p = data.draw(st.floats(0, p, exclude_min=True))
    thin = edges_of(draw(ErdosRenyi(p=mask_p), seed, np.arange(25)))
    assert mask_edges_of(draw(ErdosRenyi(p=p, mask_p=mask_p), seed, np.arange(25))) == thin
    assert mask_edges_of(draw(Complete(mask_p=mask_p), seed, np.arange(25))) == thin


@pytest.mark.parametrize("p", [0.001, 0.1, 0.5, 0.9, 0.999])
def test_edges_are_as_frequent_as_they_should_be(p):
    size = 1500
    pairs = size * (size - 1) // 2
    graph = draw(ErdosRenyi(p=p, mask_p=p / 2), SEED, np.arange(size))
    for count, q in ((graph.columns.size // 2, p), (int(graph.carries_masks.sum()) // 2, p / 2)):
        assert abs(count - q * pairs) < 5 * np.sqrt(pairs * q * (1 - q))


def test_each_pair_is_an_edge_equally_often_over_seeds():
    size, rounds, p = 8, 2000, 0.3
    counts = np.zeros((size, size))
    for number in range(rounds):
        graph = draw(ErdosRenyi(p=p), number.to_bytes(32, "little"), np.arange(size))
        counts[graph.rows, graph.columns] += 1
    apart = counts[~np.eye(size, dtype=bool)] - p * rounds
    assert np.abs(apart).max() < 5 * np.sqrt(rounds * p * (1 - p))


def test_each_pair_is_close_on_the_circle_equally_often_over_seeds():
    size, rounds = 8, 2000
    p, counts = 2 / (size - 1), np.zeros((size, size))
    for number in range(rounds):
        graph = draw(Harary(degree=2), bytes(16) + number.to_bytes(16, "little"), np.arange(size))
        counts[graph.rows, graph.columns] += 1
    apart = counts[~np.eye(size, dtype=bool)] - p * rounds
    assert np.abs(apart).max() < 5 * np.sqrt(rounds * p * (1 - p))


@settings(max_examples=20)
@given(st.data(), st.integers(1, 200), graph_seeds)
def test_chunks_change_nothing(data, chunk, seed):
    kind = data.draw(graphs(25))
    whole = draw(kind, seed, np.arange(25))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinds, "_CHUNK", chunk)
        parts = draw(kind, seed, np.arange(25))
    assert np.array_equal(whole.columns, parts.columns)
    assert np.array_equal(whole.carries_masks, parts.carries_masks)


@pytest.mark.parametrize("size", [2**16 - 1, 2**16, 2**16 + 1])
def test_large_graphs_are_sorted_on_both_sides_of_sixteen_bits(size):
    graph = draw(Harary(degree=4, mask_degree=2), SEED, np.arange(size))
    assert np.all(graph.degrees == 4)
    inside = np.diff(graph.rows) == 0
    assert np.all(np.diff(graph.columns)[inside] > 0)
    assert np.array_equal(graph.columns[graph.reverse], graph.rows)


@given(st.dictionaries(st.sets(st.integers(0, 14), min_size=2, max_size=2).map(frozenset), st.booleans()))
def test_edges_in_any_order_become_sorted_lists(edges):
    ends = np.array([sorted(edge) for edge in edges], np.int64).reshape(-1, 2)
    graph = from_edges(np.arange(15), ends[:, 0], ends[:, 1], np.fromiter(edges.values(), bool))
    both = sorted((i, j, masked) for edge, masked in edges.items() for i, j in itertools.permutations(edge))
    assert list(zip(graph.rows, graph.columns, graph.carries_masks, strict=True)) == both
    assert np.array_equal(graph.columns[graph.reverse], graph.rows)
    assert np.array_equal(graph.rows[graph.reverse], graph.columns)


#: Words that leave room for ties, lie at both ends, and on both sides of the one across the circle.
circle_words = st.sampled_from([0, 1, 2, 3, 2**62, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1])


@settings(max_examples=300)
@given(st.lists(circle_words | st.integers(0, 2**64 - 1), min_size=3, max_size=40), st.data())
def test_the_nearest_on_the_circle_are_those_of_the_whole_circle(words, data):
    size = len(words)
    each_side = data.draw(st.integers(1, (size - 1) // 2))
    node = data.draw(st.integers(0, size - 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kinds, "_circle_words", lambda seed, size: np.array(words, np.uint64))
        found = kinds.near_on_circle(SEED, size, node, each_side)
        positions = kinds.circle_positions(SEED, size)
    others, low, high = kinds.others(size, node)
    expected = others[kinds.circle_distance(positions, low, high) <= each_side]
    assert found.tolist() == expected.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("size", [100_000, 70_001])
def test_a_client_in_a_crowd_finds_the_neighbours_that_the_server_draws(size):
    kind = Harary(degree=46)
    graph = draw(kind, SEED, np.arange(size))
    for node in range(0, size, 997):
        assert np.array_equal(kind.neighbours(SEED, graph.ids, node), graph.neighbours(node))
