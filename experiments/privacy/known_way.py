"""The known way to distribute noise: Kairouz, Liu and Steinke, ICML 2021, as the comparison.

A client clips, rotates, scales by 1 / gamma, rounds *at random* to the integers, and adds a discrete Gaussian
around zero. Rounding lengthens the vector, which noise has to cover, and its own variance comes on top; the
promise is accounted for by concentrated differential privacy. Theorem 1 of the paper: with

    g    = gamma sqrt(d)
    D2^2 = min(c^2 + g^2 / 4 + sqrt(2 ln(1 / beta)) gamma (c + g / 2), (c + g)^2)
    tau  = 10 sum over k < n of exp(-2 pi^2 (sigma / gamma)^2 k / (k + 1))

the sum of n such vectors, each with noise of standard deviation sigma, is e^2 / 2-concentrated, where
e = min(sqrt(D2^2 / (n sigma^2) + tau d / 2), D2 / (sqrt(n) sigma) + tau sqrt(d)). Rounds add up, and the best
conversion to epsilon and delta is that of Canonne, Kamath and Steinke, 2020.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from ccesa.privacy import DifferentialPrivacy
from ccesa.privacy.accounting import gaussian_mu

#: The paper's constant for rounding again until a vector is short enough.
BETA = math.exp(-0.5)
#: Standard deviations of a sum on each side of a field: as many as ours has.
SIDES = 4.5
#: The variance of random rounding, a mean over where a value lies between two integers.
_ROUNDING = 1 / 6


@dataclass(frozen=True, kw_only=True)
class Sums:
    """What the noise is for.

    Attributes:
        demand: Epsilon, delta, rounds and norm.
        clients: Fields have room for so many.
        honest: The noise of so many counts.
        dimension: Parameters.
    """

    demand: DifferentialPrivacy
    clients: int
    honest: int
    dimension: int


def concentrated_delta(epsilon: float, rho: float) -> float:
    """Return delta of rho-concentrated privacy for this epsilon: the best over all orders."""

    def log_delta(order: float) -> float:
        return (order - 1) * (order * rho - epsilon) + order * math.log1p(-1 / order) - math.log(order - 1)

    best = minimize_scalar(
        lambda x: log_delta(1 + math.exp(x)), bounds=(-8.0, 12.0), method="bounded", options={"xatol": 1e-9}
    )
    return math.exp(min(0.0, best.fun))


@cache
def concentrated(epsilon: float, delta: float) -> float:
    """Return the largest rho that keeps epsilon and delta."""
    return math.exp(brentq(lambda x: concentrated_delta(epsilon, math.exp(x)) - delta, -30.0, math.log(epsilon) - 1e-9))


def longest(norm: float, gamma: float, dimension: int) -> float:
    """Return the largest norm of a rounded vector."""
    root = gamma * math.sqrt(dimension)
    likely = norm**2 + root**2 / 4 + math.sqrt(2 * math.log(1 / BETA)) * gamma * (norm + root / 2)
    return min(math.sqrt(likely), norm + root)


def tau(ratio: float, honest: int) -> float:
    """Return how far a sum of discrete Gaussians is from one; ``ratio`` is sigma / gamma."""
    k = np.arange(1, honest)
    return float(10 * np.exp(-2 * (math.pi * ratio) ** 2 * k / (k + 1)).sum())


def rho(sums: Sums, gamma: float, sigma: float) -> float:
    """Return how concentrated one sum is."""
    far, apart = longest(sums.demand.norm, gamma, sums.dimension), tau(sigma / gamma, sums.honest)
    each = far / (math.sqrt(sums.honest) * sigma)
    one = math.sqrt(each**2 + apart * sums.dimension / 2)
    return min(one, each + apart * math.sqrt(sums.dimension)) ** 2 / 2


def deviation(sums: Sums, gamma: float) -> float:
    """Return the least sigma that keeps the demand, at least gamma / 2."""
    allowed = concentrated(sums.demand.epsilon, sums.demand.delta) / sums.demand.rounds
    far = longest(sums.demand.norm, gamma, sums.dimension)
    least = max(far / math.sqrt(2 * allowed * sums.honest), gamma / 2)
    most = least + 4 * gamma  # where tau is nothing
    if rho(sums, gamma, least) <= allowed:
        return least
    return brentq(lambda sigma: rho(sums, gamma, sigma) - allowed, least, most, xtol=1e-12 * least)


def granularity(sums: Sums, bits: int) -> float | None:
    """Return the finest gamma with which sums fit into fields of so many bits; None if none does."""

    def too_wide(log_gamma: float) -> float:
        gamma = math.exp(log_gamma)
        noise = sums.clients * (deviation(sums, gamma) ** 2 + gamma**2 / 4)
        signal = (sums.clients * sums.demand.norm) ** 2 / sums.dimension
        return math.log(2 * SIDES * math.sqrt(signal + noise) / gamma) - bits * math.log(2)

    start = math.log(sums.demand.norm)
    coarse = next((x for x in np.arange(start - 30, start + 5, 0.25) if too_wide(x) <= 0), None)
    return None if coarse is None else math.exp(brentq(too_wide, coarse - 0.25, coarse))


def inflation(sums: Sums, bits: int) -> float | None:
    """Return the standard deviation of a sum of ``honest`` over a trusted curator's, if it fits."""
    gamma = granularity(sums, bits)
    if gamma is None:
        return None
    sigma = math.sqrt(deviation(sums, gamma) ** 2 + _ROUNDING * gamma**2)
    mu = gaussian_mu(sums.demand.epsilon, sums.demand.delta)
    return math.sqrt(sums.honest / sums.demand.rounds) * sigma * mu / sums.demand.norm
