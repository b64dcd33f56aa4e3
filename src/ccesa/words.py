"""Vectors modulo 2^b are unsigned numpy words, whose arithmetic wraps by itself."""

from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ccesa import compiled
from ccesa.errors import VectorError

Vector: TypeAlias = NDArray[Any]

BITS = (8, 16, 32, 64)


@cache
def dtype(bits: int) -> np.dtype[Any]:
    """Return the little-endian numpy type of a word of ``bits`` bits."""
    return np.dtype(f"<u{bits // 8}")


def zeros(length: int, bits: int) -> Vector:
    return np.zeros(length, dtype(bits))


def check(vector: object, length: int, bits: int) -> Vector:
    """Return the vector itself if it has such words. Convert nothing silently: that could wrap."""
    expected = dtype(bits)
    # Subclasses are refused: a masked array, for example, shows other values than it holds.
    if type(vector) is not np.ndarray or vector.dtype != expected:
        found = vector.dtype if type(vector) is np.ndarray else type(vector).__name__
        raise VectorError(
            f"expected an array of {expected.name}, got {found}; convert it, or use Quantizer for floats, in a round "
            "with bits=64"
        )
    if vector.shape != (length,):
        raise VectorError(f"expected a vector of shape ({length},), got {vector.shape}")
    return vector


def from_bytes(data: bytes | memoryview, bits: int) -> Vector:
    """Return the words in place, without a copy; a writable view gives writable words."""
    return np.frombuffer(data, dtype(bits))


def add(total: Vector, data: bytes | memoryview) -> None:
    """Add words to a total of the same length. In a message they are rarely aligned, which slows numpy by half."""
    native = compiled.module()
    if native is None:
        np.add(total, from_bytes(data, 8 * total.itemsize), out=total)
    else:
        native.add_words(total, data, total.itemsize)
