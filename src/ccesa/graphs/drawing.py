"""Everyone repeats these draws: a word per pair of clients, and a random circle of all of them."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ccesa.crypto import primitives
from ccesa.graphs.assignment import Flags, Nodes

#: Pairs that are drawn at a time.
_CHUNK = 1 << 15


def every_pair(size: int) -> Iterator[tuple[Nodes, Nodes]]:
    """Yield all pairs of nodes, each once, in chunks."""
    rows = max(1, _CHUNK // size)
    for first in range(0, size, rows):
        nodes = np.arange(first, min(first + rows, size))
        after = size - 1 - nodes  # pairs with a later node
        low = np.repeat(nodes, after)
        yield low, low + 1 + np.arange(low.size) - np.repeat(np.cumsum(after) - after, after)


def others(size: int, node: int) -> tuple[Nodes, Nodes, Nodes]:
    """Return all nodes but one, and the pairs that it forms with them, the lower node first."""
    rest = np.delete(np.arange(size), node)
    return rest, np.minimum(rest, node), np.maximum(rest, node)


def pair_draws(seed: bytes, low: Nodes, high: Nodes) -> NDArray[np.uint64]:
    """Return a uniform 64-bit word for each pair of ids: AES of the pair under the seed."""
    return primitives.aes128_blocks(seed[:16], low, high)


def below(draws: NDArray[np.uint64], p: float) -> Flags:
    """Return true with probability p: the draw is below floor(p · 2^64), exactly."""
    threshold = int(p * 2.0**64)
    return draws < np.uint64(threshold) if threshold < 2**64 else np.ones(draws.size, bool)


def circle_positions(seed: bytes, size: int) -> Nodes:
    """Return where each node sits on the circle: its rank by a random 64-bit word, ties by node."""
    nodes = np.arange(size)
    words = primitives.aes128_blocks(seed[16:], nodes, nodes)
    positions = np.empty(size, np.int64)
    positions[np.argsort(words, kind="stable")] = nodes
    return positions


def circle_distance(positions: Nodes, low: Nodes, high: Nodes) -> Nodes:
    """Return how far apart the two nodes of each pair sit on the circle."""
    apart = np.abs(positions[low] - positions[high])
    return np.minimum(apart, positions.size - apart)
