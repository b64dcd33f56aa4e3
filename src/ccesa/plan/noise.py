"""Plans of rounds with noise: S survivors that a round insists on, H honest clients, and the noise for them.

What distributing the noise costs is the square root of survivors over H, the honest clients in every sum that
can be opened (``Plan.promised``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ccesa.crypto.shamir import MAX_HOLDERS
from ccesa.errors import ConfigError
from ccesa.graphs import Complete, Graph, Harary, kind_named
from ccesa.graphs.bisection import first
from ccesa.graphs.demand import Demand
from ccesa.plan.counting import counted, margins, raised
from ccesa.plan.making import certified, surviving
from ccesa.plan.promises import Offer, ratio
from ccesa.plan.result import Plan
from ccesa.plan.search import Found, fitted, thinned
from ccesa.plan.wanted import Wanted, all_needed, search
from ccesa.privacy import DifferentialPrivacy, Mechanism, chosen
from ccesa.values.fields import WORD_BITS

#: Neighbours of the denser graphs that are offered, before everyone with everyone.
_OFFERED = (100, 300, 500)
#: Up to so many clients are told what it saves to lose a round in 2^7, if it is a part of the noise.
_SMALL, _LOSSY_BITS, _WORTH = 50, 7, 0.99


@dataclass(frozen=True, kw_only=True)
class WantedNoise:
    """What is asked of rounds with noise, besides a graph."""

    privacy: DifferentialPrivacy
    dimension: int
    field_bits: int | None
    agreement: str
    accept: bool

    def planned(self, demand: Demand, wanted: Wanted, *, gives_way: bool) -> Plan:
        """Return the plan, with what could be had for another price."""
        found, demand = self._counted(demand, wanted, gives_way=gives_way)
        made, mechanism = self._on(demand, replace(found, notes=(*found.notes, *all_needed(demand))))
        offers = self._offers(demand, made) if mechanism.honest == made.least_honest else ()
        notes = (*made.notes, *self._careless(made.clients), *self._lossier(demand, wanted, mechanism))
        return replace(made, offers=tuple(offers), notes=notes)

    def _counted(self, demand: Demand, wanted: Wanted, *, gives_way: bool = False) -> tuple[Found, Demand]:
        """Return the graph and the rule with the most honest clients in every sum."""
        found, demand = search(
            demand,
            wanted,
            gives_way=gives_way,
            margins=margins(demand, wanted.graph, self.privacy.against),
        )
        settled = wanted.degree is not None or kind_named(wanted.graph) is not Harary
        found = counted(demand, found, settled=settled)
        if demand.assumptions.colluders == 0:
            found = thinned(demand, found)
        return found, demand

    def _on(self, demand: Demand, found: Found) -> tuple[Plan, Mechanism]:
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

    def _offers(self, demand: Demand, made: Plan) -> Iterator[Offer]:
        """Yield denser graphs, where noise is counted on neighbours and not on survivors."""
        for graph in _denser(made):
            found = fitted(demand, graph)
            if found is not None:
                yield Offer.of(*self._on(demand, raised(demand, found)))

    def _careless(self, clients: int) -> Iterator[str]:
        """Say so where delta promises little: showing one client of all, by chance, would keep it."""
        if self.privacy.delta * clients >= 1:
            yield (
                f"delta = {self.privacy.delta:g} is not below one over {clients:,} clients: publishing one "
                f"of their vectors at random would keep that promise; take {0.01 / clients:.0e} or less"
            )

    def _lossier(self, demand: Demand, wanted: Wanted, mechanism: Mechanism) -> Iterator[str]:
        """Say how much less noise a small federation has that can bear to lose more rounds."""
        if demand.assumptions.clients > _SMALL or demand.reliability_bits <= _LOSSY_BITS:
            return
        try:
            found, lossy = self._counted(demand.changed(reliability_bits=_LOSSY_BITS), wanted)
            other = self._on(lossy, found)[1]
        except ConfigError:
            return
        is_so, would_be = (ratio(one, demand.assumptions.staying) for one in (mechanism, other))
        if would_be < is_so * _WORTH:
            yield (
                f"with --reliability-bits {_LOSSY_BITS} one round in {2**_LOSSY_BITS} is lost, and the noise "
                f"is {would_be:.2f} times that of a trusted curator in place of {is_so:.2f} times"
            )


def _insisting(made: Plan) -> Plan:
    """Return the plan with the largest S that its reliability allows."""
    n = made.clients
    gone = first(lambda gone: _is_reliable(surviving(made, n - gone + 1)), n)
    return made if gone is None else surviving(made, n - gone + 1)


def _is_reliable(made: Plan) -> bool:
    return made.certificate.unreliable <= -made.reliability_bits


def _denser(made: Plan) -> Iterator[Graph]:
    n = made.clients
    yield from (Harary(degree=degree) for degree in _OFFERED if made.degree < degree < n - 1)
    if made.degree < n - 1 < MAX_HOLDERS:
        yield Complete()
