"""Masks are keystreams read as vectors of words, added or subtracted in place.

Speed rests on the order of the loops: slices of the vector outside, masks inside. The slice and the
keystream buffer stay in cache, and every stream is set up once and read on from slice to slice.
Streams are seekable, so any part of the vector can be masked by another thread, process or machine.
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from ccesa.crypto import primitives
from ccesa.words import Vector, zeros


class Mask(NamedTuple):
    """A mask is a keystream to add (sign 1) or to subtract (sign -1)."""

    key: bytes
    sign: int

    def __repr__(self) -> str:
        return f"Mask(sign={self.sign})"


class Generator(NamedTuple):
    """A generator has keys and blocks of fixed sizes, and opens its keystream at any block."""

    key_bytes: int
    block_bytes: int
    stream: Callable[[bytes, int], primitives.Stream]


#: The one list of them: the names that configurations, charters and the command line take.
GENERATORS = {
    "aes128-ctr": Generator(16, 16, primitives.aes128_ctr),
    "chacha20": Generator(32, 64, primitives.chacha20),
}

#: Bytes of the vector that are masked before moving on: accumulator, keystream and zeros share the cache.
SLICE_BYTES = 256 * 1024
#: With several threads: each call gives up the interpreter lock and fights for it afterwards, so fewer
#: and longer calls win although the slice leaves the inner cache.
THREADED_SLICE_BYTES = 2048 * 1024
#: Streams that are open at a time; bounds the memory when a server removes many thousand masks.
OPEN_STREAMS = 256
#: Parts start at a multiple of this, a whole block of every generator.
_ALIGNMENT = math.lcm(*(kind.block_bytes for kind in GENERATORS.values()))

_ZEROS = memoryview(bytes(THREADED_SLICE_BYTES))


def mask_words(generator: str, key: bytes, start: int, count: int, bits: int) -> Vector:
    """Return the elements [start, start + count) of a mask."""
    word, kind = bits // 8, GENERATORS[generator]
    block, skipped = divmod(start * word, kind.block_bytes)
    padded = zeros(skipped // word + count, bits)
    _add_part(padded, padded, block * kind.block_bytes, [Mask(key, 1)], kind, SLICE_BYTES)
    return padded[skipped // word :]


def add_masks(vector: Vector, masks: Sequence[Mask], generator: str, threads: int = 1) -> None:
    """Add and subtract every mask, in place."""
    _add(vector, vector, masks, generator, threads)


def masked(vector: Vector, masks: Sequence[Mask], generator: str, threads: int = 1) -> Vector:
    """Mask a vector, with at least one mask, into a new array. Copying is part of the first addition."""
    result = np.empty_like(vector)
    _add(vector, result, masks, generator, threads)
    return result


def _add(vector: Vector, result: Vector, masks: Sequence[Mask], generator: str, threads: int) -> None:
    kind, word = GENERATORS[generator], vector.itemsize
    slice_bytes = SLICE_BYTES if threads == 1 else THREADED_SLICE_BYTES
    blocks = -(-vector.nbytes // _ALIGNMENT)
    step = -(-blocks // threads) * _ALIGNMENT // word

    def work(first: int) -> None:
        source, target = vector[first : first + step], result[first : first + step]
        for group in range(0, len(masks), OPEN_STREAMS):
            _add_part(source, target, first * word, masks[group : group + OPEN_STREAMS], kind, slice_bytes)
            source = target

    first, *others = range(0, vector.size, step)
    with ThreadPoolExecutor(max(1, len(others))) as pool:  # starts no thread before it has work for one
        running = [pool.submit(work, other) for other in others]
        work(first)
        for other in running:
            other.result()


def _add_part(
    source: Vector, target: Vector, offset: int, masks: Sequence[Mask], kind: Generator, slice_bytes: int
) -> None:
    """Mask one contiguous part that starts ``offset`` bytes (a whole number of blocks) into the vector."""
    block = offset // kind.block_bytes
    streams = [
        (kind.stream(mask.key, block).update_into, np.add if mask.sign > 0 else np.subtract) for mask in masks
    ]
    elements = slice_bytes // source.itemsize
    words = np.empty(min(elements, source.size), source.dtype)
    for first in range(0, source.size, elements):
        before, after = source[first : first + elements], target[first : first + elements]
        stream_words, blank = words[: after.size], _ZEROS[: after.nbytes]
        raw = stream_words.view(np.uint8).data
        for read, combine in streams:
            read(blank, raw)
            combine(before, stream_words, out=after)
            before = after
