"""The evolution of a round, which the paper's theorems are about.

Shares run on the whole assignment graph and masks on a subgraph of it. *Informative* is about the first and *connected*
about the second. With masks on every edge these are the theorems as printed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ccesa.graphs.assignment import AssignmentGraph, Flags, Nodes


@dataclass(frozen=True, eq=False)
class Evolution:
    """An evolution has G, V1 ⊇ V2 ⊇ V3 ⊇ V4 as flags of nodes, and the threshold t_i of each node."""

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
