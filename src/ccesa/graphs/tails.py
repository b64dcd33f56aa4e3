"""Binomial and hypergeometric tails in logarithms, far below what a float can hold, and searches among them.

Everything is summed term by term from log-probabilities, which are exact but for rounding errors below 3e-7 for up to
10^8 clients. Certificates add ``SLACK`` for them.
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
#: Certificates add it to every natural logarithm, so that rounding errors fall on the safe side.
SLACK = 1e-6
#: Nats by which a search stays below a budget, because the certificate adds up in another order.
MARGIN = 1e-9
#: For larger numbers the error of three terms of Stirling's series is below 1e-12.
_LARGE = 1000
#: Outcomes beyond this many nats are lumped together.
_NEGLIGIBLE = 400.0


@dataclass(frozen=True)
class Binomial:
    """The number of d draws that succeed, each with probability p. For p close to 1, q is more precise than 1 - p."""

    p: float
    q: float | None = None

    @classmethod
    def failing(cls, q: float) -> "Binomial":
        """Return the distribution with this probability of a failure."""
        return cls(1.0 - q, q)

    def log_pmf(self, draws: int | Counts, k: Counts) -> Logs:
        failed = xlog1py(draws - k, -self.p) if self.q is None else xlogy(draws - k, self.q)
        return np.asarray(log_choose(draws, k) + xlogy(k, self.p) + failed)

    @property
    def odds(self) -> float:
        """The probability of a failure divided by that of a success."""
        return (1 - self.p if self.q is None else self.q) / self.p

    @property
    def mean_fraction(self) -> float:
        return self.p


@dataclass(frozen=True)
class Hypergeometric:
    """The number of d draws without replacement that are good, if ``good`` of ``total`` are."""

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

    The difference of two logarithms of factorials of 10^8 would lose half of the digits. So the terms of Stirling's
    series are subtracted one by one.
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
    """Return one entry of a tail. Beyond its ends it goes on with the last value."""
    return float(logs[min(max(place, 0), logs.size - 1)])


def log2_upwards(log: float) -> float:
    """Return the logarithm to base 2 of a probability, rounded up."""
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
    """Return the same array, read-only, because a cache shares it."""
    values.flags.writeable = False
    return values


Answer = TypeVar("Answer")


def find_leftmost(
    low: int, high: int, found: Callable[[int], Answer | None], possible: Callable[[int, int], bool]
) -> Answer | None:
    """Return the first answer of ``found`` among low .. high; ``possible`` rules out ranges."""

    def search(low: int, high: int) -> Answer | None:
        if not possible(low, high):
            return None
        middle = (low + high) // 2
        return found(low) if low == high else search(low, middle) or search(middle + 1, high)

    width, answer = 1, None  # ranges of 1, 2, 4, ... numbers
    while answer is None and low <= high:
        answer = search(low, min(low + width - 1, high))
        low, width = low + width, 2 * width
    return answer


def find_first(enough: Callable[[int], bool], most: int, start: int = 1) -> int | None:
    """Return the smallest of 1 .. most that is enough, if all larger numbers are enough too; go up from ``start``."""
    if most < 1:
        return None
    low, high = 0, max(1, min(start, most))
    step = max(1, min(start // 8, 64))
    while not enough(high):
        if high == most:
            return None
        low, high, step = high, min(high + step, most), 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
