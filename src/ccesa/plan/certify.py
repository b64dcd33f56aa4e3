"""The probability of each bad event, bounded from above: what a configuration really promises.

======================  =====================================================================================
unreliable              some client has fewer than t_i live share holders when it is unmasked
disconnected            the mask graph of the honest survivors falls apart, so a partial sum could be opened
exposed                 colluding neighbours and an honest client itself hold t_i shares of it
unmaskable              two disjoint sets of t_i shares can exist, colluders counted on both sides
======================  =====================================================================================

Tails are exact; clients are joined by union bounds. docs/planning.md derives every line.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.special import logsumexp

from ccesa.config import ErdosRenyi, Fixed, Graph, Threshold
from ccesa.errors import ConfigError
from ccesa.plan import circles, connectivity, events
from ccesa.plan.events import Event
from ccesa.plan.neighbourhoods import Live, Opened
from ccesa.plan.population import Population
from ccesa.plan.roster import LN2, Roster
from ccesa.plan.rules import thresholds
from ccesa.plan.tails import SLACK, Binomial, Counts, Logs, log_at_least, log_below

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
    def of(cls, graph: Graph, clients: int) -> "Degrees":
        """If everyone advertises."""
        if not isinstance(graph, ErdosRenyi) or graph.p >= 1:
            return cls(np.array([graph.max_degree(clients)]), np.zeros(1), -math.inf)
        return cls(*connectivity.window(Binomial(graph.p), clients - 1))

    def average(self, log_given: Callable[[int], float]) -> float:
        """ln of the mean over the degree of what is given for each degree."""
        logs = [log_given(int(degree)) for degree in self.values]
        return float(logsumexp(np.append(self.logs + logs, self.rest)))


def certify(
    graph: Graph, threshold: Threshold, population: Population, roster: Roster | None = None
) -> Certificate:
    """Bound every event for this graph and threshold rule.

    With a ``roster`` a round that fewer clients join counts as unreliable; and where a lying server chooses
    it, the privacy events are bounded for every roster that it may choose.
    """
    if roster is None:
        roster = Roster(population=population, least=population.clients)
    apart, opened = disconnected(graph, population, roster), opened_by(graph, threshold, roster)
    return Certificate(
        unreliable=_log2(np.logaddexp(_unreliable(graph, threshold, population), roster.log_short)),
        disconnected=_log2(apart),
        exposed=_log2(opened[0]),
        unmaskable=_log2(opened[1]),
    )


@dataclass(frozen=True, eq=False)
class Around:
    """Colluders around the honest clients of a round with this graph and threshold rule."""

    graph: Graph
    threshold: Threshold
    roster: Roster

    def log(self, event: Event) -> float:
        """ln P(the event happens to some honest client), for every roster that there may be."""
        if self._table is not None:
            if self.roster.anywhere:
                return 0.0  # its bound over all rosters is one for fractions of them
            return self._table.log(event, partial(thresholds, self.threshold))
        bound = circles.chosen if self.roster.chosen else circles.advertised
        degree = self.graph.max_degree(self.roster.population.clients)
        return bound(degree, self.threshold, self.roster, event)

    def log2(self, event: Event) -> float:
        """The same with the logarithm to base 2, rounded upwards."""
        return _log2(self.log(event))

    @cached_property
    def _table(self) -> Opened | None:
        varies = isinstance(self.graph, ErdosRenyi) and self.graph.p < 1
        return Opened.of(self.graph.p, self.roster) if varies else None  # type: ignore[union-attr]  # it has p


def opened_by(graph: Graph, threshold: Threshold, roster: Roster) -> tuple[float, float]:
    """ln P(someone honest is exposed), ln P(someone honest is unmaskable)."""
    around = Around(graph, threshold, roster)
    if roster.population.colluders > 0:
        return around.log(events.exposed), around.log(events.unmaskable)
    # All rules but a fixed t exceed half of every neighbourhood.
    return -math.inf, around.log(events.unmaskable) if isinstance(threshold, Fixed) else -math.inf


def _unreliable(graph: Graph, threshold: Threshold, population: Population) -> float:
    """ln P(some client has fewer than t live holders), everyone in V1: fewer there would only lower t.

    One who may share among too few, or too many, for t counts as unreliable too: it is left out of the round.
    """
    n = population.clients
    if isinstance(graph, ErdosRenyi) and graph.p < 1:
        return Live.of(graph.p, population).unreliable(partial(_fit, threshold))
    degree = graph.max_degree(n)
    t = int(_fit(threshold, np.array([degree]))[0])
    return math.log(n) + _at(log_below(population.live, degree), t)


def _fit(threshold: Threshold, degrees: Counts) -> Counts:
    """t; one that nobody reaches for a client that is left out for having too many neighbours."""
    t = thresholds(threshold, degrees)
    return np.where(degrees + 1 < 2 * t, t, degrees + 2)


def unreliable(
    degrees: Degrees, t: Callable[[int], int], population: Population, own_share: bool = False
) -> float:
    """ln P(a given client has fewer than t live holders). Its own share counts only if asked to."""
    live = population.live
    return degrees.average(lambda d: _at(log_below(live, d), t(d) - own_share))


def exposed(degrees: Degrees, t: Callable[[int], int], population: Population) -> float:
    """ln P(a given honest client has at least t - 1 colluding neighbours, and one at least)."""
    colluding = population.colluding
    return degrees.average(lambda d: _at(log_at_least(colluding, d), max(t(d) - 1, 1)))


def unmaskable(degrees: Degrees, t: Callable[[int], int], population: Population) -> float:
    """ln P(h + 2 c + 1 >= 2 t for a given honest client): h honest and c colluding neighbours, itself."""
    colluding = population.colluding
    return degrees.average(lambda d: _at(log_at_least(colluding, d), 2 * t(d) - d - 1))


def disconnected(graph: Graph, population: Population, roster: Roster | None = None) -> float:
    """ln P(the honest survivors' mask graph is not connected)."""
    mask_p = getattr(graph, "mask_p", None) or getattr(graph, "p", None)
    if mask_p is not None:
        fewest = roster.least - roster.colluders if roster and roster.chosen else None
        return connectivity.edges(population, mask_p, fewest)
    width = getattr(graph, "mask_degree", None) or graph.max_degree(population.clients)
    log = connectivity.circle(population, width)
    if log > -math.inf and roster and roster.chosen and not connectivity.most_is_worst(population, width):
        return 0.0
    return log


def check_guard(guard: str) -> None:
    if guard not in EVENTS:
        raise ConfigError(f"guard must be one of {', '.join(EVENTS)}, not {guard!r}")


def _at(logs: Logs, place: int) -> float:
    return float(logs[min(max(place, 0), logs.size - 1)])


def _log2(log: float) -> float:
    """Upwards, so that rounding cannot flatter."""
    return -math.inf if log == -math.inf else min(0.0, (float(log) + SLACK) / LN2)
