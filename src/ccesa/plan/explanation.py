"""Demands that cannot be met: which one, and which single changes would do; each that is named was tried."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ccesa.crypto.shamir import MAX_HOLDERS
from ccesa.errors import ImpossiblePlan
from ccesa.graphs import BEST, Complete, kind_named
from ccesa.plan.search import Found, cheapest, densest, densest_degree
from ccesa.probability.assumptions import SHORT_BITS, Assumptions
from ccesa.probability.bisection import first
from ccesa.probability.demand import Demand
from ccesa.probability.harary import OneDegree, common
from ccesa.probability.tails import LN2, SLACK, log_below

#: What could be said instead: one of the planner's arguments, and its value.
Option = dict[str, Any]

#: Fractions that would do are named in steps of this.
_STEP = 1e-3
#: Bits that adding up in another order may cost.
_ROUNDING = 1e-8


def explain(demand: Demand, graph: str) -> ImpossiblePlan:
    """Why not even the densest graph of this kind will do, and what would."""
    options = _options(demand, graph)
    return ImpossiblePlan(f"{_problem(demand, graph)}; {_in_words(options)}", options)


def reachable(demand: Demand) -> float | None:
    """Bits of reliability with as many neighbours as there can be and the lowest threshold that is private.

    None if no threshold is.
    """
    assumptions, t = demand.assumptions, _lowest_private(demand)
    if t is None:
        return None
    lost = log_below(assumptions.live, densest_degree(assumptions))[t] + math.log(assumptions.clients) + SLACK
    bits = max(0.0, -float(lost) / LN2)
    # Rounds that too few clients join have a share of the budget, unless it is known how many do.
    return bits if assumptions.exact else bits + math.log2(1 - 2.0**-SHORT_BITS) - _ROUNDING


def everyone(demand: Demand) -> Found | None:
    """The complete graph with the lowest threshold that is private, however many rounds are lost."""
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
    clients, top = demand.assumptions.clients, _top_degree(demand, graph)
    if top is None and clients > MAX_HOLDERS:
        return (
            f"a secret can be shared among at most {MAX_HOLDERS} holders, so {clients} clients need a sparse "
            "graph"
        )
    reliable = reachable(demand)
    whom, neighbours = _whom(demand.assumptions), f"even with {_neighbours(demand.assumptions)}"
    if reliable is None:
        wanted = f"privacy of {demand.privacy_bits:g} bits"
        return f"{wanted} is out of reach with {whom}: {neighbours} no threshold gives it"
    if not _reaches_densest(demand, graph) and reliable >= demand.reliability_bits:
        return f"{graph} graphs are planned up to {top:.0f} neighbours on average, too few for {whom}"
    if demand.assumptions.colluders:
        lowest = f"the lowest threshold that gives {demand.privacy_bits:g} bits of privacy"
        neighbours = f"{neighbours.removesuffix(',')} and {lowest},"
    return (
        f"reliability of {demand.reliability_bits:g} bits is out of reach with {whom}: {neighbours} "
        f"{_bits(reliable)}"
    )


def _top_degree(demand: Demand, graph: str) -> float | None:
    """Return the mean degree of the densest graph of this family; None where it has none for so many."""
    clients = demand.assumptions.clients
    ladder = kind_named(graph).candidates(clients)
    return ladder.at(ladder.most).mean_degree(clients) if ladder.most else None


def _reaches_densest(demand: Demand, graph: str) -> bool:
    """Return whether the family, or the complete graph instead, has as many edges as there can be."""
    clients, top = demand.assumptions.clients, _top_degree(demand, graph)
    return clients <= MAX_HOLDERS or (top or 0) >= densest_degree(demand.assumptions)


def _whom(assumptions: Assumptions) -> str:
    vanish = f"{assumptions.clients} clients of whom a fraction of {assumptions.dropout:.3g} vanish"
    return f"{vanish} and {assumptions.colluders} may collude" if assumptions.colluders else vanish


def _neighbours(assumptions: Assumptions) -> str:
    if assumptions.clients <= MAX_HOLDERS:
        return f"all {densest_degree(assumptions)} others as neighbours"
    return f"{densest_degree(assumptions)} neighbours, as many as can hold shares,"


def _bits(possible: float) -> str:
    whole = math.floor(possible)
    return f"it is at most {whole} bit{'s' * (whole > 1)}" if whole >= 1 else "it is less than one bit"


# What would do


def _in_words(options: tuple[Option, ...]) -> str:
    if not options:
        return "no single change would do: expect fewer to vanish and to collude, or ask for less"
    said = [
        " ".join(f"--{name.replace('_', '-')} {value}" for name, value in option.items())
        for option in options
    ]
    return "what would do: " + " or ".join([", ".join(said[:-1]), said[-1]] if said[:-1] else said)


def _options(demand: Demand, graph: str) -> tuple[Option, ...]:
    """Another kind of graph where that is enough, else all changes that would do."""
    best: Option = {"graph": BEST}
    if graph != BEST and _does(demand, graph, best):
        return (best,)
    stays = _reaches_densest(demand, graph)
    changes = (change if stays else best | change for change in _changes(demand))
    return tuple(option for option in changes if _does(demand, graph, option))


def _does(demand: Demand, graph: str, option: Option) -> bool:
    """Return whether there is a plan with this change; where the densest graph will do, there is."""
    others = dict(option)
    kind = others.pop("graph", graph)
    changed = demand.changed(**others)
    if _reaches_densest(changed, kind) and densest(changed) is not None:
        return True
    return cheapest(changed, kind) is not None


def _changes(demand: Demand) -> Iterator[Option]:
    """What the densest graph allows, the mildest of each kind."""
    clients, reliable = demand.assumptions.clients, reachable(demand)
    if reliable is not None and 1 <= reliable < demand.reliability_bits:
        yield {"reliability_bits": math.floor(reliable)}
    for name in ("dropout", "collusion"):
        fraction = _largest(demand, name)
        if fraction is not None:
            yield {name: fraction}
    more = first(lambda more: _may_do(demand, clients=clients + more), MAX_HOLDERS - clients)
    if more is not None:
        yield {"clients": clients + more}


def _largest(demand: Demand, name: str) -> float | None:
    """The largest fraction below the one that was asked for with which it may be done."""
    steps = math.ceil(round(getattr(demand.assumptions, name) / _STEP, 6))
    most = steps - 1 if name == "dropout" else steps  # nobody can count on all to stay
    fewer = first(lambda less: _may_do(demand, **{name: _fraction(steps - less)}), most)
    return None if fewer is None else _fraction(steps - fewer)


def _fraction(steps: int) -> float:
    return round(steps * _STEP, 3)


def _may_do(demand: Demand, **changes: float) -> bool:
    """Return whether the densest graph keeps the changed demand, but for a certificate."""
    changed = demand.changed(**changes)
    return any(OneDegree(changed, densest_degree(changed.assumptions)).thresholds(-math.inf))
