"""Who may vanish and who may collude: everything random about a round that is not its graph."""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import xlog1py, xlogy

from ccesa.chances.tails import Binomial, Counts, Family, Hypergeometric, Logs, log_falling
from ccesa.errors import ConfigError
from ccesa.guards import Guard
from ccesa.parts import check_clients, whole_number

#: Beyond, differences of logarithms lose more than the slack of a certificate covers.
MAX_PLANNED = 10**8


@dataclass(frozen=True, kw_only=True)
class Assumptions:
    """``clients`` of whom a fraction colludes and a fraction vanishes, neither looking at the graph.

    Each client vanishes by itself with probability ``dropout``, or, where ``exact``, exactly that fraction
    (rounded up) of all clients does. Colluders are exactly a fraction (rounded up); they may vanish too.
    """

    clients: int
    dropout: float
    collusion: float = 0.0
    exact: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "clients", whole_number("clients", self.clients))
        check_clients(self.clients)
        if self.clients > MAX_PLANNED:
            raise ConfigError(f"rounds are planned for at most {MAX_PLANNED:,} clients, not {self.clients:,}")
        for name in ("dropout", "collusion"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
                raise ConfigError(f"{name} is a fraction of the clients, in [0, 1), not {value!r}")

    @classmethod
    def under(
        cls, guard: Guard, clients: int, dropout: float, collusion: float | None, *, exact: bool
    ) -> "Assumptions":
        """Return what was said, with the guard's default for what was not, and its fewest colluders."""
        fraction = guard.collusion if collusion is None else collusion
        return cls(clients=clients, dropout=dropout, collusion=fraction, exact=exact).at_least(guard)

    def at_least(self, guard: Guard) -> "Assumptions":
        """Return the same with as many colluders as the guard asks for at least."""
        if self.colluders >= guard.least_colluders:
            return self
        return replace(self, collusion=guard.least_colluders / self.clients)

    @property
    def colluders(self) -> int:
        return _part(self.collusion, self.clients)

    @property
    def dropped(self) -> int:
        """How many vanish, where exactly a fraction does."""
        return _part(self.dropout, self.clients)

    @property
    def live(self) -> Family:
        """How many of a client's d neighbours stay to the end. The client itself is one that stays."""
        if not self.exact:
            return Binomial(1.0 - self.dropout)
        return Hypergeometric(self.clients - 1, max(self.clients - 1 - self.dropped, 0))

    @property
    def colluding(self) -> Family:
        """How many of an honest client's d neighbours collude."""
        return Hypergeometric(self.clients - 1, min(self.colluders, self.clients - 1))

    def log_fate(self, gone: Counts, stay: int) -> Logs:
        """ln P(these clients all vanish and those all stay), for each number of ``gone``."""
        if not self.exact:
            return np.asarray(xlogy(gone, self.dropout) + xlog1py(stay, -self.dropout))
        return _log_pattern(self.clients, self.dropped, gone, stay)

    def log_collude(self, many: Counts, honest: Counts) -> Logs:
        """ln P(these ``many`` clients all collude and those ``honest`` ones do not)."""
        return _log_pattern(self.clients, self.colluders, many, honest)

    @property
    def honest_survivors(self) -> tuple[Family, int]:
        """How many honest clients stay, as a family and its number of draws."""
        honest = self.clients - self.colluders
        if not self.exact:
            return Binomial(1.0 - self.dropout), honest
        return Hypergeometric(self.clients, self.clients - self.dropped), honest


def _part(fraction: float, of: int) -> int:
    return math.ceil(round(fraction * of, 6))  # 0.1 * 30 is 3, whatever floats say


def _log_pattern(n: int, marked: int, inside: Counts, outside: Counts | int) -> Logs:
    """ln P(``inside`` given ones are marked and ``outside`` others are not), ``marked`` of n at random."""
    inside, outside = np.asarray(inside), np.asarray(outside)
    possible = (inside <= marked) & (outside <= n - marked)
    inside, outside = np.where(possible, inside, 0), np.where(possible, outside, 0)
    logs = log_falling(marked, inside) + log_falling(n - marked, outside) - log_falling(n, inside + outside)
    return np.where(possible, logs, -np.inf)
