"""Binomial and hypergeometric tails in logarithms, far below what a float can hold, and searches among them.

Everything is summed term by term from log-probabilities that are exact but for rounding: less than 3e-7 up to
the 10^8 clients that are planned for. ``SLACK`` covers it where a certificate is written.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlog1py, xlogy

Logs = NDArray[np.float64]
Counts = NDArray[np.int64]
Values = TypeVar("Values", Logs, Counts)

LN2 = math.log(2.0)
#: Added to every certified natural logarithm, so that rounding errors fall on the safe side.
SLACK = 1e-6
#: Nats by which a search stays below a budget, because the certificate adds up in another order.
MARGIN = 1e-9
#: From here on three terms of Stirling's series leave less than 1e-12.
_LARGE = 1000
#: Outcomes beyond this many nats are lumped together.
_NEGLIGIBLE = 400.0


@dataclass(frozen=True)
class Binomial:
    """How many of d draws succeed, each with probability p, and fail with probability q.

    q is more precise than 1 - p where p is close to 1 and failures are rare.
    """

    p: float
    q: float | None = None

    @classmethod
    def failing(cls, q: float) -> "Binomial":
        """Make it from the probability of a failure."""
        return cls(1.0 - q, q)

    def log_pmf(self, draws: int | Counts, k: Counts) -> Logs:
        failed = xlog1py(draws - k, -self.p) if self.q is None else xlogy(draws - k, self.q)
        return np.asarray(log_choose(draws, k) + xlogy(k, self.p) + failed)

    @property
    def odds(self) -> float:
        """Return how likely a failure is beside a success."""
        return (1 - self.p if self.q is None else self.q) / self.p

    @property
    def mean_fraction(self) -> float:
        return self.p


@dataclass(frozen=True)
class Hypergeometric:
    """How many of d draws without replacement are good, of ``total`` with ``good`` among them."""

    total: int
    good: int

    def log_pmf(self, draws: int, k: Counts) -> Logs:
        return (
            log_choose(self.good, k)
            + log_choose(self.total - self.good, draws - k)
            - log_choose(self.total, np.asarray(draws))
        )

    @property
    def mean_fraction(self) -> float:
        return self.good / self.total


Distribution = Binomial | Hypergeometric


def log_choose(n: int | Counts, k: Counts) -> Logs:
    """Return ln C(n, k); minus infinity where there is no such choice."""
    inside = (k >= 0) & (k <= n)
    k = np.where(inside, np.minimum(k, n - k), 0)
    return np.where(inside, log_falling(n, k) - gammaln(k + 1.0), -np.inf)


def log_falling(n: float | Counts | Logs, k: Counts) -> Logs:
    """Return ln of n (n - 1) ... (n - k + 1), for k < n + 1; n may be any positive number.

    Two logarithms of factorials of 10^8 would lose half of their digits in the difference; Stirling's series
    for both is subtracted term by term instead.
    """
    whole, k = np.asarray(n, float), np.asarray(k)
    left = whole - k
    if left.size and left.min() > _LARGE:
        large = (left + 0.5) * np.log1p(k / left) + k * (np.log(whole) - 1.0)
        return np.asarray(large + (1.0 / whole - 1.0 / left) / 12.0)
    logs = np.asarray(gammaln(whole + 1.0) - gammaln(left + 1.0))
    if left.size and left.max() > _LARGE:
        many = left > _LARGE
        logs[many] = log_falling(np.broadcast_to(whole, left.shape)[many], np.broadcast_to(k, left.shape)[many])
    return logs


@lru_cache(maxsize=1 << 10)
def log_below(distribution: Distribution, draws: int) -> Logs:
    """Return ln P(X < t) for t = 0 .. draws + 1."""
    terms = distribution.log_pmf(draws, np.arange(draws + 1))
    return freeze(np.concatenate([[-np.inf], np.minimum(np.logaddexp.accumulate(terms), 0.0)]))


@lru_cache(maxsize=1 << 10)
def log_at_least(distribution: Distribution, draws: int) -> Logs:
    """Return ln P(X >= t) for t = 0 .. draws + 1."""
    terms = distribution.log_pmf(draws, np.arange(draws + 1))[::-1]
    return freeze(np.concatenate([np.minimum(np.logaddexp.accumulate(terms), 0.0)[::-1], [-np.inf]]))


def at(logs: Logs, place: int) -> float:
    """Return one entry of a tail, which goes on as it begins and ends."""
    return float(logs[min(max(place, 0), logs.size - 1)])


def log2_upwards(log: float) -> float:
    """Return the logarithm to base 2 of a probability, so that rounding cannot flatter."""
    return -math.inf if log == -math.inf else min(0.0, (float(log) + SLACK) / LN2)


def window(distribution: Distribution, draws: int, nats: float = _NEGLIGIBLE) -> tuple[Counts, Logs, float]:
    """Return the outcomes of at least e^-nats, their log-probabilities, and a bound on all others."""
    p = distribution.mean_fraction
    reach = 30 * math.sqrt(draws * p * (1 - p)) + 300  # Chernoff: beyond it lies less than e^-450
    k = np.arange(max(0, int(draws * p - reach)), min(draws, int(draws * p + reach)) + 1)
    logs = distribution.log_pmf(draws, k)
    kept = logs > -nats
    rest = math.log(draws + 1) - nats if not kept.all() or k.size <= draws else -math.inf
    return k[kept], logs[kept], rest


def freeze(values: Values) -> Values:
    """Return the array, which is shared by a cache, so that nobody can change it."""
    values.flags.writeable = False
    return values


Answer = TypeVar("Answer")
#: Steps that a search goes up first.
_STRIDE = 64


def find_leftmost(
    low: int, high: int, found: Callable[[int], Answer | None], possible: Callable[[int, int], bool]
) -> Answer | None:
    """Return the first answer of ``found`` among low .. high; ``possible`` rules out ranges.

    It tries ranges of 1, 2, 4, ... numbers, and halves those that are possible.
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
    low: int, high: int, found: Callable[[int], Answer | None], possible: Callable[[int, int], bool]
) -> Answer | None:
    if not possible(low, high):
        return None
    if low == high:
        return found(low)
    middle = (low + high) // 2
    return _within(low, middle, found, possible) or _within(middle + 1, high, found, possible)


def find_first(enough: Callable[[int], bool], most: int, start: int = 1) -> int | None:
    """Return the smallest of 1 .. most that is enough, where everything above it is enough as well."""
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
