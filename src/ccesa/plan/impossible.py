"""Demands that cannot be met: which one, and what could be had instead."""

import math
from dataclasses import replace

import numpy as np

from ccesa.config import MAX_HOLDERS
from ccesa.errors import ImpossiblePlan
from ccesa.plan.certify import LN2
from ccesa.plan.population import Population
from ccesa.plan.search import Demand, OneDegree, first


def explain(population: Population, demand: Demand) -> ImpossiblePlan:
    """Why not even the densest graph will do."""
    degree = population.clients - 1
    if degree >= MAX_HOLDERS:
        return ImpossiblePlan(
            f"a secret can be shared among at most {MAX_HOLDERS} holders, so {population.clients} clients "
            "need a sparse graph: take graph = best or harary, expect fewer to vanish or collude, or ask "
            "for less"
        )
    densest, reliable = OneDegree(population, degree), reachable(population)
    whom = f"{population.clients} clients of whom a fraction of {population.dropout:.3g} vanish"
    everyone = f"even with all {degree} others as neighbours"
    if reliable < demand.reliability_bits:
        return ImpossiblePlan(
            f"reliability of {demand.reliability_bits:g} bits is out of reach with {whom}: {everyone} "
            f"{_bits(reliable)}; {_way_out(population, demand)}"
        )
    private = -float(densest.private(demand, np.array([densest.highest(demand)]))[0]) / LN2
    return ImpossiblePlan(
        f"privacy of {demand.privacy_bits:g} bits is out of reach with {whom} and {population.collusion:.3g} "
        f"collude: at {demand.reliability_bits:g} bits of reliability {everyone} {_bits(private)}; "
        f"{_way_out(population, demand)}"
    )


def reachable(population: Population) -> float:
    """Bits of reliability with everyone as a neighbour."""
    degree = min(population.clients, MAX_HOLDERS) - 1
    return -float(OneDegree(population, degree).unreliable[(degree + 1) // 2 + 1]) / LN2


def _bits(possible: float) -> str:
    whole = math.floor(possible)
    return f"there are at most {whole}" if whole >= 1 else "there is less than one"


def _way_out(population: Population, demand: Demand) -> str:
    enough = first(lambda n: _will_do(replace(population, clients=n + 2), demand), MAX_HOLDERS - 2)
    if enough is None:
        return "no number of clients would do: expect fewer to vanish or collude, or ask for less"
    return f"{enough + 2} clients would do; or expect fewer to vanish or collude, or ask for less"


def _will_do(population: Population, demand: Demand) -> bool:
    others = population.clients - 1
    return OneDegree(population, others).threshold(demand, -math.inf) is not None
