"""The search for the cheapest graph that keeps every promise; if no graph does, the reason, and changes that help.

On a monotone ladder the search bisects. On others the certificate accepts a candidate, and the search skips only
candidates that cannot work (docs/planning.md), so it finds the sparsest.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from ccesa.crypto.shamir import MAX_HOLDERS
from ccesa.errors import ConfigError, ImpossiblePlan
from ccesa.graphs import BEST, Complete, Graph, Harary, Kind, kind_named
from ccesa.graphs.assumptions import SHORT_BITS, Assumptions, Demand
from ccesa.graphs.harary_risks import EqualDegrees, OneDegree, common_rule
from ccesa.graphs.tails import LN2, MARGIN, SLACK, find_first, find_leftmost
from ccesa.graphs.thresholds import Threshold
from ccesa.plan.certificate import certify, log_disconnected


@dataclass(frozen=True)
class Found:
    """A graph and a rule, with notes for the user."""

    graph: Graph
    threshold: Threshold
    notes: tuple[str, ...] = ()


def find_cheapest(demand: Demand, graph: str) -> Found | None:
    """Return the cheapest graph of a family, or else the complete graph."""
    kind = kind_named(graph)
    sparse = None if kind is Complete else find_sparsest(demand, kind_named(BEST))
    if sparse is not None and kind is not kind_named(BEST):  # other families need as many neighbours
        sparse = find_sparsest(demand, kind, sparse.graph.mean_degree(demand.assumptions.clients))
    if sparse is not None:
        return sparse
    everyone = find_sparsest(demand, Complete)
    if everyone is None or kind is Complete:
        return everyone
    note = f"{demand.assumptions.clients} clients are too few for a sparse graph: planned with the complete graph"
    return replace(everyone, notes=(note,))


def find_sparsest(demand: Demand, kind: type[Kind], mean_degree: float = 0.0) -> Found | None:
    """Return the sparsest graph of a family that works, with masks on every edge; the guess is ``mean_degree``."""
    n, private = demand.assumptions.clients, demand.log_private
    ladder = kind.candidates(n)
    found = cache(lambda step: fit_rule(demand, ladder.at(step)))
    if ladder.monotone:
        denser = find_first(lambda step: ladder.at(step).mean_degree(n) >= mean_degree, ladder.most)
        start = (denser or ladder.most + 1) - 1
        step = find_first(lambda step: found(step) is not None, ladder.most, start)
        return None if step is None else found(step)

    def is_possible(low: int, high: int) -> bool:
        return ladder.at(low).degrees(n).may_hold(demand, ladder.at(high).max_degree(n))

    least = find_first(lambda step: ladder.at(step).masks(n).log_apart(demand.assumptions) <= private, ladder.most)
    return None if least is None else find_leftmost(least, ladder.most, found, is_possible)


def fit_rule(demand: Demand, graph: Graph) -> Found | None:
    """Return the graph with the best rule that keeps the demand, if one does."""
    n = demand.assumptions.clients
    log_apart = graph.masks(n).log_apart(demand.assumptions, demand.roster) + SLACK
    if log_apart > demand.log_private:
        return None
    rule = graph.degrees(n).rule(demand, log_apart, lambda rule: keeps(demand, graph, rule))
    return None if rule is None else Found(graph, rule)


def keeps(demand: Demand, graph: Graph, rule: Threshold) -> bool:
    """Return whether the demand is kept, by the certificate."""
    certificate = certify(graph, rule, demand.assumptions, demand.roster)
    reliable = certificate.unreliable <= -demand.graph_bits
    return reliable and certificate.privacy(demand.guard.name) <= -demand.privacy_bits


def densest_degree(assumptions: Assumptions) -> int:
    """Return the largest number of neighbours that a client can have."""
    return assumptions.clients - 1 if assumptions.clients <= MAX_HOLDERS else MAX_HOLDERS - 2


def thin_masks(demand: Demand, found: Found) -> Found:
    """Return the same with the thinnest mask subgraph, for rounds in which nobody colludes."""
    ladder = found.graph.thinner(demand.assumptions.clients)
    if ladder is None:
        return found
    budget = demand.log_private - SLACK - MARGIN
    apart = partial(log_disconnected, rule=found.threshold, assumptions=demand.assumptions, roster=demand.roster)
    step = find_first(lambda step: apart(ladder.at(step)) <= budget, ladder.most)
    return found if step is None else replace(found, graph=ladder.at(step))


#: A change: arguments of the planner, with their values.
Option = dict[str, Any]
#: Returns whether there is a plan with a change.
Tries = Callable[[Option], bool]

#: Fractions that work are named in steps of this.
_STEP = 1e-3
#: Bits that adding up in another order may cost.
_ROUNDING = 1e-8
#: Plans have at least one bit of reliability: half of all rounds succeed.
MIN_BITS = 1


def find_reachable_bits(demand: Demand) -> float | None:
    """Return the bits of reliability of the densest graph with the lowest private threshold, if there is one."""
    assumptions, t = demand.assumptions, _lowest_private(demand)
    if t is None:
        return None
    degree = densest_degree(assumptions)
    lost = EqualDegrees(degree).unreliable(common_rule(assumptions, degree, t), assumptions) + SLACK
    bits = max(0.0, -lost / LN2)
    # A part of the budget is for rounds that too few clients join, unless their number is certain.
    return bits if demand.roster.log_short == -math.inf else bits + math.log2(1 - 2.0**-SHORT_BITS) - _ROUNDING


def take_complete(demand: Demand) -> Found | None:
    """Return the complete graph with the lowest threshold that is private, even if most rounds are lost."""
    assumptions, t = demand.assumptions, _lowest_private(demand)
    if t is None or assumptions.clients > MAX_HOLDERS:
        return None
    return Found(Complete(), common_rule(assumptions, assumptions.clients - 1, t))


def _lowest_private(demand: Demand) -> int | None:
    """Return the lowest threshold that is private, with as many neighbours as possible."""
    one = OneDegree(demand, densest_degree(demand.assumptions))
    t = np.arange(one.majority, one.degree + 1)
    private = t[one.private(t) <= demand.log_private]
    return int(private[0]) if private.size else None


def _problem(demand: Demand, graph: str) -> str:
    assumptions, top = demand.assumptions, _top_degree(demand, graph)
    clients, most, reliable = assumptions.clients, densest_degree(assumptions), find_reachable_bits(demand)
    if top is None and clients > MAX_HOLDERS:
        return f"at most {MAX_HOLDERS} holders can share a secret, so {clients} clients need a sparse graph"
    whom = f"{clients} clients, dropout {assumptions.dropout:.3g}"
    whom += " (given per step)" * (assumptions.per_step is not None)
    whom += f" and {assumptions.colluders} colluders" * (assumptions.colluders > 0)
    others = f"all {most} others as neighbours" if clients <= MAX_HOLDERS else ""
    even = f"even with {others or f'{most} neighbours (as many as can hold shares)'}"
    if reliable is None:
        out = f"privacy of {demand.privacy_bits:g} bits is out of reach"
        return f"{out} with {whom}: {even}, no threshold gives it"
    if not _reaches_densest(demand, graph) and reliable >= demand.reliability_bits:
        return f"{graph} graphs are planned up to {top:.0f} neighbours on average, too few for {whom}"
    if assumptions.colluders:
        even += f" and the lowest threshold that gives {demand.privacy_bits:g} bits of privacy"
    bits = max(0, math.floor(reliable))  # the budget may not exceed what is set aside for small rosters
    reached = f"at most {bits} bit{'s' * (bits > 1)}" if bits else "less than one bit"
    out = f"reliability of {demand.reliability_bits:g} bits is out of reach"
    return f"{out} with {whom}: {even}, it is {reached}"


def _top_degree(demand: Demand, graph: str) -> float | None:
    """Return the mean degree of the densest graph of this family; None if it has no graph for these clients."""
    clients = demand.assumptions.clients
    ladder = kind_named(graph).candidates(clients)
    return ladder.at(ladder.most).mean_degree(clients) if ladder.most else None


def _reaches_densest(demand: Demand, graph: str) -> bool:
    """Return whether the family, or the complete graph instead, has as many edges as possible."""
    clients, top = demand.assumptions.clients, _top_degree(demand, graph)
    return clients <= MAX_HOLDERS or (top or 0) >= densest_degree(demand.assumptions)


def in_words(options: tuple[Option, ...]) -> str:
    """Return options as the command line takes them."""
    if not options:
        return "no single change is enough: plan for fewer dropouts and colluders, or for fewer bits"
    changes = [_change(option) for option in options]
    return "try " + " or ".join([", ".join(changes[:-1]), changes[-1]] if changes[:-1] else changes)


def _change(option: Option) -> str:
    """Return the options to add, and those to leave out."""
    flags = {f"--{name.replace('_', '-')}": value for name, value in option.items()}
    added = (f"{flag} {_text(value)}" for flag, value in flags.items() if value is not None)
    return " ".join([*added, *(f"without {flag}" for flag, value in flags.items() if value is None)])


def _text(value: Any) -> str:
    """Return a value as the command line takes it."""
    return ",".join(f"{step}={q:g}" for step, q in value.items()) if isinstance(value, dict) else f"{value}"


def _options(demand: Demand, graph: str, works: Tries, free: Option, *, gives_way: bool) -> tuple[Option, ...]:
    """Return another kind of graph if that is enough, or else all changes that work.

    ``free`` is part of every change, because a degree that was asked for prevents each. With ``gives_way`` a change
    need not reach all of the reliability.
    """
    best: Option = {"graph": BEST}
    if graph != BEST and works(best):
        return (best,)
    with_each = free if _reaches_densest(demand, graph) else best

    def find(demand: Demand) -> tuple[Option, ...]:
        changes = (with_each | change for change in _changes(demand))
        return tuple(option for option in changes if works(option))

    return (gives_way and find(demand.change(reliability_bits=MIN_BITS))) or find(demand)


def _changes(demand: Demand) -> Iterator[Option]:
    """Yield changes that the densest graph allows, the mildest of each kind."""
    per_step, reliable = demand.assumptions.per_step, find_reachable_bits(demand)
    if reliable is not None and MIN_BITS <= reliable < demand.reliability_bits:
        yield {"reliability_bits": math.floor(reliable)}
    else:  # the fewest clients with which most rounds succeed, and their reliability
        lower = demand.change(reliability_bits=MIN_BITS)
        if (clients := _fewest_clients(lower)) is not None:
            bits = find_reachable_bits(lower.change(clients=clients)) or 0
            if MIN_BITS <= bits < demand.reliability_bits:
                yield {"reliability_bits": math.floor(bits), "clients": clients}
    if (fraction := _largest(demand, "dropout")) is not None:
        yield {"dropout": fraction} if per_step is None else {"dropout_per_step": per_step.scaled(fraction).named}
    if (fraction := _largest(demand, "collusion")) is not None:
        yield {"collusion": fraction}
    if (clients := _fewest_clients(demand)) is not None:
        yield {"clients": clients}


def _fewest_clients(demand: Demand) -> int | None:
    clients = demand.assumptions.clients
    more = find_first(lambda more: _may_work(demand, clients=clients + more), MAX_HOLDERS - clients)
    return None if more is None else clients + more


def _largest(demand: Demand, name: str) -> float | None:
    """Return the largest fraction below the given one that may work."""
    steps = math.ceil(round(getattr(demand.assumptions, name) / _STEP, 6))
    last = 0 if name == "dropout" else -1  # nobody can promise that all clients stay
    fractions = [round(step * _STEP, 3) for step in range(steps - 1, last, -1)]
    place = find_first(lambda place: _may_work(demand, **{name: fractions[place - 1]}), len(fractions))
    return None if place is None else fractions[place - 1]


def _may_work(demand: Demand, **changes: float) -> bool:
    """Return whether the densest graph keeps the changed demand, unless the certificate says otherwise."""
    changed = demand.change(**changes)
    t = _lowest_private(changed)
    return t is not None and OneDegree(changed, densest_degree(changed.assumptions)).reliable(t)


class Wanted(NamedTuple):
    """The graphs that may be taken: those of a family, or a circle of this degree."""

    graph: str
    degree: int | None
    #: Plans the same with a change; without it a failure is not explained.
    works: Tries | None = None
    #: Says which options plan the same without a graph, or nothing.
    advise_helpers: Callable[[], str] = str

    def check(self, clients: int) -> None:
        """Refuse a family that does not exist, and a degree that does not fit."""
        kind = kind_named(self.graph)
        if self.degree is not None:
            if kind is not Harary:
                raise ConfigError(f"degree needs graph = harary, not graph = {self.graph}")
            Harary(degree=self.degree).check(clients)

    def find(self, demand: Demand) -> Found | None:
        """Return the cheapest of these graphs that keeps the demand, with its rule."""
        if self.degree is None:
            return find_cheapest(demand, self.graph)
        return fit_rule(demand, Harary(degree=self.degree))

    def explain(self, demand: Demand, *, gives_way: bool = False) -> ImpossiblePlan:
        """Return the reason why no graph works, and changes that do, each of which was planned."""
        tries = self.works
        if tries is None:
            return ImpossiblePlan("no graph keeps the demand", ())

        def works(option: Option) -> bool:
            return tries(option if gives_way else {"reliability_bits": demand.reliability_bits, **option})

        if self.degree is not None:
            other = find_cheapest(demand, self.graph)
            change = {"degree": other.graph.degree if other and isinstance(other.graph, Harary) else None}
            if works(change):
                return ImpossiblePlan(
                    f"with degree = {self.degree} no threshold keeps the demand; {in_words((change,))}", (change,)
                )
        free: Option = {} if self.degree is None else {"degree": None}
        options = _options(demand, self.graph, works, free, gives_way=gives_way)
        # Helpers are named where no graph works.
        helpers = "" if options == ({"graph": BEST},) else self.advise_helpers()
        return ImpossiblePlan(f"{_problem(demand, self.graph)}; {in_words(options)}{helpers}", options)


def search(demand: Demand, wanted: Wanted, *, gives_way: bool, margins: tuple[float, ...] = ()) -> tuple[Found, Demand]:
    """Return the cheapest graph for the demand, or for a lower reliability if ``gives_way``.

    ``margins`` are the bits by which it should be more reliable than the round, tried in turn.
    """
    for margin in (*margins, 0.0):
        stricter = replace(demand, margin=margin)
        found = wanted.find(stricter)
        if found is not None:
            return found, stricter
    # Only reliability gives way, because a lost round can be run again.
    lower = _lower(demand, min(margins, default=0.0)) if gives_way and wanted.degree is None else None
    complete = None if lower is None else find_sparsest(lower, Complete)
    if lower is None or complete is None:
        raise wanted.explain(demand, gives_way=gives_way)
    note = f"{wanted.explain(demand)}; planned with {lower.reliability_bits:.3g} bits on the complete graph"
    return replace(complete, notes=(note,)), lower


def note_if_all_needed(demand: Demand) -> Iterator[str]:
    """Note that no client may be missing, if that follows from steps that were not named."""
    roster = demand.roster
    if not demand.assumptions.per_step or roster.least < demand.assumptions.clients:
        return
    if roster.chosen:
        yield f"no dropout is given for advertise, so a round needs all {roster.least:,} clients to start"
    elif roster.colluders:
        yield f"no dropout is given before unmask, so a round needs the vectors of all {roster.least:,} clients"


def _lower(demand: Demand, margin: float) -> Demand | None:
    """Return the demand with as much reliability as possible; None if that is less than a bit."""
    bits = find_reachable_bits(demand) or 0.0
    if margin:  # the part that is set aside for small rosters weighs more then
        bits -= margin + 2.0 ** (margin - SHORT_BITS + 1)
    if bits < MIN_BITS:
        return None
    return replace(demand.change(reliability_bits=min(demand.reliability_bits, bits)), margin=margin)
