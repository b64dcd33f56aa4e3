"""With noise a plan counts honest clients: S survivors that a round insists on, and the highest threshold.

What distributing the noise costs is the square root of survivors over H, the honest clients in every sum that
can be opened (``Plan.promised``). docs/planning.md, "Noise", has the argument.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ccesa.crypto.shamir import MAX_HOLDERS
from ccesa.errors import ConfigError
from ccesa.fields import WORD_BITS
from ccesa.graphs import Complete, Graph, Harary
from ccesa.plan.certificate import left_out
from ccesa.plan.making import certified, surviving
from ccesa.plan.promises import Offer
from ccesa.plan.result import Plan
from ccesa.plan.search import Found, fitted, kept
from ccesa.privacy import DifferentialPrivacy, Mechanism, chosen
from ccesa.probability.bisection import first
from ccesa.probability.demand import Demand
from ccesa.thresholds import Fixed, Linear, Threshold

#: Bits by which a graph is more reliable than rounds have to be, where the rest is for S; tried in turn.
SHARES = (3.0, 1.0)
#: Neighbours of the denser graphs that are offered. More are not taken for the sake of the noise alone.
OFFERED = (100, 300, 500)


@dataclass(frozen=True, kw_only=True)
class Noise:
    """What is asked of noised rounds, besides a graph."""

    privacy: DifferentialPrivacy
    dimension: int
    field_bits: int | None
    agreement: str
    accept: bool

    def on(self, demand: Demand, found: Found) -> tuple[Plan, Mechanism]:
        """Return the plan of this graph: as many survivors as the demand allows, and the noise for them."""
        made = certified(demand, 1, WORD_BITS, found)
        made = _insisting(replace(made, agreement=self.agreement, accept=self.accept))
        promise = made.promised(self.privacy.against)
        if promise is None:
            raise ConfigError("no sum has an honest client for certain, whose noise could be counted on")
        mechanism = chosen(
            self.privacy,
            clients=made.clients,
            honest=promise.honest,
            dimension=self.dimension,
            fails=promise.fails,
            field_bits=self.field_bits,
        )
        return replace(made, mechanism=mechanism, length=mechanism.length), mechanism

    def offers(self, demand: Demand, made: Plan) -> Iterator[Offer]:
        """Yield denser graphs, where noise is counted on neighbours and not on survivors."""
        for graph in _denser(made):
            found = fitted(demand, graph)
            if found is not None:
                yield Offer.of(*self.on(demand, raised(demand, found)))


def shares(demand: Demand, graph: str, against: str) -> tuple[float, ...]:
    """Return how the reliability may be divided: there is nothing to divide where S does not decide."""
    whole = graph == Complete().name and against == "follows"
    return () if demand.guard.chooses_roster and not whole else SHARES


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

    step = first(lambda step: at(step) is not None, min(ladder.most, OFFERED[-1] // 2), start)
    denser = at(step) if step else fitted(demand, Complete()) if n <= OFFERED[-1] else None
    return denser and replace(denser, notes=found.notes)


def _is_steady(demand: Demand, found: Found) -> bool:
    """Return whether colluders cannot part the honest clients' masks by accusations."""
    return left_out(found.graph, found.threshold, demand.assumptions) <= -demand.privacy_bits


def _insisting(made: Plan) -> Plan:
    """Return the plan with the largest S that its reliability allows."""
    n = made.clients
    found = first(lambda gone: _is_reliable(surviving(made, n - gone + 1)), n)
    return made if found is None else surviving(made, n - found + 1)


def _is_reliable(made: Plan) -> bool:
    return made.certificate.unreliable <= -made.reliability_bits


def _denser(made: Plan) -> Iterator[Graph]:
    n = made.clients
    yield from (Harary(degree=degree) for degree in OFFERED if made.degree < degree < n - 1)
    if made.degree < n - 1 <= MAX_HOLDERS:
        yield Complete()
