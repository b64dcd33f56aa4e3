"""The random facts of a round besides its graph, and the demand: how rare bad events have to be."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import bdtr, bdtrik, xlog1py, xlogy

from ccesa.errors import ConfigError
from ccesa.graphs.per_step import PerStep
from ccesa.graphs.tails import LN2, Binomial, Counts, Distribution, Hypergeometric, Logs, log_falling
from ccesa.guards import Guard
from ccesa.parts import check_clients, whole_number

#: With more clients, differences of logarithms lose more than the slack of a certificate covers.
MAX_PLANNED = 10**8
#: 2^-10 of the reliability budget is set aside for rounds that fewer than F clients join.
SHORT_BITS = 10


@dataclass(frozen=True, kw_only=True)
class Assumptions:
    """How many clients drop out and collude, independently of the graph.

    Attributes:
        clients: How many are enrolled, 3 to 10^8.
        dropout: The probability in [0, 1) with which each client drops out by itself.
        collusion: The fraction in [0, 1) of clients that collude, rounded up; they may drop out too.
        exact: Whether exactly a fraction ``dropout`` of all clients drops out, rounded up.
        per_step: In which steps clients drop out, ``dropout`` in all; without it, all in the worst step.

    Raises:
        ConfigError: A field is out of range, or two contradict each other.
    """

    clients: int
    dropout: float
    collusion: float = 0.0
    exact: bool = False
    per_step: PerStep | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "clients", whole_number("clients", self.clients))
        check_clients(self.clients)
        if self.clients > MAX_PLANNED:
            raise ConfigError(f"the planner takes at most {MAX_PLANNED:,} clients, not {self.clients:,}")
        for name in ("dropout", "collusion"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
                raise ConfigError(f"{name} must be a fraction in [0, 1), not {value!r}")
        if self.per_step is None:
            return
        if self.exact:
            raise ConfigError("exact dropout needs one fraction for the whole round, not dropout per step")
        if self.dropout != self.per_step.total:
            raise ConfigError(f"dropout = {self.dropout!r}, but the steps add up to {self.per_step.total!r}")

    @property
    def colluders(self) -> int:
        """How many clients collude."""
        return _part(self.collusion, self.clients)

    @property
    def dropped(self) -> int:
        """How many clients drop out, if ``exact``."""
        return _part(self.dropout, self.clients)

    @property
    def staying(self) -> int:
        """How many clients are expected to stay, to the nearest whole number."""
        return self.clients - self.dropped if self.exact else round((1.0 - self.dropout) * self.clients)

    @property
    def absent(self) -> float:
        """The probability of not being in V1; 0 without dropouts per step."""
        return 0.0 if self.per_step is None else self.per_step.leaving("advertise", "advertise")

    @property
    def unmasked(self) -> tuple[float, float]:
        """The probabilities of being unmasked with the client's own share, and without it: 1 if not per step."""
        if self.per_step is None:
            return 0.0, 1.0
        stays = self.per_step.advertises * self.per_step.stays
        return stays, self.per_step.shares * self.per_step.leaving("mask", "unmask")

    @property
    def leaves(self) -> float:
        """The probability that a client of V1 does not stay to the end."""
        return self.dropout if self.per_step is None else self.per_step.leaves

    @property
    def live(self) -> Distribution:
        """The distribution of neighbours in V1 that stay to the end, around a client that stays."""
        if not self.exact:
            return Binomial.failing(self.leaves)
        return Hypergeometric(self.clients - 1, max(self.clients - 1 - self.dropped, 0))

    @property
    def colluding(self) -> Distribution:
        """The distribution of colluding neighbours around an honest client."""
        return Hypergeometric(self.clients - 1, min(self.colluders, self.clients - 1))

    def log_fate(self, gone: Counts, stay: int) -> Logs:
        """Return ln P(``gone`` given clients all drop out and ``stay`` others all stay)."""
        if not self.exact:
            return np.asarray(xlogy(gone, self.dropout) + xlog1py(stay, -self.dropout))
        return _log_pattern(self.clients, self.dropped, gone, stay)

    def log_collude(self, many: Counts, honest: Counts) -> Logs:
        """Return ln P(``many`` given clients all collude and ``honest`` others do not)."""
        return _log_pattern(self.clients, self.colluders, many, honest)

    @property
    def honest_survivors(self) -> tuple[Distribution, int]:
        """The distribution of honest clients that stay, and its number of draws."""
        honest = self.clients - self.colluders
        if not self.exact:
            return Binomial.failing(self.dropout), honest
        return Hypergeometric(self.clients, self.clients - self.dropped), honest


@dataclass(frozen=True, kw_only=True)
class Roster:
    """The V1 that a round accepts: ``least`` = F clients or more that advertise their keys.

    The smallest roster may contain all colluders, because they need not leave when others do. Under ``curious`` a
    fraction γ of all clients colludes. Under ``active`` γ is a fraction of the roster that a lying server chooses. Some
    plans bear more colluders, up to a fraction γ of all clients, in any roster (``anywhere``).
    """

    assumptions: Assumptions
    least: int
    #: ln of a bound on the probability that an honest round has fewer.
    log_short: float = -math.inf
    #: Whether a lying server chooses the roster: any F clients or more, with every colluder among them.
    chosen: bool = False
    #: The number of colluders in every roster, even the smallest; zero if they are a fraction of each.
    anywhere: int = 0

    @property
    def colluders(self) -> int:
        """How many of all clients may collude so that no roster of F or more has too many; at least 1 if γ > 0."""
        return self.of(self.least)

    def of(self, size: int) -> int:
        """Return how many may collude in a roster of this size."""
        if not self.chosen:
            return min(self.assumptions.colluders, self.assumptions.clients - 1)
        if self.anywhere:
            return self.anywhere
        part = math.floor(round(self.assumptions.collusion * size, 6))
        return max(part, min(1, self.assumptions.colluders))

    @property
    def smallest(self) -> int:
        """The size of the smallest roster that has all colluders and an honest client."""
        return self.least if self.chosen else max(self.least, self.colluders + 1)

    @property
    def worst(self) -> int:
        """The size of the worst roster: the smallest for a fixed number of colluders, everyone for a fraction."""
        return self.assumptions.clients if self.chosen else self.smallest

    @property
    def honest(self) -> int:
        """How many clients of the worst roster are honest."""
        return max(self.worst - self.assumptions.colluders, 1)

    @property
    def colluding(self) -> Distribution:
        """The distribution of colluding neighbours around an honest client, in the worst roster."""
        return Hypergeometric(self.worst - 1, min(self.assumptions.colluders, self.worst - 1))

    @classmethod
    def expected(cls, assumptions: Assumptions, reliability_bits: float, *, chosen: bool) -> "Roster":
        """Return the roster with the largest F that an honest round reaches.

        Without dropouts per step all clients may leave in step 0. With colluders under ``curious`` F counts the vectors
        that arrive, because such a round insists on them (``min_survivors``).
        """
        n, gone = assumptions.clients, assumptions.dropout
        if assumptions.per_step is not None:
            insists = assumptions.colluders > 0 and not chosen
            gone = assumptions.per_step.leaving("advertise", "confirm") if insists else assumptions.absent
        if assumptions.exact or not gone:
            least = n - assumptions.dropped if assumptions.exact else n
            return cls(assumptions=assumptions, least=max(3, least), chosen=chosen)
        bits = reliability_bits + SHORT_BITS
        anybody = math.log(-math.expm1(n * math.log1p(-gone)))  # ln P(somebody leaves)
        if anybody <= -bits * LN2:
            return cls(assumptions=assumptions, least=n, log_short=anybody, chosen=chosen)
        least = int(bdtrik(2.0**-bits, n, 1.0 - gone)) + 2  # not below the quantile
        while least > 0 and bdtr(least - 1, n, 1.0 - gone) > 2.0**-bits:
            least -= 1
        return cls(assumptions=assumptions, least=max(3, least), log_short=-bits * LN2, chosen=chosen)


def _part(fraction: float, of: int) -> int:
    return math.ceil(round(fraction * of, 6))  # in floats 0.1 * 30 is more than 3


def _log_pattern(n: int, marked: int, inside: Counts, outside: Counts | int) -> Logs:
    """Return ln P(``inside`` given clients are marked and ``outside`` others are not), if ``marked`` of n are."""
    inside, outside = np.asarray(inside), np.asarray(outside)
    possible = (inside <= marked) & (outside <= n - marked)
    inside, outside = np.where(possible, inside, 0), np.where(possible, outside, 0)
    logs = log_falling(marked, inside) + log_falling(n - marked, outside) - log_falling(n, inside + outside)
    return np.where(possible, logs, -np.inf)


#: An event around a client. Its thresholds and degrees give the number of colluding neighbours with which it happens.
Event = Callable[[Counts, Counts], Counts]


def exposed(t: Counts, degrees: Counts) -> Counts:
    """Return how many hold t shares together with the client; at least 1, as all that take part have a neighbour."""
    return np.maximum(t - 1, 1)


def unmaskable(t: Counts, degrees: Counts) -> Counts:
    """Return how many make two sets of t holders possible, being in both: h + 2 c + 1 >= 2 t."""
    return 2 * t - degrees - 1


def fewer_honest(than: int) -> Event:
    """Return the event that fewer honest clients than this, itself included, can open it: t - c < than."""
    return lambda t, degrees: t - than + 1


def more_colluders(than: int) -> Event:
    """Return the event that more than this number of neighbours collude."""
    return lambda t, degrees: np.full_like(t, than + 1)


RELIABILITY_BITS = 20.0
MAX_BITS = 160


@dataclass(frozen=True, kw_only=True)
class Demand:
    """How rare unreliable rounds have to be, and all privacy events together, in bits."""

    reliability_bits: float
    privacy_bits: float
    guard: Guard
    roster: Roster
    #: Bits by which a graph has to be more reliable than a round, because rounds also fail for other reasons.
    margin: float = 0.0

    @classmethod
    def of(
        cls,
        assumptions: Assumptions,
        guard: Guard,
        privacy_bits: float | None = None,
        reliability_bits: float | None = None,
    ) -> "Demand":
        """Return a demand, with defaults for what is not given and at least the guard's fewest colluders."""
        privacy = guard.privacy_bits if privacy_bits is None else privacy_bits
        reliability = RELIABILITY_BITS if reliability_bits is None else reliability_bits
        for name, value in (("privacy_bits", privacy), ("reliability_bits", reliability)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_BITS:
                raise ConfigError(f"{name} must be above 0 and at most {MAX_BITS}, not {value!r}")
        if assumptions.colluders < guard.least_colluders:
            assumptions = replace(assumptions, collusion=guard.least_colluders / assumptions.clients)
        roster = Roster.expected(assumptions, reliability, chosen=guard.chooses_roster)
        return cls(reliability_bits=reliability, privacy_bits=privacy, guard=guard, roster=roster)

    def change(self, *, reliability_bits: float | None = None, **changes: Any) -> "Demand":
        """Return the same demand with another reliability, or under other assumptions."""
        bits = self.reliability_bits if reliability_bits is None else reliability_bits
        per_step = self.assumptions.per_step
        if "dropout" in changes and per_step is not None:  # scaled to about that total
            scaled = per_step.scaled(changes["dropout"])
            changes |= {"dropout": scaled.total, "per_step": scaled}
        return Demand.of(replace(self.assumptions, **changes), self.guard, self.privacy_bits, bits)

    @property
    def assumptions(self) -> Assumptions:
        return self.roster.assumptions

    @property
    def events(self) -> tuple[Event, ...]:
        """The events that colluding neighbours must not bring about."""
        return tuple(event for event in (exposed, unmaskable) if event.__name__ in self.guard.events)

    @property
    def graph_bits(self) -> float:
        """The reliability that the graph has to have, in bits."""
        return self.reliability_bits + self.margin

    @property
    def log_unreliable(self) -> float:
        return -self.graph_bits * LN2

    @property
    def log_private(self) -> float:
        return -self.privacy_bits * LN2
