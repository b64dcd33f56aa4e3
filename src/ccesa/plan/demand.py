"""What a plan has to keep: who may vanish and collude, and how rare everything bad has to be."""

from dataclasses import dataclass, replace
from typing import Any

from ccesa.config import Graph, Threshold
from ccesa.errors import ConfigError
from ccesa.plan.certify import certify, check_guard
from ccesa.plan.events import Event, exposed, unmaskable
from ccesa.plan.population import Population
from ccesa.plan.roster import LN2, Roster, roster

#: A lying server tries rosters offline, as many as it can compute, until a graph suits it.
PRIVACY_BITS = {"curious": 40.0, "active": 128.0}
RELIABILITY_BITS = 20.0
MAX_BITS = 160
#: A server that lies has a few friends.
COLLUSION = {"curious": 0.0, "active": 0.1}


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What may happen at most: unreliable rounds, and all privacy events that count together, in bits."""

    reliability_bits: float
    privacy_bits: float
    guard: str
    roster: Roster

    @classmethod
    def of(
        cls,
        population: Population,
        guard: str,
        privacy_bits: float | None = None,
        reliability_bits: float | None = None,
    ) -> "Demand":
        """What was asked for, and the defaults for the rest."""
        privacy = PRIVACY_BITS[guard] if privacy_bits is None else privacy_bits
        reliability = RELIABILITY_BITS if reliability_bits is None else reliability_bits
        for name, value in (("privacy_bits", privacy), ("reliability_bits", reliability)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_BITS:
                raise ConfigError(f"{name} must lie above 0 and be at most {MAX_BITS}, not {value!r}")
        return cls(
            reliability_bits=reliability,
            privacy_bits=privacy,
            guard=guard,
            roster=roster(population, reliability, chosen=guard == "active"),
        )

    def changed(self, *, reliability_bits: float | None = None, **population: Any) -> "Demand":
        """The same demand with another reliability, or of another population."""
        bits = self.reliability_bits if reliability_bits is None else reliability_bits
        changed = _befriended(replace(self.population, **population), self.guard)
        return Demand.of(changed, self.guard, self.privacy_bits, bits)

    @property
    def population(self) -> Population:
        return self.roster.population

    @property
    def events(self) -> tuple[Event, ...]:
        """What colluding neighbours must not be enough for."""
        return (unmaskable, exposed) if self.guard == "active" else (exposed,)

    @property
    def log_unreliable(self) -> float:
        return -self.reliability_bits * LN2

    @property
    def log_private(self) -> float:
        return -self.privacy_bits * LN2

    def kept_by(self, graph: Graph, threshold: Threshold) -> bool:
        """Whether the certificate says so."""
        certificate = certify(graph, threshold, self.population, self.roster)
        reliable = certificate.unreliable <= -self.reliability_bits
        return reliable and certificate.privacy(self.guard) <= -self.privacy_bits


def people(clients: int, dropout: float, collusion: float | None, guard: str, *, exact: bool) -> Population:
    """Who may vanish and collude, with the guard's default; under ``active`` at least one client colludes."""
    check_guard(guard)
    share = COLLUSION[guard] if collusion is None else collusion
    return _befriended(Population(clients=clients, dropout=dropout, collusion=share, exact=exact), guard)


def _befriended(population: Population, guard: str) -> Population:
    if guard == "active" and population.colluders == 0:
        return replace(population, collusion=1 / population.clients)
    return population
