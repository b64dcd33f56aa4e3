"""Bounds for graphs in which everyone has the same number of neighbours, and masks on a circle.

In a roster of d clients or fewer there is no circle: all are neighbours of each other. docs/planning.md derives all.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from scipy.special import digamma, logsumexp

from ccesa.graphs.assumptions import Assumptions, Demand, Event, Roster
from ccesa.graphs.reliability import log_all_lost, log_few, log_left_out, log_lost, log_lost_at, log_small
from ccesa.graphs.tails import LN2, SLACK, Counts, Logs, at, log_at_least, log_below, log_choose
from ccesa.graphs.thresholds import Fixed, Majority, Rule, Threshold

#: The number of intervals in which dropouts are split into those before and those after *share*.
_SPLITS = 128
#: ln of a probability that no certificate shows. Below it a rough value is enough.
_NEGLIGIBLE = -200 * LN2


@dataclass(frozen=True)
class CircleMasks:
    """Masks between neighbours on a random circle, ``degree`` / 2 = h on each side of each client."""

    degree: int

    def log_apart(self, assumptions: Assumptions, roster: Roster | None = None) -> float:
        """Bound P(the honest survivors' masks fall apart).

        They do if and only if at least two gaps of h or more missing clients (dropped out or colluding) lie between
        survivors. A gap begins with a survivor and h missing clients. Two such beginnings are disjoint, so each of the
        n (n - 2 h - 1) / 2 pairs has the same probability, which is computed exactly.
        """
        n, h = assumptions.clients, self.degree // 2
        pairs = n * (n - 2 * h - 1) / 2
        if pairs <= 0 or self.degree >= n - 1:
            return -math.inf
        log = min(0.0, math.log(pairs) + _log_missing(assumptions, 2 * h, stay=2))
        if log > -math.inf and roster and roster.chosen and not self.most_is_worst(assumptions):
            return 0.0
        return log

    def log_torn(self, few_holders: Callable[[Assumptions], float], assumptions: Assumptions) -> float:
        """Estimate P(a stretch is left out after *share*, and another gap opens after that).

        Any fraction may have left before. One end of each interval of it is the worst for the stretch, the other for
        the gap. Colluders may be missing in any step: with them both ends are the whole dropout.
        """
        if self.degree >= assumptions.clients - 1:
            return -math.inf
        simple = replace(assumptions, per_step=None)
        most = few_holders(simple) + self._log_gap(simple)
        if simple.colluders or most < _NEGLIGIBLE:
            return min(0.0, most + LN2)
        ends = np.unique(np.linspace(0, simple.dropped, _SPLITS + 1).astype(int)) / simple.clients
        if not simple.exact:
            ends = np.linspace(0.0, simple.dropout, _SPLITS + 1)
        early = [replace(simple, dropout=float(end)) for end in ends]
        torn = (few_holders(after) + self._log_gap(simple, before) for before, after in pairwise(early))
        return min(0.0, max(torn, default=-math.inf) + LN2)

    def _log_gap(self, assumptions: Assumptions, early: Assumptions | None = None) -> float:
        """Bound ln P(some client is followed by h missing clients, not all of whom left ``early``)."""
        h = self.degree // 2
        missing = _log_missing(assumptions, h, stay=0)
        left = -math.inf if early is None else float(early.log_fate(np.asarray(h), stay=0))
        if left >= missing:
            return -math.inf
        return math.log(assumptions.clients) + (missing + math.log(-math.expm1(left - missing)))

    def most_is_worst(self, assumptions: Assumptions) -> bool:
        """Return whether fewer colluders can only make gaps rarer.

        With a fraction m missing, a pair of gaps has about m^(2h) (1 - m)^2. That grows with m below h / (h + 1). Half
        of that leaves room for small rosters. Above it gaps are everywhere and nothing is promised.
        """
        missing = 1 - (1 - assumptions.collusion) * (1 - assumptions.dropout)
        return self.degree // 2 * (1 - missing) > 2 * missing


@lru_cache(maxsize=1 << 8)  # all intervals of one certificate ask for the same
def _log_missing(assumptions: Assumptions, count: int, *, stay: int) -> float:
    """Return ln P(``count`` given clients drop out or collude, and ``stay`` others do neither)."""
    colluding = np.arange(count + 1)
    collude = log_choose(count, colluding) + assumptions.log_collude(colluding, count - colluding + stay)
    return float(logsumexp(collude + assumptions.log_fate(count - colluding, stay)))


@dataclass(frozen=True)
class EqualDegrees:
    """Everyone has ``degree`` neighbours, or fewer if the roster is smaller."""

    degree: int

    def likely(self, log_rare: float) -> tuple[int, int]:
        return self.degree, self.degree

    def unreliable(self, rule: Rule, assumptions: Assumptions) -> float:
        """Bound P(some client has fewer than t live holders).

        With dropouts per step V1 may be too small for the circle. Of a group of rosters the smallest has the fewest
        holders and the largest the highest t. If all are neighbours of each other, no union over them is needed.
        """
        fewest, most, likely, rest = log_small(assumptions, self.degree)
        t = fit_thresholds(rule, most)
        logs = [self._lost(assumptions, d, place) for d, place in zip(fewest.tolist(), t.tolist(), strict=True)]
        lost = math.log(assumptions.clients) + float(logsumexp([*np.add(likely, logs), rest]))
        if self.degree >= assumptions.clients - 1:
            lost = min(lost, at(log_all_lost(assumptions), int(t[-1])))
        return float(np.logaddexp(lost, log_few(assumptions)))

    def _lost(self, assumptions: Assumptions, degree: int, t: int) -> float:
        if degree < self.degree:
            return log_lost_at(assumptions, degree, t)
        return at(log_lost(assumptions, degree), t)

    def few_holders(self, rule: Rule, assumptions: Assumptions) -> float:
        if self.degree >= assumptions.clients - 1:
            return -math.inf  # all have the same holders: either all are left out, or none
        t = int(fit_thresholds(rule, np.array([self.degree]))[0])
        few = at(log_below(assumptions.live, self.degree), t - 1)
        return min(0.0, math.log(assumptions.clients) + few)

    def around(self, event: Event, rule: Rule, roster: Roster) -> float:
        """Bound P(the event happens to some honest client), for every roster of at least F with all colluders in it.

        In rosters of up to d + 1 all are neighbours, so it happens for certain or never. Of larger rosters the worst is
        the smallest for a fixed number of colluders, and everyone for a fraction of the roster (docs/planning.md). If
        that cannot be shown, nothing is promised. With ``anywhere`` it is shown only if that many are too few.
        """
        assumptions, degree = roster.assumptions, self.degree
        sizes = np.arange(roster.smallest, min(degree + 1, assumptions.clients) + 1)
        everyone = event(rule.of(sizes - 1), sizes - 1)
        if np.any(np.array([roster.of(int(m)) for m in sizes]) >= everyone):
            return 0.0
        if degree + 1 >= assumptions.clients:
            return -math.inf
        place = int(event(rule.of(np.array([degree])), np.array([degree]))[0])
        if place > (roster.anywhere or assumptions.colluders):
            return -math.inf
        if place < 1 or roster.anywhere or (roster.chosen and not _largest_is_worst(degree, place, roster)):
            return 0.0
        each = at(log_at_least(roster.colluding, degree), place)
        return min(0.0, math.log(_honest(degree, place, roster)) + each)

    def left_out(self, rule: Rule, assumptions: Assumptions, spare: float) -> float:
        needed = int(rule.of(self.degree)) + math.ceil(spare * self.degree)
        return log_left_out(assumptions, self.degree, needed)

    def rule(self, demand: Demand, log_apart: float, kept: Callable[[Threshold], bool]) -> Threshold | None:
        rules = (
            common_rule(demand.assumptions, self.degree, t)
            for t in one_degree(demand, self.degree).thresholds(log_apart)
        )
        return next(filter(kept, rules), None)

    def may_hold(self, demand: Demand, most: int) -> bool:
        """Compare the best values of both ends for each condition."""
        low, high = one_degree(demand, self.degree), one_degree(demand, most)
        if high.highest < low.majority:
            return False
        if demand.assumptions.colluders == 0:
            return True
        t, degree = np.asarray(high.highest), np.asarray(low.degree)
        return all(int(event(t, degree)) >= low.fewest for event in demand.events)


@dataclass(frozen=True, eq=False)
class OneDegree:
    """All thresholds for a graph in which everyone has the same number of neighbours."""

    demand: Demand
    degree: int

    @cached_property
    def unreliable(self) -> Logs:
        """ln of the bound for a V1 that is large enough, which is a lower limit of it, for t = 0 .. degree + 2.

        In a smaller V1 a fixed t is harder to reach. So is a majority, except that of one neighbour less than an odd
        number.
        """
        assumptions = self.demand.assumptions
        logs = log_lost(assumptions, self.degree) + math.log(assumptions.clients)
        if self.degree % 2 and common_rule(assumptions, self.degree, self.majority).follows_degree:
            easier = log_lost(assumptions, self.degree - 1)[self.majority - 1] + math.log(assumptions.clients)
            logs[: self.majority + 1] = np.minimum(logs[: self.majority + 1], easier)
        if self.degree >= assumptions.clients - 1:
            logs = np.minimum(logs, log_all_lost(assumptions)[: logs.size])
        return np.asarray(np.logaddexp(logs, self.demand.roster.log_short) + SLACK)

    def reliable(self, t: int) -> bool:
        """Return whether a threshold is reliable enough, small rosters included."""
        assumptions = self.demand.assumptions
        lost = EqualDegrees(self.degree).unreliable(common_rule(assumptions, self.degree, t), assumptions)
        lost = float(np.logaddexp(lost, self.demand.roster.log_short))
        return lost + SLACK <= self.demand.log_unreliable

    @cached_property
    def colluding(self) -> Logs:
        """ln P(some honest client has at least c colluding neighbours), c = 0 .. degree + 1."""
        roster = self.demand.roster
        logs = log_at_least(roster.colluding, min(self.degree, roster.worst - 1))
        padding = np.full(self.degree + 2 - logs.size, -np.inf)
        return np.concatenate([logs, padding]) + math.log(roster.honest) + SLACK

    def private(self, t: Counts) -> Logs:
        """Return ln of the bound on the events of shares, for each t."""
        needed = [event(t, np.asarray(self.degree)) for event in self.demand.events]
        logs = [self.colluding[np.clip(many, 0, self.degree + 1)] for many in needed]
        return np.minimum(np.logaddexp.reduce(logs), 0.0)

    @property
    def majority(self) -> int:
        return Majority().of(self.degree)

    @cached_property
    def highest(self) -> int:
        """The largest t that is reliable enough. It rises with the degree, by one at most."""
        return int(np.searchsorted(self.unreliable, self.demand.log_unreliable, side="right")) - 1

    @cached_property
    def fewest(self) -> int:
        """The smallest number of colluding neighbours that is rare enough. It rises with the degree."""
        return int(np.count_nonzero(self.colluding > self.demand.log_private))

    def thresholds(self, log_apart: float) -> Iterator[int]:
        """Yield thresholds that may keep the demand, those that leave half of the privacy budget to the masks first."""
        t = np.arange(self.majority, self.highest + 1)
        if self.demand.assumptions.absent:  # small rosters count too, and a higher t is no more reliable
            t = t[: bisect_left(t, True, key=lambda t: not self.reliable(int(t)))]
        private = self.private(t)
        fits = np.logaddexp(private, log_apart) <= self.demand.log_private
        half = private <= self.demand.log_private - LN2
        yield from t[fits & half].tolist()
        yield from t[fits & ~half][::-1].tolist()


one_degree = lru_cache(maxsize=32)(OneDegree)


def fit_thresholds(rule: Rule, degrees: Counts) -> Counts:
    """Return t, or more than all holders for a client that is left out because it has too many neighbours."""
    t = rule.of(degrees)
    return np.where(degrees + 1 < 2 * t, t, degrees + 2)


def common_rule(assumptions: Assumptions, degree: int, t: int) -> Threshold:
    """Return the rule that gives t for this degree; with colluders a fixed one, which no small roster lowers."""
    majority = t == Majority().of(degree) and assumptions.colluders == 0
    return Majority() if majority else Fixed(t=t)


def _honest(degree: int, place: int, roster: Roster) -> int:
    """Return how many honest clients the union is over: if the worst roster is not known, as many as there can be."""
    known = roster.chosen or (place - 1) * roster.worst >= degree * (roster.colluders - 1)
    return roster.honest if known else roster.assumptions.clients - roster.colluders


def _largest_is_worst(degree: int, place: int, roster: Roster) -> bool:
    """Return whether each term of the tail from c = ``place`` on is largest for the roster of everyone.

    It has to rise with the number K of colluders, and with the size m of the roster along K = γ m.
    """
    assumptions, rest = roster.assumptions, degree - place + 1
    n, fraction = assumptions.clients, assumptions.collusion
    m = np.arange(max(roster.least, degree + 2), min(2 * degree, n + 1), dtype=float)
    # From 2 d on a term rises with m, and with K if it does so in the smallest of these rosters.
    sizes = np.append(m, [min(max(roster.least, 2 * degree), n), n])
    most = np.append(fraction * sizes[:-1], assumptions.colluders)
    known = most >= place  # in the others there are not enough colluders
    sizes, most = sizes[known], most[known]
    honest = sizes - most
    if np.any(honest < rest) or np.any(place * honest < (rest - 1) * most):
        return False
    if np.any(_slope(most, place) < _slope(honest, rest)):
        return False
    m = m[fraction * m >= place]
    along = fraction * _slope(fraction * m, place) + (1 - fraction) * _slope(m - fraction * m, rest)
    return bool(np.all(1 / m + along >= _slope(m, degree + 1)))


def _slope(x: Logs, k: int) -> Logs:
    """Return the derivative of ln x (x - 1) .. (x - k + 1)."""
    return np.asarray(digamma(x + 1) - digamma(x - k + 1))
