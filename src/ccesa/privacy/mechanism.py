"""``Mechanism``: the numbers of the noise that all clients share, and what they promise.

All of them are public, and none is in a message: they are in the charter, or in another agreement. A vector of L2 norm
up to ``norm`` becomes ``dimension`` whole numbers on a fine grid with the step 2^-``grid_bits``, of L2 norm up to
``bound``. Each is the centre of a draw from the discrete Gaussian on the integers with variance ``variance`` / 256. The
draws are in fields of ``field_bits`` bits.
"""

import dataclasses
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, get_args

import msgspec

from ccesa import labels, wire
from ccesa.errors import ConfigError, quoted
from ccesa.parts import Part, check_integer, check_range
from ccesa.privacy import accounting
from ccesa.privacy.table import VARIANCE_UNITS, most_distance
from ccesa.values.fields import WORD_BITS, Fields, is_positive

# Releases


#: More than the rounding errors of all sums and roots of floats here.
_ROUNDING = 2.0**-40


@dataclass(frozen=True, kw_only=True)
class Release:
    """The spending of one vector, or of several together.

    Attributes:
        mu2: The square of its mu, which adds up over releases.
        delta: The part of delta that it adds outright: the table's distance, and the probability that the graph fails.
        slack: The part of L that it adds.
    """

    mu2: float
    delta: float
    slack: float

    def times(self, count: int) -> "Release":
        """Return what ``count`` vectors like this one spend together."""
        return Release(mu2=count * self.mu2, delta=count * self.delta, slack=count * self.slack)

    def epsilon(self, allowed: float) -> float:
        """Return epsilon at a delta, rounded up. It holds if it is at most the epsilon that ``self.delta`` is for."""
        left = (allowed * (1 - _ROUNDING) - self.delta) * math.exp(-self.slack)
        if left <= 0:
            return math.inf
        return accounting.gaussian_epsilon(left, math.sqrt(self.mu2) * (1 + _ROUNDING)) + 2 * self.slack


def total(releases: Iterable[Release]) -> Release:
    """Add up releases of any mechanisms. Each sum is exact, and then rounded up."""
    every = list(releases)
    sums = {one.name: math.fsum(getattr(release, one.name) for release in every) for one in dataclasses.fields(Release)}
    return Release(**{name: math.nextafter(value, math.inf) if value else 0.0 for name, value in sums.items()})


# Demands


Against = Literal["follows", "lies"]
#: The subject of a promise, if not a client's whole vector.
Unit = Literal["record"]

#: With a smaller delta, floats cannot tell its terms apart. With a larger epsilon nothing is private.
MIN_DELTA, MAX_EPSILON = 1e-12, 50.0
MAX_ROUNDS = 10**9


class DifferentialPrivacy(Part, frozen=True, kw_only=True):
    """How little all published sums together reveal about any one client.

    Everything that is published would be as likely, up to a factor e^epsilon and except with delta, if one client's
    vectors had all been zero. The survivors of each round are public.

    Attributes:
        epsilon: Above 0 and at most 50. Below 1 is strong, above 10 says little.
        delta: At least 10^-12 and below 1; much less than one over the number of clients.
        rounds: How many vectors of one client may leave, including those of lost rounds.
        norm: The L2 norm to which a client's vector is clipped.
        against: ``follows`` for a server that follows the protocol, ``lies`` for a server that may not.
        unit: ``record`` if the promise is about one record of a client's table; ``norm`` is then about what a record
            adds to the client's vector. Without it the promise is about the client.

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
        _check_demand(self)
        settle(self, "epsilon", "delta", "norm")


def settle(part: Part, *names: str) -> None:
    """Store numbers as floats: 3 and 3.0 would have two digests, and numpy's narrower floats would round."""
    for name in names:
        msgspec.structs.force_setattr(part, name, float(getattr(part, name)))


def _check_demand(asked: Part) -> None:
    epsilon, delta, rounds, norm, against, unit = (
        getattr(asked, name) for name in DifferentialPrivacy.__struct_fields__
    )
    check_budget(epsilon, delta)
    check_range("rounds", rounds, 1, MAX_ROUNDS)
    if not is_positive(norm) or not 1e-100 < float(norm) < 1e100:
        raise ConfigError(f"norm must be a positive number, not {quoted(norm)}")
    if against not in get_args(Against):
        raise ConfigError(f"against must be one of {', '.join(get_args(Against))}, not {quoted(against)}")
    if unit not in (msgspec.UNSET, *get_args(Unit)):
        raise ConfigError(f"unit must be {', '.join(get_args(Unit))} or left out, not {quoted(unit)}")


def check_budget(epsilon: float, delta: float) -> None:
    """Refuse an epsilon or a delta that is out of range."""
    if not is_positive(epsilon) or float(epsilon) > MAX_EPSILON:
        raise ConfigError(f"epsilon must lie above 0 and be at most {MAX_EPSILON:g}, not {quoted(epsilon)}")
    if not is_positive(delta) or not MIN_DELTA <= float(delta) < 1:
        raise ConfigError(f"delta must be at least {MIN_DELTA:g} and below 1, not {quoted(delta)}")


# The mechanism


#: The bounds on the standard deviation of one client's noise. With less, sums of draws are not Gaussian enough.
MIN_DEVIATION, MAX_DEVIATION = 2.2, 32.0
_MIN_VARIANCE = math.ceil(VARIANCE_UNITS * MIN_DEVIATION**2)
_MAX_VARIANCE = math.floor(VARIANCE_UNITS * MAX_DEVIATION**2)
#: The part of epsilon that the slack may take.
MAX_SLACK = 1e-6
_LARGEST = {"honest": 2**32, "dimension": 2**36, "variance": 2**20, "bound": 2**31, "grid_bits": 12}


class Mechanism(Part, frozen=True, kw_only=True, dict=True):
    """Everything public about the noise of a federation's rounds, with the fields of the ``DifferentialPrivacy``.

    Attributes:
        honest: H: honest clients in every sum that can be opened, whose noise is counted on.
        dimension: Parameters of the model, d.
        variance: The variance of one client's noise, in units of 1/256.
        grid_bits: The fine grid has the step 2^-grid_bits.
        bound: The largest L2 norm of a contribution, in steps of the fine grid.
        field_bits: Bits of a field.
        fails: The log2 of a bound on the probability, per round, that fewer than ``honest`` add noise.

    Raises:
        ConfigError: A number is out of range, or the promise does not hold with these numbers.
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
        _check_demand(self)
        for name, most in _LARGEST.items():
            check_range(name, getattr(self, name), 1, most, of=" of the noise")
        _check_fails(self.fails)
        settle(self, "epsilon", "delta", "norm", "fails")
        _ = self.fields
        if not MIN_DEVIATION <= self.deviation <= MAX_DEVIATION:
            raise ConfigError(
                f"the standard deviation of a client's noise must lie in {MIN_DEVIATION}..{MAX_DEVIATION:g} steps, "
                f"not {self.deviation:.3g}"
            )
        if not self.release.slack * self.rounds <= MAX_SLACK:
            raise ConfigError(
                f"over {self.rounds} rounds of {self.dimension} parameters the noise is not Gaussian enough: "
                "take fewer rounds, or more bits per parameter"
            )
        kept = self.certify()
        if not kept <= self.epsilon:
            raise ConfigError(f"this noise gives epsilon = {kept:.4g}, not the {self.epsilon:g} it promises")

    @property
    def demand(self) -> DifferentialPrivacy:
        """The demand that the noise was made for."""
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
        """The fields of a word. A number that is too large for its field wraps, which is not an error."""
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
        """The standard deviation of the noise that a trusted curator would add to a sum for the same promise."""
        return self.norm * math.sqrt(self.rounds) / accounting.gaussian_mu(self.epsilon, self.delta)

    @cached_property
    def release(self) -> Release:
        """The spending of one vector, if ``honest`` clients are in every sum."""
        return self.release_at(self.honest)

    def release_at(self, honest: int, epsilon: float | None = None, fails: float | None = None) -> Release:
        """Return what one vector spends with another number of honest clients, or at another epsilon.

        Args:
            honest: Honest clients in every sum, at least 1.
            epsilon: The epsilon that delta is for; the mechanism's own unless given.
            fails: The log2 of a bound on the probability of fewer; the mechanism's own unless given.
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

    def certify(self, honest: int | None = None, fails: float | None = None) -> float:
        """Return the epsilon that all rounds together keep at ``delta``, rounded up; infinity if they keep none.

        Args:
            honest: Honest clients in every sum; the mechanism's own number unless given.
            fails: The log2 of a bound on the probability of fewer; the mechanism's own unless given.
        """

        def keep(most: float) -> float:
            """Return epsilon, which holds if it is at most ``most``."""
            one = self.release_at(self.honest if honest is None else honest, most, fails)
            return one.times(self.rounds).epsilon(self.delta)

        found = keep(self.epsilon)
        if found <= self.epsilon or found == math.inf:
            return found
        again = keep(found + 1)  # the draws' distance counts e^epsilon times
        return again if again <= found + 1 else math.inf


def _check_fails(fails: object) -> None:
    """Refuse what is not the log2 of a probability, and integers beyond all floats."""
    if not isinstance(fails, int | float) or not (-sys.float_info.max <= fails <= 0 or fails == -math.inf):
        raise ConfigError(f"fails must be the log2 of a probability, not {quoted(fails)}")


# The choice of a mechanism


#: A field holds this many standard deviations of the sum on each side. Larger numbers wrap.
_SIDES = 4.5
#: How much more noise the fine grid may cost, and the integers.
_ROUNDING_LOSS, _LATTICE_LOSS = 0.006, 0.002
_GRID_BITS = range(6, 13)


def choose_mechanism(
    demand: DifferentialPrivacy,
    *,
    clients: int,
    honest: int,
    dimension: int,
    fails: float = -math.inf,
    field_bits: int | None = None,
) -> Mechanism:
    """Return the mechanism with the narrowest fields that cost hardly any noise, or with the given fields.

    Args:
        demand: The demand.
        clients: The most clients in a sum; fields have room for the noise of all of them.
        honest: Honest clients in every sum that can be opened.
        dimension: Parameters of the model.
        fails: The log2 of a bound on the probability, per round, that fewer than ``honest`` add noise.
        field_bits: Bits of a field; chosen unless given.

    Raises:
        ConfigError: No noise keeps the demand, or none in fields of ``field_bits`` bits.
    """
    for name, value in (("clients", clients), ("honest", honest), ("dimension", dimension)):
        check_integer(name, value)
        if value < 1:
            raise ConfigError(f"{name} must be at least 1, not {value}")
    _check_fails(fails)
    widths, loss = [Fields(WORD_BITS // per_word, 1) for per_word in range(WORD_BITS // 8, 0, -1)], _LATTICE_LOSS
    if field_bits is not None:
        widths, loss = [Fields(field_bits, 1)], math.inf
    mu, variance = _largest_mu(demand, honest, dimension, fails), None
    for fields in widths:
        variance = _variance(fields, clients, honest, dimension, mu, loss=loss)
        grid = None if variance is None else _grid_bits(honest, dimension, variance, mu)
        if variance is not None and grid is not None:
            return Mechanism(
                **msgspec.structs.asdict(demand),
                honest=honest,
                dimension=dimension,
                variance=variance,
                grid_bits=grid,
                bound=_bound(honest, variance, grid, mu),
                field_bits=fields.bits,
                fails=fails,
            )
    if variance is not None:  # in the widest fields
        raise ConfigError(
            f"rounding {dimension} parameters would cost more than {_ROUNDING_LOSS:.1%} of a vector: with epsilon = "
            f"{demand.epsilon:g} and {demand.rounds} rounds, the noise of {honest} honest clients, the fewest in a "
            "sum, hides only vectors of about that length. Take a larger epsilon, fewer rounds or more clients"
        )
    width = f"{field_bits} bits" if field_bits else f"up to {WORD_BITS} bits"
    remedy = "more bits, or leave field_bits out" if field_bits else "fewer clients"
    noise = f"the noise of {clients} clients over {dimension} parameters"
    raise ConfigError(f"fields of {width} are too narrow for {noise}: take {remedy}")


def _largest_mu(demand: DifferentialPrivacy, honest: int, dimension: int, fails: float) -> float:
    """Return the largest mu of one vector that keeps the demand."""
    draws = (1 + math.exp(demand.epsilon)) * honest * dimension * float(most_distance(_MAX_VARIANCE))
    left = demand.delta * (1 - 1e-6) - demand.rounds * (2.0**fails + draws)
    if not left > 0:
        raise ConfigError(
            f"the graph may fail with probability 2^{fails:.1f} in each of {demand.rounds} rounds, and inexact draws "
            f"add {draws:.1g}: together more than delta = {demand.delta:g}. Ask for more privacy_bits, a larger delta "
            "or a smaller epsilon"
        )
    epsilon = max(0.0, demand.epsilon * (1 - 1e-9) - 2 * MAX_SLACK)
    return accounting.gaussian_mu(epsilon, left) / math.sqrt(demand.rounds)


def _variance(fields: Fields, clients: int, honest: int, dimension: int, mu: float, *, loss: float) -> int | None:
    """Return the largest variance of one client's noise for these fields; None if the integers cost too much.

    A coordinate of the sum has the noise of all clients. It also has as much of the vectors, which point the same way
    in the worst case, as the rotation leaves in one of 2^k coordinates.
    """
    in_sum = clients + clients**2 * mu**2 * honest / rotated_size(dimension)
    deviation = min(2.0**fields.bits / (2 * _SIDES * math.sqrt(in_sum)), MAX_DEVIATION)
    variance = math.floor(VARIANCE_UNITS * deviation**2)
    costs_little = 2 * loss * honest * deviation**2 >= accounting.R**2
    return variance if variance >= _MIN_VARIANCE and costs_little else None


def _grid_bits(honest: int, dimension: int, variance: int, mu: float) -> int | None:
    """Return the coarsest grid on which rounding costs hardly any of the norm, if there is one."""
    for bits in _GRID_BITS:
        bound = _bound(honest, variance, bits, mu)  # it is rounded, and a vector loses d / 12 of the square of its norm
        if dimension / 24 + bound / 2 <= _ROUNDING_LOSS * bound**2 and bound:
            return bits
    return None


def _bound(honest: int, variance: int, grid_bits: int, mu: float) -> int:
    """Return the largest norm, in steps of the fine grid, that this noise hides as well as mu demands."""
    return math.floor(2.0**grid_bits * mu * math.sqrt(honest * variance / VARIANCE_UNITS - accounting.R**2))


def rotated_size(dimension: int) -> int:
    """Return the number of coordinates that one rotation mixes: the largest power of two up to the dimension."""
    return 1 << (dimension.bit_length() - 1)
