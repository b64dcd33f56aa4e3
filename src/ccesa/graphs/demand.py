"""What a plan has to keep: who may drop out and collude, and how rare everything bad has to be."""

from dataclasses import dataclass, replace
from typing import Any

from ccesa.errors import ConfigError
from ccesa.graphs.assumptions import Assumptions, Roster
from ccesa.graphs.events import BY_NAME, Event
from ccesa.graphs.per_step import PerStep
from ccesa.graphs.tails import LN2
from ccesa.guards import Guard

RELIABILITY_BITS = 20.0
MAX_BITS = 160


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What may happen at most: unreliable rounds, and all privacy events that count together, in bits."""

    reliability_bits: float
    privacy_bits: float
    guard: Guard
    roster: Roster
    #: Bits by which a graph has to be more reliable than a round, which may fail for other reasons too.
    margin: float = 0.0

    @classmethod
    def of(
        cls,
        assumptions: Assumptions,
        guard: Guard,
        privacy_bits: float | None = None,
        reliability_bits: float | None = None,
    ) -> "Demand":
        """Return what was asked for, with the defaults for the rest and the guard's fewest colluders."""
        privacy = guard.privacy_bits if privacy_bits is None else privacy_bits
        reliability = RELIABILITY_BITS if reliability_bits is None else reliability_bits
        for name, value in (("privacy_bits", privacy), ("reliability_bits", reliability)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_BITS:
                raise ConfigError(f"{name} must lie above 0 and be at most {MAX_BITS}, not {value!r}")
        return cls(
            reliability_bits=reliability,
            privacy_bits=privacy,
            guard=guard,
            roster=Roster.expected(assumptions.at_least(guard), reliability, chosen=guard.chooses_roster),
        )

    def changed(self, *, reliability_bits: float | None = None, **assumptions: Any) -> "Demand":
        """Return the same demand with another reliability, or under other assumptions."""
        bits = self.reliability_bits if reliability_bits is None else reliability_bits
        changed = self.assumptions
        if "dropout" in assumptions:
            changed = changed.losing(assumptions.pop("dropout"))
        if "dropout_per_step" in assumptions:
            said, confirms = assumptions.pop("dropout_per_step"), not self.guard.dealer_counts
            per_step = PerStep.of(said, (), confirms=confirms)
            changed = replace(changed, dropout=per_step.total, per_step=per_step)
        return Demand.of(replace(changed, **assumptions), self.guard, self.privacy_bits, bits)

    @property
    def assumptions(self) -> Assumptions:
        return self.roster.assumptions

    @property
    def events(self) -> tuple[Event, ...]:
        """Return the events that colluding neighbours must not be enough for."""
        return tuple(BY_NAME[name] for name in self.guard.events if name in BY_NAME)

    @property
    def graph_bits(self) -> float:
        """Return how reliable the graph has to be, in bits."""
        return self.reliability_bits + self.margin

    @property
    def log_unreliable(self) -> float:
        return -self.graph_bits * LN2

    @property
    def log_private(self) -> float:
        return -self.privacy_bits * LN2
