"""Graphs and thresholds that have as many honest clients as possible in every sum that can be opened.

Where colluders choose who drops out that takes the highest threshold. Where they cannot, it is S survivors:
under ``curious`` a graph may be dense enough for that. docs/planning.md, "Noise", has the argument.
"""

from dataclasses import replace

from ccesa.graphs import Complete, Harary
from ccesa.graphs.bisection import first
from ccesa.graphs.demand import Demand
from ccesa.graphs.thresholds import Fixed, Linear, Threshold
from ccesa.plan.certificate import left_out
from ccesa.plan.search import Found, fitted, kept

#: Bits by which a graph is more reliable than rounds have to be, where the rest is for S; tried in turn.
MARGINS = (3.0, 1.0)
#: No more neighbours are taken for the sake of the noise alone.
MOST_NEIGHBOURS = 1000


def margins(demand: Demand, graph: str, against: str) -> tuple[float, ...]:
    """Return how the reliability may be divided: there is nothing to divide where S does not decide."""
    whole = graph == Complete().name and against == "follows"
    return () if demand.guard.chooses_roster and not whole else MARGINS


def counted(demand: Demand, found: Found, *, settled: bool) -> Found:
    """Return the graph and the rule that have the most honest clients in every sum that can be opened.

    Where colluders choose who drops out it is the highest threshold. Under ``curious`` they cannot do so in a
    graph in which accusations leave nobody out: a denser one is taken, unless the graph is ``settled``.
    """
    if demand.assumptions.colluders == 0:
        return found
    if not demand.guard.chooses_roster:
        steady = found if settled or _is_steady(demand, found) else _steadier(demand, found)
        if steady is not None and _is_steady(demand, steady):
            return steady
        if not settled:
            found = _densest(demand, found)
    return raised(demand, found)


def raised(demand: Demand, found: Found) -> Found:
    """Return the same graph with the highest threshold that keeps the demand; privacy can only gain by it."""
    degree = found.graph.max_degree(demand.assumptions.clients)
    most = degree - found.threshold.of(int(found.graph.mean_degree(demand.assumptions.clients)))
    too_high = first(lambda by: not kept(demand, found.graph, _higher(found.threshold, by)), most + 1)
    return replace(found, threshold=_higher(found.threshold, (too_high or most + 1) - 1))


def _higher(rule: Threshold, by: int) -> Threshold:
    if isinstance(rule, Fixed):
        return Fixed(t=rule.t + by)
    if isinstance(rule, Linear):
        return Linear(slope=rule.slope, base=rule.base + by)
    return Linear(slope=512, base=by + 1) if by else rule


def _steadier(demand: Demand, found: Found) -> Found | None:
    """Return the sparsest circle, or everyone with everyone, in which accusations leave nobody out."""
    n = demand.assumptions.clients
    ladder, start = Harary.candidates(n), found.graph.max_degree(n) // 2

    def at(step: int) -> Found | None:
        denser = fitted(demand, ladder.at(step))
        return denser if denser is not None and _is_steady(demand, denser) else None

    step = first(lambda step: at(step) is not None, min(ladder.most, MOST_NEIGHBOURS // 2), start)
    denser = at(step) if step else fitted(demand, Complete()) if n - 1 <= MOST_NEIGHBOURS else None
    if denser is None:
        return None
    return _noted(denser, found, n, "in a sparser graph colluders could choose whose noise is missing")


def _densest(demand: Demand, found: Found) -> Found:
    """Return the densest circle that is taken for the sake of the noise, where it works.

    In each part that colluders can split off it has far more honest clients than the thinnest.
    """
    n = demand.assumptions.clients
    step = min(Harary.candidates(n).most, MOST_NEIGHBOURS // 2)
    if 2 * step <= found.graph.max_degree(n):
        return found
    denser = fitted(demand, Harary.candidates(n).at(step))
    why = "noise is counted on the neighbours of a client, and more of them are not taken for it"
    return found if denser is None else _noted(denser, found, n, why)


def _noted(denser: Found, found: Found, clients: int, why: str) -> Found:
    now, before = (one.graph.max_degree(clients) for one in (denser, found))
    return replace(denser, notes=(*found.notes, f"{now:,} neighbours in place of {before:,}: {why}"))


def _is_steady(demand: Demand, found: Found) -> bool:
    """Return whether colluders cannot part the honest clients' masks by accusations."""
    return left_out(found.graph, found.threshold, demand.assumptions) <= -demand.privacy_bits
