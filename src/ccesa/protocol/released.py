"""The shares of step 3, and who sent wrong ones: all are looked at, also those that are not needed."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ccesa.crypto import parity, shamir
from ccesa.graphs.evolution import Evolution

Nodes = NDArray[np.int64]
#: Shares that are looked at together; bounds the memory.
AT_ONCE = 1 << 17


class WrongShare(NamedTuple):
    """A share that does not fit the others of the same secret: its sender lied, or its dealer did."""

    sender: int
    dealer: int


@dataclass(frozen=True, kw_only=True)
class Released:
    """The shares as they came, by holder: for each edge (i, j) the share that i holds of j, and i's own."""

    on_edges: NDArray[np.uint16] = field(repr=False)
    own: NDArray[np.uint16] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Holdings:
    """The same by dealer, once it is clear who is left."""

    evolution: Evolution
    released: Released

    def xs(self, edges: Nodes) -> Nodes:
        """The x-coordinate of the neighbour at the end of each edge among the holders of its start.

        It is 1 + rank in the sorted closed neighbourhood, never read from a message.
        """
        graph = self.evolution.graph
        rows = graph.rows[edges]
        return edges - graph.starts[rows] + 1 + (graph.columns[edges] > rows)

    def on_edges(self, edges: Nodes) -> NDArray[np.uint16]:
        """Of each edge (i, j) the share that j holds of i."""
        return self.released.on_edges[self.evolution.graph.reverse[edges]]

    def of(self, node: int) -> tuple[Nodes, Nodes, NDArray[np.uint16]]:
        """Live holders of this client's shares, their x-coordinates, and the shares; its own comes last."""
        holders, xs, shares = self.of_each(np.array([node]))
        return holders[0], xs[0], shares[0]

    def of_each(self, nodes: Nodes) -> tuple[Nodes, Nodes, NDArray[np.uint16]]:
        """A row for each, of clients with the same number of live holders that all or none still live."""
        graph, v4 = self.evolution.graph, self.evolution.v4
        first, sizes = graph.starts[nodes], graph.degrees[nodes]
        edges = np.repeat(first - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        edges = edges[v4[graph.columns[edges]]].reshape(nodes.size, -1)
        holders, xs, shares = graph.columns[edges], self.xs(edges), self.on_edges(edges)
        if not v4[nodes[0]]:
            return holders, xs, shares
        return (
            np.column_stack([holders, nodes]),
            np.column_stack([xs, self._own_xs[nodes]]),
            np.concatenate([shares, self.released.own[nodes, None]], axis=1),
        )

    def wrong(self, secrets: Mapping[int, bytes], known: Iterable[WrongShare] = ()) -> frozenset[WrongShare]:
        """All shares that do not lie on the polynomial of their secret, which has been rebuilt.

        Of a secret with r shares and threshold t as long as at most floor((r - t) / 2) are wrong.
        """
        found = set(known)
        for nodes in self._alike(np.array(sorted(secrets), np.int64)):
            threshold = int(self.evolution.thresholds[nodes[0]])
            _, xs, shares = self.of_each(nodes)
            fits = parity.fit_each(xs, shares, threshold, os.urandom)
            for node in nodes[~fits].tolist():
                found |= self._wrong_of(node, secrets[node], found)
        return frozenset(found)

    def _wrong_of(self, node: int, secret: bytes, known: Iterable[WrongShare]) -> set[WrongShare]:
        ids = self.evolution.graph.ids
        holders, xs, shares = self.of(node)
        suspects = np.isin(ids[holders], [one.sender for one in known])
        threshold = int(self.evolution.thresholds[node])
        every = np.vstack([shamir.from_bytes(secret), shares])
        places = parity.odd_ones(xs, every, threshold, suspects, os.urandom)
        return {WrongShare(sender, int(ids[node])) for sender in ids[holders[places]].tolist()}

    def _alike(self, nodes: Nodes) -> Iterator[Nodes]:
        """Parts that can be looked at together: as many holders, the same threshold."""
        evolution = self.evolution
        live = evolution.graph.live_neighbours(evolution.v4)
        kinds = np.stack([live, evolution.thresholds, evolution.v4], axis=1)[nodes]
        _, kind = np.unique(kinds, axis=0, return_inverse=True)
        for number in range(kind.max(initial=-1) + 1):
            some = nodes[kind.ravel() == number]
            yield from np.array_split(some, -(-some.size * (int(live[some[0]]) + 1) // AT_ONCE))

    @cached_property
    def _own_xs(self) -> Nodes:
        graph = self.evolution.graph
        before = np.concatenate([[0], np.cumsum(graph.columns < graph.rows)])
        return 1 + before[graph.starts[1:]] - before[graph.starts[:-1]]
