"""Who holds a share of whose secret, beside the neighbour lists of the graph."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ccesa.graphs.assignment import draw
from ccesa.graphs.holders import Holders
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
        places = holders.held_by(node, dealers)
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
