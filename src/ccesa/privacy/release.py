"""``Release``: what a vector that leaves spends. Releases add up, and together they have an epsilon."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields

from ccesa.privacy import accounting

#: More than the sums and roots of floats here can flatter.
_ROUNDING = 2.0**-40


@dataclass(frozen=True, kw_only=True)
class Release:
    """What one vector that leaves spends, or several together.

    Attributes:
        mu2: The square of its mu, which adds up over releases.
        delta: What it adds to delta besides: the table's distance, and the chance that the graph fails.
        slack: What it adds to L.
    """

    mu2: float
    delta: float
    slack: float

    def times(self, count: int) -> "Release":
        """Return what so many vectors like this one spend together.

        Args:
            count: How many, from 0 on.
        """
        return Release(mu2=count * self.mu2, delta=count * self.delta, slack=count * self.slack)

    def epsilon(self, allowed: float) -> float:
        """Return epsilon where delta may be ``allowed``, rounded up; infinity if there is none.

        It holds if it is at most the epsilon for which ``delta`` was computed.

        Args:
            allowed: Delta in all.
        """
        left = (allowed * (1 - _ROUNDING) - self.delta) * math.exp(-self.slack)
        if left <= 0:
            return math.inf
        return accounting.gaussian_epsilon(left, math.sqrt(self.mu2) * (1 + _ROUNDING)) + 2 * self.slack


def total(releases: Iterable[Release]) -> Release:
    """Add up what vectors spend; each sum is exact, and then rounded up.

    Args:
        releases: Of any mechanisms.
    """
    every = list(releases)
    sums = {one.name: math.fsum(getattr(release, one.name) for release in every) for one in fields(Release)}
    return Release(
        **{name: math.nextafter(value, math.inf) if value else 0.0 for name, value in sums.items()}
    )
