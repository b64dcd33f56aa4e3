"""How likely it is that a round is lost, or a client left out, because too few share holders stay.

Without dropouts per step everyone is in V1, is unmasked, and does without its own share. With them V1 may be
small, and own shares count where they arrive. docs/planning.md derives both.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import logsumexp, xlogy

from ccesa.graphs.assumptions import Assumptions
from ccesa.graphs.tails import Binomial, Counts, Hypergeometric, Logs, at, freeze, log_below, log_choose, window

#: Numbers of clients in V1 are judged in at most this many groups, each by its worst member.
_GROUPS = 64
#: Those of less than e to minus this are left out; they count as failures. Enough for 160 bits.
_NATS = 180.0
#: The number of terms of a tail that are summed.
_TERMS = 512
#: A sum over two clients would reveal to each of them the other's vector, so no round ends with fewer.
_LEAST_SUM = 3


@lru_cache(maxsize=1 << 8)
def log_lost(assumptions: Assumptions, degree: int) -> Logs:
    """Return ln P(a client is unmasked and too few of its neighbours stay), for t = 0 .. degree + 2.

    It is in V1 with so many neighbours there. If it stays it adds a share of its own, once its neighbours
    have confirmed, where they have to.
    """
    below = log_below(assumptions.live, degree)
    if assumptions.per_step is None:
        return freeze(np.append(below, 0.0))
    t = np.arange(degree + 3)
    with_own = np.logaddexp(below[besides(t)], log_unconfirmed(assumptions, np.asarray(degree), t))
    return freeze(_joined(assumptions, with_own, np.append(below, 0.0)))


def log_lost_at(assumptions: Assumptions, degree: int, t: int) -> float:
    """Return the entry of ``log_lost`` for one t, without making the table for each degree."""
    live = Binomial.failing(assumptions.leaves)  # where clients leave by themselves
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
    """Return ln P(at most t of all clients stay), for t = 0 .. clients + 1: where all are neighbours.

    A client that stays has its own share and all others that stay; one that leaves has all that stay.
    """
    n = assumptions.clients
    if assumptions.exact:
        return np.where(np.arange(n + 2) < n - assumptions.dropped, -np.inf, 0.0)
    return np.append(log_below(Binomial.failing(assumptions.dropout), n)[1:], 0.0)


def _joined(assumptions: Assumptions, with_own: Logs, without: Logs) -> Logs:
    """Return ln P(a client is unmasked in vain), from both ways in which it can be."""
    with np.errstate(divide="ignore"):
        stays, leaves = np.log(assumptions.unmasked)
    return np.asarray(np.minimum(np.logaddexp(stays + with_own, leaves + without), 0.0))


def besides(t: Counts) -> Counts:
    """Return how many shares are needed besides the client's own; at least 1, or the client is left out."""
    return np.maximum(t - 1, 1)


def log_unconfirmed(assumptions: Assumptions, degrees: Counts, t: Counts) -> Logs:
    """Return ln P(t - 1 neighbours confirm and all of them stay): with its own share a client had t.

    It does not release it, where t of its neighbours have to confirm.
    """
    steps = assumptions.per_step
    if steps is None or not steps.confirms:
        return np.full(np.broadcast(degrees, t).shape, -np.inf)
    ways, others = np.where(t > 1, log_choose(degrees, t - 1), -np.inf), np.maximum(degrees - t + 1, 0)
    return np.asarray(ways + xlogy(t - 1, steps.stays) + xlogy(others, steps.unconfirmed))


def log_few(assumptions: Assumptions) -> float:
    """Return ln P(fewer than three answer every step but the last), with dropouts per step.

    Without them everyone counts as unmasked, and has neighbours that stay.
    """
    return -math.inf if assumptions.per_step is None else log_fewer(assumptions, _LEAST_SUM)


def log_fewer(assumptions: Assumptions, least: int) -> float:
    """Return ln P(fewer than this answer every step but the last).

    Without dropouts per step all dropouts may happen before the last step.
    """
    if assumptions.exact:
        return 0.0 if assumptions.clients - assumptions.dropped < least else -math.inf
    steps = assumptions.per_step
    leaves = assumptions.dropout if steps is None else steps.leaving("advertise", "confirm")
    return _log_below_at(Binomial.failing(leaves), assumptions.clients, least)


def log_small(assumptions: Assumptions, degree: int) -> tuple[Counts, Counts, Logs, float]:
    """Return the numbers of neighbours that a client of V1 has, up to ``degree``, in groups.

    Each group has its fewest, its most and ln of its probability; the last number is ln of what is left out.
    """
    others, absent = assumptions.clients - 1, assumptions.absent
    if not absent:
        return np.array([degree]), np.array([degree]), np.zeros(1), -math.inf
    sizes, logs, rest = _advertised(others, absent)
    few = int(np.searchsorted(sizes, degree))  # all others are enough for the circle, and one group
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
    """Bound ln P(some honest client has fewer holders than needed, once every colluder has turned from it).

    Those it has left are itself and its honest neighbours that stay, of ``degree`` neighbours.
    """
    honest = assumptions.clients - assumptions.colluders
    return min(0.0, math.log(honest) + _log_few(assumptions, degree, needed - 1)) if honest else -math.inf


def _log_few(assumptions: Assumptions, degree: int, least: int) -> float:
    """Return ln P(fewer than this of an honest client's neighbours are honest and stay)."""
    others, colluders = assumptions.clients - 1, assumptions.colluders
    if assumptions.exact:  # at worst all who drop out are honest
        gone = min(colluders + assumptions.dropped, others)
        return at(log_below(Hypergeometric(others, others - gone), degree), least)
    stay, colluding = Binomial.failing(assumptions.dropout), np.arange(min(colluders, degree) + 1)
    tails = [at(log_below(stay, degree - many), least) for many in colluding.tolist()]
    return float(logsumexp(assumptions.colluding.log_pmf(degree, colluding) + tails))
