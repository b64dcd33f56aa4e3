"""A random rotation spreads what a vector has in a few places over all of them, so that fields can be narrow.

Signs from a public keystream, then the Walsh-Hadamard transform, scaled so that norms stay. It works on
powers of two: of d coordinates first the leading 2^k are rotated, then the last 2^k, with k as large as it
gets, and nothing is padded. Privacy does not rest on it: the norm is checked afterwards, in whole numbers.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ccesa import labels
from ccesa.crypto.masks import mask_words

Floats = NDArray[np.float64]

#: The transform runs over this many coordinates at a time, as a product with a matrix that stays in cache.
_RADIX_BITS = 5
#: Products are cut into pieces of this many rows or columns: BLAS hands larger ones to threads of its own,
#: which gains nothing here, and on a busy machine takes twenty times as long.
_PIECE = 128
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
        part[:] = _transformed(part)
    return rotated


def unrotate(values: Floats, context: bytes) -> Floats:
    """Return the vector whose rotation this is.

    Args:
        values: What ``rotate`` returned, or a sum of such vectors.
        context: The same 32 bytes.
    """
    restored = values.copy()
    for part, signs in reversed(list(_passes(restored, context))):
        part[:] = _transformed(part)
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


def _transformed(values: Floats) -> Floats:
    """Return the orthonormal Walsh-Hadamard transform of 2^k numbers."""
    left, within = values.size, 1
    while left > 1:
        radix = min(left, 1 << _RADIX_BITS)
        matrix = _matrix(radix)
        left //= radix
        if within == 1:
            values = values.reshape(-1, min(left, _PIECE), radix) @ matrix
        else:
            pieces = values.reshape(left, radix, -1, min(within, _PIECE))
            values = np.empty_like(pieces)
            np.matmul(matrix, pieces.swapaxes(1, 2), out=values.swapaxes(1, 2))
        within *= radix
    return values.reshape(-1)


@cache
def _matrix(size: int) -> Floats:
    """Return the orthonormal Hadamard matrix of a power of two, in Sylvester's order."""
    if size == 1:
        return np.ones((1, 1))
    half = _matrix(size // 2) / np.sqrt(2)
    return np.block([[half, half], [half, -half]])
