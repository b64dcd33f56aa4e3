"""The assignment graph: who holds whose shares, and on which of these edges masks run.

A graph is drawn from a 32-byte seed and the sorted ids of V1, the same way everywhere. Each edge, and
each mask edge, is a function of the seed and one pair (Erdős-Rényi) or of one random circle (Harary), so
a client can recompute its own neighbourhood without drawing the whole graph.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ccesa.graphs.components import components

if TYPE_CHECKING:  # kinds know graphs
    from ccesa.graphs.kinds import Kind

Nodes = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class AssignmentGraph:
    """Neighbour lists one after the other. Nodes are positions in ``ids``, which is sorted.

    ``columns[starts[i] : starts[i + 1]]`` are the neighbours of node i in ascending order, and
    ``masked`` says for each of these edges whether masks run on it.
    """

    ids: Nodes
    starts: Nodes
    columns: Nodes
    masked: Flags

    @property
    def size(self) -> int:
        return self.ids.size

    @cached_property
    def degrees(self) -> Nodes:
        return np.diff(self.starts)

    @cached_property
    def rows(self) -> Nodes:
        return np.repeat(np.arange(self.size), self.degrees)

    @cached_property
    def reverse(self) -> Nodes:
        """For the edge from i to j at each place, the place of the edge from j to i."""
        return _stable_order(self.columns, self.size)

    def edges(self, node: int) -> slice:
        return slice(int(self.starts[node]), int(self.starts[node + 1]))

    def neighbours(self, node: int) -> Nodes:
        return self.columns[self.edges(node)]

    def mask_neighbours(self, node: int) -> Nodes:
        place = self.edges(node)
        return self.columns[place][self.masked[place]]

    def live_neighbours(self, alive: Flags) -> Nodes:
        """For every node, how many of its neighbours are alive."""
        return np.bincount(self.rows, weights=alive[self.columns], minlength=self.size).astype(np.int64)

    def live_mask_neighbours(self, alive: Flags) -> Nodes:
        live = alive[self.columns] & self.masked
        return np.bincount(self.rows, weights=live, minlength=self.size).astype(np.int64)

    def mask_components(self, alive: Flags) -> list[Nodes]:
        """Connected components of the mask graph that the live nodes induce, the largest first."""
        live = self.masked & alive[self.rows] & alive[self.columns]
        label = components(self.size, self.rows[live], self.columns[live])
        nodes = np.flatnonzero(alive)
        nodes = nodes[np.argsort(label[nodes], kind="stable")]
        parts = np.split(nodes, np.flatnonzero(np.diff(label[nodes])) + 1) if nodes.size else []
        return sorted(parts, key=len, reverse=True)


def draw(kind: "Kind", seed: bytes, ids: Nodes) -> AssignmentGraph:
    """Draw the assignment graph of this kind over the sorted ``ids``."""
    ids = np.asarray(ids, np.int64)
    low, high, masked = (np.concatenate(chunks) for chunks in zip(*kind.edges(seed, ids), strict=True))
    return from_edges(ids, low, high, masked)


def neighbourhood(kind: "Kind", seed: bytes, ids: Nodes, node: int) -> Nodes:
    """Return the neighbours of one node, ascending, as in ``draw``; without drawing the others'."""
    return kind.neighbours(seed, np.asarray(ids, np.int64), node)


def from_edges(ids: Nodes, low: Nodes, high: Nodes, masked: Flags) -> AssignmentGraph:
    """Return a graph from its edges, each given once."""
    rows, columns = np.concatenate([low, high]), np.concatenate([high, low])
    order = _stable_order(columns, ids.size)
    order = order[_stable_order(rows[order], ids.size)]
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=ids.size))])
    return AssignmentGraph(ids, starts, columns[order], np.concatenate([masked, masked])[order])


def _stable_order(nodes: Nodes, size: int) -> Nodes:
    """Stable order by node; 16-bit keys are sorted by radix, in linear time."""
    return np.argsort(nodes.astype(np.uint16) if size <= 1 << 16 else nodes, kind="stable")
