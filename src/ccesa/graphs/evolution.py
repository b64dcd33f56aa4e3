"""The paper's theorems as predicates on what happened in a round.

Shares run on the whole assignment graph and masks on a subgraph of it, so *informative* speaks of the
first and *connected* of the second; with masks on every edge these are the theorems as printed.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ccesa.graphs.assignment import AssignmentGraph, Flags, Nodes


@dataclass(frozen=True)
class Verdict:
    """Whether a property holds and, if not, the clients (ids) that show it."""

    holds: bool
    evidence: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Evolution:
    """G and V1 ⊇ V2 ⊇ V3 ⊇ V4 as flags over the nodes of G, and every node's threshold t_i."""

    graph: AssignmentGraph
    thresholds: Nodes
    v2: Flags
    v3: Flags
    v4: Flags

    def ids(self, flags: Flags) -> tuple[int, ...]:
        return tuple(self.graph.ids[flags].tolist())


def informative(graph: AssignmentGraph, thresholds: Nodes, holders: Flags) -> Flags:
    """Definition 3: at least t_i of client i and its neighbours are live holders of its shares."""
    return graph.live_neighbours(holders) + holders >= thresholds


def extended(graph: AssignmentGraph, members: Flags, v2: Flags) -> Flags:
    """C+: the members of C, and everyone in V2 whose mask one of them carries."""
    return members | (v2 & (graph.live_mask_neighbours(members) > 0))


def reliable(evolution: Evolution) -> Verdict:
    """Theorem 1: reliable if and only if every client of V3+ is informative."""
    known = informative(evolution.graph, evolution.thresholds, evolution.v4)
    lost = extended(evolution.graph, evolution.v3, evolution.v2) & ~known
    return Verdict(not lost.any(), evolution.ids(lost))


def private(evolution: Evolution) -> Verdict:
    """Theorem 2: private if and only if G3 is connected, or no component C has all of C+ informative.

    The evidence is the smallest component whose sum can be opened alone.
    """
    graph = evolution.graph
    components = graph.mask_components(evolution.v3)
    if len(components) < 2:
        return Verdict(True)
    known = informative(graph, evolution.thresholds, evolution.v4)
    for component in reversed(components):
        members = flags(graph.size, component)
        if known[extended(graph, members, evolution.v2)].all():
            return Verdict(False, evolution.ids(members))
    return Verdict(True)


def flags(size: int, nodes: Iterable[int] | Nodes) -> Flags:
    chosen = np.zeros(size, bool)
    chosen[np.asarray(list(nodes) if not isinstance(nodes, np.ndarray) else nodes, np.int64)] = True
    return chosen
