"""Masks are keystreams read as vectors of words, added or subtracted in place.

Streams are seekable, so any part of the vector can be masked by another thread, process or machine.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ccesa.crypto.generators import ALIGNMENT
from ccesa.crypto.kernels import kernel
from ccesa.crypto.threads import PARTS, helpful, side_by_side
from ccesa.words import Vector, zeros


class Mask(NamedTuple):
    """A mask is a keystream to add (sign 1) or to subtract (sign -1)."""

    key: bytes
    sign: int

    def __repr__(self) -> str:
        return f"Mask(sign={self.sign})"


def mask_words(generator: str, key: bytes, start: int, count: int, bits: int) -> Vector:
    """Return the elements [start, start + count) of a mask."""
    word = bits // 8
    skipped = start * word % ALIGNMENT
    padded = zeros(skipped // word + count, bits)
    kernel().add(padded, padded, start * word - skipped, [Mask(key, 1)], generator)
    return padded[skipped // word :]


def add_masks(
    vector: Vector, masks: Sequence[Mask], generator: str, threads: int = 0, *, offset: int = 0
) -> None:
    """Add and subtract every mask, in place.

    The array may be a part of the vector, ``offset`` bytes into it, a multiple of ``generators.ALIGNMENT``.
    """
    if masks:
        _add(vector, vector, masks, generator, threads, offset)


def masked(
    vector: Vector, masks: Sequence[Mask], generator: str, threads: int = 0, out: Vector | None = None
) -> Vector:
    """Mask a vector, with at least one mask, into ``out`` or a new array, and return that.

    Copying is part of the first addition; only what a caller took out of a larger array, every other word
    or backwards, is brought together before.
    """
    result = np.empty(vector.shape, vector.dtype) if out is None else out
    _add(np.ascontiguousarray(vector), result, masks, generator, threads)
    return result


def helpful_threads(most: int, size: int, masks: int) -> int:
    """Return with how many threads a vector of ``size`` bytes is masked fastest, at most ``most``."""
    return helpful(most, kernel().threads_for(size, masks))


def ranges(size: int, step: int) -> list[slice]:
    """Cut so many words into ranges of ``step``, the last of which may be shorter."""
    return [slice(first, min(first + step, size)) for first in range(0, size, step)]


def _add(
    vector: Vector, result: Vector, masks: Sequence[Mask], generator: str, threads: int, offset: int = 0
) -> None:
    chosen, word = kernel(), vector.itemsize

    def work(part: slice) -> None:
        chosen.add(vector[part], result[part], offset + part.start * word, masks, generator)

    threads = helpful_threads(threads, vector.nbytes, len(masks))
    parts = threads * PARTS if threads > 1 else 1
    step = -(-vector.nbytes // ALIGNMENT // parts) or 1
    side_by_side(work, ranges(vector.size, step * ALIGNMENT // word), threads)
