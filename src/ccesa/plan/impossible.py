"""Demands that cannot be met: which one, and which single changes would do; each that is named was tried."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ccesa.config import MAX_HOLDERS, Complete
from ccesa.errors import ImpossiblePlan
from ccesa.plan.cheapest import Found, cheapest
from ccesa.plan.demand import Demand
from ccesa.plan.population import Population
from ccesa.plan.roster import LN2, SHORT_BITS
from ccesa.plan.search import MAX_MEAN_DEGREE, OneDegree, densest, densest_degree, first, rule_for
from ccesa.plan.tails import SLACK, log_below

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
    population, t = demand.population, _lowest_private(demand)
    if t is None:
        return None
    lost = log_below(population.live, densest_degree(population))[t] + math.log(population.clients) + SLACK
    bits = max(0.0, -float(lost) / LN2)
    # Rounds that too few clients join have a share of the budget, unless it is known how many do.
    return bits if population.exact else bits + math.log2(1 - 2.0**-SHORT_BITS) - _ROUNDING


def everyone(demand: Demand) -> Found | None:
    """The complete graph with the lowest threshold that is private, however many rounds are lost."""
    population, t = demand.population, _lowest_private(demand)
    if t is None or population.clients > MAX_HOLDERS:
        return None
    return Found(Complete(), rule_for(population, population.clients - 1, t))


def _lowest_private(demand: Demand) -> int | None:
    """Of the thresholds that so many neighbours can reach, where a client has as many as there can be."""
    one = OneDegree(demand, densest_degree(demand.population))
    t = np.arange(one.majority, one.degree + 1)
    private = t[one.private(t) <= demand.log_private]
    return int(private[0]) if private.size else None


# What is wrong


def _problem(demand: Demand, graph: str) -> str:
    clients = demand.population.clients
    if clients > MAX_HOLDERS and graph == "complete":
        return (
            f"a secret can be shared among at most {MAX_HOLDERS} holders, so {clients} clients need a sparse "
            "graph"
        )
    reliable = reachable(demand)
    whom, neighbours = _whom(demand.population), f"even with {_neighbours(demand.population)}"
    if reliable is None:
        wanted = f"privacy of {demand.privacy_bits:g} bits"
        return f"{wanted} is out of reach with {whom}: {neighbours} no threshold gives it"
    if graph == "erdos-renyi" and reliable >= demand.reliability_bits:
        return f"{graph} graphs are planned up to {MAX_MEAN_DEGREE} neighbours on average, too few for {whom}"
    if demand.population.colluders:
        lowest = f"the lowest threshold that gives {demand.privacy_bits:g} bits of privacy"
        neighbours = f"{neighbours.removesuffix(',')} and {lowest},"
    return (
        f"reliability of {demand.reliability_bits:g} bits is out of reach with {whom}: {neighbours} "
        f"{_bits(reliable)}"
    )


def _whom(population: Population) -> str:
    vanish = f"{population.clients} clients of whom a fraction of {population.dropout:.3g} vanish"
    return f"{vanish} and {population.colluders} may collude" if population.colluders else vanish


def _neighbours(population: Population) -> str:
    if population.clients <= MAX_HOLDERS:
        return f"all {densest_degree(population)} others as neighbours"
    return f"{densest_degree(population)} neighbours, as many as can hold shares,"


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
    best: Option = {"graph": "best"}
    if graph != "best" and _does(demand, graph, best):
        return (best,)
    stays = demand.population.clients <= MAX_HOLDERS or graph in ("best", "harary")
    changes = (change if stays else best | change for change in _changes(demand))
    return tuple(option for option in changes if _does(demand, graph, option))


def _does(demand: Demand, graph: str, option: Option) -> bool:
    """Whether there is a plan with this change. Where the densest graph will do, the search finds one."""
    others = dict(option)
    kind = others.pop("graph", graph)
    changed = demand.changed(**others)
    dense = changed.population.clients <= MAX_HOLDERS or kind in ("best", "harary")
    if dense and densest(changed) is not None:
        return True
    return cheapest(changed, kind) is not None


def _changes(demand: Demand) -> Iterator[Option]:
    """What the densest graph allows, the mildest of each kind."""
    clients, reliable = demand.population.clients, reachable(demand)
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
    steps = math.ceil(round(getattr(demand.population, name) / _STEP, 6))
    most = steps - 1 if name == "dropout" else steps  # nobody can count on all to stay
    fewer = first(lambda less: _may_do(demand, **{name: _fraction(steps - less)}), most)
    return None if fewer is None else _fraction(steps - fewer)


def _fraction(steps: int) -> float:
    return round(steps * _STEP, 3)


def _may_do(demand: Demand, **changes: float) -> bool:
    """Whether the densest graph keeps the changed demand, but for a certificate."""
    changed = demand.changed(**changes)
    return any(OneDegree(changed, densest_degree(changed.population)).thresholds(-math.inf))
