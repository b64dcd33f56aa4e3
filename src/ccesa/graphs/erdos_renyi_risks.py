"""Bounds for graphs whose edges are drawn pair by pair, each with probability p."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from scipy.special import logsumexp, xlog1py

from ccesa.graphs.assumptions import Assumptions, Roster
from ccesa.graphs.bisection import first
from ccesa.graphs.demand import Demand
from ccesa.graphs.erdos_renyi_tables import NATS, Live, Opened
from ccesa.graphs.events import Event
from ccesa.graphs.harary_risks import fitting
from ccesa.graphs.tails import LN2, MARGIN, SLACK, Binomial, Counts, Logs, log_choose, window
from ccesa.graphs.thresholds import Linear, Majority, Rule, Threshold

#: The survivor numbers are summed in at most this many groups, each by its worst member.
_GROUPS = 512
_SLOPES = range(0, 1025, 32)
#: What ``Majority()`` gives, as a line that adds nothing.
_MAJORITY = Linear(slope=0, base=0)


@dataclass(frozen=True)
class EdgeMasks:
    """Masks between each pair with probability p."""

    p: float

    def log_apart(self, assumptions: Assumptions, roster: Roster | None = None) -> float:
        """Bound P(the honest survivors' masks fall apart): the union over all cuts of the paper's Theorem 6.

        It is a mean over the number m of honest survivors, of all honest clients or of the fewest that a
        chosen roster has, and made monotone in m: it also holds when more stay than ``dropout`` says.
        """
        if self.p >= 1:
            return -math.inf
        distribution, honest = assumptions.honest_survivors
        if roster and roster.chosen:
            honest = roster.least - roster.colluders
        sizes, weights, rest = window(distribution, honest)
        starts = np.unique(np.linspace(0, sizes.size, min(sizes.size, _GROUPS) + 1).astype(int)[:-1])
        grouped = np.logaddexp.reduceat(weights, starts)
        cuts = _log_cuts(sizes[starts], self.p)
        worst = np.maximum.accumulate(cuts[::-1])[::-1]
        return min(0.0, float(logsumexp(np.append(grouped + worst, rest))))

    def log_torn(self, few_holders: Callable[[Assumptions], float], assumptions: Assumptions) -> float:
        """Estimate P(clients are left out after *share*, and the masks of the others fall apart).

        Who is left out says nothing about the masks of the others, but that they are more.
        """
        simple = replace(assumptions, per_step=None)
        return min(0.0, few_holders(simple) + self.log_apart(simple) + LN2)


@dataclass(frozen=True)
class EdgeDegrees:
    """Each of the ``others`` is a neighbour with probability p."""

    p: float
    others: int

    def likely(self, log_rare: float) -> tuple[int, int]:
        degrees, logs, _ = window(Binomial(self.p), self.others)
        fewer, more = np.logaddexp.accumulate(logs), np.logaddexp.accumulate(logs[::-1])[::-1]
        kept = degrees[(fewer > log_rare) & (more > log_rare)]
        return int(kept[0]), int(kept[-1])

    def unreliable(self, rule: Rule, assumptions: Assumptions) -> float:
        return Live.of(self.p, assumptions).unreliable(partial(fitting, rule))

    def few_holders(self, rule: Rule, assumptions: Assumptions) -> float:
        return min(0.0, Live.of(self.p, assumptions).unreliable(lambda degrees: fitting(rule, degrees) - 1))

    def around(self, event: Event, rule: Rule, roster: Roster) -> float:
        if roster.anywhere:
            return 0.0  # the bound over all rosters is one for fractions of them
        return _opened(self.p, roster).log(event, rule.of)

    def left_out(self, rule: Rule, assumptions: Assumptions, spare: float) -> float:
        return 0.0  # not bounded: nothing is promised

    def rule(self, demand: Demand, log_apart: float, kept: Callable[[Threshold], bool]) -> Threshold | None:
        """Return a rule that leaves a margin, so that the certificate need not be asked at every step."""
        assumptions, nats = demand.assumptions, _needed(demand)
        if not demand.roster.chosen:
            log_apart = float(np.logaddexp(log_apart, log_apart + self._few_holders(demand) + LN2))
        if log_apart > demand.log_private:
            return None
        live = Live.of(self.p, assumptions, nats)
        if _unreliable(demand, live, _MAJORITY):
            return None  # a higher threshold is no more reliable
        if assumptions.colluders == 0:
            return Majority()
        rules = [_MAJORITY, *_highest(demand, live)]
        for ends in (True, False):  # first a look that rules out most
            opened = Opened.of(self.p, demand.roster, nats, ends=ends)
            rules = [rule for rule in rules if _private(demand, opened, rule, log_apart)]
            if not rules or not demand.roster.chosen:
                break
        return _lowered(demand, opened, rules[0], log_apart) if rules else None

    def _few_holders(self, demand: Demand) -> float:
        """Bound what ``few_holders`` is for every rule that is reliable enough."""
        if demand.assumptions.per_step is None:
            return demand.log_unreliable
        return 0.0 if demand.assumptions.colluders else self.few_holders(Majority(), demand.assumptions)

    def may_hold(self, demand: Demand, most: int) -> bool:
        return True


@lru_cache(maxsize=2)
def _opened(p: float, roster: Roster) -> Opened:
    return Opened.of(p, roster)


def _lowered(demand: Demand, opened: Opened, rule: Linear, log_apart: float) -> Threshold:
    """Return the lowest rule of this slope that is private enough."""
    lower = partial(Linear, slope=rule.slope)
    base = first(lambda base: _private(demand, opened, lower(base=base), log_apart), rule.base)
    return Majority() if rule == _MAJORITY else lower(base=base or rule.base)


def _highest(demand: Demand, live: Live) -> Iterator[Linear]:
    """Yield for every slope the rule with the largest base that is reliable enough."""
    most = int(live.degrees[-1])
    for slope in _SLOPES:
        too_high = first(partial(_is_too_high, demand, live, slope), most)
        if too_high is None or too_high == 1:
            continue
        most = too_high  # a steeper rule leaves no more room
        yield Linear(slope=slope, base=too_high - 1)


def _is_too_high(demand: Demand, live: Live, slope: int, base: int) -> bool:
    return _unreliable(demand, live, Linear(slope=slope, base=base))


def _needed(demand: Demand) -> float:
    """Return the nats beyond which outcomes may be left out: all of them take less than the margin."""
    bits = max(demand.privacy_bits, demand.reliability_bits)
    return min(NATS, bits * LN2 + 2 * math.log(demand.assumptions.clients) + 24)


def _unreliable(demand: Demand, live: Live, rule: Rule) -> bool:
    """Return whether the rule is not reliable enough."""
    log = np.logaddexp(live.unreliable(rule.of), demand.roster.log_short)
    return bool(log + SLACK + MARGIN > demand.log_unreliable)


def _private(demand: Demand, opened: Opened, rule: Rule, log_apart: float) -> bool:
    log = log_apart
    for event in demand.events:
        log = float(np.logaddexp(log, opened.log(event, rule.of) + SLACK))
        if log + MARGIN > demand.log_private:
            return False
    return True


def _log_cuts(sizes: Counts, p: float) -> Logs:
    """Return ln sum_k C(m, k) (1 - p)^(k (m - k)), k up to m / 2, for every m; the rest by a geometric sum.

    Term k is at most (rate / k)^k with rate = e m (1 - p)^(m / 2), so once k passes 2 rate the remaining
    terms are at most twice the first of them.
    """
    m = np.maximum(sizes, 2)[:, None]
    hopeless = np.log(m[:, 0]) + xlog1py(m[:, 0] - 1, -p) >= 0  # the single clients alone sum to 1
    log_rate = 1 + np.log(m) + xlog1py(m / 2, -p)
    enough = max(64, math.ceil(2 * math.exp(float(log_rate[~hopeless].max(initial=0.0)))))
    k = np.arange(1, min(enough, int(m.max()) // 2) + 1)
    terms = np.where(k <= m // 2, log_choose(m, k) + xlog1py(k * (m - k), -p), -np.inf)
    after = k[-1] + 1
    rest = np.where(after <= m // 2, math.log(2.0) + after * (log_rate - math.log(after)), -np.inf)
    total = logsumexp(np.concatenate([terms, rest], axis=1), axis=1)
    logs = np.where(hopeless, 0.0, np.minimum(total, 0.0))
    return np.where(sizes < 2, -np.inf, logs)
