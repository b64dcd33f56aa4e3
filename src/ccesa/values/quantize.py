"""Floats to words and back: clip, weight, scale, round. A setting that could overflow is refused.

A client's row has each value times the client's weight, as a whole number of steps, then the weight as a few digits.
The sum decodes to the weighted mean, and the server learns no single weight either.
"""

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, Required, TypedDict, Unpack, cast, overload

import numpy as np
from numpy.typing import NDArray

from ccesa.errors import ConfigError, VectorError, quoted
from ccesa.values.fields import (
    ARITHMETIC_ERROR,
    STEPS,
    USUAL_BITS,
    Arrays,
    Digits,
    Fields,
    Layout,
    Row,
    Tensor,
    is_positive,
)
from ccesa.words import Vector

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    #: The type of a mean: a dict or a list, of arrays or of tensors.
    Model = TypeVar("Model", default=Any)
else:
    from typing import TypeVar

    Model = TypeVar("Model")

T = TypeVar("T", bound=Tensor)
Clip = float | Sequence[float] | Mapping[str, float]

#: A weight is sent as a whole number of max_weight / 2^24.
WEIGHT_UNITS = 1 << 24
#: Values that are rounded at a time, so that their data stay in cache.
PIECE = 1 << 14


@dataclass(frozen=True, kw_only=True, eq=False)
class Quantized:
    """The contribution of a client.

    Attributes:
        vector: The vector of words.
        clipped: How many of its values were beyond the bound and clipped to it.
    """

    vector: Vector = field(repr=False)
    clipped: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Mean(Generic[Model]):
    """The weighted mean of the survivors' arrays, and the sum of their weights.

    Each array has the type of the model's array, or float64 for whole numbers, whose mean is not whole. A tensor has
    its own type on its own device, with whole numbers rounded, as ``load_state_dict`` takes it.

    Attributes:
        arrays: A dict or a list, like the model.
        weight: The sum of the weights.
    """

    arrays: Model = field(repr=False)
    weight: float


class Settings(TypedDict, total=False):
    """The arguments of ``Quantizer.for_model`` besides the model."""

    clients: Required[int]
    clip: Required[Clip]
    field_bits: int
    bits: int | None
    precision: float | None
    max_weight: float
    rounding: Literal["stochastic", "nearest"]


@dataclass(frozen=True, kw_only=True)
class Quantizer(Generic[Model]):
    """Turns the arrays of all clients of a round into vectors of words. Agree on it before the round.

    Attributes:
        layout: Names, shapes and types of the arrays; ``for_model`` reads them off a model.
        clients: The most clients in a sum.
        clip: The bound on the absolute value of every element: one for all, or one per array.
        field_bits: Bits of a field, 2 to 64, for a sum over all clients. ``for_model`` chooses them from the bits of a
            value, or from a precision.
        max_weight: The largest weight that a client may have.
        rounding: ``stochastic``, with a mean error of zero, or ``nearest``.

    Raises:
        ConfigError: A setting is out of range, or a sum could overflow.
    """

    layout: Layout
    clients: int
    clip: Clip
    field_bits: int = USUAL_BITS
    max_weight: float = 1.0
    rounding: Literal["stochastic", "nearest"] = "stochastic"

    def __post_init__(self) -> None:
        _ = self.fields  # refuses widths that cannot be
        if not is_positive(self.max_weight):
            raise ConfigError(f"max_weight must be a positive number, not {quoted(self.max_weight)}")
        if self.rounding not in STEPS:
            raise ConfigError(f"rounding must be stochastic or nearest, not {quoted(self.rounding)}")
        for bound in self._bounds:
            if not is_positive(bound):
                raise ConfigError(f"clip must be a positive number, not {quoted(bound)}")

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
    def for_model(cls, arrays: Mapping[str, T], **settings: Unpack[Settings]) -> "Quantizer[dict[str, T]]": ...
    @overload
    @classmethod
    def for_model(cls, arrays: Sequence[T], **settings: Unpack[Settings]) -> "Quantizer[list[T]]": ...
    @classmethod
    def for_model(
        cls, arrays: Arrays, *, bits: int | None = None, precision: float | None = None, **settings: Any
    ) -> "Quantizer[Any]":
        """Return a quantizer for models that look like this one.

        Args:
            arrays: A list or dict of arrays or tensors; only names, shapes and types matter.
            bits: Bits of one client's value, 2 to 53, for the narrowest fields that hold it.
            precision: In place of ``bits``: the largest error of a value of an unweighted mean. Without either, fields
                have 32 bits, which is 4 bytes for each value.
            **settings: The other fields; ``clients`` and ``clip`` are required.

        Raises:
            VectorError: An array does not consist of real numbers.
            ConfigError: A setting is out of range, or a sum could overflow.
        """
        usual = cls(layout=Layout.of(arrays), **settings)
        if bits is None and precision is None:
            return usual
        if "field_bits" in settings:
            raise ConfigError("field_bits beside bits or precision: give one of the three")
        fields = Fields.choose(usual.clients, bits, precision, usual._largest, usual.rounding)
        return replace(usual, field_bits=fields.bits)

    @cached_property
    def fields(self) -> Fields:
        """The fields of a word."""
        return Fields(self.field_bits, self.clients)

    @property
    def levels(self) -> int:
        """Steps from 0 to the bound, as many as the fields can add without an overflow."""
        return self.fields.most

    @property
    def bits(self) -> int:
        """Bits of one client's value."""
        return self.fields.value_bits

    @property
    def count(self) -> int:
        """Numbers of a client: every value, then the digits of the weight."""
        return self.layout.size + len(self._digits.places)

    @property
    def length(self) -> int:
        """Words of the vector, of 64 bits each."""
        return self.fields.length(self.count)

    @property
    def error_bound(self) -> float:
        """The largest error of a value of an unweighted mean without clipping, before the cast to its array's type."""
        return self._largest * (STEPS[self.rounding] / self.levels + ARITHMETIC_ERROR)

    def units(self, weight: float) -> int:
        """Return the whole number as which a weight is sent.

        Args:
            weight: The weight of a client, from 0 to ``max_weight``.
        """
        return round(weight / self.max_weight * WEIGHT_UNITS)

    def weight(self, units: int) -> float:
        """Return the weight that is sent as a whole number.

        Args:
            units: A result of ``units``, or a sum of such numbers.
        """
        return units / WEIGHT_UNITS * self.max_weight

    def encode(self, arrays: Arrays, weight: float = 1.0, rng: np.random.Generator | None = None) -> Quantized:
        """Return a client's vector of ``length`` words, and how many values were clipped.

        Args:
            arrays: The client's model, with the names and shapes of the layout.
            weight: The client's weight, from 0 to ``max_weight``.
            rng: The generator for stochastic rounding. It hides nothing and may be seeded.

        Raises:
            VectorError: Other names or shapes, NaN or infinity, or a weight out of range.
        """
        row, clipped = self.row(arrays, weight, rng)
        return Quantized(vector=self.fields.pack(row), clipped=clipped)

    def row(self, arrays: Arrays, weight: float = 1.0, rng: np.random.Generator | None = None) -> tuple[Row, int]:
        """Return a client's numbers before they are packed into words, and how many values were clipped.

        Args:
            arrays: As for ``encode``.
            weight: As for ``encode``.
            rng: As for ``encode``.

        Raises:
            VectorError: As for ``encode``.
        """
        if not (weight == 0 or is_positive(weight)) or weight > self.max_weight:
            raise VectorError(f"weight {quoted(weight)} must lie in 0..{self.max_weight:g}, the Quantizer's max_weight")
        units, rng = self.units(weight), rng or np.random.default_rng()
        flat, row, clipped = self.layout.flatten(arrays), np.empty(self.count, np.int64), 0
        for first in range(0, flat.size, PIECE):
            piece = slice(first, min(first + PIECE, flat.size))
            values, bounds = flat[piece], self._bound_row[piece]
            steps = np.clip(values, -bounds, bounds)
            clipped += int(np.count_nonzero(steps != values))
            steps /= bounds
            steps *= self.levels * units / WEIGHT_UNITS
            row[piece] = self._round(steps, rng)
        row[flat.size :] = self._digits.encode([units])
        return row, clipped

    def _round(self, steps: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        """Return whole numbers of steps, none beyond the bound."""
        if self.rounding == "nearest":
            whole = np.rint(steps)
        else:  # floor(steps + r) would round the sum, and move whole numbers
            whole = np.floor(steps)
            steps -= whole
            whole += rng.random(steps.size) < steps
        return np.clip(whole, -self.levels, self.levels, out=whole)

    def decode(self, total: Vector) -> Mean[Model]:
        """Return the weighted mean, in the form of the model, and the sum of the weights.

        Args:
            total: The sum of the survivors' vectors, ``length`` words.

        Raises:
            VectorError: Another length or type, weights that sum to zero, or more than all clients can have.
        """
        return self.mean(self.fields.unpack(total, self.count))

    def mean(self, sums: Row) -> Mean[Model]:
        """Return the weighted mean from the sums of all rows.

        Args:
            sums: The sum of the survivors' rows, ``count`` numbers.

        Raises:
            VectorError: Weights that sum to zero, or to more than all clients can have.
        """
        (units,) = self._digits.decode(sums[self.layout.size :])
        if units == 0:
            raise VectorError("the weights sum to zero, so the mean is undefined")
        # Parts of the bound come first: a sum of bounds may be too large for a float, a step too small.
        mean: NDArray[np.float64] = sums[: self.layout.size] * np.float64(WEIGHT_UNITS)
        mean /= float(units * self.levels)
        with np.errstate(over="ignore"):
            mean *= self._bound_row
        if not np.isfinite(mean).all():
            raise VectorError("the mean overflows float64: the weights are too small for the values")
        return Mean(arrays=self.layout.restore(mean), weight=self.weight(units))

    @cached_property
    def _digits(self) -> Digits:
        return Digits(fields=self.fields, largest=WEIGHT_UNITS)

    @property
    def _largest(self) -> float:
        return max(self._bounds, default=0.0)

    @cached_property
    def _bounds(self) -> tuple[float, ...]:
        count, names, clip = len(self.layout.shapes), self.layout.names, self.clip
        if isinstance(clip, numbers.Real):
            return (cast(float, clip),) * count
        if not isinstance(clip, Mapping | Sequence) or isinstance(clip, Mapping) != (names is not None):
            raise ConfigError("clip is one number, or one for each array in the form of the arrays")
        if len(clip) != count:
            raise ConfigError(f"clip is one number, or one for each array: {len(clip)} for {count} arrays")
        if not isinstance(clip, Mapping):
            return tuple(clip)
        for name in names or ():
            if name not in clip:
                raise ConfigError(f"clip has no bound for {quoted(name)}")
        return tuple(clip[name] for name in names or ())

    @cached_property
    def _bound_row(self) -> NDArray[np.float64]:
        return np.repeat(np.array(self._bounds, np.float64), self.layout.sizes)
