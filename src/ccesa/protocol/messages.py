"""The messages, one request (server to client) and one reply (client to server) a step.

On the wire a message is one msgpack array: its name, then its fields in the order below. Lists of fixed
size items travel as one packed byte string in ascending order of client id. A message has exactly one
encoding and nothing else is accepted. Sizes are in bytes, d = neighbours, l = live neighbours.
"""

from collections.abc import Iterable
from typing import ClassVar, TypeVar, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from ccesa import wire
from ccesa.config import RoundConfig
from ccesa.crypto.keys import COMMITMENT_BYTES, DIGEST_BYTES, SEALED_BYTES
from ccesa.crypto.merkle import HASH_BYTES
from ccesa.crypto.primitives import PUBLIC_KEY_BYTES, SIGNATURE_BYTES
from ccesa.crypto.shamir import SHARE_BYTES
from ccesa.errors import MalformedMessage, UsageError
from ccesa.wire import Data

ID_BYTES = 4
#: Name, context, client id and array and length headers: at most this much around the fields.
OVERHEAD_BYTES = 96


class Message(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True):
    """What every message starts with: its round, and the client it is from or for."""

    #: Bytes that the body may have: for each neighbour, for each vector byte, and anyway.
    per_neighbour: ClassVar[int] = 0
    per_vector_byte: ClassVar[int] = 0
    constant: ClassVar[int] = 0
    #: Whether there are sets of clients in it, and proofs, whose size depends on the number of clients.
    sets: ClassVar[int] = 0
    proofs: ClassVar[bool] = False

    context: bytes
    client: int

    def encode(self) -> bytes:
        return wire.encode(self)


class AdvertiseRequest(Message, frozen=True, kw_only=True, tag="advertise-request"):
    """Step 0 opens. The configuration itself is agreed before; its context is in every message."""


class AdvertiseReply(Message, frozen=True, kw_only=True, tag="advertise-reply"):
    """Both public keys of a client."""

    constant: ClassVar[int] = 2 * PUBLIC_KEY_BYTES

    sealing_key: bytes  # 32, c_i
    mask_key: bytes  # 32, s_i


class ShareRequest(Message, frozen=True, kw_only=True, tag="share-request"):
    """A client's neighbours: who, with which keys, and whether masks run on the edge."""

    per_neighbour: ClassVar[int] = ID_BYTES + 2 * PUBLIC_KEY_BYTES + 1

    neighbours: bytes  # 4 · d, ids
    keys: bytes  # 64 · d, c_j then s_j
    masked: bytes  # 1 · d, 0 or 1


class ShareReply(Message, frozen=True, kw_only=True, tag="share-reply"):
    """For each neighbour one pair of shares, sealed; and the commitment to b_i."""

    per_neighbour: ClassVar[int] = SEALED_BYTES
    constant: ClassVar[int] = COMMITMENT_BYTES

    commitment: bytes  # 32
    sealed: bytes  # 80 · d


class MaskRequest(Message, frozen=True, kw_only=True, tag="mask-request"):
    """Which neighbours are not in V2, and what the others sealed for this client."""

    per_neighbour: ClassVar[int] = ID_BYTES + SEALED_BYTES

    dropped: bytes  # 4 each, ids of V1 \\ V2
    sealed: bytes  # 80 · l


class MaskReply(Message, frozen=True, kw_only=True, tag="mask-reply"):
    """The masked vector, little-endian words, and its digest."""

    per_vector_byte: ClassVar[int] = 1
    constant: ClassVar[int] = DIGEST_BYTES

    vector: bytes
    digest: bytes  # 32


class Complaint(Message, frozen=True, kw_only=True, tag="complaint"):
    """In place of the masked vector: neighbours whose sealed shares this client cannot use.

    The client takes no further part, like one that has dropped out.
    """

    per_neighbour: ClassVar[int] = ID_BYTES

    accused: bytes  # 4 each, ids


class UnmaskRequest(Message, frozen=True, kw_only=True, tag="unmask-request"):
    """Which neighbours of V2 are not in V3. The survivors are the rest: nobody can be named as both."""

    per_neighbour: ClassVar[int] = ID_BYTES

    dropped: bytes  # 4 each, ids of V2 \\ V3


class UnmaskReply(Message, frozen=True, kw_only=True, tag="unmask-reply"):
    """One share for the client itself and each neighbour of V2: of b_j if j survived, else of s_j."""

    per_neighbour: ClassVar[int] = SHARE_BYTES
    constant: ClassVar[int] = SHARE_BYTES

    shares: bytes  # 32 · (l + 1)


class SignedAdvertiseReply(Message, frozen=True, kw_only=True, tag="signed-advertise-reply"):
    """Both public keys of a client, signed by its identity."""

    constant: ClassVar[int] = 2 * PUBLIC_KEY_BYTES + SIGNATURE_BYTES

    sealing_key: bytes  # 32, c_i
    mask_key: bytes  # 32, s_i
    signature: bytes  # 64


class RosterRequest(Message, frozen=True, kw_only=True, tag="roster-request"):
    """Opens step 1 under the active guard: the committed roster, and the neighbours' signed keys.

    Who the neighbours are is not said: the client derives it from the root.
    """

    per_neighbour: ClassVar[int] = 2 * PUBLIC_KEY_BYTES + SIGNATURE_BYTES
    constant: ClassVar[int] = HASH_BYTES
    sets: ClassVar[int] = 1
    proofs: ClassVar[bool] = True

    v1: bytes  # clients / 8
    root: bytes  # 32
    keys: bytes  # 64 · d, c_j then s_j
    signatures: bytes  # 64 · d
    proof: bytes


class MaskAmongRequest(Message, frozen=True, kw_only=True, tag="mask-among-request"):
    """Opens step 2: all of V2, and what the neighbours in it sealed for this client."""

    per_neighbour: ClassVar[int] = SEALED_BYTES
    sets: ClassVar[int] = 1

    v2: bytes  # clients / 8
    sealed: bytes  # 80 · l


class SignedMaskReply(Message, frozen=True, kw_only=True, tag="signed-mask-reply"):
    """The masked vector with its digest, and the signature on the V2 it was masked among."""

    per_vector_byte: ClassVar[int] = 1
    constant: ClassVar[int] = DIGEST_BYTES + SIGNATURE_BYTES

    vector: bytes
    digest: bytes  # 32
    signature: bytes  # 64


class ConfirmRequest(Message, frozen=True, kw_only=True, tag="confirm-request"):
    """Opens step 2c: all of V3."""

    sets: ClassVar[int] = 1

    v3: bytes  # clients / 8


class ConfirmReply(Message, frozen=True, kw_only=True, tag="confirm-reply"):
    """The signature on V2 and V3."""

    constant: ClassVar[int] = SIGNATURE_BYTES

    signature: bytes  # 64


class SignedUnmaskRequest(Message, frozen=True, kw_only=True, tag="signed-unmask-request"):
    """Opens step 3: for each neighbour in V3 its signature, on (V2, V3) if it confirmed, else on V2."""

    per_neighbour: ClassVar[int] = 1 + SIGNATURE_BYTES

    confirmed: bytes  # 1 · l, 0 or 1
    signatures: bytes  # 64 · l


AnyMessage = (
    AdvertiseRequest
    | AdvertiseReply
    | ShareRequest
    | ShareReply
    | MaskRequest
    | MaskReply
    | Complaint
    | UnmaskRequest
    | UnmaskReply
    | SignedAdvertiseReply
    | RosterRequest
    | MaskAmongRequest
    | SignedMaskReply
    | ConfirmRequest
    | ConfirmReply
    | SignedUnmaskRequest
)
MESSAGES: tuple[type[Message], ...] = get_args(AnyMessage)

Bundle = AdvertiseReply | SignedAdvertiseReply
MaskedVector = MaskReply | SignedMaskReply

_BY_NAME: dict[bytes, type[Message]] = {str(kind.__struct_config__.tag).encode(): kind for kind in MESSAGES}
_DECODER = msgspec.msgpack.Decoder(AnyMessage)

M = TypeVar("M", bound=Message)


def limit(kind: type[Message], config: RoundConfig) -> int:
    """The most bytes that a message of this kind can have in a round of this configuration."""
    return (
        OVERHEAD_BYTES
        + kind.constant
        + kind.per_neighbour * config.graph.max_degree(config.clients)
        + kind.per_vector_byte * config.vector_bytes
        + kind.sets * set_bytes(config.clients)
        + kind.proofs * _proof_bytes(config)
    )


def _proof_bytes(config: RoundConfig) -> int:
    """At most a path for each neighbour and the client itself, and never more than the whole tree."""
    paths = (config.graph.max_degree(config.clients) + 1) * config.clients.bit_length()
    return HASH_BYTES * min(paths, 2 * config.clients)


def has_vector(kind: type[Message]) -> bool:
    return kind.per_vector_byte > 0


def measured(data: object, what: str) -> Data:
    """The bytes, or a view of them, but no copy: they may be far too many."""
    if isinstance(data, bytes):
        return data
    if not isinstance(data, bytearray | memoryview):
        raise UsageError(f"a {what} is bytes, not {type(data).__name__}")
    try:
        return memoryview(data).cast("B")
    except (TypeError, ValueError) as error:  # a view with gaps, or one that was released
        raise UsageError(f"a {what} is bytes in one piece: {error}") from None


def named(data: Data) -> type[Message] | None:
    """The kind of message that these bytes begin like, by the name at their front; none is parsed for it."""
    if len(data) < 2 or data[0] >> 4 != 0x9 or data[1] >> 5 != 0x5:
        return None
    return _BY_NAME.get(bytes(data[2 : 2 + (data[1] & 0x1F)]))


def decode(data: Data, most: int) -> AnyMessage:
    """Any message, strictly: bounded before it is parsed or copied, and in its only encoding."""
    return wire.decode(_DECODER, data, most, "message")


def expect(message: Message, kind: type[M]) -> M:
    if not isinstance(message, kind):
        raise MalformedMessage(f"expected {kind.__struct_config__.tag}, got {message.__struct_config__.tag}")
    return message


def exactly(name: str, data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise MalformedMessage(f"{name}: expected {size} bytes, got {len(data)}")
    return data


def items(name: str, data: bytes, count: int, size: int) -> list[bytes]:
    """A packed list of ``count`` items of ``size`` bytes."""
    exactly(name, data, count * size)
    return [data[first : first + size] for first in range(0, count * size, size)]


def set_bytes(clients: int) -> int:
    """Of a set of clients: a bit for each that is enrolled."""
    return -(-clients // 8)


def pack_set(members: NDArray[np.bool_]) -> bytes:
    return np.packbits(members, bitorder="little").tobytes()


def pack_members(members: Iterable[int], clients: int) -> bytes:
    """The set of these among all clients that are enrolled."""
    flags = np.zeros(clients, bool)
    flags[np.fromiter(members, np.int64)] = True
    return pack_set(flags)


def unpack_set(name: str, data: bytes, clients: int) -> NDArray[np.bool_]:
    """One flag for each enrolled client; bits beyond the last one are zero."""
    exactly(name, data, set_bytes(clients))
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").astype(bool)
    if bits[clients:].any():
        raise MalformedMessage(f"{name} contains a client that was never enrolled")
    return bits[:clients]


def pack_ids(ids: NDArray[np.int64]) -> bytes:
    return ids.astype("<u4").tobytes()


def unpack_ids(name: str, data: bytes, clients: int) -> NDArray[np.int64]:
    """Packed ids: strictly ascending (so none twice) and enrolled."""
    if len(data) % ID_BYTES:
        raise MalformedMessage(f"{name} has {len(data)} bytes, not a multiple of {ID_BYTES}")
    ids = np.frombuffer(data, "<u4").astype(np.int64)
    if np.any(np.diff(ids) <= 0):
        raise MalformedMessage(f"{name} is not strictly ascending: an id twice, or out of order")
    if ids.size and ids[-1] >= clients:
        raise MalformedMessage(f"{name} contains {ids[-1]}, which was never enrolled")
    return ids
