"""Clients derive keys from their secrets, each with its own label and bound to the round's context."""

import hashlib
from typing import NamedTuple

from ccesa import labels
from ccesa.crypto import primitives
from ccesa.crypto.masks import GENERATORS
from ccesa.labels import client_bytes

COMMITMENT_BYTES = 32
DIGEST_BYTES = 32
_KEY, _NONCE = 16, 12


def mask_private_key(secret: bytes, context: bytes, client: int) -> primitives.PrivateKey:
    """Derive the key pair s_i from the secret that is dealt, so that a rebuilt one can be checked."""
    info = labels.frame(labels.MASK_KEY_PAIR, context, client_bytes(client))
    return primitives.private_key(primitives.derive(secret, info, 32))


def self_mask_key(secret: bytes, context: bytes, client: int, generator: str) -> bytes:
    """Derive the key of a client's self mask."""
    info = labels.frame(labels.SELF_MASK, context, client_bytes(client))
    return primitives.derive(secret, info, GENERATORS[generator].key_bytes)


def commitment(secret: bytes, context: bytes, client: int) -> bytes:
    """Bind a client to its b_i without showing it: b_i has 256 bits of entropy."""
    return labels.digest(labels.COMMITMENT, context, client_bytes(client), secret)


def pair_mask_key(agreed: bytes, context: bytes, one: int, other: int, generator: str) -> bytes:
    """Derive the key of the mask that two clients have in common."""
    info = labels.pair_frame(labels.PAIR_MASK, context, min(one, other), max(one, other))
    return primitives.derive(agreed, info, GENERATORS[generator].key_bytes)


def pair_sign(client: int, neighbour: int) -> int:
    """Return the sign with which ``client`` applies the mask it has in common with ``neighbour``."""
    return 1 if client < neighbour else -1


class Sealing(NamedTuple):
    """Two clients have two one-time keys, one per direction. Each seals exactly one text."""

    outgoing: bytes
    incoming: bytes

    def __repr__(self) -> str:
        return "Sealing(...)"


def sealing(agreed: bytes, context: bytes, client: int, neighbour: int) -> Sealing:
    """Derive key and nonce for both directions from one agreement; the nonce is never sent."""
    low, high = min(client, neighbour), max(client, neighbour)
    info = labels.pair_frame(labels.SEALING, context, low, high)
    both = primitives.derive(agreed, info, 2 * (_KEY + _NONCE))
    upward, downward = both[: _KEY + _NONCE], both[_KEY + _NONCE :]  # from the smaller id; from the larger
    return Sealing(upward, downward) if client < neighbour else Sealing(downward, upward)


class Ends(NamedTuple):
    """Names who seals for whom, the public keys of both, whether masks run between them, and a promise.

    All of it is bound to the text, as far as this party knows it. What was changed on its way to one of the
    two is noticed here, before a vector is masked with it: the masks would not cancel then, and the sum would
    be wrong.
    """

    sender: int
    recipient: int
    sender_keys: bytes
    recipient_keys: bytes
    carries_masks: bool
    #: The sender's, to its b_i: what it deals is what the server will hold it to.
    commitment: bytes

    def associated(self, context: bytes) -> bytes:
        """Return the data that sealing binds to the text."""
        head = labels.pair_frame(labels.SEALED, context, self.sender, self.recipient)
        return head + labels.frame(
            self.sender_keys, self.recipient_keys, bytes([self.carries_masks]), self.commitment
        )


def seal_shares(key: Sealing, shares: bytes, context: bytes, ends: Ends) -> bytes:
    """Seal a pair of shares for a neighbour."""
    one_time = key.outgoing
    return primitives.seal(one_time[:_KEY], one_time[_KEY:], shares, ends.associated(context))


def unseal_shares(key: Sealing, sealed: bytes, context: bytes, ends: Ends) -> bytes:
    """Open what a neighbour sealed; raises SealBroken."""
    one_time = key.incoming
    return primitives.unseal(one_time[:_KEY], one_time[_KEY:], sealed, ends.associated(context))


def vector_digest(vector: bytes | memoryview, context: bytes, client: int) -> bytes:
    """Return the digest of a masked vector: what reaches the server is what left the client.

    This is ``labels.digest(label, context, client, vector)`` without a copy of the vector.
    """
    view = memoryview(vector).cast("B")
    head = labels.frame(labels.MASKED_VECTOR, context, client_bytes(client))
    digest = hashlib.sha256(head + view.nbytes.to_bytes(4, "little"))
    digest.update(view)
    return digest.digest()
