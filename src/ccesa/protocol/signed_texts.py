"""The active guard commits to texts and signs them. Both sides build them and read none from a message.

The root commits to V1 and, by a Merkle tree, to the keys of everyone in it; the graph is drawn from the root.
"""

import hashlib
from functools import lru_cache

import numpy as np

from ccesa import labels
from ccesa.crypto import merkle


def bundle_text(context: bytes, client: int, keys: bytes) -> bytes:
    """Build the text that is signed in step 0: the public keys of a client, for one round."""
    return labels.frame(labels.BUNDLE, context, labels.client_bytes(client), keys)


def leaf(context: bytes, client: int, keys: bytes) -> bytes:
    return labels.digest(labels.ROSTER_LEAF, context, labels.client_bytes(client), keys)


def root(context: bytes, v1: bytes, top: bytes) -> bytes:
    """Return the root, which commits to V1 and to the top of its tree."""
    return labels.digest(labels.COMMITTED_ROSTER, context, v1, top)


def seed(context: bytes, root: bytes) -> bytes:
    return labels.digest(labels.GRAPH_SEED, context, root)


@lru_cache(maxsize=8)  # a server needs these texts for every reply, and each has a set of all clients in it
def masking_text(context: bytes, root: bytes, v2: bytes, task: bytes) -> bytes:
    """Build the text that is signed along with the masked vector (rule R1)."""
    return labels.digest(labels.MASKING_AMONG, context, root, v2, task)


def receipt_text(context: bytes, root: bytes, v2: bytes, task: bytes, vector: bytes) -> bytes:
    """Build the text that is signed for the server alone, with the digest of the masked vector."""
    text = _handed_over(context, root, v2, task).copy()
    text.update(labels.frame(vector))
    return text.digest()


@lru_cache(maxsize=8)
def _handed_over(context: bytes, root: bytes, v2: bytes, task: bytes) -> "hashlib._Hash":
    return hashlib.sha256(labels.frame(labels.HANDED_OVER, context, root, v2, task))


def confirmed_text(context: bytes, root: bytes, v2: bytes, task: bytes, v3: bytes) -> bytes:
    """Build the text that is signed in step 2c (rule R2)."""
    return labels.digest(labels.CONFIRMED, context, root, v2, task, v3)


def among(context: bytes, client: int, known: bytes) -> bytes:
    """Return the digest of the V2 that a client knows: all of it, packed, or the ids of its own part."""
    head = labels.client_frame(labels.MASKED_AMONG, context, client)
    return hashlib.sha256(head + labels.frame(known)).digest()


def proven_root(context: bytes, v1: bytes, places: list[int], leaves: list[bytes], proof: bytes) -> bytes:
    """Return the root that these leaves, at these places among the members of V1, and their proof give."""
    size = int(np.count_nonzero(np.unpackbits(np.frombuffer(v1, np.uint8))))
    return root(context, v1, merkle.top(size, places, leaves, proof))
