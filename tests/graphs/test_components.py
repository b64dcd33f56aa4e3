"""Connected components, and that a scipy which joins too much is noticed before anything rests on it."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse.csgraph
from hypothesis import given
from hypothesis import strategies as st

from ccesa.agreement.config import RoundConfig
from ccesa.errors import ConfigError
from ccesa.graphs import Harary
from ccesa.graphs import assignment as module
from ccesa.graphs.assignment import components, draw
from ccesa.protocol.server import Server

RIGHT = scipy.sparse.csgraph.connected_components
VOID = -9999


def void(matrix, directed):
    """What scipy 1.11.1 and 1.11.2 return after an error that they ignore."""
    return 0, np.full(matrix.shape[0], VOID, np.int32)


def void_for_64_bits(matrix, directed):
    """As scipy 1.11.1 and 1.11.2 behave."""
    return (void if matrix.tocsr().indices.dtype == np.int64 else RIGHT)(matrix, directed)


def all_in_one(matrix, directed):
    return 1, np.zeros(matrix.shape[0], np.int32)


def two_in_one(matrix, directed):
    """Right but for the last two components, which are joined."""
    count, labels = RIGHT(matrix, directed)
    return max(count - 1, 1), np.minimum(labels, max(count - 2, 0))


def by_hand(size, edges):
    label = list(range(size))
    for _ in range(size):
        for one, other in edges:
            label[one] = label[other] = min(label[one], label[other])
    return label


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.tuples(*[st.integers(0, n - 1)] * 2)))))
def test_nodes_have_one_label_exactly_when_a_path_joins_them(case):
    size, edges = case
    one, other = np.array(edges, np.int64).reshape(-1, 2).T
    labels, truth = components(size, one, other), np.array(by_hand(size, edges))
    assert ((labels[:, None] == labels) == (truth[:, None] == truth)).all()
    assert set(labels.tolist()) == set(range(len(set(truth.tolist()))))


def test_no_nodes_have_no_components():
    assert components(0, np.zeros(0, int), np.zeros(0, int)).size == 0


@pytest.fixture
def untried():
    """Nothing was asked of scipy yet."""
    module.check_scipy.cache_clear()
    yield
    module.check_scipy.cache_clear()


@pytest.mark.parametrize("broken", [void, all_in_one, two_in_one])
@pytest.mark.usefixtures("untried")
def test_a_scipy_that_joins_too_much_is_refused_before_it_is_asked_anything(broken, monkeypatch):
    monkeypatch.setattr(scipy.sparse.csgraph, "connected_components", broken)
    alone = np.zeros(0, int)
    for _ in range(2):  # and it is not believed the second time either
        with pytest.raises(ConfigError, match=f"scipy {scipy.__version__} cannot find out whether masks are connected"):
            components(1, alone, alone)


@pytest.mark.usefixtures("untried")
def test_with_such_a_scipy_there_is_no_server(monkeypatch):
    monkeypatch.setattr(scipy.sparse.csgraph, "connected_components", all_in_one)
    with pytest.raises(ConfigError, match="cannot find out whether masks are connected"):
        Server(RoundConfig(clients=4, length=1))


def test_an_answer_that_is_none_is_refused_each_time(monkeypatch):
    """An error that scipy ignores may also come later: it has no memory left, say."""
    components(1, *[np.zeros(0, int)] * 2)  # it was right before
    monkeypatch.setattr(scipy.sparse.csgraph, "connected_components", void)
    graph = draw(Harary(degree=2), bytes(32), np.arange(6))
    with pytest.raises(ConfigError, match="0 components of 6 nodes"):
        graph.mask_components(np.ones(6, bool))


def test_indices_have_32_bits_so_that_even_the_wrong_versions_are_right(monkeypatch):
    monkeypatch.setattr(scipy.sparse.csgraph, "connected_components", void_for_64_bits)
    graph = draw(Harary(degree=2), bytes(32), np.arange(6))
    alive = np.ones(6, bool)
    alive[graph.neighbours(0)] = False
    assert [nodes.size for nodes in graph.mask_components(alive)] == [3, 1]


def test_more_than_32_bits_can_number_is_refused(monkeypatch):
    assert module._MOST == 2**31 - 1
    monkeypatch.setattr(module, "_MOST", 3)
    ends = np.array([0, 1, 2])
    assert components(3, ends, ends).tolist() == [0, 1, 2]
    for size, edges in ((4, ends), (3, np.array([0, 1, 2, 0]))):
        with pytest.raises(ConfigError, match=f"{size} clients with {edges.size} edges; .* up to 3"):
            components(size, edges, edges)


def test_the_advice_is_the_bound_of_the_project():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    (bound,) = [line for line in project["dependencies"] if line.startswith("scipy")]
    assert bound in module._broken("")
