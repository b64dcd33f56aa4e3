"""The sparsest graph that keeps every promise, for each kind of graph.

For circles a candidate is accepted by its certificate, and the search leaves out only degrees that cannot do
(docs/planning.md): what it finds is the smallest. For Erdős-Rényi graphs it bisects.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property, partial

import numpy as np

from ccesa.config import (
    MAX_HOLDERS,
    Complete,
    ErdosRenyi,
    Fixed,
    Graph,
    Harary,
    Linear,
    Majority,
    Threshold,
)
from ccesa.plan import connectivity
from ccesa.plan.certify import disconnected
from ccesa.plan.demand import Demand
from ccesa.plan.neighbourhoods import NATS, Live, Opened
from ccesa.plan.population import Population
from ccesa.plan.roster import LN2
from ccesa.plan.rules import linear
from ccesa.plan.tails import SLACK, Counts, Logs, log_at_least, log_below

#: Mean degrees of Erdős-Rényi graphs are planned in steps of a hundredth of a neighbour, above a hundred of a
#: ten-thousandth of the degree,
GRID = 100
#: and up to here: the tails of all their degrees are held at once.
MAX_MEAN_DEGREE = 4096
_SLOPES = range(0, 1025, 32)
#: Steps of the grid that a search goes up first.
_STRIDE = 64
#: Nats by which what is compared here stays below a budget: the certificate adds up in another order.
_MARGIN = 1e-9


@dataclass(frozen=True, eq=False)
class OneDegree:
    """Every threshold there is, for a graph in which everyone has the same number of neighbours."""

    demand: Demand
    degree: int

    @cached_property
    def unreliable(self) -> Logs:
        """ln of the bound for t = 0 .. degree + 1."""
        population = self.demand.population
        logs = log_below(population.live, self.degree) + math.log(population.clients)
        return np.asarray(np.logaddexp(logs, self.demand.roster.log_short) + SLACK)

    @cached_property
    def colluding(self) -> Logs:
        """ln P(some honest client has at least c colluding neighbours), c = 0 .. degree + 1."""
        population = self.demand.population
        honest = max(population.clients - population.colluders, 1)
        return log_at_least(population.colluding, self.degree) + math.log(honest) + SLACK

    def private(self, t: Counts) -> Logs:
        """ln of the bound on the events of shares, for each t."""
        needed = [event(t, np.asarray(self.degree)) for event in self.demand.events]
        logs = [self.colluding[np.clip(many, 0, self.degree + 1)] for many in needed]
        return np.minimum(np.logaddexp.reduce(logs), 0.0)

    @property
    def majority(self) -> int:
        return (self.degree + 1) // 2 + 1

    @cached_property
    def highest(self) -> int:
        """The largest t that is reliable enough. It rises with the degree, by one at most."""
        return int(np.searchsorted(self.unreliable, self.demand.log_unreliable, side="right")) - 1

    @cached_property
    def fewest(self) -> int:
        """The smallest number of colluding neighbours that is rare enough. It rises with the degree."""
        return int(np.count_nonzero(self.colluding > self.demand.log_private))

    def thresholds(self, log_apart: float) -> Iterator[int]:
        """Every threshold that may keep the demand, the best first.

        That is the lowest that leaves half of the privacy budget to the masks; else the highest, which leaves
        most.
        """
        t = np.arange(self.majority, self.highest + 1)
        private = self.private(t)
        fits = np.logaddexp(private, log_apart) <= self.demand.log_private
        half = private <= self.demand.log_private - LN2
        yield from t[fits & half].tolist()
        yield from t[fits & ~half][::-1].tolist()


def complete(demand: Demand) -> tuple[Graph, Threshold] | None:
    """Everyone with everyone, if secrets can be shared among so many and that will do."""
    others = demand.population.clients - 1
    if others >= MAX_HOLDERS:
        return None
    return _first_kept(demand, Complete(), OneDegree(demand, others), -math.inf)


def circle(demand: Demand) -> tuple[Graph, Threshold] | None:
    """The sparsest Harary graph that will do and its threshold, masks on every edge."""
    population = demand.population
    one = cache(partial(OneDegree, demand))

    def found(half: int) -> tuple[Graph, Threshold] | None:
        return _circle_of(one(2 * half))

    def possible(low: int, high: int) -> bool:
        return _may_hold(demand, one(2 * low), one(2 * high))

    most = min(population.clients - 2, MAX_HOLDERS - 1) // 2
    least = first(lambda half: connectivity.circle(population, 2 * half) <= demand.log_private, most)
    return None if least is None else leftmost(least, most, found, possible)


def densest(demand: Demand) -> tuple[Graph, Threshold] | None:
    """Everyone with everyone, or the circle of as many neighbours as can hold shares, if it will do."""
    if demand.population.clients <= MAX_HOLDERS:
        return complete(demand)
    return _circle_of(OneDegree(demand, densest_degree(demand.population)))


def densest_degree(population: Population) -> int:
    """Neighbours that a client can have at most."""
    return population.clients - 1 if population.clients <= MAX_HOLDERS else MAX_HOLDERS - 2


def _circle_of(one: OneDegree) -> tuple[Graph, Threshold] | None:
    graph = Harary(degree=one.degree)
    return _first_kept(one.demand, graph, one, disconnected(graph, one.demand.population) + SLACK)


def _may_hold(demand: Demand, low: OneDegree, high: OneDegree) -> bool:
    """Whether some degree between these two may do: each side of every condition at its best end."""
    if high.highest < low.majority:
        return False
    if demand.population.colluders == 0:
        return True
    t, degree = np.asarray(high.highest), np.asarray(low.degree)
    return all(int(event(t, degree)) >= low.fewest for event in demand.events)


def _first_kept(
    demand: Demand, graph: Graph, one: OneDegree, log_apart: float
) -> tuple[Graph, Threshold] | None:
    for t in one.thresholds(log_apart):
        rule = rule_for(demand.population, one.degree, t)
        if demand.kept_by(graph, rule):
            return graph, rule
    return None


def circle_masks(population: Population, log_budget: float, degree: int) -> int:
    """The thinnest mask subgraph on a circle; at most ``degree``."""

    def enough(half: int) -> bool:
        return connectivity.circle(population, 2 * half) + SLACK + _MARGIN <= log_budget

    half = first(enough, degree // 2 - 1)
    return degree if half is None else 2 * half


def edges(demand: Demand, least: int) -> tuple[Graph, Threshold] | None:
    """A sparse Erdős-Rényi graph that will do and its threshold rule, masks on every edge.

    ``least`` is the degree of a circle that will do. Nearly always more edges do not hurt, so bisection finds
    the sparsest; where thresholds are rounded it may miss one that is sparser by a fraction of a neighbour.
    """
    others = demand.population.clients - 1
    most = _step_below(min(others, MAX_MEAN_DEGREE))
    found: dict[int, Threshold | None] = {}

    def enough(step: int) -> bool:
        found[step] = _rule(demand, _mean(step) / others)
        return found[step] is not None

    step = first(enough, most, _step_below(least))
    rule = None if step is None else found[step]
    return None if step is None or rule is None else (ErdosRenyi(p=_mean(step) / others), rule)


def _mean(step: int) -> float:
    """The mean degree at this step of the grid."""
    hundred = 100 * GRID
    return step / GRID if step <= hundred else 100 * (1 + 1 / hundred) ** (step - hundred)


def _step_below(mean: float) -> int:
    """The last step before this mean degree."""
    hundred = 100 * GRID
    if mean <= 100:
        return math.ceil(mean * GRID) - 1
    return hundred + math.ceil(math.log(mean / 100) / math.log1p(1 / hundred)) - 1


def edge_masks(population: Population, log_budget: float, p: float) -> float:
    """The thinnest mask probability; at most p."""
    others = population.clients - 1

    def enough(step: int) -> bool:
        return connectivity.edges(population, _mean(step) / others) + SLACK + _MARGIN <= log_budget

    step = first(enough, _step_below(p * others))
    return p if step is None else _mean(step) / others


def _rule(demand: Demand, p: float) -> Threshold | None:
    """A threshold rule that keeps the demand on an Erdős-Rényi graph, if there is one."""
    population = demand.population
    log_apart = disconnected(ErdosRenyi(p=p), population, demand.roster) + SLACK
    if log_apart > demand.log_private:
        return None
    nats = _needed(demand)
    live = Live.of(p, population, nats)
    if _unreliable(demand, live, 0, 0):
        return None  # a higher threshold is no more reliable
    if population.colluders == 0:
        return Majority()
    rules = [(0, 0), *_highest(demand, live)]
    for ends in (True, False):  # first a look that rules out most
        around = Opened.of(p, demand.roster, nats, ends=ends)
        rules = [rule for rule in rules if _private(demand, around, *rule, log_apart)]
        if not rules or not demand.roster.chosen:
            break
    if not rules:
        return None
    slope, most = rules[0]
    base = first(lambda base: _private(demand, around, slope, base, log_apart), most)
    return Majority() if most == 0 else Linear(slope=slope, base=most if base is None else base)


def _highest(demand: Demand, live: Live) -> Iterator[tuple[int, int]]:
    """For every slope the largest base that is reliable enough."""
    most = int(live.degrees[-1])
    for slope in _SLOPES:
        too_high = first(partial(_unreliable, demand, live, slope), most)
        if too_high is None or too_high == 1:
            continue
        most = too_high  # a steeper rule leaves no more room
        yield slope, too_high - 1


def _needed(demand: Demand) -> float:
    """Outcomes of less than e to minus this may be left out: all of them take less than the margin."""
    bits = max(demand.privacy_bits, demand.reliability_bits)
    return min(NATS, bits * LN2 + 2 * math.log(demand.population.clients) + 24)


def _unreliable(demand: Demand, live: Live, slope: int, base: int) -> bool:
    """Whether the rule is not reliable enough."""
    log = live.unreliable(partial(linear, slope, base))
    return bool(np.logaddexp(log, demand.roster.log_short) + SLACK + _MARGIN > demand.log_unreliable)


def _private(demand: Demand, around: Opened, slope: int, base: int, log_apart: float) -> bool:
    rule, log = partial(linear, slope, base), log_apart
    for event in demand.events:
        log = float(np.logaddexp(log, around.log(event, rule) + SLACK))
        if log + _MARGIN > demand.log_private:
            return False
    return True


def rule_for(population: Population, degree: int, t: int) -> Threshold:
    """The rule that gives t to everyone of this degree.

    Where there are colluders it is fixed: a majority would shrink with a neighbourhood that vanishes.
    """
    majority = t == Majority().of(degree) and population.colluders == 0
    return Majority() if majority else Fixed(t=t)


def leftmost(
    low: int,
    high: int,
    found: Callable[[int], tuple[Graph, Threshold] | None],
    possible: Callable[[int, int], bool],
) -> tuple[Graph, Threshold] | None:
    """What is found at the smallest of low .. high; ``possible`` says where it is worth looking.

    Looks at 1, 2, 4, ... numbers at a time, and divides in two what may hold something.
    """
    width = 1
    while low <= high:
        last = min(low + width - 1, high)
        answer = _within(low, last, found, possible)
        if answer is not None:
            return answer
        low, width = last + 1, 2 * width
    return None


def _within(
    low: int,
    high: int,
    found: Callable[[int], tuple[Graph, Threshold] | None],
    possible: Callable[[int, int], bool],
) -> tuple[Graph, Threshold] | None:
    if not possible(low, high):
        return None
    if low == high:
        return found(low)
    middle = (low + high) // 2
    return _within(low, middle, found, possible) or _within(middle + 1, high, found, possible)


def first(enough: Callable[[int], bool], most: int, start: int = 1) -> int | None:
    """The smallest of 1 .. most that is enough, where everything above it is enough as well."""
    if most < 1:
        return None
    low, high = 0, max(1, min(start, most))
    step = max(1, min(start // 8, _STRIDE))
    while not enough(high):
        if high == most:
            return None
        low, high, step = high, min(high + step, most), 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
