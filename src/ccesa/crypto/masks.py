"""Masks: keystreams read as ring vectors, added or subtracted in place.

Speed rests on the order of the loops: slices of the vector outside, masks inside. The slice and the
keystream buffer stay in cache, and every stream is set up once and read on from slice to slice.
Streams are seekable, so any part of the vector can be masked by another thread, process or machine.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from ccesa.crypto import primitives
from ccesa.ring import Vector, zeros


class Mask(NamedTuple):
    """A keystream to add (sign 1) or to subtract (sign -1)."""

    key: bytes
    sign: int

    def __repr__(self) -> str:
        return f"Mask(sign={self.sign})"


class Generator(NamedTuple):
    key_bytes: int
    block_bytes: int
    stream: Callable[[bytes, int], primitives.Stream]


GENERATORS = {
    "aes128-ctr": Generator(16, 16, primitives.aes128_ctr),
    "chacha20": Generator(32, 64, primitives.chacha20),
}

#: Bytes of the vector that are masked before moving on: accumulator, keystream and zeros share the cache.
SLICE_BYTES = 256 * 1024
#: With several threads: each call gives up the interpreter lock and fights for it afterwards, so
#: fewer and longer calls win although the slice leaves the inner cache (bench/slices.py).
THREADED_SLICE_BYTES = 2048 * 1024
#: Streams that are open at a time; bounds the memory when a server removes many thousand masks.
OPEN_STREAMS = 256
#: Parts given to threads start at a multiple of this, a whole block of every generator.
_ALIGNMENT = 64

_ZEROS = bytes(THREADED_SLICE_BYTES)


def mask_words(generator: str, key: bytes, start: int, count: int, bits: int) -> Vector:
    """Elements [start, start + count) of a mask."""
    word, kind = bits // 8, GENERATORS[generator]
    block, skipped = divmod(start * word, kind.block_bytes)
    padded = zeros(skipped // word + count, bits)
    _add_part(padded, block * kind.block_bytes, [Mask(key, 1)], kind, SLICE_BYTES)
    return padded[skipped // word :]


def add_masks(vector: Vector, masks: Sequence[Mask], generator: str, threads: int = 1) -> None:
    """Add and subtract every mask, in place."""
    kind, word = GENERATORS[generator], vector.itemsize
    slice_bytes = SLICE_BYTES if threads == 1 else THREADED_SLICE_BYTES
    blocks = -(-vector.nbytes // _ALIGNMENT)
    step = -(-blocks // threads) * _ALIGNMENT // word

    def work(first: int) -> None:
        part = vector[first : first + step]
        for group in range(0, len(masks), OPEN_STREAMS):
            _add_part(part, first * word, masks[group : group + OPEN_STREAMS], kind, slice_bytes)

    parts = range(0, vector.size, step)
    if len(parts) == 1:
        work(0)
        return
    with ThreadPoolExecutor(len(parts)) as pool:
        list(pool.map(work, parts))


def _add_part(part: Vector, offset: int, masks: Sequence[Mask], kind: Generator, slice_bytes: int) -> None:
    """Mask one contiguous part that starts ``offset`` bytes (a whole number of blocks) into the vector."""
    block = offset // kind.block_bytes
    streams = [(kind.stream(mask.key, block).update_into, mask.sign) for mask in masks]
    elements = slice_bytes // part.itemsize
    words = np.empty(min(elements, part.size), part.dtype)
    for first in range(0, part.size, elements):
        target = part[first : first + elements]
        stream_words = words[: target.size]
        raw, blank = stream_words.view(np.uint8).data, memoryview(_ZEROS)[: target.nbytes]
        for read, sign in streams:
            read(blank, raw)
            (np.add if sign > 0 else np.subtract)(target, stream_words, out=target)
