"""The interface of a family's bounds, with which its rounds are certified and planned.

Everything is the natural logarithm of an upper bound on a probability.
"""

from collections.abc import Callable
from typing import Protocol

from ccesa.graphs.assumptions import Assumptions, Roster
from ccesa.graphs.demand import Demand
from ccesa.graphs.events import Event
from ccesa.graphs.thresholds import Rule, Threshold


class Degrees(Protocol):
    """How many neighbours clients have, and what can be around them."""

    def likely(self, log_rare: float) -> tuple[int, int]:
        """Return the smallest and the largest number of neighbours that are not rarer than this."""

    def unreliable(self, rule: Rule, assumptions: Assumptions) -> float:
        """Bound P(some client has fewer than t live holders)."""

    def few_holders(self, rule: Rule, assumptions: Assumptions) -> float:
        """Bound P(some client has fewer than t holders among those that stay, itself included)."""

    def around(self, event: Event, rule: Rule, roster: Roster) -> float:
        """Bound P(the event happens to some honest client), for every roster that there may be."""

    def left_out(self, rule: Rule, assumptions: Assumptions, spare: float) -> float:
        """Bound P(some honest client is left out once all colluders turn from it).

        It needs ``spare`` holders per neighbour beyond t.
        """

    def rule(self, demand: Demand, log_apart: float, kept: Callable[[Threshold], bool]) -> Threshold | None:
        """Return the best threshold rule for a demand that is ``kept``; None if there is none.

        ``log_apart`` is what the masks take of the budget for privacy.
        """

    def may_hold(self, demand: Demand, most: int) -> bool:
        """Return whether a graph with more neighbours, up to so many, may keep the demand; in doubt, true."""


class Masks(Protocol):
    """On which edges masks run."""

    def log_apart(self, assumptions: Assumptions, roster: Roster | None = None) -> float:
        """Bound P(the honest survivors' mask graph falls apart), for every roster that there may be."""

    def log_torn(self, few_holders: Callable[[Assumptions], float], assumptions: Assumptions) -> float:
        """Estimate P(clients are left out after *share*, and the masks of the others fall apart later).

        ``few_holders`` bounds P(somebody is left out), where all drop out before *share* closes.
        """
