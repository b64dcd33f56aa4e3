"""A random rotation spreads what a vector has in a few places over all of them, so that fields can be narrow.

Signs from a public keystream, then the Walsh-Hadamard transform, scaled so that norms stay. It works on
powers of two: of d coordinates first the leading 2^k are rotated, then the last 2^k, with k as large as it
gets, and nothing is padded. Privacy does not rest on it: the norm is checked afterwards, in whole numbers.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ccesa import compiled, labels
from ccesa.crypto.masks import mask_words

Floats = NDArray[np.float64]

_GENERATOR = "aes128-ctr"


def rotate(values: Floats, context: bytes) -> Floats:
    """Return the rotated vector, of the same norm but for rounding.

    Args:
        values: At least one number.
        context: The round's 32 bytes, which every client has and the server.
    """
    rotated = values.copy()
    for part, signs in _passes(rotated, context):
        part *= signs
        _transform(part)
    return rotated


def unrotate(values: Floats, context: bytes) -> Floats:
    """Return the vector whose rotation this is.

    Args:
        values: What ``rotate`` returned, or a sum of such vectors.
        context: The same 32 bytes.
    """
    restored = values.copy()
    for part, signs in reversed(list(_passes(restored, context))):
        _transform(part)
        part *= signs
    return restored


def mixed(dimension: int) -> int:
    """Return over how many coordinates one of this many is spread: the largest power of two among them."""
    return 1 << (dimension.bit_length() - 1)


def _passes(values: Floats, context: bytes) -> Iterator[tuple[Floats, NDArray[np.int8]]]:
    """Yield the parts that are rotated, one after the other, and their signs."""
    many = mixed(values.size)
    starts = (0,) if many == values.size else (0, values.size - many)
    key = labels.digest(labels.ROTATION, context)[:16]
    stream = mask_words(_GENERATOR, key, 0, -(-many * len(starts) // 8), 8)
    signs = 1 - 2 * np.unpackbits(stream, bitorder="little").astype(np.int8)
    for place, start in enumerate(starts):
        yield values[start : start + many], signs[place * many : (place + 1) * many]


def _transform(values: Floats) -> None:
    """Replace 2^k contiguous numbers by their orthonormal Walsh-Hadamard transform.

    Every result comes from the same additions in the same order, compiled or not, on every machine.
    """
    native = compiled.module()
    if native:
        native.walsh(values)
    else:
        values[:] = _transformed(values)


def _transformed(values: Floats) -> Floats:
    """Return the transform: numbers are scaled, then paired at the distances 1, 2, 4, ...

    Scaled first, so that nothing on the way is larger than the norm. Each step writes sums and differences
    of neighbours into the two halves of the result. That turns the bits of every place by one, which brings
    pairs of the next distance together, and after the last step everything to its own place.
    """
    half, spare = values.size // 2, np.empty_like(values)
    values = values * (1 / math.sqrt(values.size))
    for _ in range(half.bit_length()):
        left, right = values[::2], values[1::2]
        np.add(left, right, out=spare[:half])
        np.subtract(left, right, out=spare[half:])
        values, spare = spare, values
    return values
