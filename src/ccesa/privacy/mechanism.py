"""``Mechanism``: the numbers that every client has in common, and what they promise.

All of them are public and none comes in a message: they stand in the charter, or whatever was agreed on.
A vector of L2 norm up to ``norm`` becomes ``dimension`` whole numbers on a fine grid with the step
2^-``grid_bits``, of L2 norm up to ``bound``. Each is the centre of a draw from the discrete Gaussian on the
integers with variance ``variance`` / 256, and the draws lie in fields of ``field_bits`` bits.
"""

import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Literal, get_args

import msgspec

from ccesa import labels, wire
from ccesa.errors import ConfigError, quoted
from ccesa.parts import Part, check_integer
from ccesa.privacy import accounting
from ccesa.privacy.table import VARIANCE_UNITS, most_distance
from ccesa.values.fields import WORD_BITS, Fields, is_positive

# Releases


#: More than the sums and roots of floats here can flatter.
_FLATTERY = 2.0**-40


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
        left = (allowed * (1 - _FLATTERY) - self.delta) * math.exp(-self.slack)
        if left <= 0:
            return math.inf
        return accounting.gaussian_epsilon(left, math.sqrt(self.mu2) * (1 + _FLATTERY)) + 2 * self.slack


def total(releases: Iterable[Release]) -> Release:
    """Add up what vectors spend; each sum is exact, and then rounded up.

    Args:
        releases: Of any mechanisms.
    """
    every = list(releases)
    sums = {one.name: math.fsum(getattr(release, one.name) for release in every) for one in fields(Release)}
    return Release(**{name: math.nextafter(value, math.inf) if value else 0.0 for name, value in sums.items()})


# Demands


Against = Literal["follows", "lies"]
#: What a promise is about, where it is not a client's whole vector.
Unit = Literal["record"]

#: Below, floats cannot tell the terms of delta apart; above, nothing is private.
LEAST_DELTA, MOST_EPSILON = 1e-12, 50.0
MOST_ROUNDS = 10**9


class DifferentialPrivacy(Part, frozen=True, kw_only=True):
    """How little all published sums together tell about any one client.

    Whatever is published would have been as likely, up to a factor e^epsilon and except with delta, if one
    client's vectors had all been zero. Who survived each round is public.

    Attributes:
        epsilon: Above 0 and at most 50; below 1 is strong, above 10 says little.
        delta: At least 10^-12 and below 1; well below one over the number of clients.
        rounds: So many vectors of one client may leave, those of lost rounds included.
        norm: The L2 norm to which a client's vector is clipped.
        against: ``follows``: a server that follows the protocol; ``lies``: one that may not.
        unit: ``record``: the promise is about one record of a client's table more or less, and ``norm`` about
            what it adds to the client's vector. Left out, it is about the client.

    Raises:
        ConfigError: A field is out of range.
    """

    epsilon: float
    delta: float
    rounds: int
    norm: float
    against: Against = "follows"
    unit: Unit | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        check_demand(self)
        for name in ("epsilon", "delta", "norm"):  # numpy's narrower floats would round what follows
            msgspec.structs.force_setattr(self, name, float(getattr(self, name)))


def check_demand(asked: Part) -> None:
    """Check the fields of a demand, wherever they are.

    Raises:
        ConfigError: A field is out of range; the text names it.
    """
    epsilon, delta, rounds, norm, against, unit = (
        getattr(asked, name) for name in DifferentialPrivacy.__struct_fields__
    )
    check_budget(epsilon, delta)
    check_integer("rounds", rounds)
    if not 1 <= rounds <= MOST_ROUNDS:
        raise ConfigError(f"rounds must lie in 1..{MOST_ROUNDS}, not {rounds}")
    if not is_positive(norm) or not 1e-100 < float(norm) < 1e100:
        raise ConfigError(f"norm must be a positive number, not {quoted(norm)}")
    if against not in get_args(Against):
        raise ConfigError(f"against must be one of {', '.join(get_args(Against))}, not {quoted(against)}")
    if unit not in (msgspec.UNSET, *get_args(Unit)):
        raise ConfigError(f"unit must be {', '.join(get_args(Unit))} or left out, not {quoted(unit)}")


def check_budget(epsilon: float, delta: float) -> None:
    """Check an epsilon with its delta.

    Raises:
        ConfigError: One of them is out of range; the text names it.
    """
    if not is_positive(epsilon) or float(epsilon) > MOST_EPSILON:
        raise ConfigError(f"epsilon must lie above 0 and be at most {MOST_EPSILON:g}, not {quoted(epsilon)}")
    if not is_positive(delta) or not LEAST_DELTA <= float(delta) < 1:
        raise ConfigError(f"delta must be at least {LEAST_DELTA:g} and below 1, not {quoted(delta)}")


# The mechanism


#: The bounds on the standard deviation of one client's noise. Below, sums of draws are not Gaussian enough.
LEAST_DEVIATION, MOST_DEVIATION = 2.2, 32.0
_LEAST_VARIANCE = math.ceil(VARIANCE_UNITS * LEAST_DEVIATION**2)
_MOST_VARIANCE = math.floor(VARIANCE_UNITS * MOST_DEVIATION**2)
#: A field holds so many standard deviations of the sum on each side; what lies beyond wraps.
_SIDES = 4.5
#: How much more noise the fine grid may cost, and the integers; and how much of epsilon the slack.
_ROUNDING_LOSS, _LATTICE_LOSS, MOST_SLACK = 0.006, 0.002, 1e-6
_GRID_BITS = range(6, 13)
_LARGEST = {"honest": 2**32, "dimension": 2**36, "variance": 2**20, "bound": 2**31, "grid_bits": 12}
_FLOATS = ("epsilon", "delta", "norm", "fails")


class Mechanism(Part, frozen=True, kw_only=True, dict=True):
    """Everything public about the noise of a federation's rounds, with what was asked for.

    Attributes:
        epsilon: As in ``DifferentialPrivacy``, and so are the four after it and ``unit``.
        delta: As above.
        rounds: As above.
        norm: As above.
        against: As above.
        honest: H: honest clients in every sum that can be opened, whose noise is counted on.
        dimension: Parameters of the model, d.
        variance: The variance of one client's noise, in units of 1/256.
        grid_bits: The fine grid has the step 2^-grid_bits.
        bound: The largest L2 norm of a contribution, in steps of the fine grid.
        field_bits: Bits of a field.
        fails: The log2 of a bound on the chance, per round, that fewer than ``honest`` add noise.
        unit: As above.

    Raises:
        ConfigError: Numbers that cannot be, or with which the promise does not hold.
    """

    epsilon: float
    delta: float
    rounds: int
    norm: float
    against: Against = "follows"
    honest: int
    dimension: int
    variance: int
    grid_bits: int
    bound: int
    field_bits: int
    fails: float
    unit: Unit | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        check_demand(self)
        for name, most in _LARGEST.items():
            check_integer(name, getattr(self, name))
            if not 1 <= getattr(self, name) <= most:
                raise ConfigError(f"{name} of the noise must lie in 1..{most}, not {getattr(self, name)}")
        _check_fails(self.fails)
        for name in _FLOATS:  # 3 and 3.0 would have two digests
            msgspec.structs.force_setattr(self, name, float(getattr(self, name)))
        _ = self.fields
        if not LEAST_DEVIATION <= self.deviation <= MOST_DEVIATION:
            raise ConfigError(
                f"noise with a standard deviation of {self.deviation:.3g} per client; it must lie in "
                f"{LEAST_DEVIATION}..{MOST_DEVIATION:g} steps"
            )
        if not self.release.slack * self.rounds <= MOST_SLACK:
            raise ConfigError(
                f"over {self.rounds} rounds of {self.dimension} parameters the noise is not Gaussian enough: "
                "take fewer rounds, or more bits per parameter"
            )
        kept = self.certified()
        if not kept <= self.epsilon:
            raise ConfigError(f"this noise gives epsilon = {kept:.4g}, not the {self.epsilon:g} it promises")

    @property
    def demand(self) -> DifferentialPrivacy:
        """What was asked for."""
        return DifferentialPrivacy(**{name: getattr(self, name) for name in DifferentialPrivacy.__struct_fields__})

    @cached_property
    def digest(self) -> bytes:
        """The 32-byte digest of all numbers, by which a ledger knows the mechanism."""
        return labels.digest(labels.MECHANISM, wire.encode(self))

    @property
    def s2(self) -> Fraction:
        """The variance of one client's noise, in integers."""
        return Fraction(self.variance, VARIANCE_UNITS)

    @property
    def deviation(self) -> float:
        """The standard deviation of one client's noise, in integers."""
        return math.sqrt(self.s2)

    @property
    def step(self) -> float:
        """One integer in units of the vector."""
        return self.norm * 2.0**self.grid_bits / self.bound

    @property
    def fields(self) -> Fields:
        """How numbers lie in words. What is too large for its field wraps, which is no error."""
        return Fields(self.field_bits, 1)

    @property
    def length(self) -> int:
        """Words of a vector, of 64 bits each."""
        return self.fields.length(self.dimension)

    def noise(self, survivors: int) -> float:
        """Return the standard deviation of one coordinate of a sum, in units of the vector.

        Args:
            survivors: How many clients are in the sum.
        """
        return math.sqrt(survivors) * self.deviation * self.step

    @property
    def curator(self) -> float:
        """The standard deviation that a trusted curator would add to a sum for the same promise."""
        return self.norm * math.sqrt(self.rounds) / accounting.gaussian_mu(self.epsilon, self.delta)

    @cached_property
    def release(self) -> Release:
        """What one vector spends, if ``honest`` clients are in every sum."""
        return self.released(self.honest)

    def released(self, honest: int, epsilon: float | None = None, fails: float | None = None) -> Release:
        """Return what one vector spends if every sum has the noise of so many honest clients.

        Args:
            honest: At least 1.
            epsilon: At which delta is asked for, where that is not the mechanism's own.
            fails: The log2 of a bound on the chance of fewer, where that is not the mechanism's own.
        """
        variance = float(honest * self.s2) - accounting.R**2
        draws = self.dimension * honest
        factor = 1 + math.exp(self.epsilon if epsilon is None else epsilon)
        failing = 2.0 ** (self.fails if fails is None else fails)
        return Release(
            mu2=(self.bound / 2.0**self.grid_bits) ** 2 / variance,
            delta=factor * draws * float(most_distance(self.variance)) + failing,
            slack=accounting.slack(honest, self.deviation, self.dimension),
        )

    def certified(self, honest: int | None = None, fails: float | None = None) -> float:
        """Return the epsilon that all rounds together keep at ``delta``, rounded up; infinity if none.

        Args:
            honest: Honest clients in every sum, where that is not ``honest`` of the mechanism.
            fails: The log2 of a bound on the chance of fewer, where that is not the mechanism's own.
        """
        honest = self.honest if honest is None else honest

        def kept(most: float) -> float:
            """Return epsilon, which holds if it is at most ``most``."""
            return self.released(honest, most, fails).times(self.rounds).epsilon(self.delta)

        found = kept(self.epsilon)
        if found <= self.epsilon or found == math.inf:
            return found
        again = kept(found + 1)  # the draws' distance counts e^epsilon times
        return again if again <= found + 1 else math.inf


def chosen(
    demand: DifferentialPrivacy,
    *,
    clients: int,
    honest: int,
    dimension: int,
    fails: float = -math.inf,
    field_bits: int | None = None,
) -> Mechanism:
    """Return the mechanism with the narrowest fields that cost hardly any noise, or with the given ones.

    Args:
        demand: What is asked for.
        clients: The most clients in a sum: fields have room for the noise of all of them.
        honest: Honest clients in every sum that can be opened.
        dimension: Parameters of the model.
        fails: The log2 of a bound on the chance, per round, that fewer than ``honest`` add noise.
        field_bits: Bits of a field, where they are not to be chosen.

    Raises:
        ConfigError: No noise keeps the demand, or not in fields of so few bits.
    """
    for name, value in (("clients", clients), ("honest", honest), ("dimension", dimension)):
        check_integer(name, value)
        if value < 1:
            raise ConfigError(f"{name} must be at least 1, not {value}")
    _check_fails(fails)
    if field_bits is not None:
        Fields(field_bits, 1)  # refuses what cannot be
    draws = (1 + math.exp(demand.epsilon)) * honest * dimension * float(most_distance(_MOST_VARIANCE))
    left = demand.delta * (1 - 1e-6) - demand.rounds * (2.0**fails + draws)
    if not left > 0:
        raise ConfigError(
            f"the graph may fail with 2^{fails:.1f} in each of {demand.rounds} rounds, and the draws' "
            f"distance counts as {draws:.1g}: more than delta = {demand.delta:g} in all. Ask for more "
            "privacy_bits, a larger delta or a smaller epsilon"
        )
    epsilon = max(0.0, demand.epsilon * (1 - 1e-9) - 2 * MOST_SLACK)
    mu = accounting.gaussian_mu(epsilon, left) / math.sqrt(demand.rounds)
    too_coarse = False
    for bits, loss in _widths(field_bits):
        deviation = _deviation(bits, clients, honest, dimension, mu)
        variance = math.floor(VARIANCE_UNITS * deviation**2)
        if variance < _LEAST_VARIANCE or 2 * loss * honest * deviation**2 < accounting.R**2:
            continue
        grid = _grid_bits(honest, dimension, variance, mu)
        too_coarse = grid is None
        if grid is not None:
            return Mechanism(
                **msgspec.structs.asdict(demand),
                honest=honest,
                dimension=dimension,
                variance=variance,
                grid_bits=grid,
                bound=_bound(honest, variance, grid, mu),
                field_bits=bits,
                fails=fails,
            )
    if too_coarse:
        raise ConfigError(
            f"rounding {dimension} parameters would cost more than {_ROUNDING_LOSS:.1%} of a vector: "
            f"with epsilon = {demand.epsilon:g} and {demand.rounds} rounds, the noise of {honest} honest "
            "clients, the fewest in a sum, hides only vectors that are as short as that. Take a larger "
            "epsilon, fewer rounds or more clients"
        )
    width = f"{field_bits} bits are" if field_bits else f"up to {WORD_BITS} bits are"
    raise ConfigError(
        f"fields of {width} too narrow for the noise of {clients} clients over {dimension} parameters: take "
        + ("more bits, or leave the number out, and it is chosen" if field_bits else "fewer clients")
    )


def mixed(dimension: int) -> int:
    """Return over how many coordinates one of this many is spread: the largest power of two among them."""
    return 1 << (dimension.bit_length() - 1)


def _check_fails(fails: object) -> None:
    """Refuse what is not the log2 of a probability, or an integer that is no float."""
    if not isinstance(fails, int | float) or not (-sys.float_info.max <= fails <= 0 or fails == -math.inf):
        raise ConfigError(f"fails must be the log2 of a probability, not {quoted(fails)}")


def _widths(field_bits: int | None) -> Iterator[tuple[int, float]]:
    """Yield widths of fields that fill a word, and how much noise each may cost; a given one may cost any."""
    if field_bits is not None:
        yield field_bits, math.inf
        return
    for per_word in range(WORD_BITS // 8, 0, -1):
        yield WORD_BITS // per_word, _LATTICE_LOSS


def _deviation(bits: int, clients: int, honest: int, dimension: int, mu: float) -> float:
    """Return the largest standard deviation of one client's noise for fields of so many bits.

    A coordinate of the sum has the noise of all clients; and of the vectors, which point the same way at
    worst, as much as the rotation leaves in one of 2^k coordinates.
    """
    variance = clients + clients**2 * mu**2 * honest / mixed(dimension)
    return min(2.0**bits / (2 * _SIDES * math.sqrt(variance)), MOST_DEVIATION)


def _grid_bits(honest: int, dimension: int, variance: int, mu: float) -> int | None:
    """Return the coarsest grid on which rounding costs hardly any of the norm.

    Vectors are rounded, which is d / 12 in its square, and so is the bound itself.
    """
    for bits in _GRID_BITS:
        bound = _bound(honest, variance, bits, mu)
        if dimension / 24 + bound / 2 <= _ROUNDING_LOSS * bound**2 and bound:
            return bits
    return None


def _bound(honest: int, variance: int, grid_bits: int, mu: float) -> int:
    """Return the largest norm, in steps of the fine grid, that this noise hides as much as mu says."""
    return math.floor(2.0**grid_bits * mu * math.sqrt(honest * variance / VARIANCE_UNITS - accounting.R**2))
