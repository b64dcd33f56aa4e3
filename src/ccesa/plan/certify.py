"""The probability of each bad event, bounded from above: what a configuration really promises.

======================  =====================================================================================
unreliable              some client has fewer than t_i live share holders when it is unmasked
disconnected            the mask graph of the honest survivors falls apart, so a partial sum could be opened
exposed                 colluding neighbours alone hold t_i shares of some honest client
unmaskable              two disjoint sets of t_i shares can exist, colluders counted on both sides
======================  =====================================================================================

Tails are exact; clients are joined by union bounds. docs/planning.md derives every line.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from ccesa.config import Complete, ErdosRenyi, Graph, Harary, Linear, Majority, Threshold
from ccesa.errors import ConfigError
from ccesa.plan import connectivity
from ccesa.plan.population import Population
from ccesa.plan.tails import SLACK, Binomial, Counts, Logs, log_at_least, log_below

LN2 = math.log(2.0)
#: Which events a guard has to keep rare. All but "unreliable" are matters of privacy.
EVENTS = {
    "curious": ("unreliable", "disconnected", "exposed"),
    "active": ("unreliable", "disconnected", "exposed", "unmaskable"),
}


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """log2 of an upper bound on the probability of each event; minus infinity where it is impossible."""

    unreliable: float
    disconnected: float
    exposed: float
    unmaskable: float

    def privacy(self, guard: str = "curious") -> float:
        """log2 of the sum of all privacy events that count under this guard."""
        logs = [getattr(self, name) * LN2 for name in EVENTS[guard] if name != "unreliable"]
        return min(0.0, float(logsumexp(logs)) / LN2)

    def as_dict(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, eq=False)
class Degrees:
    """How many neighbours a client has: one number, or the distribution of it."""

    values: Counts
    logs: Logs
    #: ln of all that is not listed; it counts as failure.
    rest: float

    @classmethod
    def of(cls, graph: Graph, clients: int, stay: float = 1.0) -> "Degrees":
        """Over V1, where each other client advertises its keys with probability ``stay``."""
        p = (graph.p if isinstance(graph, ErdosRenyi) else 1.0) * stay
        if isinstance(graph, Harary) or p >= 1:
            return cls(np.array([graph.max_degree(clients)]), np.zeros(1), -math.inf)
        return cls(*connectivity.window(Binomial(p), clients - 1))

    def average(self, log_given: Callable[[int], float]) -> float:
        """ln of the mean over the degree of what is given for each degree."""
        logs = [log_given(int(degree)) for degree in self.values]
        return float(logsumexp(np.append(self.logs + logs, self.rest)))


def certify(graph: Graph, threshold: Threshold, population: Population) -> Certificate:
    """Bound every event for this graph and threshold rule."""
    degrees = Degrees.of(graph, population.clients)
    honest = population.clients - population.colluders
    alone = population.colluders == 0
    # Neighbourhoods shrink when clients vanish in step 0; where t shrinks along, few colluders may suffice.
    fewer = Degrees.of(graph, population.clients, 1.0 - population.dropout)

    def fit(degree: int) -> int:
        """t; one that nobody reaches for a client that is left out for having too many neighbours."""
        return threshold.of(degree) if degree + 1 < 2 * threshold.of(degree) else degree + 2

    def worst(event: Callable[[Degrees, Callable[[int], int], Population], float]) -> float:
        return max(event(some, threshold.of, population) for some in (degrees, fewer))

    return Certificate(
        unreliable=log2_of(population.clients, unreliable(degrees, fit, population)),
        disconnected=log2_of(1, disconnected(graph, population)),
        exposed=-math.inf if alone else log2_of(honest, worst(exposed)),
        # Both rules exceed half of every neighbourhood, whatever its size.
        unmaskable=-math.inf
        if alone and isinstance(threshold, Majority | Linear)
        else log2_of(honest, worst(unmaskable)),
    )


def unreliable(
    degrees: Degrees, t: Callable[[int], int], population: Population, own_share: bool = False
) -> float:
    """ln P(a given client has fewer than t live holders). Its own share counts only if asked to.

    One who may share among too few for t counts as unreliable too: it is left out of the round.
    """
    live = population.live
    return degrees.average(lambda d: _at(log_below(live, d), t(d) - own_share))


def exposed(degrees: Degrees, t: Callable[[int], int], population: Population) -> float:
    """ln P(a given honest client has at least t colluding neighbours)."""
    colluding = population.colluding
    return degrees.average(lambda d: _at(log_at_least(colluding, d), t(d)))


def unmaskable(
    degrees: Degrees, t: Callable[[int], int], population: Population, own_share: bool = True
) -> float:
    """ln P(h + 2 c + 1 >= 2 t for a given honest client): h honest and c colluding neighbours, itself."""
    colluding = population.colluding
    return degrees.average(lambda d: _at(log_at_least(colluding, d), 2 * t(d) - d - own_share))


def disconnected(graph: Graph, population: Population) -> float:
    """ln P(the honest survivors' mask graph is not connected)."""
    if isinstance(graph, ErdosRenyi):
        return connectivity.edges(population, graph.mask_p or graph.p)
    if isinstance(graph, Complete) and graph.mask_p is not None:
        return connectivity.edges(population, graph.mask_p)
    width = graph.mask_degree or graph.max_degree(population.clients)
    return connectivity.ring(population, width)


def check_guard(guard: str) -> None:
    if guard not in EVENTS:
        raise ConfigError(f"guard must be one of {', '.join(EVENTS)}, not {guard!r}")


def _at(logs: Logs, place: int) -> float:
    return float(logs[min(max(place, 0), logs.size - 1)])


def log2_of(clients: int, log_each: float) -> float:
    """Union over the clients; upwards, so that rounding cannot flatter."""
    if log_each == -math.inf or clients == 0:
        return -math.inf
    return min(0.0, (math.log(clients) + log_each + SLACK) / LN2)
