"""The search for the cheapest graph of a family that keeps every promise.

Along a ladder that is not monotone a candidate is accepted by its certificate, and the search leaves out only
those that cannot work (docs/planning.md): what it finds is the sparsest. Along one that is, it bisects.
"""

from dataclasses import dataclass, replace
from functools import cache

from ccesa.crypto.shamir import MAX_HOLDERS
from ccesa.graphs import BEST, Complete, Graph, Kind, kind_named
from ccesa.graphs.assumptions import Assumptions
from ccesa.graphs.bisection import first, leftmost
from ccesa.graphs.demand import Demand
from ccesa.graphs.tails import MARGIN, SLACK
from ccesa.graphs.thresholds import Threshold
from ccesa.plan.certificate import certify, log_disconnected


@dataclass(frozen=True)
class Found:
    """A graph and a rule, and what the user has to know about them."""

    graph: Graph
    threshold: Threshold
    notes: tuple[str, ...] = ()


def cheapest(demand: Demand, graph: str) -> Found | None:
    """Return the cheapest of the family that was asked for; the complete graph where no sparse one works."""
    kind = kind_named(graph)
    sparse = None if kind is Complete else _sparse(demand, kind)
    if sparse is not None:
        return sparse
    everyone = sparsest(demand, Complete)
    if everyone is None or kind is Complete:
        return everyone
    note = f"{demand.assumptions.clients} clients are too few for a sparse graph: everyone with everyone"
    return Found(everyone.graph, everyone.threshold, notes=(note,))


def _sparse(demand: Demand, kind: type[Kind]) -> Found | None:
    """Search from where the best family ends: any other needs as many neighbours."""
    found = sparsest(demand, kind_named(BEST))
    if found is None or kind is kind_named(BEST):
        return found
    return sparsest(demand, kind, found.graph.mean_degree(demand.assumptions.clients))


def sparsest(demand: Demand, kind: type[Kind], mean_degree: float = 0.0) -> Found | None:
    """Return the sparsest graph of a family that works, its masks on every edge, and its threshold rule.

    It is probably not sparser than ``mean_degree``.
    """
    n = demand.assumptions.clients
    ladder = kind.candidates(n)
    found = cache(lambda step: fitted(demand, ladder.at(step)))
    if ladder.monotone:
        denser = first(lambda step: ladder.at(step).mean_degree(n) >= mean_degree, ladder.most)
        start = (denser or ladder.most + 1) - 1
        step = first(lambda step: found(step) is not None, ladder.most, start)
        return None if step is None else found(step)
    least = first(lambda step: _log_apart(demand, ladder.at(step)) <= demand.log_private, ladder.most)
    if least is None:
        return None

    def possible(low: int, high: int) -> bool:
        return ladder.at(low).degrees(n).may_hold(demand, ladder.at(high).max_degree(n))

    return leftmost(least, ladder.most, found, possible)


def fitted(demand: Demand, graph: Graph) -> Found | None:
    """Return the graph with the best rule with which it keeps the demand, if there is one."""
    n = demand.assumptions.clients
    log_apart = graph.masks(n).log_apart(demand.assumptions, demand.roster) + SLACK
    if log_apart > demand.log_private:
        return None
    rule = graph.degrees(n).rule(demand, log_apart, lambda rule: kept(demand, graph, rule))
    return None if rule is None else Found(graph, rule)


def kept(demand: Demand, graph: Graph, rule: Threshold) -> bool:
    """Return whether the certificate says that the demand is kept."""
    certificate = certify(graph, rule, demand.assumptions, demand.roster)
    reliable = certificate.unreliable <= -demand.graph_bits
    return reliable and certificate.privacy(demand.guard.name) <= -demand.privacy_bits


def densest_degree(assumptions: Assumptions) -> int:
    """Return how many neighbours a client can have at most."""
    return assumptions.clients - 1 if assumptions.clients <= MAX_HOLDERS else MAX_HOLDERS - 2


def thinned(demand: Demand, found: Found) -> Found:
    """Return the same with the thinnest mask subgraph; for rounds in which nobody colludes."""
    ladder = found.graph.thinner(demand.assumptions.clients)
    budget = demand.log_private - SLACK - MARGIN

    def holds(step: int) -> bool:
        graph = ladder.at(step) if ladder else found.graph
        return log_disconnected(graph, found.threshold, demand.assumptions, demand.roster) <= budget

    step = ladder and first(holds, ladder.most)
    return replace(found, graph=ladder.at(step)) if ladder and step else found


def _log_apart(demand: Demand, graph: Graph) -> float:
    """Bound P(the masks fall apart) in the roster of everyone."""
    return graph.masks(demand.assumptions.clients).log_apart(demand.assumptions)
