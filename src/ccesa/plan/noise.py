"""Plans with noise: S survivors that a round insists on, and H honest clients in every sum.

Distributing the noise costs the square root of survivors over H. If colluders choose the dropouts, the highest
threshold gives the largest H. If they cannot, which takes a dense graph under ``curious``, H is S less the colluders.
docs/planning.md, "Noise", has the argument.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ccesa.crypto.shamir import MAX_HOLDERS
from ccesa.errors import ConfigError
from ccesa.graphs import Complete, Graph, Harary, kind_named
from ccesa.graphs.assumptions import Assumptions, Demand
from ccesa.graphs.tails import find_first
from ccesa.graphs.thresholds import Fixed, Linear, Threshold
from ccesa.plan.certificate import left_out
from ccesa.plan.result import Offer, Plan, insist_on, make_plan, noise_ratio
from ccesa.plan.search import Found, Wanted, fit_rule, keeps, note_if_all_needed, search, thin_masks
from ccesa.privacy import DifferentialPrivacy, Mechanism, choose_mechanism
from ccesa.values.fields import WORD_BITS

#: Bits by which a graph is more reliable than rounds have to be, so that S gets the rest; tried in turn.
MARGINS = (3.0, 1.0)
#: The planner takes no more neighbours for the sake of the noise alone.
MAX_NEIGHBOURS = 1000


def count_on_most(demand: Demand, found: Found, *, settled: bool) -> Found:
    """Return the graph and the rule with the most honest clients in every sum that can be opened.

    If colluders choose the dropouts that is the highest threshold. Under ``curious`` they cannot in a graph in which
    accusations leave nobody out. So a denser one is taken, unless the graph is ``settled``.
    """
    if demand.assumptions.colluders == 0:
        return found
    if not demand.guard.chooses_roster:
        steady = found if settled or _is_steady(demand, found) else _steadier(demand, found)
        if steady is not None and _is_steady(demand, steady):
            return steady
        if not settled:
            found = _densest(demand, found)
    return raise_threshold(demand, found)


def raise_threshold(demand: Demand, found: Found) -> Found:
    """Return the same graph with the highest threshold that keeps the demand, which can only help privacy."""
    degree = found.graph.max_degree(demand.assumptions.clients)
    most = degree - found.threshold.of(int(found.graph.mean_degree(demand.assumptions.clients)))
    too_high = find_first(lambda by: not keeps(demand, found.graph, _higher(found.threshold, by)), most + 1)
    return replace(found, threshold=_higher(found.threshold, (too_high or most + 1) - 1))


def _higher(rule: Threshold, by: int) -> Threshold:
    if isinstance(rule, Fixed):
        return Fixed(t=rule.t + by)
    if isinstance(rule, Linear):
        return Linear(slope=rule.slope, base=rule.base + by)
    return Linear(slope=512, base=by + 1) if by else rule


def _steadier(demand: Demand, found: Found) -> Found | None:
    """Return the sparsest circle, or else the complete graph, in which accusations leave nobody out."""
    n = demand.assumptions.clients
    ladder, start = Harary.candidates(n), found.graph.max_degree(n) // 2

    def at(step: int) -> Found | None:
        denser = fit_rule(demand, ladder.at(step))
        return denser if denser is not None and _is_steady(demand, denser) else None

    step = find_first(lambda step: at(step) is not None, min(ladder.most, MAX_NEIGHBOURS // 2), start)
    denser = at(step) if step else fit_rule(demand, Complete()) if n - 1 <= MAX_NEIGHBOURS else None
    return denser and _note(denser, found, n, "in a sparser graph colluders could choose whose noise is missing")


def _densest(demand: Demand, found: Found) -> Found:
    """Return the densest circle for the noise, if it works: colluders can only split off large parts of it."""
    n = demand.assumptions.clients
    step = min(Harary.candidates(n).most, MAX_NEIGHBOURS // 2)
    if 2 * step <= found.graph.max_degree(n):
        return found
    denser = fit_rule(demand, Harary.candidates(n).at(step))
    why = "the noise of a sum depends on neighbours, and the planner takes no more for its sake"
    return found if denser is None else _note(denser, found, n, why)


def _note(denser: Found, found: Found, clients: int, why: str) -> Found:
    now, before = (one.graph.max_degree(clients) for one in (denser, found))
    return replace(denser, notes=(*found.notes, f"{now:,} neighbours instead of {before:,}: {why}"))


def _is_steady(demand: Demand, found: Found) -> bool:
    """Return whether colluders cannot part the honest clients' masks by accusations."""
    return left_out(found.graph, found.threshold, demand.assumptions) <= -demand.privacy_bits


#: Neighbours of the denser graphs that are offered, before the complete graph.
_OFFERED = (100, 300, 500)
#: For up to this many clients a note says how much noise it saves to lose one round in 2^7.
_SMALL, LOSSY_BITS, _WORTH = 50, 7, 0.99


@dataclass(frozen=True)
class WantedNoise:
    """The demand on noise, besides the graph."""

    privacy: DifferentialPrivacy
    dimension: int
    field_bits: int | None
    agreement: str
    accept: bool

    def plan(self, demand: Demand, wanted: Wanted, *, gives_way: bool) -> Plan:
        """Return the plan, with offers at other prices."""
        found, demand = self._find(demand, wanted, gives_way=gives_way)
        made, mechanism = self._add(demand, replace(found, notes=(*found.notes, *note_if_all_needed(demand))))
        offers = self._offers(demand, made) if mechanism.honest == made.least_honest else ()
        return replace(made, offers=tuple(offers), notes=(*made.notes, *self._notes(demand, wanted, mechanism)))

    def _find(self, demand: Demand, wanted: Wanted, *, gives_way: bool = False) -> tuple[Found, Demand]:
        """Return the graph and the rule with the most honest clients in every sum."""
        complete = wanted.graph == Complete().name and self.privacy.against == "follows"
        margins = MARGINS if complete or not demand.guard.chooses_roster else ()  # otherwise S decides nothing
        found, demand = search(demand, wanted, gives_way=gives_way, margins=margins)
        settled = wanted.degree is not None or kind_named(wanted.graph) is not Harary
        found = count_on_most(demand, found, settled=settled)
        if demand.assumptions.colluders == 0:
            found = thin_masks(demand, found)
        return found, demand

    def _add(self, demand: Demand, found: Found) -> tuple[Plan, Mechanism]:
        """Return the plan of this graph with as many survivors as the demand allows, and the noise for them."""
        made = make_plan(demand, found, length=1, bits=WORD_BITS, agreement=self.agreement, accept=self.accept)
        made = _insist_on_most(made)
        promise = made.promise(self.privacy.against)
        if promise is None:
            raise ConfigError("no sum is certain to contain the noise of an honest client")
        mechanism = choose_mechanism(
            self.privacy,
            clients=made.clients,
            honest=promise.honest,
            dimension=self.dimension,
            fails=promise.fails,
            field_bits=self.field_bits,
        )
        return replace(made, mechanism=mechanism, length=mechanism.length), mechanism

    def _offers(self, demand: Demand, made: Plan) -> Iterator[Offer]:
        """Yield denser graphs, if the noise depends on neighbours and not on survivors."""
        n = made.clients
        graphs: list[Graph] = [Harary(degree=degree) for degree in _OFFERED if made.degree < degree < n - 1]
        for graph in [*graphs, Complete()] if made.degree < n - 1 < MAX_HOLDERS else graphs:
            found = fit_rule(demand, graph)
            if found is not None:
                dense, mechanism = self._add(demand, raise_threshold(demand, found))
                ratio = noise_ratio(mechanism, dense.assumptions.staying)
                price = dense.cost.sent_bytes, dense.cost.agreements
                yield Offer(dense.graph, int(dense.degree), mechanism.honest, ratio, *price)

    def _notes(self, demand: Demand, wanted: Wanted, mechanism: Mechanism) -> Iterator[str]:
        """Note a delta that promises little, and how much noise a small federation saves if it loses more rounds."""

        def plan_lossy() -> Mechanism:
            found, lossy = self._find(demand.change(reliability_bits=LOSSY_BITS), wanted)
            return self._add(lossy, found)[1]

        return note_noise(mechanism, demand.assumptions, demand.reliability_bits, plan_lossy)


def note_noise(
    mechanism: Mechanism, assumed: Assumptions, reliability_bits: float, plan_lossy: Callable[[], Mechanism]
) -> Iterator[str]:
    """Note a delta that promises little, and how much noise a small federation saves with ``LOSSY_BITS``."""
    if mechanism.delta * assumed.clients >= 1:
        yield (
            f"delta = {mechanism.delta:g} is not below 1 / {assumed.clients:,} clients: publishing one of "
            f"their vectors at random would meet it; use {0.01 / assumed.clients:.0e} or less"
        )
    if assumed.clients > _SMALL or reliability_bits <= LOSSY_BITS:
        return
    try:
        other = plan_lossy()
    except ConfigError:
        return
    is_so, would_be = (noise_ratio(one, assumed.staying) for one in (mechanism, other))
    if would_be < is_so * _WORTH:
        yield (
            f"with --reliability-bits {LOSSY_BITS} one round in {2**LOSSY_BITS} is lost, and the noise "
            f"is {would_be:.2f} times that of a trusted curator instead of {is_so:.2f} times"
        )


def _insist_on_most(made: Plan) -> Plan:
    """Return the plan with the largest S that its reliability allows."""

    def is_reliable(gone: int) -> bool:
        return insist_on(made, made.clients - gone + 1).certificate.unreliable <= -made.reliability_bits

    gone = find_first(is_reliable, made.clients)
    return made if gone is None else insist_on(made, made.clients - gone + 1)
