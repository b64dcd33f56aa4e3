"""Everyone repeats these draws: a word per pair of clients, and a random circle of all of them."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ccesa.crypto import primitives
from ccesa.graphs.assignment import Flags, Nodes

#: Pairs that are drawn at a time.
_CHUNK = 1 << 15
#: Half of a circle of 64-bit words.
_HALF = 1 << 63


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


def circle(seed: bytes, size: int) -> Nodes:
    """Return the nodes in their order around the circle: by a random 64-bit word of each, ties by node."""
    return np.argsort(_circle_words(seed, size), kind="stable")


def circle_positions(seed: bytes, size: int) -> Nodes:
    """Return where each node sits on the circle."""
    positions = np.empty(size, np.int64)
    positions[circle(seed, size)] = np.arange(size)
    return positions


def near_on_circle(seed: bytes, size: int, node: int, each_side: int) -> Nodes:
    """Return the nearest nodes on each side of one on the circle, ascending, without sorting all of them.

    There must be so many. Only words near its own are sorted: a window is doubled until enough lie on either
    side in it, or it is the whole circle.
    """
    words = _circle_words(seed, size)
    ahead = (words - words[node]).view(np.int64)  # around the circle of 2^64, by the shorter way
    window = (2 * each_side << 64) // size
    while True:
        near = np.arange(size)
        if window < _HALF:
            near = np.flatnonzero((ahead >= -window) & (ahead <= window))
        order = near[np.argsort(ahead[near], kind="stable")]
        place = int(np.flatnonzero(order == node)[0])
        if near.size == size or min(place, near.size - 1 - place) >= each_side:
            steps = np.delete(np.arange(-each_side, each_side + 1), each_side)
            return np.sort(order[(place + steps) % near.size])
        window *= 2


def _circle_words(seed: bytes, size: int) -> NDArray[np.uint64]:
    nodes = np.arange(size)
    return primitives.aes128_blocks(seed[16:], nodes, nodes)


def circle_distance(positions: Nodes, low: Nodes, high: Nodes) -> Nodes:
    """Return how far apart the two nodes of each pair sit on the circle."""
    apart = np.abs(positions[low] - positions[high])
    return np.minimum(apart, positions.size - apart)
