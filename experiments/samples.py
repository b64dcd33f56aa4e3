"""Many random graphs at once, for counting: one row a graph, one column a client.

Edges are drawn for all graphs side by side; circles and complete graphs need none, only arithmetic.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ccesa.graphs import Complete, ErdosRenyi, Graph
from ccesa.graphs.assignment import components
from ccesa.graphs.tails import Counts

Flags = NDArray[np.bool_]
Shape = tuple[int, int]


class Whole:
    """Complete graphs."""

    def neighbours(self, flags: Flags) -> Counts:
        """For every client, how many of its neighbours are flagged."""
        return np.asarray(flags.sum(axis=1, keepdims=True) - flags)

    def falls_apart(self, alive: Flags) -> Flags:
        """For every graph, whether those alive are not connected. One alone, or nobody, is connected."""
        return np.zeros(alive.shape[0], bool)


@dataclass(frozen=True)
class Circle:
    """Circles on which everyone is joined to ``half`` on each side, leaving some pair unjoined.

    The columns are the places on the circle: nothing that is counted looks at the graph, so shuffling the
    clients along the circle would change nothing.
    """

    half: int

    def neighbours(self, flags: Flags) -> Counts:
        return self._following(flags) + self._following(flags[:, ::-1])[:, ::-1]

    def falls_apart(self, alive: Flags) -> Flags:
        # A gap that no edge spans begins with someone alive and then ``half`` who are not. One gap leaves a
        # chain, or someone alone; it takes two to cut anyone off.
        return np.asarray(np.count_nonzero(alive & (self._following(alive) == 0), axis=1) >= 2)

    def _following(self, flags: Flags) -> Counts:
        """How many of the next ``half`` places are flagged, past the end from the start again."""
        around = np.concatenate([flags, flags[:, : self.half]], axis=1)
        total = np.cumsum(around, axis=1, dtype=np.int64)
        return np.asarray(total[:, self.half :] - total[:, : -self.half])


@dataclass(frozen=True, eq=False)
class Edges:
    """Any graphs, side by side as one: client i of graph g is node g · n + i."""

    shape: Shape
    one: Counts
    other: Counts

    @classmethod
    def draw(cls, p: float, shape: Shape, rng: np.random.Generator) -> "Edges":
        """Each pair with probability p. Pairs are numbered by how far apart they are: that decodes fast."""
        rows, n = shape
        pairs = math.comb(n, 2)
        places = _successes(p, rows * pairs, rng)
        row = places // pairs
        places -= row * pairs
        # n pairs for each distance below n / 2, and half as many at n / 2 where n is even: each pair once.
        apart = places // n + 1
        one = places % n
        other = one + apart
        other -= n * (other >= n)
        return cls(shape, row * n + one, row * n + other)

    def thinned(self, share: float, rng: np.random.Generator) -> "Edges":
        """Each edge is kept with this probability."""
        kept = rng.random(self.one.size) < share
        return Edges(self.shape, self.one[kept], self.other[kept])

    def neighbours(self, flags: Flags) -> Counts:
        flagged, nodes = flags.ravel(), flags.size
        counts = np.bincount(self.one[flagged[self.other]], minlength=nodes)
        counts += np.bincount(self.other[flagged[self.one]], minlength=nodes)
        return counts.reshape(self.shape)

    def falls_apart(self, alive: Flags) -> Flags:
        nodes = alive.ravel()
        live = nodes[self.one] & nodes[self.other]
        labels = components(nodes.size, self.one[live], self.other[live]).reshape(self.shape)
        first = np.take_along_axis(labels, alive.argmax(axis=1)[:, None], axis=1)
        return np.asarray((alive & (labels != first)).any(axis=1))


Sample = Whole | Circle | Edges


def draw(graph: Graph, shape: Shape, rng: np.random.Generator) -> tuple[Sample, Sample]:
    """As many share graphs as there are rows, and the mask graphs within them."""
    if isinstance(graph, ErdosRenyi):
        shares = Edges.draw(graph.p, shape, rng)
        return shares, shares if graph.mask_p is None else shares.thinned(graph.mask_p / graph.p, rng)
    n = shape[1]
    around = _circle(graph.max_degree(n), n)
    if isinstance(graph, Complete) and graph.mask_p is not None:
        return around, Edges.draw(graph.mask_p, shape, rng)
    return around, around if graph.mask_degree is None else _circle(graph.mask_degree, n)


def mean_edges(graph: Graph, n: int) -> float:
    """How many edges ``draw`` keeps in memory for one graph."""
    p = graph.p if isinstance(graph, ErdosRenyi) else graph.mask_p if isinstance(graph, Complete) else None
    return (p or 0.0) * math.comb(n, 2)


def _circle(degree: int, n: int) -> Sample:
    return Whole() if degree >= n - 1 else Circle(degree // 2)


def _successes(p: float, trials: int, rng: np.random.Generator) -> Counts:
    """Which of so many independent trials succeed. The steps from one to the next are geometric."""
    steps = int(p * trials + 6 * math.sqrt(p * trials) + 16)
    places = np.cumsum(rng.geometric(p, steps)) - 1
    while places[-1] < trials:  # hardly ever
        places = np.append(places, places[-1] + np.cumsum(rng.geometric(p, steps)))
    return places[: np.searchsorted(places, trials)]
