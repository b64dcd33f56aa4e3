"""Numbers in words: several fields to a word, digits of large numbers, and models as rows of numbers.

A 64-bit word is the sum of number_j · 2^(k j) modulo 2^64, for fields of k bits. Numbers borrow from the
fields above and carry into them, which is part of the arithmetic: a sum of words is the word of the sums, and
single clients and partial sums may wrap. Only every final sum has to lie within its field.

Models are dicts and lists of numpy's arrays or of torch's tensors. torch is optional and is not imported
here: a caller that holds a tensor has imported it.
"""

import itertools
import math
import numbers
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ccesa import compiled, words
from ccesa.errors import ConfigError, VectorError, quoted
from ccesa.words import Vector

#: Bits of a word in rounds whose vectors hold fields.
WORD_BITS: Literal[64] = 64
#: Bits of a field where nobody says otherwise: two of them in a word, 4 bytes for each number.
USUAL_BITS = 32
#: How far scaling a value and its inverse can move it, relative to its bound: they round, too.
ARITHMETIC_ERROR = 8 * float(np.finfo(np.float64).eps)
#: By how many steps each way of rounding moves a value at most.
STEPS = {"stochastic": 1.0, "nearest": 0.5}
#: float64 counts exactly up to here.
_MOST = 1 << 52

Row: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Fields:
    """Fields of ``bits`` bits, in which the numbers of so many clients add up without an overflow."""

    bits: int
    clients: int

    def __post_init__(self) -> None:
        for name, value in (("bits", self.bits), ("clients", self.clients)):
            if type(value) is not int:
                raise ConfigError(f"{name} must be a whole number, not {quoted(value)}")
        if self.clients < 1:
            raise ConfigError(f"clients must be at least 1, not {self.clients}")
        if not 2 <= self.bits <= WORD_BITS:
            raise ConfigError(f"a field has 2 to {WORD_BITS} bits, not {quoted(self.bits)}")
        if self.most < 1:
            raise ConfigError(
                f"fields of {self.bits} bits overflow with {self.clients} clients; "
                f"at most {2 ** (self.bits - 1) - 1} clients fit, or take more bits"
            )

    @classmethod
    def choose(
        cls,
        clients: int,
        bits: int | None = None,
        precision: float | None = None,
        clip: float = 1.0,
        rounding: str = "stochastic",
    ) -> "Fields":
        """Return the narrowest fields for values of so many bits, or up to ``clip`` with such an error.

        Without either they have 32 bits.
        """
        if bits is not None and precision is not None:
            raise ConfigError("bits and precision are two ways to say the same; give one of them")
        if bits is None and precision is None:
            return cls(USUAL_BITS, clients)
        least = _levels_of(bits) if bits is not None else _levels_for(precision, clip, STEPS[rounding])
        widest = cls(WORD_BITS, clients)
        if least > widest.most:
            raise ConfigError(f"{least} levels overflow with {clients} clients; values of {widest.value_bits} bits fit")
        return cls((clients * least).bit_length() + 1, clients)

    @cached_property
    def most(self) -> int:
        """The largest absolute number of one client: all clients together stay within the field."""
        return min((2 ** (self.bits - 1) - 1) // self.clients, _MOST)

    @property
    def value_bits(self) -> int:
        """Bits of one client's number: its sign, and ``most`` or a little less."""
        return (self.most + 1).bit_length()

    @property
    def per_word(self) -> int:
        """How many fields a word has."""
        return WORD_BITS // self.bits

    @property
    def bytes_each(self) -> float:
        """Bytes that a number costs on the wire."""
        return WORD_BITS / 8 / self.per_word

    @property
    def in_words(self) -> str:
        """What a number takes, for people."""
        return (
            f"values of {self.value_bits} bits in fields of {self.bits} bits, {self.per_word} per 64-bit "
            f"word: {self.bytes_each:.3g} bytes per value"
        )

    def as_dict(self) -> dict[str, float]:
        """Return every figure by its name."""
        names = ("bits", "value_bits", "per_word", "bytes_each")
        return {name: getattr(self, name) for name in names}

    def length(self, count: int) -> int:
        """Return how many words so many numbers take."""
        return -(-count // self.per_word)

    def pack(self, row: Row) -> Vector:
        """Return the words of one client's numbers, the first of them in the lowest field."""
        native = compiled.module()
        if not native:
            return self._packed(row)
        packed = np.empty(self.length(row.size), words.dtype(WORD_BITS))
        native.pack_fields(np.ascontiguousarray(row), self.bits, packed)
        return packed

    def split(self, total: Vector) -> tuple[Row, bool]:
        """Return what the fields of words hold, whatever that is, and if more is left in any word."""
        native = compiled.module()
        if not native:
            return self._split(total)
        row = np.empty(total.size * self.per_word, np.int64)
        return row, native.split_fields(np.ascontiguousarray(total), self.bits, row)

    def _packed(self, row: Row) -> Vector:
        packed = np.zeros(self.length(row.size), np.int64)
        for place in reversed(range(self.per_word)):
            numbers = row[place :: self.per_word]
            packed <<= self.bits
            packed[: numbers.size] += numbers
        return packed.view(words.dtype(WORD_BITS))

    def _split(self, total: Vector) -> tuple[Row, bool]:
        rest, above = total.astype(np.int64), WORD_BITS - self.bits
        rows = np.empty((self.per_word, total.size), np.int64)
        for row in rows:
            np.left_shift(rest, above, out=row)
            row >>= above  # which repeats the sign
            rest -= row
            rest >>= self.bits
        return rows.T.reshape(-1), bool(rest.any())

    def unpack(self, total: Vector, count: int) -> Row:
        """Return the sums of ``count`` numbers, from the sum of what clients have packed.

        Raises VectorError for words of another number or type, and for sums that no such clients can have.
        """
        words.check(total, self.length(count), WORD_BITS)
        row, left = self.split(total)
        most = self.clients * self.most
        if left or row[count:].any() or row.max(initial=0) > most or row.min(initial=0) < -most:
            raise VectorError(
                f"a sum in a field of {self.bits} bits that {self.clients} clients cannot have; "
                "is it the sum of their vectors?"
            )
        return row[:count]


def _levels_of(bits: int) -> int:
    """Return the largest number of so many bits with a sign."""
    if type(bits) is not int or not 2 <= bits <= _MOST.bit_length():
        raise ConfigError(f"a value has 2 to {_MOST.bit_length()} bits, not {quoted(bits)}")
    return int(2 ** (bits - 1)) - 1


def _levels_for(precision: Any, clip: float, steps: float) -> int:
    """Return into how many levels a bound has to be cut, so that rounding moves nothing by more than this."""
    for name, value in (("precision", precision), ("clip", clip or 1.0)):
        if not is_positive(value):
            raise ConfigError(f"{name} must be a positive number, not {quoted(value)}")
    left = (float(precision) / clip if clip else math.inf) - ARITHMETIC_ERROR
    if left <= 0:
        raise ConfigError(f"precision = {float(precision):g} is finer than float64 is for values up to {clip:g}")
    return max(1, math.ceil(steps / left))


def is_positive(value: object) -> bool:
    """A number, not a bool, and within the range of floats."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    try:
        return 0 < float(value) < math.inf
    except OverflowError:
        return False


# Digits


@dataclass(frozen=True, kw_only=True)
class Digits:
    """Writes whole numbers from 0 to ``largest`` as digits, least first, and reads sums of them."""

    fields: Fields
    largest: int

    @property
    def base(self) -> int:
        """The largest base whose digits can be added up over all clients."""
        return self.fields.most + 1

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The value of each digit: as many powers of the base as the largest number needs."""
        places = [1]
        while places[-1] * self.base <= self.largest:
            places.append(places[-1] * self.base)
        return tuple(places)

    def encode(self, numbers: Iterable[int]) -> Row:
        """Return the digits of one number after the other."""
        row = [number // place % self.base for number in numbers for place in self.places]
        return np.array(row, np.int64)

    def decode(self, sums: Row) -> list[int]:
        """Return the sums of the numbers, from the sums of the digits that clients have encoded.

        Raises VectorError where all clients together cannot have that much, or less than nothing.
        """
        rows = sums.reshape(-1, len(self.places)).tolist()
        found = [sum(digit * place for digit, place in zip(row, self.places, strict=True)) for row in rows]
        most = self.fields.clients * self.largest
        if sums.min(initial=0) < 0 or max(found, default=0) > most:
            raise VectorError(f"more in the sum than {self.fields.clients} clients can have; is it their sum?")
        return found


_REAL = {"float16", "bfloat16", "float32", "float64"}
_WHOLE = {"uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"}
#: How far a value steps aside at most, as a part of itself.
ASIDE = 1e-3


class Tensor(Protocol):
    """Has as much of ``torch.Tensor`` as tells a type checker that it is not an array."""

    def detach(self) -> Any:
        """Return the same values without their gradient."""


Array = NDArray[Any] | Tensor
# Layouts


Arrays = Sequence[Array] | Mapping[str, Array]


@dataclass(frozen=True)
class TensorType:
    """What a tensor has besides its values: ``torch.dtype`` and ``torch.device``."""

    dtype: Any
    device: Any

    @classmethod
    def of(cls, tensor: Any) -> "TensorType":
        """Refuse what has no real numbers to read, such as sparse tensors and those on ``meta``."""
        if tensor.layout is not sys.modules["torch"].strided or tensor.is_meta:
            raise VectorError(f"a tensor with layout {tensor.layout} on {tensor.device}; expected a dense one")
        if str(tensor.dtype).removeprefix("torch.") not in _REAL | _WHOLE:
            raise VectorError(f"type {tensor.dtype}; expected real numbers")
        return cls(tensor.dtype, tensor.device)

    def restore(self, values: NDArray[np.float64]) -> Any:
        """Make a tensor. Whole numbers are rounded: ``load_state_dict`` would cut 9.999... off to 9."""
        torch = sys.modules["torch"]
        if self.dtype.is_floating_point:
            whole, ends = values, torch.finfo(self.dtype)
        else:
            whole, ends = np.rint(values), torch.iinfo(self.dtype)
        kept = np.clip(whole, float(ends.min), _at_most(ends.max))
        return torch.from_numpy(kept).to(self.dtype).to(self.device)


@dataclass(frozen=True)
class ArrayType:
    """What an array of numpy has besides its values."""

    dtype: np.dtype[Any]

    @classmethod
    def of(cls, value: Any) -> "ArrayType":
        """Refuse what does not consist of real numbers in a regular shape, all of them to be seen."""
        if is_masked(value):
            raise VectorError("a mask, and what it hides would be summed as well: call filled(...) first")
        try:
            dtype = np.asarray(value).dtype
        except ValueError as error:
            raise VectorError("no regular shape: its rows differ in length") from error
        if dtype.kind not in "fiu":
            raise VectorError(f"type {dtype}; expected real numbers")
        return cls(dtype)

    def restore(self, values: NDArray[np.float64]) -> NDArray[Any]:
        """Make an array; a mean outside of its type by a rounding error stays at the type's end.

        The mean of whole numbers is not a whole number, and stays float64.
        """
        if self.dtype.kind != "f":
            return values
        ends = np.finfo(self.dtype)
        return np.clip(values, float(ends.min), float(ends.max)).astype(self.dtype)


@dataclass(frozen=True)
class Layout:
    """Names (or none, for a list), shapes and types of a model's arrays, in order."""

    names: tuple[str, ...] | None
    shapes: tuple[tuple[int, ...], ...]
    types: tuple[ArrayType | TensorType, ...]

    @classmethod
    def of(cls, arrays: Arrays) -> "Layout":
        """Return the layout of a model; VectorError says which array has no real numbers."""
        if not isinstance(arrays, Mapping | Sequence):
            raise VectorError(f"a model is a list or a dict of arrays, not {type(arrays).__name__}")
        names = tuple(arrays) if isinstance(arrays, Mapping) else None
        types: list[ArrayType | TensorType] = []
        for place, value in enumerate(_values(arrays)):
            try:
                types.append(TensorType.of(value) if _is_tensor(value) else ArrayType.of(value))
            except VectorError as error:
                raise VectorError(f"array {_called(names, place)} has {error}") from error
        return cls(names, tuple(_shape(value) for value in _values(arrays)), tuple(types))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(math.prod(shape) for shape in self.shapes)

    @property
    def size(self) -> int:
        return sum(self.sizes)

    def flatten(self, arrays: Arrays) -> NDArray[np.float64]:
        """Return all values in one row, after checking that the arrays are the ones of this layout."""
        if self.names is not None and isinstance(arrays, Mapping) and set(arrays) == set(self.names):
            arrays = {name: arrays[name] for name in self.names}  # the order of names says nothing
        found = Layout.of(arrays)
        for what, ours, theirs in (("are called", self.names, found.names), ("have shapes", self.shapes, found.shapes)):
            if ours != theirs:
                raise VectorError(f"the arrays {what} {quoted(theirs)}, expected {quoted(ours)}")
        values = [_numbers(array).ravel() for array in _values(arrays)]
        flat = np.concatenate(values) if values else np.empty(0)
        if not np.isfinite(flat).all():
            bad = next(place for place, value in enumerate(values) if not np.isfinite(value).all())
            raise VectorError(f"array {_called(self.names, bad)} contains NaN or infinity")
        return flat

    def restore(self, flat: NDArray[np.float64]) -> Any:
        """Return the model that has these values in a row: a dict or a list, as this layout's was."""
        rows = np.split(flat, list(itertools.accumulate(self.sizes))[:-1])
        arrays = [
            its_type.restore(row).reshape(shape)
            for row, shape, its_type in zip(rows, self.shapes, self.types, strict=False)  # none: one empty row
        ]
        return arrays if self.names is None else dict(zip(self.names, arrays, strict=True))


def stepped_aside(model: Mapping[str, NDArray[Any]], drawn: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Return these arrays of floats with each value moved by a small part of itself, so that its sign stays.

    Whoever asks about a model that nobody works on any more asks about this one. A model that is all zeros
    moves by as much, in both directions.
    """
    only_zeros = not any(value.any() for value in model.values())

    def moved(value: NDArray[Any]) -> NDArray[Any]:
        part = ASIDE * drawn.uniform(-1, 1, value.shape) * (1.0 if only_zeros else np.abs(value))
        with np.errstate(over="ignore", invalid="ignore"):
            found = np.asarray(np.add(value, part, dtype=np.float64), value.dtype)
        return np.where(np.isfinite(found), found, value)

    return {name: moved(value) for name, value in model.items()}


def is_masked(value: object) -> bool:
    """Tell whether an array has a mask, or one in a list: numpy drops it, and what it hides would leave."""
    if isinstance(value, list | tuple):
        return any(map(is_masked, value))
    return isinstance(value, np.ma.MaskedArray)


def _is_tensor(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(np.shape(value))


def _numbers(value: Any) -> NDArray[np.float64]:
    """Read a tensor on any device, with or without a gradient, or an array."""
    if _is_tensor(value):
        return value.detach().cpu().to(sys.modules["torch"].float64).numpy()
    return np.asarray(value, np.float64)


def _values(arrays: Arrays) -> list[Array]:
    return list(arrays.values()) if isinstance(arrays, Mapping) else list(arrays)


def _called(names: tuple[str, ...] | None, place: int) -> str:
    return quoted(names[place]) if names is not None else str(place)


def _at_most(largest: float) -> float:
    """Return the largest float64 that is not above this number; that of 2^63 - 1 would be 2^63."""
    nearest = float(largest)
    return nearest if nearest <= largest else float(np.nextafter(nearest, 0.0))
