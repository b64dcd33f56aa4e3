"""The known way to distribute noise, as a yardstick: how much of it Kairouz, Liu and Steinke ask for.

"The Distributed Discrete Gaussian Mechanism for Federated Learning with Secure Aggregation", theorem 1:
clients round to the integers first, which makes vectors longer, and then add discrete Gaussians centred at
zero. The sum is accounted for as zero-concentrated, and that is converted by the formula of Canonne, Kamath
and Steinke (2020). Everything is in units of the norm.
"""

import math
from dataclasses import dataclass

from scipy.optimize import minimize_scalar


@dataclass(frozen=True, kw_only=True)
class Known:
    """A federation whose noise is counted on ``honest`` clients, in fields of so many bits."""

    epsilon: float
    delta: float
    rounds: int
    clients: int
    honest: int
    dimension: int
    bits: int
    #: Standard deviations on each side that a field has room for.
    sides: float = 4.5
    #: Rounding is repeated until the norm is in a bound that it exceeds with this probability.
    repeated: float = math.exp(-0.5)

    def noise(self) -> float:
        """The least standard deviation of one client's noise that keeps the promise."""
        least, most = 0.0, 1e6
        if self.epsilon_of(most) > self.epsilon:
            return math.inf
        while most - least > 1e-9 * most:
            middle = (least + most) / 2
            least, most = (least, middle) if self.epsilon_of(middle) <= self.epsilon else (middle, most)
        return most

    def epsilon_of(self, deviation: float) -> float:
        return converted(self.rounds * self.concentrated(deviation), self.delta)

    def concentrated(self, deviation: float) -> float:
        """Rho of one round."""
        step = self.step(deviation)
        length2 = self.rounded_norm2(step)
        s, variance = deviation / step, self.honest * deviation**2
        tau = 10 * math.fsum(math.exp(-2 * math.pi**2 * s**2 * k / (k + 1)) for k in range(1, self.honest))
        plain = length2 / variance + tau * self.dimension / 2
        other = math.sqrt(length2 / variance) + tau * math.sqrt(self.dimension)
        return min(plain, other**2) / 2

    def step(self, deviation: float) -> float:
        """Of the integers: a field holds the noise of all clients, and their vectors where they are alike."""
        spread = self.clients * deviation**2 + self.clients**2 / self.dimension
        return 2 * self.sides * math.sqrt(spread) / 2**self.bits

    def rounded_norm2(self, step: float) -> float:
        """The square of what rounding can make of a vector of norm 1."""
        root = step * math.sqrt(self.dimension)
        tail = math.sqrt(2 * math.log(1 / self.repeated)) * step * (1 + root / 2)
        return min(1 + root**2 / 4 + tail, (1 + root) ** 2)


def converted(rho: float, delta: float) -> float:
    """Epsilon at delta of whatever is rho-zero-concentrated, by the tightest known formula."""

    def at(log: float) -> float:
        alpha = 1 + math.exp(log)
        return alpha * rho + (math.log(1 / delta) - math.log(alpha - 1) + alpha * math.log1p(-1 / alpha)) / (
            alpha - 1
        )

    return float(minimize_scalar(at, bounds=(-5, 12), method="bounded", options={"xatol": 1e-9}).fun)
