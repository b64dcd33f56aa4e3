"""An evolution is what happened in a round; the paper's theorems speak about it.

Shares run on the whole assignment graph and masks on a subgraph of it, so *informative* speaks of the
first and *connected* of the second; with masks on every edge these are the theorems as printed.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ccesa.graphs.assignment import AssignmentGraph, Flags, Nodes


@dataclass(frozen=True, eq=False)
class Evolution:
    """An evolution has G, V1 ⊇ V2 ⊇ V3 ⊇ V4 as flags over its nodes, and every node's threshold t_i."""

    graph: AssignmentGraph
    thresholds: Nodes
    v2: Flags
    v3: Flags
    v4: Flags

    def ids(self, flags: Flags) -> tuple[int, ...]:
        return tuple(self.graph.ids[flags].tolist())


def informative(graph: AssignmentGraph, thresholds: Nodes, holders: Flags) -> Flags:
    """Flag whom Definition 3 calls informative: at least t_i of its share holders, itself included, live."""
    return graph.live_neighbours(holders) + holders >= thresholds


def extended(graph: AssignmentGraph, members: Flags, v2: Flags) -> Flags:
    """Flag C+: the members of C, and everyone in V2 whose mask one of them carries."""
    return members | (v2 & (graph.live_mask_neighbours(members) > 0))


def flags(size: int, nodes: Iterable[int] | Nodes) -> Flags:
    """Mark these among ``size`` nodes."""
    chosen = np.zeros(size, bool)
    chosen[np.asarray(list(nodes) if not isinstance(nodes, np.ndarray) else nodes, np.int64)] = True
    return chosen
