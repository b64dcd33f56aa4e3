"""The privacy loss of a sum of discrete Gaussians: pure mathematics, proved in docs/privacy.md.

The sum of H contributions, each an integer drawn from the discrete Gaussian of standard deviation s around a real
centre, is within a factor e^(+-L) a post-processing of the continuous Gaussian mechanism of variance H s^2 - R^2 on the
sum of the centres. For that mechanism, with mu = sensitivity / standard deviation, delta is known exactly:

    delta(epsilon) = Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu).
"""

import math
from collections.abc import Callable

#: The standard deviation that is given up so that the continuous Gaussian lies on the integers.
R = 1.75
#: The end of searches for an epsilon. Demands end long before.
_FARTHEST = 300.0
#: Thirty-two roundings of floats. Each counts as often as the value of a function changes with its argument.
_ROUNDING = 2.0**-48
#: More than floats lose near zero.
_NOTHING = 1e-190
#: Terms of the slack that are added one by one. Later terms are smaller.
_TERMS = 64


def eta(s: float) -> float:
    """Return a bound on |sum over integers z of the normal density at z - c, minus 1|, for every centre c.

    By Poisson summation it is 2 (x + x^4 + x^9 + ...) with x = e^(-2 pi^2 s^2).
    """
    power = min(2 * (math.pi * s) ** 2, 400.0)  # e^-400 is a float and bounds all smaller values
    x = min(math.exp(-power), 1 / 3)  # for larger x the bound is 1
    return min(1.0, 2 * x / (1 - x) * (1 + _ROUNDING * (1 + power)))


def slack(honest: int, s: float, coordinates: float) -> float:
    """Return L of a sum of ``honest`` contributions, over the coordinates of all rounds together."""
    terms = [_log_error(s * math.sqrt(k / (k + 1))) for k in range(1, min(honest, _TERMS))]
    if honest > _TERMS:
        terms.append((honest - _TERMS) * terms[-1])
    return coordinates * (math.fsum([*terms, honest * _log_error(s)]) + _log_error(R))


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the smallest delta of a Gaussian mechanism with this mu, for this epsilon in 0..300, rounded up."""
    if epsilon >= 1000 * mu:  # near is below e^-400000
        return _NOTHING
    away = mu / 2 + epsilon / mu
    near, far = _phi(mu / 2 - epsilon / mu), _phi(-away)
    return min(1.0, near - math.exp(epsilon) * far + _ROUNDING * (1 + away**2) * near + _NOTHING)


def gaussian_epsilon(delta: float, mu: float) -> float:
    """Return the smallest epsilon for this delta, rounded up; infinity if it is above 300."""
    if gaussian_delta(_FARTHEST, mu) > delta:
        return math.inf
    return _end(lambda epsilon: gaussian_delta(epsilon, mu) <= delta, _FARTHEST, 0.0)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu with this epsilon and delta, rounded down."""
    return _end(lambda mu: gaussian_delta(epsilon, mu) <= delta, 0.0, 1000.0)


def _phi(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


def _log_error(s: float) -> float:
    """Return ln of the largest factor by which one sum over the integers can be off."""
    far = eta(s)
    return -math.log1p(-far) if far < 1 else math.inf


def _end(holds: Callable[[float], bool], inside: float, outside: float) -> float:
    """Return the last number on the way from ``inside`` to ``outside`` at which it holds."""
    if holds(outside):
        return outside
    while (middle := (inside + outside) / 2) not in (inside, outside):
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return inside
