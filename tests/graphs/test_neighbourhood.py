"""The closed neighbourhood of a client, and the packed rows of a graph, against plain lists."""

from itertools import chain, combinations
from types import SimpleNamespace

import numpy as np
import pytest

from ccesa.errors import FaultyServer
from ccesa.graphs import ErdosRenyi, Harary
from ccesa.graphs.assignment import Neighbourhood, draw
from ccesa.protocol import messages as m
from ccesa.protocol.masking import still_there
from ccesa.protocol.server_states import ids_around, ids_near

NEAR = Neighbourhood.around(5, np.array([1, 4, 7, 9]), np.array([True, False, True, True]))


def test_a_client_stands_among_its_neighbours_in_order():
    assert NEAR.members.tolist() == [1, 4, 5, 7, 9]
    assert (NEAR.place, NEAR.degree) == (2, 4)
    assert NEAR.neighbours == [1, 4, 7, 9]


def test_masks_run_with_some_and_never_with_oneself():
    assert NEAR.mask_neighbours == [1, 7, 9]
    assert not NEAR.carries_masks[NEAR.place]


def test_whoever_is_gone_takes_its_edge_along():
    live = NEAR.among(np.array([True, True, True, False, True]))
    assert (live.client, live.place, live.degree) == (5, 2, 3)
    assert live.neighbours == [1, 4, 9]
    assert live.mask_neighbours == [1, 9]


@pytest.mark.parametrize("place", [0, 4])
def test_at_either_end(place):
    others = np.array([2, 3, 4, 5])
    near = Neighbourhood.around([1, None, None, None, 6][place], others, np.ones(4, bool))
    assert near.place == place
    assert near.neighbours == near.mask_neighbours == others.tolist()


ANY_OF_TWELVE = list(chain.from_iterable(combinations(range(12), size) for size in range(13)))


def test_of_all_lists_of_dropped_clients_those_of_neighbours_alone_are_read():
    round = SimpleNamespace(client=5, config=SimpleNamespace(clients=12))
    for dropped in ANY_OF_TWELVE:
        packed, strangers = m.pack_ids(np.array(dropped, np.int64)), sorted({*dropped} - {1, 4, 5, 7, 9})
        if strangers:
            with pytest.raises(FaultyServer, match=f"^client {strangers[0]} is listed as dropped and is not"):
                still_there(round, packed, NEAR)
        elif 5 in dropped:
            with pytest.raises(FaultyServer, match="lists this client itself as dropped"):
                still_there(round, packed, NEAR)
        else:
            assert still_there(round, packed, NEAR).tolist() == [one not in dropped for one in (1, 4, 5, 7, 9)]


GRAPHS = {
    kind.__class__.__name__: draw(kind, bytes(range(32)), np.arange(3, 60, 3))
    for kind in (ErdosRenyi(p=0.3, mask_p=0.2), Harary(degree=6, mask_degree=2))
}
graphs = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)


@graphs
def test_a_client_is_found_at_its_node(graph):
    assert [graph.ids[graph.nodes[client]] for client in range(3, 60, 3)] == list(range(3, 60, 3))
    assert graph.ids[graph.flags([6, 33])].tolist() == [6, 33]
    assert not graph.flags([]).any()


@graphs
def test_neighbours_are_named_and_counted(graph):
    alive = np.arange(graph.size) % 3 > 0
    counted = graph.count(graph.carries_masks)
    named, around = ids_near(graph, alive), ids_around(graph, alive)
    for node in range(graph.size):
        near = graph.neighbours(node)
        live = graph.ids[near[alive[near]]].tolist()
        assert np.frombuffer(named(node), "<u4").tolist() == live
        assert np.frombuffer(around(node), "<u4").tolist() == sorted([*live, graph.ids[node]])
        assert counted[node] == graph.mask_neighbours(node).size
