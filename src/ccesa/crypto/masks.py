"""Masks are keystreams read as vectors of words, added or subtracted in place.

Streams are seekable, so any part of the vector can be masked by another thread, process or machine.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from ccesa.crypto.generators import ALIGNMENT
from ccesa.crypto.kernels import kernel
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


def add_masks(vector: Vector, masks: Sequence[Mask], generator: str, threads: int = 1) -> None:
    """Add and subtract every mask, in place."""
    if masks:
        _add(vector, vector, masks, generator, threads)


def masked(
    vector: Vector, masks: Sequence[Mask], generator: str, threads: int = 1, out: Vector | None = None
) -> Vector:
    """Mask a vector, with at least one mask, into ``out`` or a new array, in the first addition."""
    result = np.empty_like(vector) if out is None else out
    _add(vector, result, masks, generator, threads)
    return result


def _add(vector: Vector, result: Vector, masks: Sequence[Mask], generator: str, threads: int) -> None:
    chosen, word = kernel(), vector.itemsize
    blocks = -(-vector.nbytes // ALIGNMENT)
    step = -(-blocks // threads) * ALIGNMENT // word

    def work(first: int) -> None:
        source, target = vector[first : first + step], result[first : first + step]
        chosen.add(source, target, first * word, masks, generator)

    first, *others = range(0, vector.size, step)
    with ThreadPoolExecutor(max(1, len(others))) as pool:  # starts no thread before it has work for one
        running = [pool.submit(work, other) for other in others]
        work(first)
        for other in running:
            other.result()
