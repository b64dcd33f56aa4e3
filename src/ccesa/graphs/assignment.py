"""The assignment graph says who holds whose shares, and on which of these edges masks run.

A graph is drawn from a 32-byte seed and the sorted ids of V1, the same way everywhere. Each edge, and
each mask edge, is a function of the seed and one pair (Erdős-Rényi) or of one random circle (Harary), so
a client can recompute its own neighbourhood without drawing the whole graph.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ccesa.graphs.components import components

if TYPE_CHECKING:  # kinds know graphs
    from ccesa.graphs.kinds import Kind

Nodes = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class AssignmentGraph:
    """The neighbour lists stand one after the other. Nodes are positions in ``ids``, which is sorted.

    ``columns[starts[i] : starts[i + 1]]`` are the neighbours of node i in ascending order, and
    ``carries_masks`` says for each of these edges whether masks run on it.
    """

    ids: Nodes
    starts: Nodes
    columns: Nodes
    carries_masks: Flags
    #: The graph that was drawn, where edges were taken out of it since, and which of its edges are left.
    drawn: "tuple[AssignmentGraph, Flags] | None" = None

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
        """Return for the edge from i to j at each place the place of the edge from j to i."""
        return _stable_order(self.columns, self.size)

    @cached_property
    def nodes(self) -> dict[int, int]:
        """Return the node of each client."""
        return {client: node for node, client in enumerate(self.ids.tolist())}

    def edge_flags(self, pairs: Iterable[tuple[int, int]]) -> Flags:
        """Mark the edges between these pairs of nodes, in both directions."""
        chosen = np.zeros(self.columns.size, bool)
        for one, other in pairs:
            place = self.edge(one, other)
            chosen[[place, self.reverse[place]]] = True
        return chosen

    def without(self, edges: Flags) -> "AssignmentGraph":
        """Take edges out. Who holds which share was settled when the graph was drawn, and stays so."""
        if not edges.any():
            return self
        left = ~edges
        starts = np.concatenate([[0], np.cumsum(left)])[self.starts]
        return AssignmentGraph(
            self.ids, starts, self.columns[left], self.carries_masks[left], drawn=(self, left)
        )

    def flags(self, clients: Iterable[int]) -> Flags:
        """Mark the nodes of these clients."""
        chosen = np.zeros(self.size, bool)
        chosen[[self.nodes[client] for client in clients]] = True
        return chosen

    def edges(self, node: int) -> slice:
        return slice(int(self.starts[node]), int(self.starts[node + 1]))

    def edge(self, node: int, neighbour: int) -> int:
        """Return the place of the edge from a node to one of its neighbours."""
        return int(self.starts[node] + np.searchsorted(self.neighbours(node), neighbour))

    def neighbours(self, node: int) -> Nodes:
        return self.columns[self.edges(node)]

    def closed_neighbourhood(self, node: int) -> Nodes:
        """Return the node among its neighbours, ascending."""
        near = self.neighbours(node)
        place = near.searchsorted(node)
        return np.concatenate([near[:place], [node], near[place:]])

    def mask_neighbours(self, node: int) -> Nodes:
        place = self.edges(node)
        return self.columns[place][self.carries_masks[place]]

    def live_neighbours(self, alive: Flags) -> Nodes:
        """Count the live neighbours of every node."""
        return np.bincount(self.rows, weights=alive[self.columns], minlength=self.size).astype(np.int64)

    def live_mask_neighbours(self, alive: Flags) -> Nodes:
        """Count the live neighbours of every node with whom it shares a mask."""
        live = alive[self.columns] & self.carries_masks
        return np.bincount(self.rows, weights=live, minlength=self.size).astype(np.int64)

    def mask_components(self, alive: Flags) -> list[Nodes]:
        """Return the components of the mask graph that the live nodes induce, the largest first."""
        live = self.carries_masks & alive[self.rows] & alive[self.columns]
        label = components(self.size, self.rows[live], self.columns[live])
        nodes = np.flatnonzero(alive)
        nodes = nodes[np.argsort(label[nodes], kind="stable")]
        parts = np.split(nodes, np.flatnonzero(np.diff(label[nodes])) + 1) if nodes.size else []
        return sorted(parts, key=len, reverse=True)

    # What goes to every node is packed in one array, and cut into one view for each.

    def cut(self, edges: Flags, items: NDArray[Any]) -> list[Any]:
        """Cut packed items, one for each of these edges, into one view for every node."""
        width = items.itemsize * (items.shape[1] if items.ndim > 1 else 1)
        bounds = np.concatenate([[0], np.cumsum(edges)])[self.starts] * width
        packed = items.view(np.uint8).ravel().data
        return [packed[first:last] for first, last in pairwise(bounds.tolist())]

    def ids_at(self, edges: Flags) -> list[Any]:
        """Return for every node the packed ids at the far ends of those of its edges."""
        return self.cut(edges, self.ids[self.columns[edges]].astype("<u4"))

    def of_neighbours(self, items: list[bytes], alive: Flags | None = None) -> list[Any]:
        """Return for every node the items of its live neighbours, joined; all have the same size."""
        rows = np.frombuffer(b"".join(items), np.uint8).reshape(self.size, -1)
        edges = np.ones(self.columns.size, bool) if alive is None else alive[self.columns]
        return self.cut(edges, np.take(rows, self.columns[edges], axis=0))


def draw(kind: "Kind", seed: bytes, ids: Nodes) -> AssignmentGraph:
    """Draw the assignment graph of this kind over the sorted ``ids``."""
    ids = np.asarray(ids, np.int64)
    low, high, carries_masks = (np.concatenate(chunks) for chunks in zip(*kind.edges(seed, ids), strict=True))
    return from_edges(ids, low, high, carries_masks)


def neighbourhood(kind: "Kind", seed: bytes, ids: Nodes, node: int) -> Nodes:
    """Return the neighbours of one node, ascending, as ``draw`` gives them, without drawing the others'."""
    return kind.neighbours(seed, np.asarray(ids, np.int64), node)


def from_edges(ids: Nodes, low: Nodes, high: Nodes, carries_masks: Flags) -> AssignmentGraph:
    """Return a graph from its edges, each given once."""
    rows, columns = np.concatenate([low, high]), np.concatenate([high, low])
    order = _stable_order(columns, ids.size)
    order = order[_stable_order(rows[order], ids.size)]
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=ids.size))])
    return AssignmentGraph(ids, starts, columns[order], np.concatenate([carries_masks] * 2)[order])


def _stable_order(nodes: Nodes, size: int) -> Nodes:
    """Sort by node, stably; 16-bit keys are sorted by radix, in linear time."""
    return np.argsort(nodes.astype(np.uint16) if size <= 1 << 16 else nodes, kind="stable")
