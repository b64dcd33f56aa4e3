"""The kernel that runs everywhere: keystreams from the cryptographic library, added by numpy.

Loops run over slices of the vector outside and masks inside, so the slice and the keystream buffer stay in cache.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ccesa.crypto.primitives import GENERATORS
from ccesa.words import Vector

if TYPE_CHECKING:
    from ccesa.crypto.masks import Mask

#: Bytes of the vector that are masked before moving on: accumulator, keystream and zeros share the cache.
SLICE_BYTES = 256 * 1024
#: Streams that are open at a time; bounds the memory when a server removes many thousand masks.
OPEN_STREAMS = 256
#: The minimum of keystream for a thread in bytes: a millisecond or more.
THREAD_BYTES = 8 << 20

_ZEROS = memoryview(bytes(SLICE_BYTES))


class Pure:
    name = "pure"

    def add(self, source: Vector, target: Vector, offset: int, masks: "Sequence[Mask]", generator: str) -> None:
        for group in range(0, len(masks), OPEN_STREAMS):
            _add_group(source, target, offset, masks[group : group + OPEN_STREAMS], generator)
            source = target

    def threads_for(self, size: int, masks: int) -> int:
        # On less than a slice threads wait for each other.
        return min(size // SLICE_BYTES, size * masks // THREAD_BYTES)


def _add_group(source: Vector, target: Vector, offset: int, masks: "Sequence[Mask]", generator: str) -> None:
    kind = GENERATORS[generator]
    block = offset // kind.block_bytes
    streams = [(kind.stream(mask.key, block).update_into, np.add if mask.sign > 0 else np.subtract) for mask in masks]
    elements = SLICE_BYTES // source.itemsize
    words, sums = np.empty((2, min(elements, source.size)), source.dtype)
    for first in range(0, source.size, elements):
        part = slice(first, first + elements)
        before = source[part]
        stream_words, after, blank = words[: before.size], sums[: before.size], _ZEROS[: before.nbytes]
        raw = stream_words.view(np.uint8).data
        for read, combine in streams:
            read(blank, raw)
            combine(before, stream_words, out=after)
            before = after
        # A vector in a message need not be aligned: numpy adds to such words slowly, and copies bytes fast.
        target[part].view(np.uint8)[:] = after.view(np.uint8)
