"""The sparsest graph that keeps every promise, for each kind of graph.

A ring of degree d + 2 with threshold t + 1 keeps every promise that degree d with t keeps (docs/planning.md),
and more edges do not hurt an Erdős-Rényi graph, so the smallest that will do is found by bisection.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ccesa.config import MAX_HOLDERS, ErdosRenyi, Fixed, Linear, Majority, Threshold
from ccesa.plan import connectivity
from ccesa.plan.certify import LN2, Degrees
from ccesa.plan.population import Population
from ccesa.plan.tails import SLACK, Counts, Logs, log_at_least, log_below

#: Mean degrees of Erdős-Rényi graphs are planned in steps of a hundredth of a neighbour,
GRID = 100
#: and up to here: the tails of all their degrees are held at once.
MAX_MEAN_DEGREE = 4096
_SLOPES = range(0, 1025, 32)


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What may happen at most: unreliable rounds, and all privacy events that count together, in bits.

    The two switches are other planners' conventions, for comparison: ours never goes below the majority,
    and counts a client's own share among those that could open it.
    """

    reliability_bits: float
    privacy_bits: float
    unmaskable: bool = False
    majority: bool = True
    own_share: bool = True

    @property
    def log_unreliable(self) -> float:
        return -self.reliability_bits * LN2

    @property
    def log_private(self) -> float:
        return -self.privacy_bits * LN2


@dataclass(frozen=True, eq=False)
class OneDegree:
    """Every threshold there is, for a graph in which everyone has the same number of neighbours."""

    population: Population
    degree: int

    @cached_property
    def unreliable(self) -> Logs:
        """ln of the bound for t = 0 .. degree + 1."""
        return log_below(self.population.live, self.degree) + math.log(self.population.clients) + SLACK

    @cached_property
    def colluding(self) -> Logs:
        """ln P(some honest client has at least c colluding neighbours), c = 0 .. degree + 1."""
        honest = max(self.population.clients - self.population.colluders, 1)
        return log_at_least(self.population.colluding, self.degree) + math.log(honest) + SLACK

    def private(self, demand: Demand, t: Counts) -> Logs:
        """ln of the bound on the events of shares, for each t."""
        logs = self.colluding[t]
        if demand.unmaskable:
            both = np.clip(2 * t - self.degree - demand.own_share, 0, self.degree + 1)
            logs = np.logaddexp(logs, self.colluding[both])
        return np.minimum(logs, 0.0)

    def highest(self, demand: Demand) -> int:
        """The largest t that is reliable enough."""
        return int(np.searchsorted(self.unreliable, demand.log_unreliable, side="right")) - 1

    def threshold(self, demand: Demand, log_apart: float) -> int | None:
        """A threshold that keeps the demand, if there is one.

        The lowest that leaves half of the privacy budget to the masks; else the highest, which leaves most.
        """
        least = (self.degree + 1) // 2 + 1 if demand.majority else 2
        t = np.arange(least, self.highest(demand) + 1)
        if t.size == 0:
            return None
        private = self.private(demand, t)
        half = np.flatnonzero(private <= demand.log_private - LN2)
        choice = int(half[0]) if half.size else t.size - 1
        fits = np.logaddexp(private[choice], log_apart) <= demand.log_private
        return int(t[choice]) if fits else None


def ring(population: Population, demand: Demand) -> tuple[int, int] | None:
    """Degree and threshold of the sparsest Harary graph that will do, masks on every edge."""

    def threshold(degree: int) -> int | None:
        return OneDegree(population, degree).threshold(demand, connectivity.ring(population, degree))

    most = (min(population.clients - 2, MAX_HOLDERS - 1)) // 2
    half = first(lambda half: threshold(2 * half) is not None, most)
    if half is None:
        return None
    found = threshold(2 * half)
    return None if found is None else (2 * half, found)


def ring_masks(population: Population, log_budget: float, degree: int) -> int:
    """The thinnest mask subgraph on a ring; at most ``degree``."""
    half = first(lambda half: connectivity.ring(population, 2 * half) <= log_budget, degree // 2 - 1)
    return degree if half is None else 2 * half


def edges(population: Population, demand: Demand) -> tuple[ErdosRenyi, Threshold] | None:
    """The sparsest Erdős-Rényi graph that will do and its threshold rule, masks on every edge."""
    others = population.clients - 1

    def rule(steps: int) -> Threshold | None:
        return _rule(population, demand, min(1.0, steps / GRID / others))

    most = min(GRID * others - 1, GRID * MAX_MEAN_DEGREE)
    steps = first(lambda steps: rule(steps) is not None, most)
    if steps is None:
        return None
    found = rule(steps)
    return None if found is None else (ErdosRenyi(p=steps / GRID / others), found)


def edge_masks(population: Population, log_budget: float, p: float) -> float:
    """The thinnest mask probability; at most p."""
    others = population.clients - 1
    most = math.ceil(p * others * GRID) - 1
    steps = first(lambda steps: connectivity.edges(population, steps / GRID / others) <= log_budget, most)
    return p if steps is None else steps / GRID / others


def _rule(population: Population, demand: Demand, p: float) -> Threshold | None:
    """A threshold rule that keeps the demand on an Erdős-Rényi graph, if there is one."""
    log_apart = connectivity.edges(population, p)
    if log_apart > demand.log_private:
        return None
    graph = ErdosRenyi(p=p)
    mixture = _Mixture(population, demand, Degrees.of(graph, population.clients))
    majority = mixture.thresholds()
    if mixture.unreliable(majority) > demand.log_unreliable:
        return None  # a higher threshold is no more reliable
    if population.colluders == 0:
        return Majority()
    # The privacy events may be worse in the smaller neighbourhoods that dropouts in step 0 leave.
    fewer = _Mixture(population, demand, Degrees.of(graph, population.clients, 1 - population.dropout))
    private = max(mixture.private(majority), fewer.private(fewer.thresholds()))
    if np.logaddexp(private, log_apart) <= demand.log_private:
        return Majority()
    for slope in _SLOPES:
        bases = [some.least_base(slope, log_apart) for some in (mixture, fewer)]
        if None in bases:
            continue
        base = max(base for base in bases if base is not None)
        if mixture.unreliable(mixture.thresholds(slope, base)) <= demand.log_unreliable:
            return Linear(slope=slope, base=base)
    return None


class _Mixture:
    """Events of a graph whose degrees vary: a row of tails for every degree, looked up at its threshold."""

    def __init__(self, population: Population, demand: Demand, degrees: Degrees) -> None:
        self._population, self._demand, self._degrees = population, demand, degrees
        self._rows = np.arange(degrees.values.size)
        shape = (degrees.values.size, int(degrees.values[-1]) + 2)
        hopeless = math.log(population.clients) + SLACK  # where t exceeds the holders there are
        self._unreliable, self._colluding = np.full(shape, hopeless), np.full(shape, -np.inf)
        for row, degree in enumerate(degrees.values.tolist()):
            one = OneDegree(population, degree)
            self._unreliable[row, : degree + 2] = one.unreliable
            self._colluding[row, : degree + 2] = one.colluding

    def thresholds(self, slope: int = 0, base: int = 0) -> Counts:
        """What ``Linear(slope, base)`` gives each degree; with zeros, the majority."""
        d = self._degrees.values
        return np.maximum((d + 1) // 2 + 1, slope * d // 1024 + base)

    def unreliable(self, t: Counts) -> float:
        return self._sum(self._unreliable, t)

    def private(self, t: Counts) -> float:
        if self._population.colluders == 0:
            return -math.inf
        exposed = self._sum(self._colluding, t)
        if not self._demand.unmaskable:
            return exposed
        both = 2 * t - self._degrees.values - self._demand.own_share
        return float(np.logaddexp(exposed, self._sum(self._colluding, both)))

    def least_base(self, slope: int, log_apart: float) -> int | None:
        """The smallest base that is private enough."""

        def enough(base: int) -> bool:
            private = self.private(self.thresholds(slope, base))
            return bool(np.logaddexp(private, log_apart) <= self._demand.log_private)

        return first(enough, int(self._degrees.values[-1]))

    def _sum(self, tails: Logs, places: Counts) -> float:
        logs = tails[self._rows, np.clip(places, 0, tails.shape[1] - 1)] + self._degrees.logs
        rest = self._degrees.rest + math.log(self._population.clients)
        return float(np.logaddexp(np.logaddexp.reduce(logs), rest))


def rule_for(population: Population, degree: int, t: int) -> Threshold:
    """The rule that gives t to everyone of this degree.

    Where there are colluders it is fixed: a majority would shrink with a neighbourhood that vanishes.
    """
    majority = t == Majority().of(degree) and population.colluders == 0
    return Majority() if majority else Fixed(t=t)


def first(enough: Callable[[int], bool], most: int) -> int | None:
    """The smallest of 1 .. most that is enough, where everything above it is enough as well."""
    high = 1
    while high < most and not enough(high):
        high = min(2 * high, most)
    if most < 1 or not enough(high):
        return None
    low = high // 2  # not enough, or zero
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
