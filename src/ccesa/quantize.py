"""Floats to words and back: clip, weight, scale, round; a setting that could overflow is refused.

One client's arrays become one vector of words: each value times the client's weight, as a whole number of
steps, followed by the weight itself as a few digits. The sum over clients decodes to the weighted mean,
and the server learns no single weight either. Values are signed (two's complement), so
``clients · levels`` must stay below 2^(bits - 1).
"""

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, Required, TypedDict, Unpack, cast, overload

import numpy as np
from numpy.typing import NDArray

from ccesa import words
from ccesa.digits import Digits
from ccesa.errors import ConfigError, VectorError, quoted
from ccesa.layout import Arrays, Layout, Tensor
from ccesa.words import Vector

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    #: What a mean looks like: a dict or a list, of arrays or of tensors. It need not be spelled out.
    Model = TypeVar("Model", default=Any)
else:
    from typing import TypeVar

    Model = TypeVar("Model")

T = TypeVar("T", bound=Tensor)
Clip = float | Sequence[float] | Mapping[str, float]

#: A weight travels as a whole number of max_weight / 2^24.
WEIGHT_UNITS = 1 << 24
#: How far scaling a value and its inverse can move it, relative to its bound: they round, too.
ARITHMETIC_ERROR = 8 * float(np.finfo(np.float64).eps)
#: float64 counts exactly up to here.
_MAX_LEVELS = 1 << 52


@dataclass(frozen=True, kw_only=True, eq=False)
class Quantized:
    """What a client contributes.

    Attributes:
        vector: The vector of words.
        clipped: How many of its values were beyond the bound and cut to it.
    """

    vector: Vector = field(repr=False)
    clipped: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Mean(Generic[Model]):
    """The weighted mean of the survivors' arrays, and the sum of their weights.

    Each array has its own type; one of whole numbers has float64, as their mean is not whole. A tensor
    comes back as a tensor of its own type on its own device, whole numbers rounded, as ``load_state_dict``
    takes it.

    Attributes:
        arrays: A dict or a list, as the model.
        weight: The sum of the weights.
    """

    arrays: Model = field(repr=False)
    weight: float


class Settings(TypedDict, total=False):
    """What ``Quantizer.for_model`` takes besides the model."""

    clients: Required[int]
    clip: Required[Clip]
    bits: int
    max_weight: float
    levels: int
    rounding: Literal["stochastic", "nearest"]


@dataclass(frozen=True, kw_only=True)
class Quantizer(Generic[Model]):
    """Turns the arrays of all clients of a round into vectors of words. Agree on it before the round.

    Attributes:
        layout: Names, shapes and types of the arrays; ``for_model`` reads them off a model.
        clients: The most clients in a sum.
        clip: The bound on the absolute value of every element: one for all, or one per array.
        bits: Bits of a word, 8, 16, 32 or 64.
        max_weight: The largest weight that a client may have.
        levels: Steps from 0 to the bound; 0 stands for the most that cannot overflow.
        rounding: ``stochastic``, with a mean error of zero, or ``nearest``.

    Raises:
        ConfigError: Settings that cannot be, or with which a sum could overflow.
    """

    layout: Layout
    clients: int
    clip: Clip
    bits: int = 32
    max_weight: float = 1.0
    levels: int = 0
    rounding: Literal["stochastic", "nearest"] = "stochastic"

    def __post_init__(self) -> None:
        for name in ("bits", "clients", "levels"):
            if type(getattr(self, name)) is not int:
                raise ConfigError(f"{name} must be a whole number, not {quoted(getattr(self, name))}")
        self._check_choices()
        self._check_headroom()

    def _check_choices(self) -> None:
        if self.bits not in words.BITS:
            raise ConfigError(f"bits must be one of {words.BITS}, not {self.bits}")
        if self.clients < 1:
            raise ConfigError(f"clients must be at least 1, not {self.clients}")
        if not _is_positive(self.max_weight):
            raise ConfigError(f"max_weight must be a positive number, not {quoted(self.max_weight)}")
        if self.rounding not in ("stochastic", "nearest"):
            raise ConfigError(f"rounding must be stochastic or nearest, not {quoted(self.rounding)}")
        for bound in self._bounds:
            if not _is_positive(bound):
                raise ConfigError(f"clip must be a positive number, not {quoted(bound)}")

    def _check_headroom(self) -> None:
        """Refuse levels with which all clients at the bound overflow; the default is the most that fits."""
        most = min((2 ** (self.bits - 1) - 1) // self.clients, _MAX_LEVELS)
        if most < 1:
            raise ConfigError(
                f"{self.bits} bits overflow with {self.clients} clients; "
                f"at most {2 ** (self.bits - 1) - 1} clients fit, or take more bits"
            )
        if not 0 <= self.levels <= most:
            raise ConfigError(
                f"levels = {self.levels} could overflow {self.bits} bits with {self.clients} clients; "
                f"the largest setting that fits is {most}"
            )
        if not self.levels:
            object.__setattr__(self, "levels", most)

    @overload
    @classmethod
    def for_model(
        cls, arrays: Mapping[str, NDArray[Any]], **settings: Unpack[Settings]
    ) -> "Quantizer[dict[str, NDArray[Any]]]": ...
    @overload
    @classmethod
    def for_model(
        cls, arrays: Sequence[NDArray[Any]], **settings: Unpack[Settings]
    ) -> "Quantizer[list[NDArray[Any]]]": ...
    @overload
    @classmethod
    def for_model(
        cls, arrays: Mapping[str, T], **settings: Unpack[Settings]
    ) -> "Quantizer[dict[str, T]]": ...
    @overload
    @classmethod
    def for_model(cls, arrays: Sequence[T], **settings: Unpack[Settings]) -> "Quantizer[list[T]]": ...
    @classmethod
    def for_model(cls, arrays: Arrays, **settings: Unpack[Settings]) -> "Quantizer[Any]":
        """Return a quantizer for models that look like this one.

        Args:
            arrays: A list or dict of arrays or tensors; only names, shapes and types matter.
            **settings: The other fields; ``clients`` and ``clip`` are required.

        Raises:
            VectorError: An array does not consist of real numbers.
            ConfigError: Settings that cannot be, or with which a sum could overflow.
        """
        return cls(layout=Layout.of(arrays), **settings)

    @property
    def length(self) -> int:
        """Words of the vector: every value, then the digits of the weight."""
        return self.layout.size + len(self._digits.places)

    @property
    def error_bound(self) -> float:
        """How far a value of an unweighted mean can be off, if nothing is clipped.

        This is before it is cast back to the type of its array, which may be coarser.
        """
        step = 1.0 if self.rounding == "stochastic" else 0.5
        return max(self._bounds, default=0.0) * (step / self.levels + ARITHMETIC_ERROR)

    def units(self, weight: float) -> int:
        """Return the whole number as which a weight travels.

        Args:
            weight: The weight of a client, from 0 to ``max_weight``.
        """
        return round(weight / self.max_weight * WEIGHT_UNITS)

    def weight(self, units: int) -> float:
        """Return the weight that travels as a whole number.

        Args:
            units: What ``units`` returned, or a sum of such numbers.
        """
        return units / WEIGHT_UNITS * self.max_weight

    def encode(
        self, arrays: Arrays, weight: float = 1.0, rng: np.random.Generator | None = None
    ) -> Quantized:
        """Return a client's vector of ``length`` words, and how many values were clipped.

        Args:
            arrays: The client's model, with the names and shapes of the layout.
            weight: How much it counts, from 0 to ``max_weight``.
            rng: Rounds stochastically; it hides nothing and may be seeded.

        Raises:
            VectorError: Other names or shapes, NaN or infinity, or a weight out of range.
        """
        if not (weight == 0 or _is_positive(weight)) or weight > self.max_weight:
            raise VectorError(
                f"weight {quoted(weight)} does not lie in 0..{self.max_weight:g}; "
                "the Quantizer has a max_weight"
            )
        units = self.units(weight)
        flat, bounds = self.layout.flatten(arrays), self._bound_row
        clipped = int(np.count_nonzero(np.abs(flat) > bounds))
        steps = np.clip(flat, -bounds, bounds) / bounds * (self.levels * units / WEIGHT_UNITS)
        if self.rounding == "nearest":
            whole = np.rint(steps)
        else:  # not floor(steps + r): that sum would itself be rounded, and move whole numbers
            whole = np.floor(steps)
            whole += (rng or np.random.default_rng()).random(steps.size) < steps - whole
        whole = np.clip(whole, -self.levels, self.levels)
        values = whole.astype(np.int64).astype(words.dtype(self.bits))
        return Quantized(vector=np.concatenate([values, self._digits.encode([units])]), clipped=clipped)

    def decode(self, total: Vector) -> Mean[Model]:
        """Return the weighted mean, in the form of the model, and the sum of the weights.

        Args:
            total: The sum of the survivors' vectors, ``length`` words.

        Raises:
            VectorError: Another length or type, weights that sum to zero, or more than all clients can have.
        """
        words.check(total, self.length, self.bits)
        (units,) = self._digits.decode(total[self.layout.size :])
        if units > self.clients * WEIGHT_UNITS:
            raise VectorError(
                f"more weight in the sum than {self.clients} clients can have; is it their sum?"
            )
        if units == 0:
            raise VectorError("the weights sum to zero: there is no mean")
        steps = total[: self.layout.size].view(f"<i{self.bits // 8}").astype(np.float64)
        mean = steps * (self._bound_row / self.levels) * (WEIGHT_UNITS / units)
        return Mean(arrays=self.layout.restore(mean), weight=self.weight(units))

    @cached_property
    def _digits(self) -> Digits:
        return Digits(clients=self.clients, bits=self.bits, largest=WEIGHT_UNITS)

    @cached_property
    def _bounds(self) -> tuple[float, ...]:
        """The clipping bound of each array."""
        count, names, clip = len(self.layout.shapes), self.layout.names, self.clip
        if isinstance(clip, numbers.Real):
            return (cast(float, clip),) * count
        if not isinstance(clip, Mapping | Sequence) or isinstance(clip, Mapping) != (names is not None):
            raise ConfigError("clip is one number, or one for each array in the form of the arrays")
        if len(clip) != count:
            raise ConfigError(f"clip is one number, or one for each array: {len(clip)} for {count} arrays")
        if isinstance(clip, Mapping):
            missing = [name for name in names or () if name not in clip]
            if missing:
                raise ConfigError(f"clip has no bound for {quoted(missing[0])}")
            return tuple(clip[name] for name in names or ())
        return tuple(clip)

    @cached_property
    def _bound_row(self) -> NDArray[np.float64]:
        return np.repeat(np.array(self._bounds, np.float64), self.layout.sizes)


def _is_positive(value: object) -> bool:
    """A number, not a bool, and within the range of floats."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    try:
        return 0 < float(value) < math.inf
    except OverflowError:
        return False
