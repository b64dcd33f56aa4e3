"""sealing.json: shares sealed for one recipient in one round, and everything that must not open."""

from dataclasses import dataclass, replace

from cases.common import Case, configurations, sample, secret
from ccesa.crypto import keys, primitives
from ccesa.crypto.keys import Ends

DESCRIPTION = (
    "Pairs of shares (64 bytes: of b_i, then of s_i) sealed by sender for recipient. To open, derive the "
    "incoming key from recipient_private, sender_public, context and both ids; the associated data have "
    "both ends' public keys, sealing key then mask key, whether masks run between them, and the sender's "
    "commitment. Cases under bad must be refused by the operation they name; under bad_associated the "
    "one-time key (16 bytes of key, 12 of nonce) is the right one and only the associated data differ."
)
_AGREEMENT = keys.AGREEMENTS[keys.DEFAULT]
_CONTEXT = configurations()["defaults"].context
_OTHER_CONTEXT = configurations()["harary"].context


@dataclass(frozen=True)
class Opening:
    """What a recipient believes when it opens a sealed text."""

    sender: int
    recipient: int
    sender_private: bytes
    recipient_private: bytes
    sealed: bytes
    context: bytes = _CONTEXT
    sender_mask_key: bytes = b""
    masked: bool = True
    recipient_mask_key: bytes = b""
    commitment: bytes = b""

    def case(self) -> Case:
        return {
            "sender": self.sender,
            "recipient": self.recipient,
            "sender_keys": _public(self.sender_private) + (self.sender_mask_key or _mask_key(self.sender)),
            "recipient_keys": _public(self.recipient_private) + (self.recipient_mask_key or _mask_key(self.recipient)),
            "masked": self.masked,
            "commitment": self.commitment or _commitment(self.sender),
            "recipient_private": self.recipient_private,
            "context": self.context,
            "sealed": self.sealed,
        }


def make() -> Case:
    return {
        "description": DESCRIPTION,
        "good": [_good(*pair) for pair in ((3, 7), (7, 3), (0, 2**32 - 2))],
        "bad": _bad(),
        "bad_associated": _bad_associated(),
    }


def _private(client: int) -> bytes:
    return sample(f"sealing key {client}")


def _public(private: bytes) -> bytes:
    return primitives.public_key(primitives.private_key(private))


def _mask_key(client: int) -> bytes:
    """A public key, of which nothing but its bytes matters here."""
    return sample(f"mask key {client}")


def _ends(sender: int, recipient: int) -> Ends:
    one, other = (_public(_private(client)) + _mask_key(client) for client in (sender, recipient))
    return Ends(sender, recipient, one, other, True, _commitment(sender))


def _commitment(sender: int) -> bytes:
    return sample(f"commitment {sender}")


def _shares(sender: int, recipient: int) -> bytes:
    return secret(f"b share {sender} to {recipient}") + secret(f"s share {sender} to {recipient}")


def _keys(client: int, neighbour: int) -> bytes:
    public = primitives.load_public_key(_public(_private(neighbour)))
    agreed = primitives.agree(primitives.private_key(_private(client)), public)
    return _AGREEMENT.sealing(agreed, _CONTEXT, client, neighbour)


def _seal(sender: int, recipient: int, text: bytes) -> bytes:
    given = keys.Encapsulated(b"", b""), keys.Content(text, b"")
    return _AGREEMENT.seal(_keys(sender, recipient), *given, _CONTEXT, _ends(sender, recipient))


def _opening(sender: int, recipient: int, text: bytes) -> Opening:
    sealed = _seal(sender, recipient, text)
    return Opening(sender, recipient, _private(sender), _private(recipient), sealed)


def _good(sender: int, recipient: int) -> Case:
    text = _shares(sender, recipient)
    return {**_opening(sender, recipient, text).case(), "sender_private": _private(sender), "shares": text}


def _flip(data: bytes, bit: int) -> bytes:
    return (int.from_bytes(data, "little") ^ 1 << bit).to_bytes(len(data), "little")


def _bad() -> list[Case]:
    good = _opening(3, 7, _shares(3, 7))
    sealed = good.sealed
    reflected = Opening(7, 3, _private(7), _private(3), sealed)
    broken = {
        "wrong context": replace(good, context=_OTHER_CONTEXT),
        "moved to another recipient": replace(good, recipient=5, recipient_private=_private(5)),
        "moved to another id with the same key": replace(good, recipient=5),
        "reflected to its sender": reflected,
        "said to come from another client": replace(good, sender=5, sender_private=_private(5)),
        "said to come from another id with the same key": replace(good, sender=5),
        "the sender's mask key is another one": replace(good, sender_mask_key=_mask_key(5)),
        "the recipient's mask key is another one": replace(good, recipient_mask_key=_mask_key(5)),
        "no masks between them": replace(good, masked=False),
        "another commitment": replace(good, commitment=_commitment(5)),
        "first bit flipped": replace(good, sealed=_flip(sealed, 0)),
        "one bit flipped in the s share": replace(good, sealed=_flip(sealed, 8 * 40 + 3)),
        "last bit of the tag flipped": replace(good, sealed=_flip(sealed, 8 * len(sealed) - 1)),
        "last byte missing": replace(good, sealed=sealed[:-1]),
        "one byte more": replace(good, sealed=sealed + b"\x00"),
        "another pair's text": replace(good, sealed=_seal(5, 7, _shares(5, 7))),
    }
    cases = [_refused("unseal", reason, opening, "SealBroken") for reason, opening in broken.items()]
    outside = _opening(3, 7, b"\xf1\xff" + _shares(3, 7)[2:])
    return [*cases, _refused("reading elements", "opens, and holds a word outside the field", outside, "OutsideField")]


def _refused(operation: str, reason: str, opening: Opening, error: str) -> Case:
    return {"operation": operation, "reason": reason, **opening.case(), "error": error}


def _bad_associated() -> list[Case]:
    """The key is right, as after a mistake in its derivation: the associated data alone must refuse."""
    ends = _ends(3, 7)
    changes: dict[str, tuple[bytes, Ends]] = {
        "another context": (_OTHER_CONTEXT, ends),
        "another sender": (_CONTEXT, ends._replace(sender=5)),
        "another recipient": (_CONTEXT, ends._replace(recipient=5)),
        "another key of the sender": (_CONTEXT, ends._replace(sender_keys=_flip(ends.sender_keys, 500))),
        "another key of the recipient": (_CONTEXT, ends._replace(recipient_keys=_ends(5, 7).sender_keys)),
        "no masks between them": (_CONTEXT, ends._replace(carries_masks=False)),
        "another commitment": (_CONTEXT, ends._replace(commitment=_flip(ends.commitment, 0))),
        "sender and recipient swapped": (_CONTEXT, _ends(7, 3)),
    }
    return [
        {
            "operation": "unseal",
            "reason": reason,
            "key": _keys(7, 3)[keys.ONE_TIME_BYTES :],
            "context": context,
            "sender": told.sender,
            "recipient": told.recipient,
            "sender_keys": told.sender_keys,
            "recipient_keys": told.recipient_keys,
            "masked": told.carries_masks,
            "commitment": told.commitment,
            "sealed": _seal(3, 7, _shares(3, 7)),
            "error": "SealBroken",
        }
        for reason, (context, told) in changes.items()
    ]
