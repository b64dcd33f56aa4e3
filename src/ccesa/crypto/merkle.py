"""A Merkle tree commits to hashes, and one proof shows that several leaves are in it.

A node is the hash of its two children; a last node without a sibling rises unchanged. The user of the top has to
bind the number of leaves. A proof has only the missing siblings, level by level in ascending order.
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
    tree, step = [_rows(leaves)], 2 * HASH_BYTES
    while len(tree[-1]) > 1:
        below = tree[-1].tobytes()
        pairs = [below[first : first + step] for first in range(0, len(below), step)]
        tree.append(_rows([_parent(pair) if len(pair) == step else pair for pair in pairs]))
    return tree


def prove(tree: list[Hashes], places: Places) -> bytes:
    """Prove that the leaves at these places (ascending) are in the tree."""
    # All levels at once: in each row the places ascend, so that a sibling can only be the next one.
    up = places >> np.arange(len(tree) - 1)[:, None]
    apart = np.diff(up, prepend=-2, append=np.iinfo(np.int64).max)
    left = up & 1 == 0
    # The last place that rises to a left place looks ahead, the first that rises to a right place back.
    missing = np.where(left, (apart[:, 1:] > 0) & (apart[:, 1:] != 1), apart[:, :-1] > 1)
    proof = []
    for level, siblings, lacks in zip(tree, up ^ 1, missing, strict=False):
        proof.append(level.take(siblings[lacks & (siblings < len(level))], axis=0).tobytes())
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
