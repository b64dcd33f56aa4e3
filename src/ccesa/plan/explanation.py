"""Why a demand cannot be met, and which single changes would work; each that is named was tried."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ccesa.crypto.shamir import MAX_HOLDERS
from ccesa.errors import ImpossiblePlan
from ccesa.graphs import BEST, Complete, kind_named
from ccesa.graphs.assumptions import SHORT_BITS
from ccesa.graphs.bisection import first
from ccesa.graphs.demand import Demand
from ccesa.graphs.harary_risks import EqualDegrees, OneDegree, common
from ccesa.graphs.tails import LN2, SLACK
from ccesa.plan.search import Found, densest_degree

#: What could be said instead: one of the planner's arguments, and its value.
Option = dict[str, Any]
#: Plans with a change, and says whether that worked.
Tries = Callable[[Option], bool]

#: Fractions that would work are named in steps of this.
_STEP = 1e-3
#: Bits that adding up in another order may cost.
_ROUNDING = 1e-8
#: A round is planned where at least half of all come through.
LEAST_BITS = 1


def explain(
    demand: Demand, graph: str, works: Tries, free: Option, *, gives_way: bool = False
) -> ImpossiblePlan:
    """Say why not even the densest graph of this kind works, and what would.

    ``free`` is part of every change: a degree that was asked for is in the way of each.
    ``gives_way``: less reliability than was demanded is taken, so a change need not reach all of it.
    """
    options = _options(demand, graph, works, free, gives_way=gives_way)
    return ImpossiblePlan(f"{_problem(demand, graph)}; {in_words(options)}", options)


def reachable(demand: Demand) -> float | None:
    """Return the bits of reliability of the densest graph with the lowest private threshold, if any is."""
    assumptions, t = demand.assumptions, _lowest_private(demand)
    if t is None:
        return None
    degree = densest_degree(assumptions)
    lost = EqualDegrees(degree).unreliable(common(assumptions, degree, t), assumptions) + SLACK
    bits = max(0.0, -lost / LN2)
    # A part of the budget is for rounds that too few clients join, unless it is known how many do.
    return (
        bits if demand.roster.log_short == -math.inf else bits + math.log2(1 - 2.0**-SHORT_BITS) - _ROUNDING
    )


def everyone(demand: Demand) -> Found | None:
    """Return the complete graph with the lowest threshold that is private, however many rounds are lost."""
    assumptions, t = demand.assumptions, _lowest_private(demand)
    if t is None or assumptions.clients > MAX_HOLDERS:
        return None
    return Found(Complete(), common(assumptions, assumptions.clients - 1, t))


def _lowest_private(demand: Demand) -> int | None:
    """Return the lowest threshold that is private, with as many neighbours as there can be."""
    one = OneDegree(demand, densest_degree(demand.assumptions))
    t = np.arange(one.majority, one.degree + 1)
    private = t[one.private(t) <= demand.log_private]
    return int(private[0]) if private.size else None


# What is wrong


def _problem(demand: Demand, graph: str) -> str:
    assumptions, top = demand.assumptions, _top_degree(demand, graph)
    clients, most, reliable = assumptions.clients, densest_degree(assumptions), reachable(demand)
    if top is None and clients > MAX_HOLDERS:
        return f"at most {MAX_HOLDERS} holders can share a secret, so {clients} clients need a sparse graph"
    whom = f"{clients} clients of whom a fraction of {assumptions.dropout:.3g} drop out"
    whom += " (counted per step)" * (assumptions.per_step is not None)
    whom += f" and {assumptions.colluders} may collude" * (assumptions.colluders > 0)
    everyone = clients <= MAX_HOLDERS
    even = "even with " + (
        f"all {most} others as neighbours" if everyone else f"{most} neighbours (as many as can hold shares)"
    )
    if reliable is None:
        out = f"privacy of {demand.privacy_bits:g} bits is out of reach"
        return f"{out} with {whom}: {even}, no threshold gives it"
    if not _reaches_densest(demand, graph) and reliable >= demand.reliability_bits:
        return f"{graph} graphs are planned up to {top:.0f} neighbours on average, too few for {whom}"
    if assumptions.colluders:
        even += f" and the lowest threshold that gives {demand.privacy_bits:g} bits of privacy"
    bits = max(0, math.floor(reliable))  # what is set aside for small rosters may be all there is
    reached = f"at most {bits} bit{'s' * (bits > 1)}" if bits else "less than one bit"
    out = f"reliability of {demand.reliability_bits:g} bits is out of reach"
    return f"{out} with {whom}: {even}, it is {reached}"


def _top_degree(demand: Demand, graph: str) -> float | None:
    """Return the mean degree of the densest graph of this family; None where it has none for so many."""
    clients = demand.assumptions.clients
    ladder = kind_named(graph).candidates(clients)
    return ladder.at(ladder.most).mean_degree(clients) if ladder.most else None


def _reaches_densest(demand: Demand, graph: str) -> bool:
    """Return whether the family, or the complete graph instead, has as many edges as there can be."""
    clients, top = demand.assumptions.clients, _top_degree(demand, graph)
    return clients <= MAX_HOLDERS or (top or 0) >= densest_degree(demand.assumptions)


# What would work


def in_words(options: tuple[Option, ...]) -> str:
    """Say options as the command line takes them."""
    if not options:
        return "no single change would work: expect fewer to drop out and to collude, or ask for less"
    said = [_change(option) for option in options]
    return "what would work: " + " or ".join([", ".join(said[:-1]), said[-1]] if said[:-1] else said)


def _change(option: Option) -> str:
    """Say what to add, and what not to say any more."""
    said = (
        f"--{name.replace('_', '-')} {_text(value)}" for name, value in option.items() if value is not None
    )
    without = (f"without --{name.replace('_', '-')}" for name, value in option.items() if value is None)
    return " ".join([*said, *without])


def _text(value: Any) -> str:
    """Return a value as the command line takes it."""
    return ",".join(f"{step}={q:g}" for step, q in value.items()) if isinstance(value, dict) else f"{value}"


def _options(
    demand: Demand, graph: str, works: Tries, free: Option, *, gives_way: bool
) -> tuple[Option, ...]:
    """Return another kind of graph where that is enough, else all changes that would work."""
    best: Option = {"graph": BEST}
    if graph != BEST and works(best):
        return (best,)
    with_each = free if _reaches_densest(demand, graph) else best

    def found(demand: Demand) -> tuple[Option, ...]:
        changes = (with_each | change for change in _changes(demand))
        return tuple(option for option in changes if works(option))

    return (gives_way and found(demand.changed(reliability_bits=LEAST_BITS))) or found(demand)


def _changes(demand: Demand) -> Iterator[Option]:
    """Yield what the densest graph allows, the mildest of each kind."""
    clients, reliable = demand.assumptions.clients, reachable(demand)
    if reliable is not None and LEAST_BITS <= reliable < demand.reliability_bits:
        yield {"reliability_bits": math.floor(reliable)}
    else:
        yield from _a_few_more(demand)
    for name in ("dropout", "collusion"):
        fraction = _largest(demand, name)
        if fraction is not None:
            yield _said(demand, name, fraction)
    more = first(lambda more: _may_work(demand, clients=clients + more), MAX_HOLDERS - clients)
    if more is not None:
        yield {"clients": clients + more}


def _a_few_more(demand: Demand) -> Iterator[Option]:
    """Yield the fewest clients with whom most rounds come through, and how reliable these are."""
    clients, least = demand.assumptions.clients, {"reliability_bits": LEAST_BITS}
    more = first(lambda more: _may_work(demand, clients=clients + more, **least), MAX_HOLDERS - clients)
    if more is None:
        return
    bits = reachable(demand.changed(clients=clients + more, **least)) or 0
    if LEAST_BITS <= bits < demand.reliability_bits:
        yield {"reliability_bits": math.floor(bits), "clients": clients + more}


def _said(demand: Demand, name: str, fraction: float) -> Option:
    """Return the option in the words in which the demand was made."""
    per_step = demand.assumptions.per_step
    if name != "dropout" or per_step is None:
        return {name: fraction}
    return {"dropout_per_step": per_step.scaled(fraction).named}


def _largest(demand: Demand, name: str) -> float | None:
    """Return the largest fraction below the one that was asked for that may work."""
    steps = math.ceil(round(getattr(demand.assumptions, name) / _STEP, 6))
    most = steps - 1 if name == "dropout" else steps  # nobody can count on all to stay
    fewer = first(lambda less: _may_work(demand, **{name: _fraction(steps - less)}), most)
    return None if fewer is None else _fraction(steps - fewer)


def _fraction(steps: int) -> float:
    return round(steps * _STEP, 3)


def _may_work(demand: Demand, **changes: float) -> bool:
    """Return whether the densest graph keeps the changed demand, but for a certificate."""
    changed = demand.changed(**changes)
    t = _lowest_private(changed)
    return t is not None and OneDegree(changed, densest_degree(changed.assumptions)).reliable(t)
