"""The generators of keystreams, by the names that configurations, charters and the command line take."""

import math
from collections.abc import Callable
from typing import NamedTuple

from ccesa.crypto import primitives


class Generator(NamedTuple):
    """A generator has keys and blocks of fixed sizes, and opens its keystream at any block."""

    key_bytes: int
    block_bytes: int
    stream: Callable[[bytes, int], primitives.Stream]


GENERATORS = {
    "aes128-ctr": Generator(16, 16, primitives.aes128_ctr),
    "chacha20": Generator(32, 64, primitives.chacha20),
}

#: A multiple of this is a whole number of blocks of every generator, and of words of every size.
ALIGNMENT = math.lcm(*(kind.block_bytes for kind in GENERATORS.values()))
