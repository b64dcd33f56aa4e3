"""How likely the honest survivors' mask graph falls apart. Everything is ln of an upper bound."""

import math

import numpy as np
from scipy.special import logsumexp, xlog1py

from ccesa.plan.population import Population
from ccesa.plan.tails import Counts, Family, Logs, log_choose

#: Sizes of the survivor set beyond this many nats are lumped together.
_NEGLIGIBLE = 400.0
#: The survivor numbers are summed in at most this many groups, each by its worst member.
_GROUPS = 512


def circle(population: Population, mask_degree: int) -> float:
    """A circle, each joined to the nearest mask_degree / 2 = h on each side.

    It falls apart if and only if at least two gaps of h or more missing clients (vanished or colluding) lie
    between survivors. A gap begins with a survivor and h missing ones; two such beginnings are disjoint, so
    each of the n (n - 2 h - 1) / 2 pairs has the same probability, which is computed exactly.
    """
    n, h = population.clients, mask_degree // 2
    pairs = n * (n - 2 * h - 1) / 2
    if pairs <= 0 or mask_degree >= n - 1:
        return -math.inf
    colluding = np.arange(2 * h + 1)
    vanished = 2 * h - colluding
    terms = (
        log_choose(2 * h, colluding)
        + population.log_collude(colluding, vanished + 2)
        + population.log_fate(vanished, stay=2)
    )
    return min(0.0, math.log(pairs) + float(logsumexp(terms)))


def most_is_worst(population: Population, mask_degree: int) -> bool:
    """Whether fewer colluders than there may be can only make gaps rarer on a circle.

    With a fraction m missing, a pair of gaps has about m^(2h) (1 - m)^2. That grows with m below h / (h + 1);
    half of it leaves room for small rosters. Beyond, gaps are everywhere and nothing is promised.
    """
    missing = 1 - (1 - population.collusion) * (1 - population.dropout)
    return mask_degree // 2 * (1 - missing) > 2 * missing


def edges(population: Population, p: float, fewest: int | None = None) -> float:
    """Each pair with probability p: the union over all cuts of the paper's Theorem 6, over honest survivors.

    Over the number m of honest survivors, of all honest clients or of the ``fewest`` that a roster has; its
    bound is made monotone in m, so it also holds when more stay than ``dropout`` says.
    """
    if p >= 1:
        return -math.inf
    family, honest = population.honest_survivors
    sizes, weights, rest = window(family, honest if fewest is None else fewest)
    starts = np.unique(np.linspace(0, sizes.size, min(sizes.size, _GROUPS) + 1).astype(int)[:-1])
    grouped = np.logaddexp.reduceat(weights, starts)
    cuts = _log_cuts(sizes[starts], p)
    worst = np.maximum.accumulate(cuts[::-1])[::-1]
    return min(0.0, float(logsumexp(np.append(grouped + worst, rest))))


def window(family: Family, draws: int, nats: float = _NEGLIGIBLE) -> tuple[Counts, Logs, float]:
    """The outcomes of at least e^-nats, their log-probabilities, and a bound on all others together."""
    mean, spread = _moments(family, draws)
    reach = 30 * spread + 300  # Chernoff: beyond it lies less than e^-450
    k = np.arange(max(0, int(mean - reach)), min(draws, int(mean + reach)) + 1)
    logs = family.log_pmf(draws, k)
    kept = logs > -nats
    rest = math.log(draws + 1) - nats if not kept.all() or k.size <= draws else -math.inf
    return k[kept], logs[kept], rest


def _moments(family: Family, draws: int) -> tuple[float, float]:
    p = family.mean_share
    return draws * p, math.sqrt(draws * p * (1 - p))


def _log_cuts(sizes: Counts, p: float) -> Logs:
    """ln sum_k C(m, k) (1 - p)^(k (m - k)), k up to m / 2, for every m; the rest by a geometric sum.

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
