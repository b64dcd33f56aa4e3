"""Models as one row of numbers and back: dicts and lists, of numpy's arrays or of torch's tensors.

torch is optional and is not imported here: whoever holds a tensor has imported it.
"""

import itertools
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ccesa.errors import VectorError, quoted

_REAL = {"float16", "bfloat16", "float32", "float64"}
_WHOLE = {"uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"}
#: How far a value steps aside at most, as a part of itself.
ASIDE = 1e-3


class Tensor(Protocol):
    """Has as much of ``torch.Tensor`` as tells a type checker that it is not an array."""

    def detach(self) -> Any:
        """Return the same values without their gradient."""


Array = NDArray[Any] | Tensor
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
            raise VectorError(
                f"a tensor with layout {tensor.layout} on {tensor.device}; expected a dense one"
            )
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
        for what, ours, theirs in (
            ("are called", self.names, found.names),
            ("have shapes", self.shapes, found.shapes),
        ):
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
            for row, shape, its_type in zip(
                rows, self.shapes, self.types, strict=False
            )  # none: one empty row
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
