"""Who holds a share of whose secret, beside the neighbour lists of the graph."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ccesa.graphs.assignment import Holders, draw
from strategies import graphs


@st.composite
def drawn(draw_value):
    clients = draw_value(st.integers(3, 30))
    ids = draw_value(st.sets(st.integers(0, 1000), min_size=1, max_size=clients))
    return draw(draw_value(graphs(clients)), draw_value(st.binary(min_size=32, max_size=32)), sorted(ids))


def closed(graph, node: int) -> list[int]:
    return sorted([node, *graph.neighbours(node).tolist()])


def flags(graph, data) -> np.ndarray:
    return np.array(data.draw(st.lists(st.booleans(), min_size=graph.size, max_size=graph.size)), bool)


@given(drawn())
def test_x_is_one_more_than_the_rank_in_the_sorted_closed_neighbourhood(graph):
    holders = Holders.of(graph)
    for node in range(graph.size):
        row = slice(holders.starts[node], holders.starts[node + 1])
        assert holders.nodes[row].tolist() == closed(graph, node)
        assert holders.xs[row].tolist() == list(range(1, len(closed(graph, node)) + 1))


@given(drawn(), st.data())
def test_a_client_holds_a_share_of_itself_and_of_each_neighbour(graph, data):
    holders, dealers = Holders.of(graph), flags(graph, data)
    owner = np.repeat(np.arange(graph.size), np.diff(holders.starts))
    for node in range(graph.size):
        row = slice(holders.starts[node], holders.starts[node + 1])
        places = holders.reverse[row][dealers[holders.nodes[row]]]
        assert owner[places].tolist() == [one for one in closed(graph, node) if dealers[one]]
        assert (holders.nodes[places] == node).all()


@given(drawn(), st.data(), st.none() | st.integers(0, 5))
def test_the_first_live_holders_of_each_dealer(graph, data, most):
    holders, alive = Holders.of(graph), flags(graph, data)
    dealers = np.flatnonzero(flags(graph, data))
    rows, places = holders.live(dealers, alive, most)
    for row, dealer in enumerate(dealers.tolist()):
        live = [node for node in closed(graph, dealer) if alive[node]]
        assert holders.nodes[places[rows == row]].tolist() == live[:most]
    assert (np.diff(rows) >= 0).all()


# Edges that are taken out


def edges(graph) -> list[tuple[int, int]]:
    return [(i, j) for i in range(graph.size) for j in graph.neighbours(i).tolist() if i < j]


def some_of(graph, data) -> list[tuple[int, int]]:
    return data.draw(st.lists(st.sampled_from(edges(graph)), unique=True)) if edges(graph) else []


@given(drawn(), st.data())
def test_edges_are_marked_in_both_directions_and_no_others_are(graph, data):
    chosen = some_of(graph, data)
    pairs = [pair[::-1] if data.draw(st.booleans()) else pair for pair in chosen]
    marked = graph.edge_flags(pairs)
    found = set(zip(graph.rows[marked].tolist(), graph.columns[marked].tolist(), strict=True))
    assert found == {*chosen, *(pair[::-1] for pair in chosen)}


@given(drawn(), st.data())
def test_without_some_edges_everything_else_stays(graph, data):
    gone = some_of(graph, data)
    left = graph.without(graph.edge_flags(gone))
    assert edges(left) == [pair for pair in edges(graph) if pair not in gone]
    assert np.array_equal(left.ids, graph.ids)
    assert (left.columns[left.reverse] == left.rows).all()
    for node in range(graph.size):
        masks = [j for j in graph.mask_neighbours(node).tolist() if tuple(sorted([node, j])) not in gone]
        assert left.mask_neighbours(node).tolist() == masks


@given(drawn(), st.data())
def test_the_shares_that_are_left_keep_their_x_coordinates(graph, data):
    """Also after a second cut: they were dealt over the graph that was drawn."""
    left = graph.without(graph.edge_flags(some_of(graph, data)))
    left = left.without(left.edge_flags(some_of(left, data)))
    holders = Holders.of(left)
    for node in range(left.size):
        row = slice(holders.starts[node], holders.starts[node + 1])
        assert holders.nodes[row].tolist() == closed(left, node)
        assert holders.xs[row].tolist() == [1 + closed(graph, node).index(one) for one in closed(left, node)]
    assert (holders.nodes[holders.reverse] == np.repeat(np.arange(left.size), np.diff(holders.starts))).all()
