"""The assignment graph says who holds whose shares, and on which of these edges masks run.

A graph is drawn from a 32-byte seed and the sorted ids of V1, the same way everywhere. Each edge, and
each mask edge, is a function of the seed and one pair (Erdős-Rényi) or of one random circle (Harary), so
a client can recompute its own neighbourhood without drawing the whole graph.
"""

from collections.abc import Iterable
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
        from scipy.sparse import csr_array

        places, shape = np.arange(self.columns.size), (self.size, self.size)
        return csr_array((places, self.columns, self.starts), shape=shape).tocsc().data.astype(np.int64)

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
        chosen[self.ids.searchsorted(np.fromiter(clients, np.int64))] = True
        return chosen

    def edges(self, node: int) -> slice:
        return slice(self._bounds[node], self._bounds[node + 1])

    @cached_property
    def _bounds(self) -> list[int]:
        """Return the starts as numbers that Python slices with at once."""
        return self.starts.tolist()

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
        return self.count(alive[self.columns])

    def live_mask_neighbours(self, alive: Flags) -> Nodes:
        """Count the live neighbours of every node with whom it shares a mask."""
        return self.count(alive[self.columns] & self.carries_masks)

    def count(self, edges: Flags) -> Nodes:
        """Count those of these edges that every node has."""
        flags = np.append(edges, False)  # so that the last nodes may have none
        return np.where(self.degrees, np.add.reduceat(flags, self.starts[:-1], dtype=np.int64), 0)

    def mask_components(self, alive: Flags) -> list[Nodes]:
        """Return the components of the mask graph that the live nodes induce, the largest first."""
        live = self.carries_masks & alive[self.rows] & alive[self.columns]
        label = components(self.size, self.rows[live], self.columns[live])
        nodes = np.flatnonzero(alive)
        nodes = nodes[np.argsort(label[nodes], kind="stable")]
        parts = np.split(nodes, np.flatnonzero(np.diff(label[nodes])) + 1) if nodes.size else []
        return sorted(parts, key=len, reverse=True)


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
    from scipy.sparse import coo_array  # a client draws no graph, and need not load it

    ends = np.concatenate([low, high, low]).astype(np.int32)
    pairs = ends[: -low.size or None], ends[low.size :]
    lists = coo_array((np.tile(carries_masks, 2), pairs), shape=(ids.size, ids.size)).tocsr()
    return AssignmentGraph(ids, lists.indptr.astype(np.int64), lists.indices.astype(np.int64), lists.data)
