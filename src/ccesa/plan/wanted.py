"""Which graphs may be taken, and the search among them: only a default reliability gives way."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ccesa.errors import ConfigError, ImpossiblePlan
from ccesa.graphs import Complete, Harary, kind_named
from ccesa.graphs.assumptions import SHORT_BITS
from ccesa.graphs.demand import Demand
from ccesa.plan.explanation import LEAST_BITS, Option, Tries, explain, in_words, reachable
from ccesa.plan.search import Found, cheapest, fitted, sparsest


class Wanted(NamedTuple):
    """Which graphs may be taken: those of a family, or one of so many neighbours."""

    graph: str
    degree: int | None = None
    #: Plans the same with a change; without it a failure is not explained.
    works: Tries | None = None

    @classmethod
    def checked(cls, graph: str, degree: int | None, clients: int, works: Tries | None = None) -> "Wanted":
        kind = kind_named(graph)
        if degree is not None:
            if kind is not Harary:
                raise ConfigError(f"degree is that of a harary graph, not of graph = {graph}")
            Harary(degree=degree).check(clients)
        return cls(graph, degree, works)

    def found(self, demand: Demand) -> Found | None:
        return (
            cheapest(demand, self.graph)
            if self.degree is None
            else fitted(demand, Harary(degree=self.degree))
        )

    def explained(self, demand: Demand, *, gives_way: bool = False) -> ImpossiblePlan:
        """Say why there is none, and what would work; each change was planned with."""
        tries = self.works
        if tries is None:
            return ImpossiblePlan("no graph keeps the demand", ())

        def works(option: Option) -> bool:
            return tries(option if gives_way else {"reliability_bits": demand.reliability_bits, **option})

        if self.degree is not None:
            other = cheapest(demand, Harary(degree=2).name)
            degree = other.graph.degree if other and isinstance(other.graph, Harary) else None
            if works({"degree": degree}):
                problem = f"with degree = {self.degree} no threshold keeps the demand"
                return ImpossiblePlan(f"{problem}; {in_words(({'degree': degree},))}", ({"degree": degree},))
        free: Option = {} if self.degree is None else {"degree": None}
        return explain(demand, self.graph, works, free, gives_way=gives_way)


def search(
    demand: Demand, wanted: Wanted, *, gives_way: bool, margins: tuple[float, ...] = ()
) -> tuple[Found, Demand]:
    """Return the cheapest graph for the demand, or for a lower reliability than the default.

    ``margins`` are the bits by which it should be more reliable than the round, tried in turn.
    """
    for margin in (*margins, 0.0):
        stricter = replace(demand, margin=margin)
        found = wanted.found(stricter)
        if found is not None:
            return found, stricter
    # Only a default gives way, and only in reliability: a lost round can be run again.
    lower = _lowered(demand, min(margins, default=0.0)) if gives_way and wanted.degree is None else None
    all_with_all = None if lower is None else sparsest(lower, Complete)
    if lower is None or all_with_all is None:
        raise wanted.explained(demand, gives_way=gives_way)
    note = (
        f"{wanted.explained(demand)}; planned with {lower.reliability_bits:.3g} bits, everyone with everyone"
    )
    return replace(all_with_all, notes=(note,)), lower


def all_needed(demand: Demand) -> Iterator[str]:
    """Say that no client may be missing, where that follows from steps that were not named."""
    roster = demand.roster
    if not demand.assumptions.per_step or roster.least < demand.assumptions.clients:
        return
    if roster.chosen:
        yield f"nobody is said to leave in advertise, so a round needs all {roster.least:,} clients at first"
    elif roster.colluders:
        all_of_them = f"the vectors of all {roster.least:,} clients"
        yield f"nobody is said to leave before unmask, so a round needs {all_of_them}"


def _lowered(demand: Demand, margin: float) -> Demand | None:
    """Return the demand with as much reliability as there is; None where that is less than a bit."""
    bits = reachable(demand) or 0.0
    if margin:  # what is set aside for small rosters weighs more then
        bits -= margin + 2.0 ** (margin - SHORT_BITS + 1)
    if bits < LEAST_BITS:
        return None
    return replace(demand.changed(reliability_bits=min(demand.reliability_bits, bits)), margin=margin)
