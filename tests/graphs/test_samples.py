"""Many graphs at once: each counted like one drawn alone."""

import numpy as np
import pytest
from experiments.samples import Circle, Edges, Whole

import enumeration
from ccesa.graphs import Complete, ErdosRenyi, Harary
from experiments import samples


@pytest.mark.parametrize("n", [3, 4, 5, 8, 9])
def test_every_pair_is_drawn_once_when_all_are(n):
    sample = Edges.draw(1.0, (3, n), np.random.default_rng(1))
    pairs = {tuple(sorted(pair)) for pair in zip(sample.one.tolist(), sample.other.tolist(), strict=True)}
    assert sample.one.size == len(pairs) == 3 * n * (n - 1) // 2
    assert all(low // n == high // n for low, high in pairs)
    everyone = np.ones((3, n), bool)
    assert (sample.neighbours(everyone) == n - 1).all()
    assert not sample.falls_apart(everyone).any()


@pytest.mark.parametrize(("n", "p"), [(6, 0.1), (7, 0.6), (5, 0.95)])
def test_every_pair_is_as_likely_as_the_others_and_independent_of_them(n, p):
    rows = 20_000
    sample = Edges.draw(p, (rows, n), np.random.default_rng(2))
    matrices = np.zeros((rows, n, n))
    graph = sample.one // n
    assert (graph == sample.other // n).all()
    np.add.at(matrices, (graph, sample.one % n, sample.other % n), 1)
    flat = (matrices + matrices.transpose(0, 2, 1))[:, *np.triu_indices(n, 1)]
    assert flat.max() == 1
    assert flat.mean(axis=0) == pytest.approx(p, abs=5 * np.sqrt(p * (1 - p) / rows))
    products = np.cov(flat, rowvar=False)[np.triu_indices(flat.shape[1], 1)]
    assert products == pytest.approx(0, abs=5 * p * (1 - p) / np.sqrt(rows))


def test_thinned_edges_are_some_of_the_edges():
    rng = np.random.default_rng(3)
    shares, masks = samples.draw(ErdosRenyi(p=0.5, mask_p=0.2), (500, 20), rng)
    both = set(zip(shares.one.tolist(), shares.other.tolist(), strict=True))
    assert set(zip(masks.one.tolist(), masks.other.tolist(), strict=True)) < both
    assert masks.one.size / shares.one.size == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize(
    ("graph", "n"),
    [
        (Harary(degree=2), 4),
        (Harary(degree=2), 7),
        (Harary(degree=4), 6),
        (Harary(degree=4), 9),
        (Harary(degree=6), 8),
        (Harary(degree=8, mask_degree=4), 9),
        (Complete(mask_degree=2), 5),
        (Complete(mask_degree=4), 5),
        (Complete(), 3),
    ],
    ids=repr,
)
def test_circles_count_like_a_graph_for_every_set_of_clients(graph, n):
    """All sets at once, one a row; the columns are the places on the circle."""
    alive = enumeration.subsets(n)
    shares, masks = samples.draw(graph, alive.shape, np.random.default_rng(4))
    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    distance = np.minimum(apart, n - apart)
    for sample, degree in ((shares, graph.max_degree(n)), (masks, graph.mask_degree or graph.max_degree(n))):
        reach = n if degree >= n - 1 else degree // 2
        matrix = (distance > 0) & (distance <= reach)
        assert (sample.neighbours(alive) == alive.astype(int) @ matrix.astype(int)).all()
        assert (sample.falls_apart(alive) == enumeration.falls_apart(matrix[None], alive)[0]).all()


def test_edges_count_like_a_graph_for_every_set_of_clients():
    n, rng = 6, np.random.default_rng(5)
    alive = enumeration.subsets(n)
    sample = Edges.draw(0.4, alive.shape, rng)
    matrices = np.zeros((len(alive), n, n), bool)
    matrices[sample.one // n, sample.one % n, sample.other % n] = True
    matrices |= matrices.transpose(0, 2, 1)
    counts = np.einsum("gij,gj->gi", matrices.astype(int), alive.astype(int))
    assert (sample.neighbours(alive) == counts).all()
    truth = [enumeration.falls_apart(one[None], row[None]).item() for one, row in zip(matrices, alive, strict=True)]
    assert sample.falls_apart(alive).tolist() == truth


@pytest.mark.parametrize("sample", [Whole(), Circle(2), Edges((3, 6), np.zeros(0, int), np.zeros(0, int))])
def test_one_alone_or_nobody_is_connected(sample):
    alive = np.zeros((3, 6), bool)
    alive[1, 4] = True
    assert not sample.falls_apart(alive).any()


def test_short_steps_are_continued_to_the_last_trial():
    class Unlucky:
        """Every trial succeeds, though one in ten was expected."""

        def geometric(self, p, size):
            return np.ones(size, np.int64)

    assert (samples._successes(0.1, 1000, Unlucky()) == np.arange(1000)).all()
