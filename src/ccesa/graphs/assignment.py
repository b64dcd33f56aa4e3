"""The assignment graph says who holds whose shares, and on which of these edges masks run.

A graph is drawn from a 32-byte seed and the sorted ids of V1, the same way everywhere. Each edge, and each mask edge,
is a function of the seed and one pair (Erdős-Rényi) or of one random circle (Harary), so a client can compute its own
neighbourhood without drawing the whole graph.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ccesa.errors import ConfigError

if TYPE_CHECKING:
    from ccesa.graphs.kinds import Kind

Nodes = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class AssignmentGraph:
    """The neighbour lists of all nodes, one after the other. Nodes are positions in ``ids``, which is sorted.

    ``columns[starts[i] : starts[i + 1]]`` are the neighbours of node i in ascending order, and ``carries_masks`` says
    for each of these edges whether masks run on it.
    """

    ids: Nodes
    starts: Nodes
    columns: Nodes
    carries_masks: Flags
    #: If edges were taken out since: the graph that was drawn, and which of its edges are left.
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
        """The place of the edge from j to i, for the edge from i to j at each place."""
        from scipy.sparse import csr_array

        places, shape = np.arange(self.columns.size), (self.size, self.size)
        return csr_array((places, self.columns, self.starts), shape=shape).tocsc().data.astype(np.int64)

    @cached_property
    def nodes(self) -> dict[int, int]:
        """The node of each client."""
        return {client: node for node, client in enumerate(self.ids.tolist())}

    def edge_flags(self, pairs: Iterable[tuple[int, int]]) -> Flags:
        """Mark the edges between these pairs of nodes, in both directions."""
        marked = np.zeros(self.columns.size, bool)
        for one, other in pairs:
            place = self.edge(one, other)
            marked[[place, self.reverse[place]]] = True
        return marked

    def without(self, edges: Flags) -> "AssignmentGraph":
        """Take edges out. The holders of shares stay those of the graph that was drawn."""
        if not edges.any():
            return self
        left = ~edges
        starts = np.concatenate([[0], np.cumsum(left)])[self.starts]
        return AssignmentGraph(self.ids, starts, self.columns[left], self.carries_masks[left], drawn=(self, left))

    def flags(self, clients: Iterable[int]) -> Flags:
        """Mark the nodes of these clients."""
        marked = np.zeros(self.size, bool)
        marked[self.ids.searchsorted(np.fromiter(clients, np.int64))] = True
        return marked

    def edges(self, node: int) -> slice:
        return slice(self._bounds[node], self._bounds[node + 1])

    @cached_property
    def _bounds(self) -> list[int]:
        """The starts as Python's own numbers, which slice faster."""
        return self.starts.tolist()

    def edge(self, node: int, neighbour: int) -> int:
        """Return the place of the edge from a node to one of its neighbours."""
        return int(self.starts[node] + np.searchsorted(self.neighbours(node), neighbour))

    def neighbours(self, node: int) -> Nodes:
        return self.columns[self.edges(node)]

    def closed_neighbourhood(self, node: int) -> Nodes:
        """Return the node among its neighbours, ascending."""
        near = self.neighbours(node)
        return np.insert(near, near.searchsorted(node), node)

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
        flags = np.append(edges, False)  # so that the last nodes can be without edges
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


def from_edges(ids: Nodes, low: Nodes, high: Nodes, carries_masks: Flags) -> AssignmentGraph:
    """Return a graph from its edges, each given once."""
    from scipy.sparse import coo_array  # a client draws no graph and does not need scipy

    ends = np.concatenate([low, high, low]).astype(np.int32)
    pairs = ends[: -low.size or None], ends[low.size :]
    lists = coo_array((np.tile(carries_masks, 2), pairs), shape=(ids.size, ids.size)).tocsr()
    return AssignmentGraph(ids, lists.indptr.astype(np.int64), lists.indices.astype(np.int64), lists.data)


@dataclass(frozen=True, kw_only=True, eq=False)
class Neighbourhood:
    """A client among its neighbours by ascending id, with the edges that carry masks.

    The x-coordinate of a member among the holders of this client's shares is 1 + its place in the whole neighbourhood.
    Both sides compute it. No message contains it.
    """

    client: int
    members: Nodes
    #: Whether masks run on the edge to each member; false at the client's own place.
    carries_masks: Flags

    @classmethod
    def around(cls, client: int, neighbours: Nodes, carries_masks: Flags) -> "Neighbourhood":
        """Put a client among its neighbours, which ascend."""
        place = np.searchsorted(neighbours, client)
        members, flags = np.insert(neighbours, place, client), np.insert(carries_masks, place, False)
        return cls(client=client, members=members, carries_masks=flags)

    @property
    def place(self) -> int:
        """The rank of the client itself."""
        return int(np.searchsorted(self.members, self.client))

    @property
    def degree(self) -> int:
        return self.members.size - 1

    @property
    def neighbours(self) -> list[int]:
        return self.members[self.members != self.client].tolist()

    @property
    def mask_neighbours(self) -> list[int]:
        return self.members[self.carries_masks].tolist()

    def among(self, live: Flags) -> "Neighbourhood":
        """Return the neighbourhood without the members that are not live."""
        return Neighbourhood(client=self.client, members=self.members[live], carries_masks=self.carries_masks[live])


@dataclass(frozen=True, eq=False)
class Holders:
    """The places of all shares. Those of dealer i are from ``starts[i]`` to ``starts[i + 1]``, by holder.

    ``nodes`` are the holders. ``reverse`` gives for the share from i to j the place of the share from j to i.
    """

    starts: Nodes
    nodes: Nodes
    reverse: Nodes
    #: x-coordinates: 1 + rank in the dealer's sorted closed neighbourhood, never read from a message.
    xs: Nodes

    @classmethod
    def of(cls, graph: AssignmentGraph) -> "Holders":
        """Lay out the closed neighbourhoods of a graph, one after the other."""
        everyone, after, edges = np.arange(graph.size), graph.columns > graph.rows, _edge_places(graph)
        own = graph.starts[1:] + everyone - np.bincount(graph.rows, after, graph.size).astype(np.int64)
        nodes, reverse = np.empty((2, edges.size + own.size), np.int64)
        nodes[own], nodes[edges] = everyone, graph.columns
        reverse[own], reverse[edges] = own, edges[graph.reverse]
        starts = graph.starts + np.arange(graph.size + 1)
        xs = 1 + _counted(np.diff(starts))
        if graph.drawn is not None:
            whole, left = graph.drawn
            dealt = cls.of(whole)
            kept = np.ones(dealt.nodes.size, bool)
            kept[_edge_places(whole)] = left
            xs = dealt.xs[kept]
        return cls(starts, nodes, reverse, xs)

    def live(self, dealers: Nodes, alive: Flags, most: int | None = None) -> tuple[Nodes, Nodes]:
        """Return the first ``most`` shares of each dealer with live holders: positions in ``dealers``, and places."""
        sizes = self.starts[dealers + 1] - self.starts[dealers]
        rows = np.repeat(np.arange(dealers.size), sizes)
        places = self.starts[dealers[rows]] + _counted(sizes)
        live = alive[self.nodes[places]]
        rows, places = rows[live], places[live]
        if most is None:
            return rows, places
        first = _counted(np.bincount(rows, minlength=dealers.size)) < most
        return rows[first], places[first]


def _edge_places(graph: AssignmentGraph) -> Nodes:
    """Return the place of the share that goes over each edge. The nodes' own shares are between them."""
    return np.arange(graph.columns.size) + graph.rows + (graph.columns > graph.rows)


def _counted(sizes: Nodes) -> Nodes:
    """Count 0, 1, 2, … within each of several groups of these sizes."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)


# The evolution of a round, which the paper's theorems are about. Shares run on the whole graph and masks on a subgraph.
# *Informative* is about the first and *connected* about the second.


@dataclass(frozen=True, eq=False)
class Evolution:
    """The evolution of a round has G, V1 ⊇ V2 ⊇ V3 ⊇ V4 as flags of nodes, and the threshold t_i of each node."""

    graph: AssignmentGraph
    thresholds: Nodes
    v2: Flags
    v3: Flags
    v4: Flags

    def ids(self, flags: Flags) -> tuple[int, ...]:
        return tuple(self.graph.ids[flags].tolist())


def informative(graph: AssignmentGraph, thresholds: Nodes, holders: Flags) -> Flags:
    """Flag the informative nodes of Definition 3: at least t_i of their holders, themselves included, are live."""
    return graph.live_neighbours(holders) + holders >= thresholds


def extended(graph: AssignmentGraph, members: Flags, v2: Flags) -> Flags:
    """Flag C+: the members of C, and all of V2 that share a mask with a member."""
    return members | (v2 & (graph.live_mask_neighbours(members) > 0))


def flags(size: int, nodes: Sequence[int] | Nodes) -> Flags:
    """Mark these among ``size`` nodes."""
    marked = np.zeros(size, bool)
    marked[np.asarray(nodes, np.int64)] = True
    return marked


# Components


Labels = NDArray[np.int32]
_MOST = np.iinfo(np.int32).max


def components(size: int, one: NDArray[np.int64], other: NDArray[np.int64]) -> Labels:
    """Number the component of each node of 0..size - 1, from 0; edge k joins ``one[k]`` and ``other[k]``."""
    check_scipy()
    return _labels(size, one, other)


def _labels(size: int, one: NDArray[np.int64], other: NDArray[np.int64]) -> Labels:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if max(size, one.size) > _MOST:
        raise ConfigError(f"{size} clients with {one.size} edges; connectivity is checked up to {_MOST} of each")
    ends = one.astype(np.int32), other.astype(np.int32)
    matrix = coo_array((np.ones(one.size, np.int8), ends), shape=(size, size))
    count, labels = connected_components(matrix, directed=False)
    if size and not (labels.min() == 0 and labels.max() == count - 1):
        raise ConfigError(_broken(f"{count} components of {size} nodes"))
    return labels


def _broken(found: str) -> str:
    import scipy

    wrong = f"the installed scipy {scipy.__version__} cannot find out whether masks are connected: it found {found}"
    return f"{wrong}; install another version, pip install 'scipy>=1.11.3'"


@cache
def check_scipy() -> None:
    """Try scipy, once, on two triangles and a single node; raise ConfigError if its answer is wrong."""
    one, other = np.array([0, 2, 4, 1, 3, 5]), np.array([2, 4, 0, 3, 5, 1])
    labels = _labels(7, one, other).tolist()
    first, second, single = labels[0], labels[1], labels[6]
    if len({first, second, single}) != 3 or labels != [first, second] * 3 + [single]:
        raise ConfigError(_broken(f"{labels} for two triangles and a single node"))
