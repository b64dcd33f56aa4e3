"""V1: how many clients advertise their keys, and how many colluders that leaves room for.

A client that knows the plan refuses a roster of fewer than F clients (``Plan.least_roster``). F is as large
as an honest round allows, and the fraction of colluders is one of the roster: whichever roster of at least F
clients a lying server chooses, at most a fraction γ of it may collude. Some plans bear more, up to a fraction
γ of all clients, wherever they are (``anywhere``).
"""

import math
from dataclasses import dataclass

from scipy.special import bdtr, bdtrik

from ccesa.chances.assumptions import Assumptions
from ccesa.chances.tails import LN2

#: Set aside of the reliability budget for rounds that fewer than F clients join: 2^-10 of it.
SHORT_BITS = 10


@dataclass(frozen=True, kw_only=True)
class Roster:
    """The V1 that clients accept: ``least`` = F of them or more."""

    assumptions: Assumptions
    least: int
    #: ln of a bound on the probability that fewer advertise in an honest round.
    log_short: float = -math.inf
    #: A lying server chooses it: any F clients or more, every colluder among them.
    chosen: bool = False
    #: So many collude in every roster, however small; zero where it is a fraction of each.
    anywhere: int = 0

    @property
    def colluders(self) -> int:
        """Of the whole list: with so many, no roster of F or more has more than may collude in it.

        One at least where there is a fraction at all: nobody who fears colluders plans for none.
        """
        return self.of(self.least)

    def of(self, size: int) -> int:
        """How many may collude in a roster of this size."""
        if self.anywhere:
            return self.anywhere
        part = math.floor(round(self.assumptions.collusion * size, 6))
        return max(part, min(1, self.assumptions.colluders))

    @classmethod
    def expected(cls, assumptions: Assumptions, reliability_bits: float, *, chosen: bool) -> "Roster":
        """Return the largest F that an honest round reaches, whichever of its dropouts precede step 0."""
        n, stay = assumptions.clients, 1.0 - assumptions.dropout
        if assumptions.exact or assumptions.dropout == 0:
            return cls(assumptions=assumptions, least=max(3, n - assumptions.dropped), chosen=chosen)
        bits = reliability_bits + SHORT_BITS
        least = max(3, _quantile(n, stay, 2.0**-bits))
        return cls(assumptions=assumptions, least=least, log_short=-bits * LN2, chosen=chosen)


def _quantile(draws: int, p: float, at_most: float) -> int:
    """The largest F with P(X < F) <= at_most, for X ~ Bin(draws, p)."""
    least = int(bdtrik(at_most, draws, p)) + 2 if at_most < 1 else 0
    while least > 0 and bdtr(least - 1, draws, p) > at_most:
        least -= 1
    return least
