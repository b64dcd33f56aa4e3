"""Demands that cannot be met: which one, and what could be had instead."""

import math
from dataclasses import replace

import numpy as np

from ccesa.config import MAX_HOLDERS
from ccesa.errors import ImpossiblePlan
from ccesa.plan.population import Population
from ccesa.plan.roster import LN2, SHORT_BITS, Roster
from ccesa.plan.search import MAX_MEAN_DEGREE, Demand, OneDegree, first

#: Fractions that would do are named in steps of this.
_STEP = 1e-3
#: Bits that adding up in another order may cost.
_ROUNDING = 1e-8


def explain(demand: Demand, graph: str) -> ImpossiblePlan:
    """Why not even the densest graph of this kind will do."""
    population, degree = demand.population, _densest(demand.population)
    if population.clients > MAX_HOLDERS and graph == "complete":
        return ImpossiblePlan(
            f"a secret can be shared among at most {MAX_HOLDERS} holders, so {population.clients} clients "
            "need a sparse graph: take graph = best or harary"
        )
    whom = f"{population.clients} clients of whom a fraction of {population.dropout:.3g} vanish"
    everyone = f"even with {_all_of(population)}{degree} others as neighbours"
    reliable = reachable(population)
    if reliable < demand.reliability_bits:
        return ImpossiblePlan(
            f"reliability of {demand.reliability_bits:g} bits is out of reach with {whom}: {everyone} "
            f"{_bits(reliable)}; {_way_out(demand)}"
        )
    densest = OneDegree(demand, degree)
    private = -float(densest.private(np.array([densest.highest]))[0]) / LN2
    if population.clients > MAX_HOLDERS and private >= demand.privacy_bits:
        return ImpossiblePlan(
            f"Erdős-Rényi graphs are planned up to {MAX_MEAN_DEGREE} neighbours on average, too few for "
            f"{whom}: take graph = best or harary, or ask for less"
        )
    return ImpossiblePlan(
        f"privacy of {demand.privacy_bits:g} bits is out of reach with {whom} and {population.collusion:.3g} "
        f"collude: at {demand.reliability_bits:g} bits of reliability {everyone} {_bits(private)}; "
        f"{_way_out(demand)}"
    )


def reachable(population: Population) -> float:
    """Bits of reliability with as many neighbours as there can be."""
    degree = _densest(population)
    everyone = Roster(population=population, least=population.clients)
    densest = OneDegree(Demand(reliability_bits=1, privacy_bits=1, guard="curious", roster=everyone), degree)
    bits = -float(densest.unreliable[densest.majority]) / LN2
    # Rounds that too few clients join have a share of the budget, unless it is known how many do.
    return bits if population.exact else bits + math.log2(1 - 2.0**-SHORT_BITS) - _ROUNDING


def _densest(population: Population) -> int:
    """Neighbours that a client can have: everyone, or a ring of as many as can hold shares."""
    return population.clients - 1 if population.clients <= MAX_HOLDERS else MAX_HOLDERS - 2


def _all_of(population: Population) -> str:
    return "all " if population.clients <= MAX_HOLDERS else "as many as can hold shares, "


def _bits(possible: float) -> str:
    whole = math.floor(possible)
    return f"it is at most {whole} bit{'s' * (whole > 1)}" if whole >= 1 else "it is less than one bit"


def _way_out(demand: Demand) -> str:
    """What would do: so many clients, or so much less dropout or collusion."""
    if demand.population.clients <= MAX_HOLDERS:
        enough = first(lambda n: _will_do(demand, clients=n + 2), MAX_HOLDERS - 2)
        if enough is not None:
            return f"{enough + 2} clients would do; or expect fewer to vanish or collude, or ask for less"
    for name, verb in (("dropout", "vanish"), ("collusion", "collude")):
        most = _largest(demand, name)
        if most is not None:
            return f"no number of clients would do, but if at most {most:.3g} {verb} it can be done"
    return "no number of clients would do: expect fewer to vanish and collude, or ask for less"


def _largest(demand: Demand, name: str) -> float | None:
    """The largest fraction below the one that was asked for with which it can be done."""
    steps = math.ceil(getattr(demand.population, name) / _STEP)
    fewer = first(lambda less: _will_do(demand, **{name: (steps - less) * _STEP}), steps)
    return None if fewer is None else (steps - fewer) * _STEP


def _will_do(demand: Demand, **changes: float) -> bool:
    population = replace(demand.population, **changes)  # type: ignore[arg-type]  # a number of clients is whole
    roster = replace(demand.roster, population=population, least=population.clients)
    degree = _densest(population)
    return any(OneDegree(replace(demand, roster=roster), degree).thresholds(-math.inf))
