"""Probabilities as exact fractions, and their logarithms at any size."""

import math
from fractions import Fraction

from ccesa.graphs.tails import Binomial


def pmf(family, draws, k) -> Fraction:
    if isinstance(family, Binomial):
        p = Fraction(family.p)
        return math.comb(draws, k) * p**k * (1 - p) ** (draws - k)
    ways = math.comb(family.good, k) * math.comb(family.total - family.good, draws - k)
    return Fraction(ways, math.comb(family.total, draws))


def ln(value: Fraction) -> float:
    """Whole numbers of any size have a logarithm in Python; fractions below 1e-308 would be zero."""
    return math.log(value.numerator) - math.log(value.denominator) if value else -math.inf
