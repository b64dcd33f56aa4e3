"""Numbers in words: several fields to a word, digits of large numbers, and models as rows of numbers.

A 64-bit word is the sum of number_j · 2^(k j) modulo 2^64, for fields of k bits. Numbers borrow from the fields above
and carry into them, so a sum of words is the word of the sums. Only final sums have to lie within their fields. Models
are dicts and lists of numpy's arrays or of torch's tensors. torch is optional and never imported here.
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

#: Bits of a word in rounds whose vectors have fields.
WORD_BITS: Literal[64] = 64
#: Default bits of a field: two fields in a word, 4 bytes for each number.
USUAL_BITS = 32
#: The largest change of a value, relative to its bound, by the rounding errors of scaling and its inverse.
ARITHMETIC_ERROR = 8 * float(np.finfo(np.float64).eps)
#: The largest number of steps by which each way of rounding moves a value.
STEPS = {"stochastic": 1.0, "nearest": 0.5}
#: Up to this number float64 has every whole number.
_MAX = 1 << 52

Row: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Fields:
    """Fields of ``bits`` bits, in which the numbers of ``clients`` clients add up without an overflow."""

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
            fit = f"at most {2 ** (self.bits - 1) - 1} clients fit, or take more bits"
            raise ConfigError(f"fields of {self.bits} bits overflow with {self.clients} clients; {fit}")

    @classmethod
    def choose(
        cls,
        clients: int,
        bits: int | None = None,
        precision: float | None = None,
        clip: float = 1.0,
        rounding: str = "stochastic",
    ) -> "Fields":
        """Return the narrowest fields for values of these bits or this precision; of 32 bits if neither is given."""
        if bits is not None and precision is not None:
            raise ConfigError("bits and precision are two ways to say the same; give one of them")
        if bits is None and precision is None:
            return cls(USUAL_BITS, clients)
        if bits is not None and (type(bits) is not int or not 2 <= bits <= _MAX.bit_length()):
            raise ConfigError(f"a value has 2 to {_MAX.bit_length()} bits, not {quoted(bits)}")
        least = _levels_for(precision, clip, STEPS[rounding]) if bits is None else 2 ** (bits - 1) - 1
        widest = cls(WORD_BITS, clients)
        if least > widest.most:
            raise ConfigError(f"{least} levels overflow with {clients} clients; values of {widest.value_bits} bits fit")
        return cls((clients * least).bit_length() + 1, clients)

    @cached_property
    def most(self) -> int:
        """The largest absolute number of one client with which the sum of all clients stays within the field."""
        return min((2 ** (self.bits - 1) - 1) // self.clients, _MAX)

    @property
    def value_bits(self) -> int:
        """Bits of one client's number with its sign, for numbers up to ``most``."""
        return (self.most + 1).bit_length()

    @property
    def per_word(self) -> int:
        return WORD_BITS // self.bits

    @property
    def bytes_each(self) -> float:
        return WORD_BITS / 8 / self.per_word

    @property
    def in_words(self) -> str:
        return (
            f"values of {self.value_bits} bits in fields of {self.bits} bits, {self.per_word} per 64-bit word: "
            f"{self.bytes_each:.3g} bytes per value"
        )

    def as_dict(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in ("bits", "value_bits", "per_word", "bytes_each")}

    def length(self, count: int) -> int:
        return -(-count // self.per_word)

    def pack(self, row: Row) -> Vector:
        """Return the words of one client's numbers, the first number in the lowest field."""
        native = compiled.module()
        if not native:
            return self._pack(row)
        packed = np.empty(self.length(row.size), words.dtype(WORD_BITS))
        native.pack_fields(np.ascontiguousarray(row), self.bits, packed)
        return packed

    def split(self, total: Vector) -> tuple[Row, bool]:
        """Return the numbers in the fields of words, and whether any word has more bits set."""
        native = compiled.module()
        if not native:
            return self._split(total)
        row = np.empty(total.size * self.per_word, np.int64)
        return row, native.split_fields(np.ascontiguousarray(total), self.bits, row)

    def _pack(self, row: Row) -> Vector:
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
            row >>= above  # this repeats the sign
            rest -= row
            rest >>= self.bits
        return rows.T.reshape(-1), bool(rest.any())

    def unpack(self, total: Vector, count: int) -> Row:
        """Return the sums of ``count`` numbers, from the sum of the clients' words."""
        words.check(total, self.length(count), WORD_BITS)
        row, left = self.split(total)
        most = self.clients * self.most
        if left or row[count:].any() or row.max(initial=0) > most or row.min(initial=0) < -most:
            raise VectorError(
                f"a sum in a field of {self.bits} bits that {self.clients} clients cannot have; is it the sum of their "
                "vectors?"
            )
        return row[:count]


def _levels_for(precision: Any, clip: float, steps: float) -> int:
    """Return the number of levels of a bound with which rounding moves no value by more than the precision."""
    for name, value in (("precision", precision), ("clip", clip or 1.0)):
        if not is_positive(value):
            raise ConfigError(f"{name} must be a positive number, not {quoted(value)}")
    left = (float(precision) / clip if clip else math.inf) - ARITHMETIC_ERROR
    if left <= 0:
        raise ConfigError(f"precision = {float(precision):g} is finer than float64 is for values up to {clip:g}")
    return max(1, math.ceil(steps / left))


def is_positive(value: object) -> bool:
    """Return whether a value is a number above 0, not a bool, and within the range of floats."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    try:
        return 0 < float(value) < math.inf
    except OverflowError:
        return False


@dataclass(frozen=True, kw_only=True)
class Digits:
    """Writes whole numbers from 0 to ``largest`` as digits, the lowest first, and reads sums of them."""

    fields: Fields
    largest: int

    @property
    def base(self) -> int:
        """The largest base whose digits can be added up over all clients."""
        return self.fields.most + 1

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The value of each digit: the powers of the base up to the largest number."""
        places = [1]
        while places[-1] * self.base <= self.largest:
            places.append(places[-1] * self.base)
        return tuple(places)

    def encode(self, numbers: Iterable[int]) -> Row:
        """Return the digits of all numbers, one number after the other."""
        return np.array([number // place % self.base for number in numbers for place in self.places], np.int64)

    def decode(self, sums: Row) -> list[int]:
        """Return the sums of the numbers, from the sums of digits; VectorError for sums that clients cannot have."""
        rows = sums.reshape(-1, len(self.places)).tolist()
        found = [sum(digit * place for digit, place in zip(row, self.places, strict=True)) for row in rows]
        most = self.fields.clients * self.largest
        if sums.min(initial=0) < 0 or max(found, default=0) > most:
            raise VectorError(f"more in the sum than {self.fields.clients} clients can have; is it their sum?")
        return found


_NUMBERS = {"float16", "bfloat16", "float32", "float64", *(f"{sign}int{n}" for sign in ("", "u") for n in words.BITS)}


class Tensor(Protocol):
    """The part of ``torch.Tensor`` by which a type checker knows that it is not an array."""

    def detach(self) -> Any:
        """Return the same values without their gradient."""


Array = NDArray[Any] | Tensor
Arrays = Sequence[Array] | Mapping[str, Array]


@dataclass(frozen=True)
class TensorType:
    dtype: Any
    device: Any

    @classmethod
    def of(cls, tensor: Any) -> "TensorType":
        """Refuse tensors without real numbers to read, such as sparse tensors and those on ``meta``."""
        if tensor.layout is not sys.modules["torch"].strided or tensor.is_meta:
            raise VectorError(f"a tensor with layout {tensor.layout} on {tensor.device}; expected a dense one")
        if str(tensor.dtype).removeprefix("torch.") not in _NUMBERS:
            raise VectorError(f"type {tensor.dtype}; expected real numbers")
        return cls(tensor.dtype, tensor.device)

    def restore(self, values: NDArray[np.float64]) -> Any:
        """Return a tensor. Whole numbers are rounded, because ``load_state_dict`` turns 9.999... into 9."""
        torch = sys.modules["torch"]
        if self.dtype.is_floating_point:
            whole, ends = values, torch.finfo(self.dtype)
        else:
            whole, ends = np.rint(values), torch.iinfo(self.dtype)
        kept = np.clip(whole, float(ends.min), _at_most(ends.max))
        return torch.from_numpy(kept).to(self.dtype).to(self.device)


@dataclass(frozen=True)
class ArrayType:
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, value: Any) -> "ArrayType":
        """Refuse everything except real numbers in a regular shape, without a mask."""
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
        """Return an array. A mean beyond its type, by a rounding error, becomes the end of the type."""
        if self.dtype.kind != "f":
            return values  # the mean of whole numbers is not a whole number
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
        """Return the layout of a model; raise VectorError for an array without real numbers."""
        if not isinstance(arrays, Mapping | Sequence):
            raise VectorError(f"a model is a list or a dict of arrays, not {type(arrays).__name__}")
        names = tuple(arrays) if isinstance(arrays, Mapping) else None
        types: list[ArrayType | TensorType] = []
        for place, value in enumerate(_values(arrays)):
            try:
                types.append(TensorType.of(value) if _is_tensor(value) else ArrayType.of(value))
            except VectorError as error:
                raise VectorError(f"array {_called(names, place)} has {error}") from error
        return cls(names, tuple(tuple(np.shape(value)) for value in _values(arrays)), tuple(types))  # type: ignore[arg-type]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(math.prod(shape) for shape in self.shapes)

    @property
    def size(self) -> int:
        return sum(self.sizes)

    def flatten(self, arrays: Arrays) -> NDArray[np.float64]:
        """Return all values in one row, after checking that the arrays have this layout."""
        if self.names is not None and isinstance(arrays, Mapping) and set(arrays) == set(self.names):
            arrays = {name: arrays[name] for name in self.names}  # the order of names does not matter
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
        """Return the model with these values in a row: a dict or a list, like the model of this layout."""
        rows = np.split(flat, list(itertools.accumulate(self.sizes))[:-1])
        parts = zip(rows, self.shapes, self.types, strict=False)  # without arrays there is one empty row
        arrays = [its_type.restore(row).reshape(shape) for row, shape, its_type in parts]
        return arrays if self.names is None else dict(zip(self.names, arrays, strict=True))


ASIDE = 1e-3


def step_aside(model: Mapping[str, NDArray[Any]], drawn: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Return these arrays of floats with each value moved by a small part of itself, so that its sign stays.

    It takes the place of a model that nobody works on any more. Zeros move only if all values are zeros.
    """
    only_zeros = not any(value.any() for value in model.values())

    def move(value: NDArray[Any]) -> NDArray[Any]:
        part = ASIDE * drawn.uniform(-1, 1, value.shape) * (1.0 if only_zeros else np.abs(value))
        with np.errstate(over="ignore", invalid="ignore"):
            moved = np.asarray(np.add(value, part, dtype=np.float64), value.dtype)
        return np.where(np.isfinite(moved), moved, value)

    return {name: move(value) for name, value in model.items()}


def is_masked(value: object) -> bool:
    """Return whether a value has a masked array: numpy drops masks, so the hidden values would leave."""
    if isinstance(value, list | tuple):
        return any(map(is_masked, value))
    return isinstance(value, np.ma.MaskedArray)


def _is_tensor(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _numbers(value: Any) -> NDArray[np.float64]:
    """Return the values of an array, or of a tensor on any device, with or without a gradient."""
    if _is_tensor(value):
        return value.detach().cpu().to(sys.modules["torch"].float64).numpy()
    return np.asarray(value, np.float64)


def _values(arrays: Arrays) -> list[Array]:
    return list(arrays.values()) if isinstance(arrays, Mapping) else list(arrays)


def _called(names: tuple[str, ...] | None, place: int) -> str:
    return quoted(names[place]) if names is not None else str(place)


def _at_most(largest: float) -> float:
    """Return the largest float64 that is not above this number: float(2^63 - 1) is 2^63."""
    nearest = float(largest)
    return nearest if nearest <= largest else float(np.nextafter(nearest, 0.0))
