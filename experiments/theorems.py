"""The paper's theorems as predicates on what happened in a round."""

from dataclasses import dataclass

from ccesa.graphs.assignment import Evolution, extended, flags, informative


@dataclass(frozen=True)
class Verdict:
    """Whether a property holds and, if not, the clients (ids) that show it."""

    holds: bool
    evidence: tuple[int, ...] = ()


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
