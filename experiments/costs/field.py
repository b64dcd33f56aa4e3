"""Vectors over the prime field in which Turbo-aggregate computes, and Lagrange's interpolation on them."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

#: The largest prime below 2^32: an element takes the 32 bits of the paper's R.
PRIME = 2**32 - 5
#: Elements of a vector that are worked on at a time: what fits into a processor's cache.
_BLOCK = 8192

Vector = NDArray[np.uint32]
#: One vector in a row, or a single one.
Vectors = NDArray[np.uint32]


def add(one: Vectors, other: Vectors) -> Vectors:
    return _reduced(one.astype(np.uint64) + other)


def subtract(one: Vectors, other: Vectors) -> Vectors:
    return _reduced(one.astype(np.uint64) + (PRIME - other.astype(np.uint64)))


def total(vectors: Vectors) -> Vector:
    """The sum over the rows."""
    return _reduced(vectors.sum(axis=0, dtype=np.uint64))


def combined(weights: NDArray[np.uint64], vectors: Vectors) -> Vectors:
    """The matrix product, for fewer than 2^16 vectors: halves of the weights, so that no sum overflows."""
    low, high = weights & np.uint64(0xFFFF), weights >> np.uint64(16)
    found = np.empty((len(weights), vectors.shape[1]), np.uint32)
    for start in range(0, vectors.shape[1], _BLOCK):
        block = vectors[:, start : start + _BLOCK].astype(np.uint64)
        upper = (high @ block) % np.uint64(PRIME) << np.uint64(16)
        found[:, start : start + _BLOCK] = _reduced(upper + low @ block)
    return found


@cache
def lagrange(known: tuple[int, ...], wanted: tuple[int, ...]) -> NDArray[np.uint64]:
    """Weights that turn a polynomial's values at the known points into those at the wanted ones."""
    rows = [[_weight(known, mine, point) for mine in known] for point in wanted]
    return np.array(rows, np.uint64)


def mean(weights: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """One row: the mean over the rows."""
    inverse = pow(len(weights), -1, PRIME)
    sums = [sum(column) % PRIME * inverse % PRIME for column in weights.T.tolist()]
    return np.array([sums], np.uint64)


def drawn(rng: np.random.Generator, *shape: int) -> Vectors:
    """Uniform elements."""
    return rng.integers(0, PRIME, shape, dtype=np.uint32)


def _weight(known: tuple[int, ...], mine: int, point: int) -> int:
    above = below = 1
    for other in known:
        if other != mine:
            above, below = above * (point - other) % PRIME, below * (mine - other) % PRIME
    return above * pow(below, -1, PRIME) % PRIME


def _reduced(values: NDArray[np.uint64]) -> Vectors:
    return (values % np.uint64(PRIME)).astype(np.uint32)
