"""The shares of step 3, and who sent wrong ones: all are checked, also those that are not needed."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ccesa.crypto import parity, shamir
from ccesa.evidence import WrongShare
from ccesa.graphs.evolution import Evolution

Nodes = NDArray[np.int64]
#: Shares that are looked at together; bounds the memory.
AT_ONCE = 1 << 15


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
        return self.released.on_edges.take(self.evolution.graph.reverse[edges], axis=0)

    def of(self, node: int) -> tuple[Nodes, Nodes, NDArray[np.uint16]]:
        """Live holders of this client's shares, their x-coordinates, and the shares; its own comes last."""
        return self.of_each(np.array([node]))[1:]

    def of_each(self, nodes: Nodes) -> tuple[Nodes, Nodes, Nodes, NDArray[np.uint16]]:
        """The same of many, one after the other; first comes whose a share is, as a place in ``nodes``."""
        graph, v4 = self.evolution.graph, self.evolution.v4
        first, sizes = graph.starts[nodes], graph.degrees[nodes]
        edges = np.repeat(first - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        rows = np.repeat(np.arange(nodes.size), sizes)
        live, own = v4[graph.columns[edges]], np.flatnonzero(v4[nodes])
        edges, rows = edges[live], np.concatenate([rows[live], own])
        order = np.argsort(rows, kind="stable")
        holders = np.concatenate([graph.columns[edges], nodes[own]])
        xs = np.concatenate([self.xs(edges), self._own_xs[nodes[own]]])
        shares = np.concatenate([self.on_edges(edges), self.released.own[nodes[own]]])
        return rows[order], holders[order], xs[order], shares.take(order, axis=0)

    def wrong(self, secrets: Mapping[int, bytes], known: Iterable[WrongShare] = ()) -> frozenset[WrongShare]:
        """All shares that do not lie on the polynomial of their secret, which has been rebuilt.

        Of a secret with r shares and threshold t as long as at most floor((r - t) / 2) are wrong.
        """
        found = set(known)
        for spare, nodes in self._alike(np.array(sorted(secrets), np.int64)):
            rows, _, xs, shares = self.of_each(nodes)
            fits = parity.fit_each(rows, xs, shares, spare, os.urandom)
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
        sure = (holders.size - threshold) // 2
        return {WrongShare(sender, int(ids[node]), sure) for sender in ids[holders[places]].tolist()}

    def _alike(self, nodes: Nodes) -> Iterator[tuple[int, Nodes]]:
        """Parts that can be looked at together, and how many shares each of their secrets has to spare.

        In a part nobody has twice as many as another, and half of them is what can be told apart anyway.
        """
        evolution = self.evolution
        shares = evolution.graph.live_neighbours(evolution.v4) + evolution.v4
        spare = (shares - evolution.thresholds)[nodes]
        nodes, spare = nodes[spare > 0], spare[spare > 0]
        kinds = np.frexp(spare.astype(np.float64))[1]
        for kind in np.unique(kinds).tolist():
            some = nodes[kinds == kind]
            parts = -(-some.size * int(shares[some].max()) // AT_ONCE)
            for part in np.array_split(some, parts):
                yield 1 << (kind - 1), part

    @cached_property
    def _own_xs(self) -> Nodes:
        graph = self.evolution.graph
        before = np.concatenate([[0], np.cumsum(graph.columns < graph.rows)])
        return 1 + before[graph.starts[1:]] - before[graph.starts[:-1]]
