"""Colluding neighbours where everyone has the same number of neighbours: circles and complete graphs.

How many of them an event takes is for ``events.py`` to say. A roster of d clients or fewer leaves no circle:
all of them are neighbours.
"""

import math

import numpy as np
from scipy.special import digamma, logsumexp, xlog1py, xlogy

from ccesa.config import Fixed, Threshold
from ccesa.plan.events import Event
from ccesa.plan.population import Population
from ccesa.plan.roster import Roster
from ccesa.plan.rules import thresholds
from ccesa.plan.tails import Counts, Logs, log_at_least, log_choose

#: Rosters too small for a circle are judged in at most this many groups, each by its worst member.
_GROUPS = 64


def needed(event: Event, threshold: Threshold, degrees: Counts) -> Counts:
    """How many colluding neighbours it takes."""
    return event(thresholds(threshold, degrees), degrees)


def advertised(degree: int, threshold: Threshold, roster: Roster, event: Event) -> float:
    """ln P(some honest client has that many), where whoever vanishes in step 0 is not in V1.

    The d neighbours are a random set of V1 and so of all others: Hyp(n - 1, colluders, d). With a fixed t the
    largest d is the worst. Other rules follow the d = |V1| - 1 of a roster that is too small for the circle:
    each such d counts with the largest probability that any number of dropouts in step 0 gives it.
    """
    population = roster.population
    place = int(needed(event, threshold, np.array([degree]))[0])
    logs = [_tail(population, degree, place)]
    if not isinstance(threshold, Fixed):
        sizes, likely = _small(population, degree)
        places = needed(event, threshold, sizes)
        groups = [some for some in np.array_split(np.arange(sizes.size), _GROUPS) if some.size]
        # More neighbours never have fewer colluders, so the last of a group is its worst.
        tails = [_tail(population, int(sizes[some[-1]]), int(places[some].min())) for some in groups]
        weights = [float(logsumexp(likely[some])) for some in groups]
        together = float(logsumexp([*logs, *np.add(weights, tails)]))
        logs = [min(together, max(logs + tails))]
    return _union(population.clients - population.colluders, logs[0])


def chosen(degree: int, threshold: Threshold, roster: Roster, event: Event) -> float:
    """ln P(some honest client has that many), for every roster of at least F with a fraction γ colluding.

    If so many may be ``anywhere``, it is shown only where they are too few for certain.
    In rosters of up to d + 1 everyone is a neighbour, so it happens for certain or never. In larger ones
    (m - K) P(Hyp(m - 1, K, d) >= c) rises with the colluders K, and along K = γ m it rises with m: the
    largest roster, everyone, is the worst (docs/planning.md). Where that cannot be shown nothing is promised.
    """
    population = roster.population
    sizes = np.arange(roster.least, min(degree + 1, population.clients) + 1)
    everyone = needed(event, threshold, sizes - 1)
    if np.any(np.array([roster.of(int(m)) for m in sizes]) >= everyone):
        return 0.0
    if degree + 1 >= population.clients:
        return -math.inf
    place = int(needed(event, threshold, np.array([degree]))[0])
    if place > (roster.anywhere or population.colluders):
        return -math.inf
    if place < 1 or roster.anywhere or not _largest_is_worst(degree, place, roster):
        return 0.0
    return _union(population.clients - population.colluders, _tail(population, degree, place))


def _largest_is_worst(degree: int, place: int, roster: Roster) -> bool:
    """Whether every term of the tail from c = ``place`` on is largest for the roster of everyone.

    A term is K (K - 1) .. (K - c + 1) · (m - K) .. (m - K - l + 1) / ((m - 1) .. (m - d)) times a constant,
    l = d - c + 1. It has to rise with K, and along K = γ m with m.
    """
    population, rest = roster.population, degree - place + 1
    n, share = population.clients, population.collusion
    m = np.arange(max(roster.least, degree + 2), min(2 * degree, n + 1), dtype=float)
    # From 2 d on a term rises with m, and with K if it does so in the smallest of these rosters.
    sizes = np.append(m, [min(max(roster.least, 2 * degree), n), n])
    most = np.append(share * sizes[:-1], population.colluders)
    known = most >= place  # in the others there are not enough colluders
    sizes, most = sizes[known], most[known]
    honest = sizes - most
    if np.any(honest < rest) or np.any(place * honest < (rest - 1) * most):
        return False
    if np.any(_slope(most, place) < _slope(honest, rest)):
        return False
    m = m[share * m >= place]
    along = share * _slope(share * m, place) + (1 - share) * _slope(m - share * m, rest)
    return bool(np.all(1 / m + along >= _slope(m, degree + 1)))


def _slope(x: Logs, k: int) -> Logs:
    """The derivative of ln x (x - 1) .. (x - k + 1)."""
    return np.asarray(digamma(x + 1) - digamma(x - k + 1))


def _small(population: Population, degree: int) -> tuple[Counts, Logs]:
    """Degrees |V1| - 1 below that of the circle, and ln of the most likely each can be."""
    others, gone = population.clients - 1, population.dropped
    if population.exact:
        sizes = np.arange(max(others - gone, 0), degree)
        return sizes, np.zeros(sizes.size)
    sizes = np.arange(degree)
    stay = np.clip(sizes / others, 1.0 - population.dropout, 1.0)
    return sizes, log_choose(others, sizes) + xlogy(sizes, stay) + xlog1py(others - sizes, -stay)


def _tail(population: Population, degree: int, place: int) -> float:
    logs = log_at_least(population.colluding, degree)
    return float(logs[min(max(place, 0), logs.size - 1)])


def _union(clients: int, log_each: float) -> float:
    return min(0.0, math.log(clients) + log_each) if clients else -math.inf
