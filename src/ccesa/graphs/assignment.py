"""The assignment graph: who holds whose shares, and on which of these edges masks run.

A graph is drawn from a 32-byte seed and the sorted ids of V1, the same way everywhere. Each edge, and
each mask edge, is a function of the seed and one pair (Erdős-Rényi) or of one random circle (Harary), so
a client can recompute its own neighbourhood without drawing the whole graph.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccesa.config import Complete, ErdosRenyi, Graph, Harary
from ccesa.crypto import primitives
from ccesa.graphs.components import components

Nodes = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: Pairs that are drawn at a time.
_CHUNK = 1 << 15


@dataclass(frozen=True, eq=False)
class AssignmentGraph:
    """Neighbour lists one after the other. Nodes are positions in ``ids``, which is sorted.

    ``columns[starts[i] : starts[i + 1]]`` are the neighbours of node i in ascending order, and
    ``carries_masks`` says for each of these edges whether masks run on it.
    """

    ids: Nodes
    starts: Nodes
    columns: Nodes
    carries_masks: Flags

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

    @cached_property
    def nodes(self) -> dict[int, int]:
        """The node of each client."""
        return {client: node for node, client in enumerate(self.ids.tolist())}

    def flags(self, clients: Iterable[int]) -> Flags:
        """Mark the nodes of these clients."""
        chosen = np.zeros(self.size, bool)
        chosen[[self.nodes[client] for client in clients]] = True
        return chosen

    def edges(self, node: int) -> slice:
        return slice(int(self.starts[node]), int(self.starts[node + 1]))

    def neighbours(self, node: int) -> Nodes:
        return self.columns[self.edges(node)]

    def mask_neighbours(self, node: int) -> Nodes:
        place = self.edges(node)
        return self.columns[place][self.carries_masks[place]]

    def live_neighbours(self, alive: Flags) -> Nodes:
        """For every node, how many of its neighbours are alive."""
        return np.bincount(self.rows, weights=alive[self.columns], minlength=self.size).astype(np.int64)

    def live_mask_neighbours(self, alive: Flags) -> Nodes:
        live = alive[self.columns] & self.carries_masks
        return np.bincount(self.rows, weights=live, minlength=self.size).astype(np.int64)

    def mask_components(self, alive: Flags) -> list[Nodes]:
        """Connected components of the mask graph that the live nodes induce, the largest first."""
        live = self.carries_masks & alive[self.rows] & alive[self.columns]
        label = components(self.size, self.rows[live], self.columns[live])
        nodes = np.flatnonzero(alive)
        nodes = nodes[np.argsort(label[nodes], kind="stable")]
        parts = np.split(nodes, np.flatnonzero(np.diff(label[nodes])) + 1) if nodes.size else []
        return sorted(parts, key=len, reverse=True)

    def edges_to(self, alive: Flags) -> list[Nodes]:
        """For every node, the places of its edges to live nodes."""
        places = np.flatnonzero(alive[self.columns])
        bounds = np.searchsorted(places, self.starts).tolist()
        return [places[first:last] for first, last in pairwise(bounds)]

    # What goes to every node is packed in one array, and cut into one view for each.

    def cut(self, edges: Flags, items: NDArray[Any]) -> list[Any]:
        """Packed items, one for each of these edges, cut into one view for every node."""
        width = items.itemsize * (items.shape[1] if items.ndim > 1 else 1)
        bounds = np.concatenate([[0], np.cumsum(edges)])[self.starts] * width
        packed = items.view(np.uint8).ravel().data
        return [packed[first:last] for first, last in pairwise(bounds.tolist())]

    def ids_at(self, edges: Flags) -> list[Any]:
        """For every node, the packed ids at the far ends of those of its edges."""
        return self.cut(edges, self.ids[self.columns[edges]].astype("<u4"))

    def of_neighbours(self, items: list[bytes], alive: Flags | None = None) -> list[Any]:
        """For every node, the items of its live neighbours, one after the other; all have the same size."""
        rows = np.frombuffer(b"".join(items), np.uint8).reshape(self.size, -1)
        edges = np.ones(self.columns.size, bool) if alive is None else alive[self.columns]
        return self.cut(edges, np.take(rows, self.columns[edges], axis=0))


def draw(kind: Graph, seed: bytes, ids: Nodes) -> AssignmentGraph:
    """The assignment graph of this kind over the sorted ``ids``."""
    ids = np.asarray(ids, np.int64)
    circle = _circle_positions(seed, ids.size)
    rows, columns, masked = [], [], []
    for low, high in _pairs(kind, circle, ids.size):
        edge, mask = _draw_pairs(kind, seed, ids, circle, low, high)
        rows.append(low[edge])
        columns.append(high[edge])
        masked.append(mask[edge])
    return from_edges(ids, np.concatenate(rows), np.concatenate(columns), np.concatenate(masked))


def neighbourhood(kind: Graph, seed: bytes, ids: Nodes, node: int) -> Nodes:
    """The neighbours of one node, ascending, as in ``draw``; without drawing the others'."""
    ids = np.asarray(ids, np.int64)
    others = np.delete(np.arange(ids.size), node)
    near = np.minimum(others, node), np.maximum(others, node)
    if isinstance(kind, Harary):
        return others[_circle_distance(_circle_positions(seed, ids.size), *near) <= kind.degree // 2]
    if isinstance(kind, ErdosRenyi):
        return others[_below(_pair_draws(seed, ids[near[0]], ids[near[1]]), kind.p)]
    return others


def from_edges(ids: Nodes, low: Nodes, high: Nodes, carries_masks: Flags) -> AssignmentGraph:
    """A graph from its edges, each given once."""
    rows, columns = np.concatenate([low, high]), np.concatenate([high, low])
    order = _stable_order(columns, ids.size)
    order = order[_stable_order(rows[order], ids.size)]
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=ids.size))])
    return AssignmentGraph(ids, starts, columns[order], np.concatenate([carries_masks] * 2)[order])


def _stable_order(nodes: Nodes, size: int) -> Nodes:
    """Stable order by node; 16-bit keys are sorted by radix, in linear time."""
    return np.argsort(nodes.astype(np.uint16) if size <= 1 << 16 else nodes, kind="stable")


def _pairs(kind: Graph, circle: Nodes, size: int) -> Iterator[tuple[Nodes, Nodes]]:
    """Candidate edges, each once: on a circle only near ones, otherwise every pair, in chunks."""
    if isinstance(kind, Harary) and kind.degree < size - 1:
        around = np.argsort(circle)
        far = np.concatenate([np.roll(around, -step) for step in range(1, kind.degree // 2 + 1)])
        near = np.tile(around, kind.degree // 2)
        yield np.minimum(near, far), np.maximum(near, far)
        return
    rows = max(1, _CHUNK // size)
    for first in range(0, size, rows):
        nodes = np.arange(first, min(first + rows, size))
        after = size - 1 - nodes  # pairs with a later node
        low = np.repeat(nodes, after)
        yield low, low + 1 + np.arange(low.size) - np.repeat(np.cumsum(after) - after, after)


def _draw_pairs(
    kind: Graph, seed: bytes, ids: Nodes, circle: Nodes, low: Nodes, high: Nodes
) -> tuple[Flags, Flags]:
    """For pairs of nodes: is it an edge, does it carry masks? Both from one draw, so they nest."""
    everywhere = np.ones(low.size, bool)
    if isinstance(kind, ErdosRenyi):
        draws = _pair_draws(seed, ids[low], ids[high])
        edge = _below(draws, kind.p)
        return edge, edge if kind.mask_p is None else _below(draws, kind.mask_p)
    if kind.mask_degree is not None:
        return everywhere, _circle_distance(circle, low, high) <= kind.mask_degree // 2
    if isinstance(kind, Complete) and kind.mask_p is not None:
        return everywhere, _below(_pair_draws(seed, ids[low], ids[high]), kind.mask_p)
    return everywhere, everywhere


def _pair_draws(seed: bytes, low: Nodes, high: Nodes) -> NDArray[np.uint64]:
    """A uniform 64-bit word for each pair of ids: AES of the pair under the seed."""
    return primitives.aes128_blocks(seed[:16], low, high)


def _below(draws: NDArray[np.uint64], p: float) -> Flags:
    """True with probability p: the draw is below floor(p · 2^64), exactly."""
    threshold = int(p * 2.0**64)
    return draws < np.uint64(threshold) if threshold < 2**64 else np.ones(draws.size, bool)


def _circle_positions(seed: bytes, size: int) -> Nodes:
    """Where each node sits on the circle: its rank by a random 64-bit word, ties by node."""
    nodes = np.arange(size)
    words = primitives.aes128_blocks(seed[16:], nodes, nodes)
    positions = np.empty(size, np.int64)
    positions[np.argsort(words, kind="stable")] = nodes
    return positions


def _circle_distance(circle: Nodes, low: Nodes, high: Nodes) -> Nodes:
    apart = np.abs(circle[low] - circle[high])
    return np.minimum(apart, circle.size - apart)
