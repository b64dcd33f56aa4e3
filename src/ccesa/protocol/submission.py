"""The guard with helpers: what a member hands in beside its vector, and the texts that it and the helpers sign.

Both sides build these texts and read none from a message.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from ccesa import labels
from ccesa.agreement.config import RoundConfig
from ccesa.crypto import primitives
from ccesa.crypto.keys import AGREEMENTS
from ccesa.crypto.primitives import GENERATORS, PUBLIC_KEY_BYTES, SIGNATURE_BYTES, TAG_BYTES
from ccesa.protocol import messages as m


def keys_text(context: bytes, helper: int, not_after: bytes, keys: bytes) -> bytes:
    """Build the text that a helper signs: its public keys for one round, and when they are gone."""
    return labels.frame(labels.HELPER_KEYS, context, labels.client_bytes(helper), not_after, keys)


def keyring_of(context: bytes, bundles: Sequence[bytes]) -> bytes:
    """Return the digest of all helpers' keys."""
    return labels.digest(labels.HELPERS, context, *bundles)


def boxes_digest(request: m.BoxesRequest, helper: int) -> bytes:
    """Return the digest of the boxes that a helper is asked to confirm."""
    return _request_digest(labels.BOXES, request, helper)


def question_digest(request: m.BoxesRequest, helper: int) -> bytes:
    """Return the digest of the one question that a helper answers in a round."""
    return _request_digest(labels.QUESTION, request, helper)


def _request_digest(label: bytes, request: m.BoxesRequest, helper: int) -> bytes:
    own = labels.client_bytes(helper)
    return labels.digest(label, request.context, own, request.task, request.keyring, request.members, request.records)


def confirmed_text(context: bytes, helper: int, boxes: bytes, refused: bytes) -> bytes:
    """Build the text that a helper signs about boxes."""
    return labels.digest(labels.CONFIRMED_BOXES, context, labels.client_bytes(helper), boxes, refused)


def sum_text(context: bytes, helper: int, question: bytes, tag: bytes) -> bytes:
    """Build the text that a helper signs with the sum of its masks."""
    return labels.digest(labels.MASK_SUM, context, labels.client_bytes(helper), question, tag)


@dataclass(frozen=True, kw_only=True)
class Binding:
    """The round, the task and the keys of all helpers, to which every box is bound."""

    config: RoundConfig
    context: bytes
    task: bytes
    keyring: bytes

    def mask_key(self, secret: bytes, client: int, place: int, key: bytes, ciphertext: bytes) -> "MaskKey":
        """Derive the key of the mask between a member and the helper in this place, and its box."""
        helper, size = self.config.clients + place, GENERATORS[self.config.generator].key_bytes
        head = labels.pair_frame(labels.HELPED_MASK, self.context, client, helper)
        derived = primitives.derive(
            secret, head + labels.frame(self.task, self.keyring, key, ciphertext), size + TAG_BYTES
        )
        return MaskKey(derived[:size], derived[size:])

    def text(self, client: int, key: bytes, boxes: bytes, digests: bytes, tag: bytes) -> bytes:
        """Build the text that a member signs."""
        own = labels.client_bytes(client)
        return labels.digest(labels.SUBMISSION, self.context, own, self.task, self.keyring, key, boxes, digests, tag)

    def digests(self, ciphertexts: Sequence[bytes]) -> bytes:
        """Return the digest of each ciphertext; empty if the agreement has none."""
        return b"".join(ciphertext_digest(one) for one in ciphertexts)


class MaskKey(NamedTuple):
    """The key of a mask between a member and a helper, and the box by which the helper knows that it has the same."""

    key: bytes
    box: bytes

    def __repr__(self) -> str:
        return "MaskKey(...)"


def ciphertext_digest(ciphertext: bytes) -> bytes:
    """Return the digest of a ciphertext; no bytes if the agreement has none."""
    return labels.digest(labels.CIPHERTEXT, ciphertext) if ciphertext else b""


@dataclass(frozen=True, kw_only=True)
class Record:
    """A member's signed words about its vector, as helpers see them."""

    key: bytes
    boxes: bytes
    digests: bytes
    tag: bytes
    signature: bytes = field(repr=False)

    def pack(self) -> bytes:
        return self.key + self.boxes + self.digests + self.tag + self.signature

    @classmethod
    def unpack(cls, data: bytes, config: RoundConfig) -> "Record":
        """Cut a record of the right size into its fields."""
        return cls(**{name: data[part] for name, part in _parts(config.agreement, len(config.helper_ids))})

    def box(self, place: int) -> bytes:
        """Return the box for the helper in this place."""
        return self.boxes[place * TAG_BYTES : (place + 1) * TAG_BYTES]

    def digest(self, place: int, config: RoundConfig) -> bytes:
        """Return the digest of the ciphertext for the helper in this place."""
        size = AGREEMENTS[config.agreement].ciphertext_digest_bytes
        return self.digests[place * size : (place + 1) * size]


@cache
def _parts(agreement: str, helpers: int) -> list[tuple[str, slice]]:
    """Return where the fields of a record lie."""
    per_helper = helpers * TAG_BYTES, helpers * AGREEMENTS[agreement].ciphertext_digest_bytes
    sizes = PUBLIC_KEY_BYTES, *per_helper, TAG_BYTES, SIGNATURE_BYTES
    return [
        (one.name, slice(end - size, end))
        for one, size, end in zip(fields(Record), sizes, accumulate(sizes), strict=True)
    ]
