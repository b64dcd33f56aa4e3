"""A Merkle tree commits to hashes, and one proof shows that several leaves are in it.

A node is the hash of its two children; a last node without a sibling rises unchanged. The number of leaves is
bound by whoever uses the top. A proof has the missing siblings only, level by level in ascending order.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from ccesa import labels

HASH_BYTES = 32
Hashes = NDArray[np.uint8]
Places = NDArray[np.int64]

_NODE = labels.frame(labels.ROSTER_NODE)


class WrongProof(ValueError):
    """The proof has the wrong size for these leaves."""


def levels(leaves: list[bytes]) -> list[Hashes]:
    """Return all levels, from the leaves to the top."""
    found = [_rows(leaves)]
    while len(found[-1]) > 1:
        below = found[-1].tobytes()
        step = 2 * HASH_BYTES
        pairs = [below[first : first + step] for first in range(0, len(below), step)]
        found.append(_rows([_parent(pair) if len(pair) == step else pair for pair in pairs]))
    return found


def prove(tree: list[Hashes], places: Places) -> bytes:
    """Prove that the leaves at these places (ascending) are in the tree."""
    proof = []
    for level in tree[:-1]:
        siblings = places ^ 1
        missing = siblings[(siblings < len(level)) & ~np.isin(siblings, places, assume_unique=True)]
        proof.append(level[missing].tobytes())
        places = np.unique(places >> 1)
    return b"".join(proof)


def top(size: int, places: list[int], leaves: list[bytes], proof: bytes) -> bytes:
    """Return the top of the tree of ``size`` leaves that these (places ascending) and the proof give."""
    known = dict(zip(places, leaves, strict=True))
    read = 0
    while size > 1:
        above: dict[int, bytes] = {}
        for place, own in known.items():
            if place >> 1 in above:
                continue
            sibling = known.get(place ^ 1)
            if sibling is None and place ^ 1 < size:
                sibling, read = proof[read : read + HASH_BYTES], read + HASH_BYTES
            if sibling is None:
                above[place >> 1] = own
            else:
                above[place >> 1] = _parent(sibling + own if place & 1 else own + sibling)
        known, size = above, (size + 1) // 2
    if read != len(proof):
        raise WrongProof(f"proof: expected {read} bytes, got {len(proof)}")
    return known[0]


def _parent(both: bytes) -> bytes:
    return hashlib.sha256(_NODE + both).digest()


def _rows(hashes: list[bytes]) -> Hashes:
    return np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, HASH_BYTES)
