"""What a round costs: bytes, key agreements, keystream, and from measured rates the time. No clock here.

Bytes and counts follow docs/protocol.md. Those of a client are for a round in which nobody vanishes, the most
it can have. Those of the server are expectations over who vanishes, equally likely in each of the four steps.
"""

from dataclasses import dataclass
from typing import NamedTuple

from ccesa.crypto.keys import COMMITMENT_BYTES, DIGEST_BYTES, SEALED_BYTES
from ccesa.crypto.merkle import HASH_BYTES
from ccesa.crypto.primitives import PUBLIC_KEY_BYTES, SIGNATURE_BYTES
from ccesa.crypto.shamir import SHARE_BYTES
from ccesa.errors import ConfigError
from ccesa.plan.bounds import step_dropout
from ccesa.plan.calibration import Rates

_ID_BYTES = 4
_CONTEXT_BYTES = 32
#: Below each of these a client id takes so many bytes, in msgpack's shortest form.
_ID_FORMS = ((1 << 7, 1), (1 << 8, 2), (1 << 16, 3), (1 << 32, 5))
#: Python around the primitives, in messages taken in without content: what a client does with each of its
#: requests, and a server with each reply. Fitted with bench/plan.py; they hardly depend on the machine.
_CLIENT_HANDLINGS = 3
_SERVER_HANDLINGS = 0.8


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What the cost of a round depends on.

    Degrees are those of the assignment graph, the mean where they vary, and ``threshold`` is that of a client
    of mean degree; ``dropout`` is the probability that a client vanishes in the course of the round.
    """

    clients: int
    degree: float
    mask_degree: float
    threshold: int
    length: int
    bits: int
    dropout: float
    guard: str = "curious"

    def __post_init__(self) -> None:
        if self.guard not in _MESSAGES:
            raise ConfigError(f"guard must be one of {', '.join(_MESSAGES)}, not {self.guard!r}")

    @property
    def vector_bytes(self) -> float:
        return self.length * self.bits / 8


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Of one client that stays to the end while nobody vanishes, and of the server."""

    #: The mean over client ids, which take one to five bytes; exact where all degrees are equal.
    sent_bytes: float
    received_bytes: float
    #: One for each neighbour to seal shares, one for each neighbour to mask with.
    agreements: float
    #: Of signatures, two for each neighbour, under the guard ``active``.
    verifications: float
    keystream_bytes: float
    #: All that passes the server while nobody vanishes.
    server_bytes: float
    #: Expected: one for each survivor that shares a mask with a client that vanished after sharing.
    server_agreements: float
    #: Expected: the self masks of the survivors, and a mask for each of those agreements.
    server_keystream_bytes: float
    #: Processor time of one core, if rates are known.
    client_seconds: float | None = None
    server_seconds: float | None = None


class _Field(NamedTuple):
    """Bytes of one field: anyway, for each neighbour, for each byte of the vector, for sets and proofs."""

    constant: int = 0
    each: int = 0
    vector: int = 0
    sets: int = 0
    proofs: int = 0


class _Message(NamedTuple):
    name: str
    fields: tuple[_Field, ...] = ()


class _Messages(NamedTuple):
    """Of one client, when nobody vanishes. docs/protocol.md, section 7."""

    sent: tuple[_Message, ...]
    received: tuple[_Message, ...]


_CURIOUS = _Messages(
    sent=(
        _Message("advertise-reply", (_Field(PUBLIC_KEY_BYTES), _Field(PUBLIC_KEY_BYTES))),
        _Message("share-reply", (_Field(COMMITMENT_BYTES), _Field(each=SEALED_BYTES))),
        _Message("mask-reply", (_Field(vector=1), _Field(DIGEST_BYTES))),
        _Message("unmask-reply", (_Field(SHARE_BYTES, each=SHARE_BYTES),)),
    ),
    received=(
        _Message("advertise-request"),
        _Message(
            "share-request", (_Field(each=_ID_BYTES), _Field(each=2 * PUBLIC_KEY_BYTES), _Field(each=1))
        ),
        _Message("mask-request", (_Field(), _Field(each=SEALED_BYTES))),
        _Message("unmask-request", (_Field(),)),
    ),
)
_ACTIVE = _Messages(
    sent=(
        _Message(
            "signed-advertise-reply",
            (_Field(PUBLIC_KEY_BYTES), _Field(PUBLIC_KEY_BYTES), _Field(SIGNATURE_BYTES)),
        ),
        _CURIOUS.sent[1],
        _Message("signed-mask-reply", (_Field(vector=1), _Field(DIGEST_BYTES), _Field(SIGNATURE_BYTES))),
        _Message("confirm-reply", (_Field(SIGNATURE_BYTES),)),
        _CURIOUS.sent[3],
    ),
    received=(
        _CURIOUS.received[0],
        _Message(
            "roster-request",
            (
                _Field(sets=1),
                _Field(HASH_BYTES),
                _Field(each=2 * PUBLIC_KEY_BYTES),
                _Field(each=SIGNATURE_BYTES),
                _Field(proofs=1),
            ),
        ),
        _Message("mask-among-request", (_Field(sets=1), _Field(each=SEALED_BYTES))),
        _Message("confirm-request", (_Field(sets=1),)),
        _Message("signed-unmask-request", (_Field(each=1), _Field(each=SIGNATURE_BYTES))),
    ),
)
_MESSAGES = {"curious": _CURIOUS, "active": _ACTIVE}


class _Fates(NamedTuple):
    """Expected sizes of V1 to V4."""

    v1: float
    v2: float
    v3: float
    v4: float

    @property
    def vanished(self) -> float:
        """After sharing and before masking: their pair masks have to be taken off."""
        return self.v2 - self.v3


def cost(shape: Shape, rates: Rates | None = None) -> Cost:
    """The cost of a round of this shape; with rates, also its time."""
    messages = _MESSAGES[shape.guard]
    sent, received = _bytes(messages.sent, shape), _bytes(messages.received, shape)
    pairs = _pairs_to_open(shape)
    return Cost(
        sent_bytes=sent,
        received_bytes=received,
        agreements=shape.degree + shape.mask_degree,
        verifications=_verifications(shape),
        keystream_bytes=(shape.mask_degree + 1) * shape.vector_bytes,
        server_bytes=shape.clients * (sent + received),
        server_agreements=pairs,
        server_keystream_bytes=(_fates(shape).v3 + pairs) * shape.vector_bytes,
        client_seconds=_client_seconds(shape, rates) if rates else None,
        server_seconds=_server_seconds(shape, rates) if rates else None,
    )


def _bytes(messages: tuple[_Message, ...], shape: Shape) -> float:
    return sum(_message_bytes(message, shape) for message in messages)


def _message_bytes(message: _Message, shape: Shape) -> float:
    """One array: its name, the context, the client's id, the fields; each behind its header."""
    head = 1 + 1 + len(message.name) + 2 + _CONTEXT_BYTES + _mean_id_bytes(shape.clients)
    sizes = [
        field.constant
        + field.each * shape.degree
        + field.vector * shape.vector_bytes
        + field.sets * -(-shape.clients // 8)
        + (_proof_bytes(shape) if field.proofs else 0)
        for field in message.fields
    ]
    return head + sum(_header_bytes(size) + size for size in sizes)


def _proof_bytes(shape: Shape) -> float:
    """Expected: on each level of the tree, the siblings that are not known from below.

    Neighbours are anywhere among the leaves. A node over 2^k leaves is known if one of these is.
    """
    unknown, nodes, siblings = max(0.0, 1 - (shape.degree + 1) / shape.clients), float(shape.clients), 0.0
    while nodes > 1:
        siblings += nodes * (1 - unknown) * unknown
        unknown, nodes = unknown**2, nodes / 2
    return HASH_BYTES * siblings


def _header_bytes(size: float) -> int:
    """Of a byte string in msgpack's shortest form."""
    return 2 if size < 1 << 8 else 3 if size < 1 << 16 else 5


def _mean_id_bytes(clients: int) -> float:
    """Over all ids 0 … clients - 1."""
    total, first = 0, 0
    for end, size in _ID_FORMS:
        total += size * (min(end, clients) - first)
        first = min(end, clients)
    return total / clients


def _fates(shape: Shape) -> _Fates:
    steps = len(_MESSAGES[shape.guard].received)
    stay = 1 - step_dropout(shape.dropout, steps)
    return _Fates(*(shape.clients * stay**step for step in (1, 2, 3, steps)))


def _pairs_to_open(shape: Shape) -> float:
    """Masks that survivors share with those who vanished before they masked.

    The graph is drawn over V1, so a mask neighbour is in V1 for certain, and in V3 with probability v3 / v1.
    Where edges are drawn pair by pair there are slightly fewer: who vanished before the drawing has none.
    """
    fates = _fates(shape)
    mask_degree = min(shape.mask_degree, max(fates.v1 - 1, 0))
    return fates.vanished * mask_degree * fates.v3 / fates.v1


def _verifications(shape: Shape) -> float:
    return 2 * shape.degree if shape.guard == "active" else 0.0


def _client_seconds(shape: Shape, rates: Rates) -> float:
    requests = len(_MESSAGES[shape.guard].received)
    return (
        requests * _CLIENT_HANDLINGS * rates.taking.at(0)
        + 2 * rates.key_pair
        + (shape.degree + shape.mask_degree) * rates.agreement
        + shape.degree * rates.sealing
        + _verifications(shape) * rates.verification
        + rates.splitting.at((shape.degree + 1) * shape.threshold)
        + (shape.mask_degree + 1) * rates.masking.at(shape.vector_bytes)
    )


def _server_seconds(shape: Shape, rates: Rates) -> float:
    fates, pairs = _fates(shape), _pairs_to_open(shape)
    absent = shape.threshold * (fates.v1 / fates.v4 - 1)
    return (
        (fates.v1 + fates.v2 + fates.v4) * _SERVER_HANDLINGS * rates.taking.at(0)
        + fates.v3 * rates.taking.at(shape.vector_bytes)
        + (fates.v1 + 2 * fates.v3 if shape.guard == "active" else 0.0) * rates.verification
        + fates.v1 * shape.degree * rates.edge
        + fates.v2 * rates.joining.at(shape.threshold * (1 + absent))
        + fates.vanished * 2 * rates.key_pair
        + pairs * rates.agreement
        + (fates.v3 + pairs) * rates.masking.at(shape.vector_bytes)
    )
