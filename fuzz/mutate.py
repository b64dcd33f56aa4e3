"""Inputs that differ a little from known ones: no coverage is measured, no other package is needed."""

import random
from collections.abc import Iterator

#: Bytes that mean something to msgpack, to text, or at the ends of ranges.
TELLING = bytes([0, 1, 2, 0x0A, 0x20, 0x23, 0x3D, 0x7F, 0x80, 0x90, 0xA0, 0xC0, 0xC2, 0xC4, 0xC5, 0xC6]) + bytes(
    [0xCA, 0xCB, 0xCC, 0xCD, 0xCE, 0xCF, 0xD0, 0xD3, 0xD9, 0xDC, 0xDD, 0xDE, 0xDF, 0xE0, 0xF0, 0xFE, 0xFF]
)
MOST_BYTES = 4096


def mutations(seeds: list[bytes], source: random.Random) -> Iterator[bytes]:
    """Without end. Half of the time a mutation is mutated again."""
    while True:
        data = source.choice(seeds)
        while True:
            data = _changed(data, source.choice(seeds), source)[:MOST_BYTES]
            yield data
            if source.random() < 0.5:
                break


def _changed(data: bytes, other: bytes, source: random.Random) -> bytes:
    first = source.randint(0, len(data))
    last = min(len(data), first + source.choice([0, 1, 1, 2, 4, 8, 32]))
    kind = source.randrange(7)
    if kind == 0 and data:  # one bit
        place = source.randrange(len(data))
        return data[:place] + bytes([data[place] ^ 1 << source.randrange(8)]) + data[place + 1 :]
    if kind == 1:  # a telling byte in place of some
        return data[:first] + bytes([source.choice(TELLING)]) + data[last:]
    if kind == 2:  # some bytes less
        return data[:first] + data[last:]
    if kind == 3:  # some random ones in their place
        return data[:first] + source.randbytes(source.choice([last - first, 1, 2, 4])) + data[last:]
    if kind == 4:  # some of them once more
        return data[:last] + data[first:last] * source.choice([1, 2, 30]) + data[last:]
    if kind == 5:  # the end of another
        return data[:first] + other[source.randint(0, len(other)) :]
    return data[:first]
