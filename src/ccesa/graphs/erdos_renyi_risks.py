"""Bounds for graphs whose edges are drawn pair by pair, each with probability p.

Tables are about one client. ``LiveTable`` has how many of its d neighbours stay, ``OpenedTable`` how many are honest,
h, and how many collude, c. The bound for a threshold rule is a sum over a table. docs/planning.md derives all.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np
from scipy.special import digamma, gammaln, logsumexp, xlog1py, xlogy

from ccesa.graphs.assignment import Flags
from ccesa.graphs.assumptions import Assumptions, Demand, Event, Roster
from ccesa.graphs.harary_risks import fit_thresholds
from ccesa.graphs.reliability import besides, log_few, log_unconfirmed
from ccesa.graphs.tails import LN2, MARGIN, SLACK, Binomial, Counts, Logs, find_first, log_choose, log_falling, window
from ccesa.graphs.thresholds import Linear, Majority, Rule, Threshold

#: Outcomes with a probability below e to minus this are left out and count as failures. Enough for 160 bits.
NATS = 180.0
#: How much the bound over all rosters may exceed the bound for the worst of them, in nats.
_LOOSE = 0.1

#: Thresholds for degrees, as a rule gives them.
ThresholdsOf = Callable[[Counts], Counts]


@dataclass(frozen=True, eq=False)
class LiveTable:
    """For each degree within V1, its probability times n, and P(fewer than ``first`` + j live holders) for each j."""

    assumptions: Assumptions
    degrees: Counts
    likely: Logs
    below: Logs
    first: int
    #: The probability of the outcomes that the table leaves out.
    rest: float

    @classmethod
    def of(cls, p: float, assumptions: Assumptions, nats: float = NATS) -> "LiveTable":
        """Return the table for the clients in V1, without outcomes below e^-nats."""
        n, near = assumptions.clients, p * (1.0 - assumptions.absent)
        stay = near * assumptions.live.mean_fraction
        degrees, logs, _ = window(Binomial(near), n - 1, nats)
        live = _range((stay, n - 1), (stay, n - 1), nats)
        terms = np.exp(_log_live(assumptions, degrees, live))
        below = np.zeros((degrees.size, live.size + 1))
        np.cumsum(terms, axis=1, out=below[:, 1:])
        rest = _left_out(n, nats) + math.exp(log_few(assumptions))
        return cls(assumptions, degrees, n * np.exp(logs), below, int(live[0]), rest)

    def unreliable(self, thresholds: ThresholdsOf) -> float:
        """Return ln of a bound on P(someone has fewer than t live holders)."""
        t = thresholds(self.degrees)
        stays, leaves = self.assumptions.unmasked
        few = leaves * self._fewer_than(t)
        if stays:
            alone = np.exp(log_unconfirmed(self.assumptions, self.degrees, t))
            few += stays * (self._fewer_than(besides(t)) + alone)
        return _log(float(self.likely @ few) + self.rest)

    def _fewer_than(self, t: Counts) -> Logs:
        """Return P(fewer than t live holders), for each degree."""
        place = np.maximum(t - self.first, 0)
        beyond = place >= self.below.shape[1]
        few = self.below[np.arange(t.size), np.where(beyond, 0, place)]
        return np.where(beyond | (t > self.degrees), 1.0, few)


@dataclass(frozen=True, eq=False)
class OpenedTable:
    """The mean number of honest clients with h honest and at least c colluding neighbours.

    Each (h, c) has its largest value over all rosters of F or more. Under ``curious`` these contain all colluders. If
    the server chooses the roster, a fraction γ of it colludes.
    """

    honest: Counts
    colluding: Counts
    tails: Logs
    #: The probability of the outcomes that the table leaves out.
    rest: float

    @classmethod
    def of(cls, p: float, roster: Roster, nats: float = NATS, *, ends: bool = False) -> "OpenedTable":
        """Return the table without outcomes below e^-nats; with ``ends`` of two rosters only, which is not a bound."""
        assumptions = roster.assumptions
        n, most = assumptions.clients, min(assumptions.colluders, assumptions.clients - 1)
        fewest = min(roster.of(roster.smallest), most)
        honest = _range((p, roster.smallest - 1 - fewest), (p, n - 1 - most), nats)
        colluding = _range((p, fewest), (p, most), nats)
        if roster.chosen:
            logs = _log_chosen(p, roster, honest[:, None], colluding, ends=ends)
        else:
            logs = _log_staying(p, roster, honest[:, None], colluding)
        tails = np.zeros((honest.size, colluding.size + 1))
        np.cumsum(np.exp(logs)[:, ::-1], axis=1, out=tails[:, -2::-1])
        return cls(honest, colluding, tails, _left_out(n, nats))

    def log(self, event: Event, thresholds: ThresholdsOf) -> float:
        """Return ln of a bound on P(the event happens to some honest client)."""

        def happens(colluding: Counts) -> Flags:
            degrees = self.honest + colluding
            return np.asarray(colluding >= event(thresholds(degrees), degrees))

        # Another neighbour raises the number of colluders that it takes by one at most. So each h has a smallest c.
        low = np.zeros(self.honest.size, np.int64)
        high = np.full_like(low, self.colluding.size)  # the event is nowhere in the table
        while np.any(low < high):
            middle = (low + high) // 2
            found = happens(self.colluding[np.minimum(middle, self.colluding.size - 1)])
            low, high = np.where(found | (low >= high), low, middle + 1), np.where(found, middle, high)
        return min(0.0, _log(float(self.tails[np.arange(low.size), low].sum()) + self.rest))


def _log_live(assumptions: Assumptions, degrees: Counts, live: Counts) -> Logs:
    """Return ln P(``live`` of ``degrees`` neighbours stay), a row for each degree."""
    most = int(degrees[-1])
    factorial = gammaln(np.arange(max(most, int(live[-1])) + 1) + 1.0)
    gone = np.arange(most + 1)
    if assumptions.exact:
        others = assumptions.clients - 1
        staying = max(others - assumptions.dropped, 0)
        log_live, log_gone = _falling(staying, live), _falling(others - staying, gone)
        log_all = factorial[degrees] - _falling(others, degrees)
    else:
        log_live, log_gone = xlogy(live, 1.0 - assumptions.leaves), xlogy(gone, assumptions.leaves)
        log_all = factorial[degrees]
    # Negative indices, for more live clients than neighbours, find places at the end.
    log_gone = np.concatenate([log_gone - factorial[gone], np.full(live.size + int(live[0]), -np.inf)])
    return log_all[:, None] + (log_live - factorial[live]) + log_gone[degrees[:, None] - live]


def _falling(n: int, k: Counts) -> Logs:
    """Return ``log_falling``, and minus infinity where k exceeds n."""
    return np.where(k <= n, log_falling(n, np.minimum(k, n)), -np.inf)


def _log_staying(p: float, roster: Roster, honest: Counts, colluding: Counts) -> Logs:
    """Return ln of the largest M P(h of M - 1) P(c of C) over rosters of M honest and all C colluders."""
    most = roster.assumptions.clients - roster.colluders
    among = np.clip(((honest + 1) / p).astype(np.int64), roster.honest, most)
    log_honest = np.log(among) + Binomial(p).log_pmf(among - 1, honest)
    return np.asarray(log_honest + Binomial(p).log_pmf(roster.colluders, colluding))


def _log_chosen(p: float, roster: Roster, honest: Counts, colluding: Counts, *, ends: bool) -> Logs:
    """Return ln of the largest (m - K) P(h of m - K - 1) P(c of K) over the rosters of m >= F clients, K <= γ m.

    With γ m and m - γ m + 1 in place of K and m - K a term is no smaller, and log-concave in m: between two sizes it
    lies below both tangents.
    """
    n, least = roster.assumptions.clients, roster.least
    tangent = partial(_tangent, p, roster, honest, colluding)
    if ends:
        return np.maximum(tangent(least)[0], tangent(n)[0])
    largest = int(honest[-1, 0] + colluding[-1] + 1)
    steps = math.ceil((n - least) / least * math.sqrt(largest / (8 * _LOOSE)))
    sizes = np.linspace(least, n, steps + 1)
    value, slope = tangent(sizes[0])
    found = value.copy()
    for step, size in zip(np.diff(sizes), sizes[1:], strict=True):
        after, after_slope = tangent(size)
        np.maximum(found, after, out=found)
        peaks = np.flatnonzero((slope > 0) & (after_slope < 0))
        ends_there = (some.take(peaks) for some in (value, slope, after, after_slope))
        found.put(peaks, np.maximum(found.take(peaks), _crossing(step, *ends_there)))
        value, slope = after, after_slope
    return found


def _crossing(step: float, value: Logs, slope: Logs, after: Logs, after_slope: Logs) -> Logs:
    """Return the height at which the tangents at both ends of a step meet. The peak is between the ends."""
    back = after - after_slope * step
    known = np.isfinite(value)  # otherwise the roster at the beginning of the step is too small
    there, rise = np.where(known, value, back), np.where(known, slope, 0.0)
    return np.asarray(there + rise * (back - there) / (rise - after_slope))


def _tangent(p: float, roster: Roster, honest: Counts, colluding: Counts, size: float) -> tuple[Logs, Logs]:
    """Return the value of each term and its slope in the size m."""
    part = roster.assumptions.collusion
    some = max(part, min(1, roster.assumptions.colluders) / roster.least)  # at least one colluder, if there are any
    log_c, slope_c = _factor(some * size, colluding)
    log_h, slope_h = _factor(size - part * size + (part > 0), honest + 1)
    odds, none = math.log(p) - math.log1p(-p), math.log1p(-p)
    log_c = log_c - gammaln(colluding + 1.0) + colluding * odds + (size - 1) * none
    log_h = log_h - gammaln(honest + 1.0) + honest * odds
    return log_c + log_h, (some * slope_c + none) + (1.0 - part) * slope_h


def _factor(n: float, k: Counts) -> tuple[Logs, Logs]:
    """Return ln n (n - 1) .. (n - k + 1) and its slope in n; for k >= n + 1, minus infinity and a rising slope."""
    possible = k < n + 1
    inside = np.where(possible, k, 0)
    slope = digamma(n + 1.0) - digamma(n - inside + 1.0)
    return np.where(possible, log_falling(n, inside), -np.inf), np.where(possible, slope, np.inf)


def _range(low: tuple[float, int], high: tuple[float, int], nats: float) -> Counts:
    """Return the numbers of successes to list, from the fewest of one binomial to the most of another."""
    fewest, most = (window(Binomial(p), draws, nats)[0] for p, draws in (low, high))
    return np.arange(int(fewest[0]), int(most[-1]) + 1)


def _left_out(clients: int, nats: float) -> float:
    """Bound P(some client has one of two numbers outside its table)."""
    return 2.0 * clients * clients * math.exp(-nats)


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


#: Numbers of survivors are summed in at most this many groups, each by its worst member.
_GROUPS = 512
_SLOPES = range(0, 1025, 32)
#: ``Majority()`` as a linear rule.
_MAJORITY = Linear(slope=0, base=0)


@dataclass(frozen=True)
class EdgeMasks:
    """Each pair shares a mask with probability p."""

    p: float

    def log_apart(self, assumptions: Assumptions, roster: Roster | None = None) -> float:
        """Bound P(the honest survivors' masks fall apart) by the union over all cuts of the paper's Theorem 6.

        It is a mean over the number of honest survivors. A chosen roster has as few honest clients as it can.
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
        simple = replace(assumptions, per_step=None)  # clients that are left out leave the others no fewer masks
        return min(0.0, few_holders(simple) + self.log_apart(simple) + LN2)


@dataclass(frozen=True)
class EdgeDegrees:
    """Each of ``others`` is a neighbour with probability p."""

    p: float
    others: int

    def likely(self, log_rare: float) -> tuple[int, int]:
        degrees, logs, _ = window(Binomial(self.p), self.others)
        fewer, more = np.logaddexp.accumulate(logs), np.logaddexp.accumulate(logs[::-1])[::-1]
        kept = degrees[(fewer > log_rare) & (more > log_rare)]
        return int(kept[0]), int(kept[-1])

    def unreliable(self, rule: Rule, assumptions: Assumptions) -> float:
        return LiveTable.of(self.p, assumptions).unreliable(partial(fit_thresholds, rule))

    def few_holders(self, rule: Rule, assumptions: Assumptions) -> float:
        table = LiveTable.of(self.p, assumptions)
        return min(0.0, table.unreliable(lambda degrees: fit_thresholds(rule, degrees) - 1))

    def around(self, event: Event, rule: Rule, roster: Roster) -> float:
        if roster.anywhere:
            return 0.0  # the table is for fractions of each roster
        return _opened(self.p, roster).log(event, rule.of)

    def left_out(self, rule: Rule, assumptions: Assumptions, spare: float) -> float:
        return 0.0  # it is not bounded, so nothing is promised

    def rule(self, demand: Demand, log_apart: float, kept: Callable[[Threshold], bool]) -> Threshold | None:
        """Return the best rule, by the tables and with a margin; the certificate need not be asked."""
        assumptions, nats = demand.assumptions, _needed(demand)
        if not demand.roster.chosen:
            log_apart = float(np.logaddexp(log_apart, log_apart + self._few_holders(demand) + LN2))
        if log_apart > demand.log_private:
            return None
        live = LiveTable.of(self.p, assumptions, nats)
        if _unreliable(demand, live, _MAJORITY):
            return None  # a higher threshold is no more reliable
        if assumptions.colluders == 0:
            return Majority()
        rules = [_MAJORITY, *_highest(demand, live)]
        for ends in (True, False):  # two rosters rule out most
            opened = OpenedTable.of(self.p, demand.roster, nats, ends=ends)
            rules = [rule for rule in rules if _private(demand, opened, rule, log_apart)]
            if not rules or not demand.roster.chosen:
                break
        return _lower(demand, opened, rules[0], log_apart) if rules else None

    def _few_holders(self, demand: Demand) -> float:
        """Bound ``few_holders`` for all rules that are reliable enough."""
        if demand.assumptions.per_step is None:
            return demand.log_unreliable
        return 0.0 if demand.assumptions.colluders else self.few_holders(Majority(), demand.assumptions)

    def may_hold(self, demand: Demand, most: int) -> bool:
        return True


#: The tables of the last graphs, without the approximations of a search.
_opened = lru_cache(maxsize=2)(OpenedTable.of)


def _lower(demand: Demand, opened: OpenedTable, rule: Linear, log_apart: float) -> Threshold:
    """Return the lowest rule of this slope that is private enough."""
    lower = partial(Linear, slope=rule.slope)
    base = find_first(lambda base: _private(demand, opened, lower(base=base), log_apart), rule.base)
    return Majority() if rule == _MAJORITY else lower(base=base or rule.base)


def _highest(demand: Demand, live: LiveTable) -> Iterator[Linear]:
    """Yield for each slope the rule with the largest base that is reliable enough."""
    most = int(live.degrees[-1])

    def is_too_high(slope: int, base: int) -> bool:
        return _unreliable(demand, live, Linear(slope=slope, base=base))

    for slope in _SLOPES:
        too_high = find_first(partial(is_too_high, slope), most)
        if too_high is None or too_high == 1:
            continue
        most = too_high  # a steeper rule leaves no more room
        yield Linear(slope=slope, base=too_high - 1)


def _needed(demand: Demand) -> float:
    """Return the nats beyond which all outcomes together take less than the margin."""
    bits = max(demand.privacy_bits, demand.reliability_bits)
    return min(NATS, bits * LN2 + 2 * math.log(demand.assumptions.clients) + 24)


def _unreliable(demand: Demand, live: LiveTable, rule: Rule) -> bool:
    log = np.logaddexp(live.unreliable(rule.of), demand.roster.log_short)
    return bool(log + SLACK + MARGIN > demand.log_unreliable)


def _private(demand: Demand, opened: OpenedTable, rule: Rule, log_apart: float) -> bool:
    log = log_apart
    for event in demand.events:
        log = float(np.logaddexp(log, opened.log(event, rule.of) + SLACK))
        if log + MARGIN > demand.log_private:
            return False
    return True


def _log_cuts(sizes: Counts, p: float) -> Logs:
    """Return ln sum_k C(m, k) (1 - p)^(k (m - k)), k up to m / 2, for each m; the last terms by a geometric sum.

    Term k is at most (rate / k)^k. So after k = 2 rate the remaining terms are at most twice the first of them.
    """
    m = np.maximum(sizes, 2)[:, None]
    hopeless = np.log(m[:, 0]) + xlog1py(m[:, 0] - 1, -p) >= 0  # cuts around single clients alone sum to 1
    log_rate = 1 + np.log(m) + xlog1py(m / 2, -p)
    enough = max(64, math.ceil(2 * math.exp(float(log_rate[~hopeless].max(initial=0.0)))))
    k = np.arange(1, min(enough, int(m.max()) // 2) + 1)
    terms = np.where(k <= m // 2, log_choose(m, k) + xlog1py(k * (m - k), -p), -np.inf)
    after = k[-1] + 1
    rest = np.where(after <= m // 2, math.log(2.0) + after * (log_rate - math.log(after)), -np.inf)
    total = logsumexp(np.concatenate([terms, rest], axis=1), axis=1)
    logs = np.where(hopeless, 0.0, np.minimum(total, 0.0))
    return np.where(sizes < 2, -np.inf, logs)
