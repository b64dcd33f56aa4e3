"""The tables that noise is drawn from: thresholds of the discrete Gaussian, exact to the last bit.

docs/protocol.md, 15.4, defines them: T_z = floor(2^B F(z)), where F(z) is the sum of the weights
w(z) = exp(-(z - f / 2^p)² / (2 s²)) up to z divided by the sum of all. s² is variance / 256, the fine grid has the step
2^-p, and phase f in 0..2^p - 1 stands for the centre f / 2^p. B is twice the bits of a word.

Everything is computed in integers, as lower and upper bounds. If both bounds of a threshold have different floors, they
are computed again with twice the precision. So the definition decides and not a rounding, and all tables are the same.
No precision decides a threshold that is a whole number. There is one: for the centre 1/2, F(0) = 1/2 by symmetry.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ccesa.errors import ConfigError
from ccesa.parts import check_integer, check_range

#: A variance is a whole number of 1 / 256, so that all tables are the same.
VARIANCE_UNITS = 256
WORD_BITS = 64
_MAX_GRID_BITS = 16
#: s² 4^p is at most this, for tables of up to five million thresholds, 80 MB.
_MAX_SPREAD = 2**35
#: Bits of the first precision beyond those of the thresholds. In usual tables all roundings together blur 40 of them.
_SPARE_BITS = 96


@dataclass(frozen=True, eq=False)
class Tables:
    """The thresholds of all 2^grid_bits phases, one row after the other, each as a high and a low word."""

    variance: int
    grid_bits: int
    word_bits: int
    high: NDArray[np.uint64]
    low: NDArray[np.uint64]
    #: The place where the row of each phase starts, and the end of the last row.
    starts: NDArray[np.int64]
    #: The first z of each phase.
    first: NDArray[np.int64]

    @property
    def distance(self) -> Fraction:
        """A bound on the distance of a draw, in total variation, from the discrete Gaussian with the same centre.

        docs/privacy.md, 7, proves it.
        """
        longest = int(np.diff(self.starts).max())
        return Fraction(longest + 3, 2 ** (2 * self.word_bits + 1))


def most_distance(variance: int, word_bits: int = WORD_BITS) -> Fraction:
    """Return a bound on ``Tables.distance`` for all grids, without the tables. docs/privacy.md, 7, proves it."""
    bits = 2 * word_bits
    return Fraction(2 * _reach(variance, bits + 64) + 3, 2 ** (bits + 1))


def tables(variance: int, grid_bits: int, word_bits: int = WORD_BITS) -> Tables:
    """Return the tables of a variance, in units of 1/256, and of the grid with the step 2^-grid_bits."""
    check_integer("variance", variance)
    check_range("grid_bits", grid_bits, 0, _MAX_GRID_BITS)
    most = VARIANCE_UNITS * _MAX_SPREAD >> 2 * grid_bits
    if not 1 <= variance <= most:
        raise ConfigError(f"with {grid_bits} grid bits the variance must lie in 1..{most}, not {variance}")
    return _tables(variance, grid_bits, word_bits)


@lru_cache(maxsize=4)
def _tables(variance: int, grid_bits: int, word_bits: int) -> Tables:
    bits, mask = 2 * word_bits, 2**word_bits - 1
    first, high, low = [], [], []
    for z, row in rows(variance, grid_bits, bits, bits + _SPARE_BITS):
        first.append(z)
        high.append(np.array([threshold >> word_bits for threshold in row], np.uint64))
        low.append(np.array([threshold & mask for threshold in row], np.uint64))
    starts = np.array([0, *accumulate(part.size for part in high)], np.int64)
    arrays = np.concatenate(high), np.concatenate(low), starts, np.array(first, np.int64)
    for array in arrays:
        array.flags.writeable = False  # they are shared
    return Tables(variance, grid_bits, word_bits, *arrays)


def rows(variance: int, grid_bits: int, bits: int, precision: int) -> Iterator[tuple[int, list[int]]]:
    """Yield the first z and the thresholds of each phase, which do not depend on the first precision."""
    weights = _weights(variance, grid_bits, precision)
    for phase in range(2**grid_bits):
        while (row := _row(weights, phase, 2**grid_bits, bits)) is None:
            precision *= 2
            weights = _weights(variance, grid_bits, precision)
        start, end = bisect_left(row, 1), bisect_left(row, 2**bits - 1)
        yield start - weights.reach, row[start : end + 1]


class _Weights(NamedTuple):
    """Bounds of w at the distances k / 2^p from the centre, 0 <= k < reach 2^p, in units of 2^-precision.

    ``tail`` is above the sum of all weights on one side whose distances are larger.
    """

    lower: list[int]
    upper: list[int]
    tail: int
    reach: int


def _weights(variance: int, grid_bits: int, precision: int) -> _Weights:
    """Compute w = q^(k²) with q = exp(-1 / (2 s² 4^p)), from one k to the next.

    The tail: let d be the largest distance on one side, at least reach - 1. As w falls, the sum over d + 1, d + 2, ...
    is at most the integral of exp(-t² / (2 s²)) from d on. That is at most the integral of t / d times as much, which
    is s² / d · exp(-d² / (2 s²)) and falls in d.
    """
    reach = _reach(variance, precision) + 1  # a shorter reach is correct too, but has a large tail
    low, high = _exponential(VARIANCE_UNITS, 2 * variance << 2 * grid_bits, precision)
    lower = _powers(low, reach << grid_bits, precision, 0)
    upper = _powers(high, reach << grid_bits, precision, 2**precision - 1)
    last = upper[(reach - 1) << grid_bits]
    return _Weights(lower, upper, -(-last * variance // (VARIANCE_UNITS * (reach - 1))), reach)


def _reach(variance: int, bits: int) -> int:
    """Return a distance from the centre, at least 1, from which on w < 2^-bits: 2 ln 2 < 7/5."""
    return isqrt(7 * bits * variance // (5 * VARIANCE_UNITS)) + 1


def _exponential(numerator: int, denominator: int, precision: int) -> tuple[int, int]:
    """Return bounds of exp(-numerator / denominator) in units of 2^-precision.

    They are bounds of 1 / exp(x), whose series has positive terms. It ends at a term x^n / n! of at most one unit. Up
    to n = 2 x terms are larger, as (n / 2)^n / n! >= 1/2. After that each is at most half of the term before it, so the
    terms that are left out sum up to at most the last one.
    """
    n, below, above = 0, 2**precision, 2**precision
    low, high = below, above
    while above > 1:
        n += 1
        below = below * numerator // (n * denominator)
        above = -(-above * numerator // (n * denominator))
        low, high = low + below, high + above
    return 4**precision // (high + above), -(-(4**precision) // low)


def _powers(q: int, count: int, precision: int, carry: int) -> list[int]:
    """Return q^(k²) for 0 <= k < count, each product rounded down (carry 0) or up (carry 2^precision - 1)."""
    power, factor, square = 2**precision, q, (q * q + carry) >> precision
    powers = []
    for _ in range(count):
        powers.append(power)
        power = (power * factor + carry) >> precision  # (k + 1)² - k² = 2 k + 1
        factor = (factor * square + carry) >> precision
    return powers


def _row(weights: _Weights, phase: int, phases: int, bits: int) -> list[int] | None:
    """Return T_z for all z from -reach on, or None if the bounds do not decide.

    F < 1, so T_z is at most 2^bits - 1. At -reach the lower bound is 0, and at the last z the upper bound is
    2^bits - 1. So a row that is decided begins and ends with these.
    """
    lower, upper = ([*part[phase::phases][::-1], *part[phases - phase :: phases]] for part in weights[:2])
    least, most, largest = sum(lower), sum(upper) + 2 * weights.tail, 2**bits - 1
    if not least:
        return None
    low = [(below << bits) // most for below in accumulate(lower, initial=0)]
    high = [min((above << bits) // least, largest) for above in accumulate(upper, initial=weights.tail)]
    if 2 * phase == phases:
        low[weights.reach] = high[weights.reach] = 2 ** (bits - 1)  # F(0) = 1/2
    return low if low == high else None
