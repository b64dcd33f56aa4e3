"""How likely it is that a round is lost, or a client left out, because too few share holders stay.

Without dropouts per step all clients are in V1 and are unmasked without their own shares. With dropouts per step V1 may
be small, and a client's own share counts if it arrives. docs/planning.md derives both.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import logsumexp, xlogy

from ccesa.graphs.assumptions import Assumptions
from ccesa.graphs.tails import Binomial, Counts, Hypergeometric, Logs, at, freeze, log_below, log_choose, window

#: Sizes of V1 are judged in at most this many groups, each by its worst member.
_GROUPS = 64
#: Sizes with a probability below e to minus this are left out and count as failures. Enough for 160 bits.
_NATS = 180.0
#: The number of terms of a tail that are summed.
_TERMS = 512
#: A sum over two clients would reveal to each of them the other's vector, so no round ends with fewer.
MIN_SUM = 3


@lru_cache(maxsize=1 << 8)
def log_lost(assumptions: Assumptions, degree: int) -> Logs:
    """Return ln P(a client of V1 with this degree there is unmasked and too few neighbours stay), t = 0 .. degree + 2.

    If it stays it adds its own share, under some guards only after its neighbours have confirmed.
    """
    below = log_below(assumptions.live, degree)
    if assumptions.per_step is None:
        return freeze(np.append(below, 0.0))
    t = np.arange(degree + 3)
    with_own = np.logaddexp(below[besides(t)], log_unconfirmed(assumptions, np.asarray(degree), t))
    return freeze(_joined(assumptions, with_own, np.append(below, 0.0)))


def log_lost_at(assumptions: Assumptions, degree: int, t: int) -> float:
    """Return the entry of ``log_lost`` for one t without the table, if clients leave by chance."""
    live = Binomial.failing(assumptions.leaves)
    below = [_log_below_at(live, degree, many) for many in (max(t - 1, 1), t)]
    with_own = np.logaddexp(below[0], log_unconfirmed(assumptions, np.asarray(degree), np.asarray(t)))
    return float(_joined(assumptions, with_own, np.asarray(below[1])))


def _log_below_at(live: Binomial, draws: int, t: int) -> float:
    """Bound ln P(X < t): the last terms, and a geometric sum for the terms below them."""
    low = max(0, t - _TERMS)
    if low > draws or (low and t > draws * live.p):
        return 0.0
    logs = live.log_pmf(draws, np.arange(low, min(t, draws + 1)))
    if low:
        logs[0] -= math.log1p(-low / (draws - low + 1) * live.odds)
    return min(0.0, float(np.logaddexp.reduce(logs)))


def log_all_lost(assumptions: Assumptions) -> Logs:
    """Return ln P(at most t of all clients stay), for t = 0 .. clients + 1, if all are neighbours of each other."""
    n = assumptions.clients
    if assumptions.exact:
        return np.where(np.arange(n + 2) < n - assumptions.dropped, -np.inf, 0.0)
    return np.append(log_below(Binomial.failing(assumptions.dropout), n)[1:], 0.0)


def _joined(assumptions: Assumptions, with_own: Logs, without: Logs) -> Logs:
    """Return ln P(a client is unmasked in vain), with its own share or without."""
    with np.errstate(divide="ignore"):
        stays, leaves = np.log(assumptions.unmasked)
    return np.asarray(np.minimum(np.logaddexp(stays + with_own, leaves + without), 0.0))


def besides(t: Counts) -> Counts:
    """Return how many shares are needed besides the client's own. A client without neighbours is left out."""
    return np.maximum(t - 1, 1)


def log_unconfirmed(assumptions: Assumptions, degrees: Counts, t: Counts) -> Logs:
    """Return ln P(t - 1 neighbours confirm and stay, too few for the client to release its own share, the t-th)."""
    steps = assumptions.per_step
    if steps is None or not steps.confirms:
        return np.full(np.broadcast(degrees, t).shape, -np.inf)
    ways, others = np.where(t > 1, log_choose(degrees, t - 1), -np.inf), np.maximum(degrees - t + 1, 0)
    return np.asarray(ways + xlogy(t - 1, steps.stays) + xlogy(others, steps.unconfirmed))


def log_few(assumptions: Assumptions) -> float:
    """Return ln P(fewer than three answer every step but the last); zero without dropouts per step."""
    return -math.inf if assumptions.per_step is None else log_fewer(assumptions, MIN_SUM)


def log_fewer(assumptions: Assumptions, least: int) -> float:
    """Return ln P(fewer than this answer every step but the last). Dropouts not per step all happen before it."""
    if assumptions.exact:
        return 0.0 if assumptions.clients - assumptions.dropped < least else -math.inf
    steps = assumptions.per_step
    leaves = assumptions.dropout if steps is None else steps.leaving("advertise", "confirm")
    return _log_below_at(Binomial.failing(leaves), assumptions.clients, least)


def log_small(assumptions: Assumptions, degree: int) -> tuple[Counts, Counts, Logs, float]:
    """Return groups of the numbers of neighbours, up to ``degree``, that a client of V1 has there.

    A group has its fewest, its most and ln of its probability. The last number is ln of what is left out.
    """
    others, absent = assumptions.clients - 1, assumptions.absent
    if not absent:
        return np.array([degree]), np.array([degree]), np.zeros(1), -math.inf
    sizes, logs, rest = _advertised(others, absent)
    few = int(np.searchsorted(sizes, degree))  # the larger sizes are enough for the circle and form one group
    starts = np.unique(np.linspace(0, few, min(few, _GROUPS) + 1).astype(int))
    starts = starts[starts < sizes.size]
    ends = np.append(starts[1:], sizes.size) - 1
    weights = np.minimum(np.logaddexp.reduceat(logs, starts), 0.0)
    return np.minimum(sizes[starts], degree), np.minimum(sizes[ends], degree), weights, rest


@lru_cache(maxsize=8)
def _advertised(others: int, absent: float) -> tuple[Counts, Logs, float]:
    sizes, logs, rest = window(Binomial.failing(absent), others, _NATS)
    return freeze(sizes), freeze(logs), rest


def log_left_out(assumptions: Assumptions, degree: int, needed: int) -> float:
    """Bound ln P(some honest client has fewer than ``needed`` holders: itself and honest neighbours that stay)."""
    others, colluders = assumptions.clients - 1, assumptions.colluders
    if assumptions.clients == colluders:
        return -math.inf
    if assumptions.exact:  # in the worst case all that drop out are honest
        gone = min(colluders + assumptions.dropped, others)
        few = at(log_below(Hypergeometric(others, others - gone), degree), needed - 1)
    else:
        stay, colluding = Binomial.failing(assumptions.dropout), np.arange(min(colluders, degree) + 1)
        tails = [at(log_below(stay, degree - many), needed - 1) for many in colluding.tolist()]
        few = float(logsumexp(assumptions.colluding.log_pmf(degree, colluding) + tails))
    return min(0.0, math.log(assumptions.clients - colluders) + few)
