"""A guard says against which server a round holds. One record per guard has all the differences.

Its steps are in the files of ``protocol`` that have its name; ``protocol.steps`` has its table. Its clients are
``ActiveClient`` with a charter, and ``Client`` without one.
"""

from dataclasses import dataclass
from typing import Literal

from ccesa.errors import ConfigError, quoted

GuardName = Literal["curious", "active", "assisted"]


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Facts about a guard for configurations, the planner and transports."""

    name: GuardName
    #: Whether everything is agreed on in a charter, and masks run on every edge.
    chartered: bool
    #: Whether clients deal shares and mask along a graph. Otherwise they mask with the helpers of their charter.
    has_graph: bool = True
    #: Whether a client counts towards its own threshold, or its neighbours alone do.
    dealer_counts: bool
    #: Whether the server chooses who is in a roster, after it has seen the keys.
    chooses_roster: bool
    #: Events that endanger privacy. A plan keeps these and *unreliable* rare.
    privacy_events: tuple[str, ...]
    #: The promise of a plan by default: a lying server tries rosters offline.
    privacy_bits: float
    #: The fraction of clients that collude by default, and the minimum of colluders.
    collusion: float
    least_colluders: int
    #: Exchanges from the start of a round in a series to the start of the next: its vectors need that sum.
    stride: int

    @property
    def events(self) -> tuple[str, ...]:
        return ("unreliable", *self.privacy_events)


CURIOUS = Guard(
    name="curious",
    chartered=False,
    dealer_counts=True,
    chooses_roster=False,
    privacy_events=("disconnected", "exposed"),
    privacy_bits=40.0,
    collusion=0.0,
    least_colluders=0,
    stride=2,
)
ACTIVE = Guard(
    name="active",
    chartered=True,
    dealer_counts=False,
    chooses_roster=True,
    privacy_events=("disconnected", "exposed", "unmaskable"),
    privacy_bits=128.0,
    collusion=0.1,
    least_colluders=1,
    stride=3,
)
ASSISTED = Guard(
    name="assisted",
    chartered=True,
    has_graph=False,
    dealer_counts=False,
    chooses_roster=True,
    privacy_events=(),
    privacy_bits=128.0,
    collusion=0.1,
    least_colluders=1,
    stride=2,
)
GUARDS = {guard.name: guard for guard in (CURIOUS, ACTIVE, ASSISTED)}


def guard_named(name: object) -> Guard:
    """Return the guard of this name; raise ConfigError for any other name."""
    if not isinstance(name, str) or name not in GUARDS:
        raise ConfigError(f"guard must be one of {', '.join(GUARDS)}, not {quoted(name)}")
    return GUARDS[name]
