"""Each step has one request, from the server to a client or helper, and one reply.

A message is one msgpack array: its name, then its fields in the order below. Lists of items of one size travel as one
packed byte string in ascending order of id. A message has exactly one encoding. Each field declares its size; the
limit before parsing, the check after it and the planner's bytes follow from that.
"""

from collections.abc import Callable, Iterable
from functools import cache, lru_cache, reduce
from operator import or_
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from ccesa import wire
from ccesa.agreement.config import RoundConfig
from ccesa.crypto import keys
from ccesa.crypto.keys import AGREEMENTS, COMMITMENT_BYTES, DIGEST_BYTES
from ccesa.crypto.merkle import HASH_BYTES
from ccesa.crypto.primitives import PUBLIC_KEY_BYTES, SIGNATURE_BYTES, TAG_BYTES
from ccesa.crypto.shamir import SHARE_BYTES
from ccesa.errors import MalformedMessage, UsageError
from ccesa.wire import Data

CONTEXT_BYTES = 32
ID_BYTES = 4
NUMBER_BYTES = 4
TASK_BYTES = 32
TIME_BYTES = 8
#: The task of a round whose work is never repeated.
NO_TASK = bytes(TASK_BYTES)
#: Name, context, client id and array and length headers: at most this much around the fields.
OVERHEAD_BYTES = 96


class Size(NamedTuple):
    """A field has a constant number of bytes, and more for each item in it."""

    constant: int = 0
    per_neighbour: int = 0  # or for each live one, depending on the step
    per_named: int = 0  # for each neighbour that is named; the reader does not know their number
    per_vector_byte: int = 0
    sets: int = 0  # of clients, one bit for each that is enrolled
    proofs: int = 0  # of inclusion; the reader does not know their size
    # The agreement determines the size of public keys of one client, sealed texts and deposits of seeds.
    bundles: int = 0
    bundles_per_neighbour: int = 0
    texts_per_neighbour: int = 0
    deposits_per_neighbour: int = 0
    # With helpers: of one of them, for each of them, and for each member that is named to one of them.
    helper_bundles: int = 0
    per_helper: int = 0
    bundles_per_helper: int = 0
    ciphertexts_per_helper: int = 0
    records_per_named: int = 0
    ciphertexts_per_named: int = 0

    @property
    def is_exact(self) -> bool:
        return not (self.per_named or self.proofs or self.records_per_named or self.ciphertexts_per_named)

    def of(
        self,
        agreement: str,
        clients: int,
        vector_bytes: float,
        neighbours: float,
        helpers: int = 0,
        named: float = 0,
        proof: float = 0,
    ) -> float:
        """Return the bytes for these numbers of items; ``proof`` is the size of one."""
        kind = AGREEMENTS[agreement]
        single = (1, neighbours, named, vector_bytes, set_bytes(clients), proof, kind.bundle_bytes)
        per_neighbour = (size * neighbours for size in (kind.bundle_bytes, kind.text_bytes, kind.deposit_bytes))
        per_helper = (kind.helper_bytes, *(size * helpers for size in (1, kind.helper_bytes, kind.ciphertext_bytes)))
        per_named = (size * named for size in (record_bytes(agreement, helpers), kind.ciphertext_bytes))
        every = (*single, *per_neighbour, *per_helper, *per_named)
        return sum(count * size for count, size in zip(self, every, strict=True))

    def each(self, agreement: str) -> int:
        return int(self.of(agreement, 0, 0, 1) - self.of(agreement, 0, 0, 0))


def set_bytes(clients: int) -> int:
    return -(-clients // 8)


def record_bytes(agreement: str, helpers: int) -> int:
    """Return the size of a member's record: its one-time key, boxes, digests of ciphertexts, tag and signature."""
    per_helper = TAG_BYTES + AGREEMENTS[agreement].ciphertext_digest_bytes
    return PUBLIC_KEY_BYTES + helpers * per_helper + TAG_BYTES + SIGNATURE_BYTES


_Bundle = Annotated[bytes, Size(bundles=1)]
_Signature = Annotated[bytes, Size(SIGNATURE_BYTES)]
_Digest = Annotated[bytes, Size(DIGEST_BYTES)]
_Vector = Annotated[memoryview, Size(per_vector_byte=1)]
_Set = Annotated[bytes, Size(sets=1)]
_Named = Annotated[bytes, Size(per_named=ID_BYTES)]
_Bundles = Annotated[bytes, Size(bundles_per_neighbour=1)]
_Signatures = Annotated[bytes, Size(per_neighbour=SIGNATURE_BYTES)]
_Deposits = Annotated[bytes, Size(deposits_per_neighbour=1)]
_Sealed = Annotated[bytes, Size(texts_per_neighbour=1)]
_Commitments = Annotated[bytes, Size(per_neighbour=COMMITMENT_BYTES)]
_Task = Annotated[bytes, Size(TASK_BYTES)]
_Flags = Annotated[bytes, Size(per_neighbour=1)]
_Number = Annotated[bytes, Size(NUMBER_BYTES)]
_Tag = Annotated[bytes, Size(TAG_BYTES)]
_Records = Annotated[bytes, Size(records_per_named=1)]
_Ciphertexts = Annotated[bytes, Size(ciphertexts_per_named=1)]


class Message(msgspec.Struct, frozen=True, kw_only=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Every message starts with its round, and the client it is from or for."""

    context: bytes
    client: int

    def encode(self) -> bytes:
        return wire.encode(self)


class Fingerprint(NamedTuple):
    """A field beside a masked vector, by which changes of the vector are noticed."""

    name: str
    #: Makes it from the vector, the context and the client.
    make: Callable[[Data, bytes, int], bytes]


class AdvertiseRequest(Message, frozen=True, kw_only=True, tag="advertise-request"):
    """Opens step 0. The configuration itself is agreed on before; its context is in every message."""

    number: _Number  # of the round in its series


class AdvertiseReply(Message, frozen=True, kw_only=True, tag="advertise-reply"):
    """Shows the public keys of a client."""

    keys: _Bundle  # of c_i, of s_i, then the others of the agreement


class ShareRequest(Message, frozen=True, kw_only=True, tag="share-request"):
    """Opens step 1: a client's neighbours, their keys, and the edges on which masks run."""

    neighbours: Annotated[bytes, Size(per_neighbour=ID_BYTES)]  # ids
    keys: _Bundles  # of c_j, of s_j, then the others of the agreement
    masked: _Flags  # 0 or 1


class ShareReply(Message, frozen=True, kw_only=True, tag="share-reply"):
    """Carries one sealed pair of shares for each neighbour, and the commitment to b_i."""

    commitment: Annotated[bytes, Size(COMMITMENT_BYTES)]
    sealed: _Sealed


class AcceptRequest(Message, frozen=True, kw_only=True, tag="accept-request"):
    """Opens the step between 1 and 2: the neighbours that have not shared, and the texts of the others."""

    dropped: _Named  # ids
    commitments: _Commitments  # of those who have shared
    sealed: _Sealed  # by them


class AcceptReply(Message, frozen=True, kw_only=True, tag="accept-reply"):
    """Names the neighbours whose sealed shares this client cannot use; it holds the shares of all others."""

    accused: _Named  # ids
    deposits: _Deposits  # of the seeds of those who have shared; zeros for the accused


class MaskRequest(Message, frozen=True, kw_only=True, tag="mask-request"):
    """Opens step 2 after *accept*: the neighbours that had shared and are not in V2, and the task."""

    dropped: _Named  # ids
    task: _Task


class MaskAtOnceRequest(Message, frozen=True, kw_only=True, tag="mask-at-once-request"):
    """Opens step 2 without *accept*: the neighbours outside V2, the texts of the others, and the task."""

    dropped: _Named  # ids of V1 \\ V2
    commitments: _Commitments  # of live neighbours
    sealed: _Sealed  # by live neighbours
    task: _Task


class MaskReply(Message, frozen=True, kw_only=True, tag="mask-reply"):
    """Carries the masked vector with its tag, the V2 that it was masked among, and its task."""

    fingerprint: ClassVar[Fingerprint] = Fingerprint("tag", keys.vector_tag)

    tag: _Tag
    among: _Digest  # of the part of V2 that this client knows
    task: _Task
    vector: _Vector


class Complaint(Message, frozen=True, kw_only=True, tag="complaint"):
    """Names, in place of the masked vector, neighbours whose sealed shares this client cannot use.

    The client takes no further part, like one that has dropped out.
    """

    accused: _Named  # ids


class UnmaskRequest(Message, frozen=True, kw_only=True, tag="unmask-request"):
    """Opens step 3: the neighbours in V2 that are not in V3. The rest survive: nobody can be named as both."""

    dropped: _Named  # ids of V2 \\ V3


class UnmaskReply(Message, frozen=True, kw_only=True, tag="unmask-reply"):
    """Carries one share for the client and each neighbour in V2: of b_j if j survived, else of s_j."""

    shares: Annotated[bytes, Size(SHARE_BYTES, per_neighbour=SHARE_BYTES)]  # its own among them


class SignedAdvertiseReply(Message, frozen=True, kw_only=True, tag="signed-advertise-reply"):
    """Shows the public keys of a client, signed by its identity."""

    keys: _Bundle  # of c_i, of s_i, then the others of the agreement
    signature: _Signature


class RosterRequest(Message, frozen=True, kw_only=True, tag="roster-request"):
    """Opens step 1 under the active guard: the committed roster, and the neighbours' signed keys.

    The client derives its neighbours from the root.
    """

    v1: _Set
    root: Annotated[bytes, Size(HASH_BYTES)]
    keys: _Bundles  # of c_j, of s_j, then the others of the agreement
    signatures: _Signatures
    proof: Annotated[bytes, Size(proofs=1)]


class MaskAmongRequest(Message, frozen=True, kw_only=True, tag="mask-among-request"):
    """Opens step 2 after *accept*: all of V2, and the task."""

    v2: _Set
    task: _Task


class MaskAmongAtOnceRequest(Message, frozen=True, kw_only=True, tag="mask-among-at-once-request"):
    """Opens step 2 without *accept*: all of V2, the texts of the neighbours in it, and the task."""

    v2: _Set
    commitments: _Commitments  # of live neighbours
    sealed: _Sealed  # by live neighbours
    task: _Task


class SignedMaskReply(Message, frozen=True, kw_only=True, tag="signed-mask-reply"):
    """Carries the masked vector with its digest, the V2 that it was masked among, its task, and two signatures.

    The first is for the neighbours, on V2 and the task. The second is for the server, on the digest as well.
    """

    fingerprint: ClassVar[Fingerprint] = Fingerprint("digest", keys.vector_digest)

    digest: _Digest
    among: _Digest  # of V2
    task: _Task
    signature: _Signature
    receipt: _Signature
    vector: _Vector


class ConfirmRequest(Message, frozen=True, kw_only=True, tag="confirm-request"):
    """Opens step 2c: shows all of V3."""

    v3: _Set


class ConfirmReply(Message, frozen=True, kw_only=True, tag="confirm-reply"):
    """Carries the signature on V2, the task and V3."""

    signature: _Signature


class SignedUnmaskRequest(Message, frozen=True, kw_only=True, tag="signed-unmask-request"):
    """Opens step 3: the signature of each neighbour in V3, on V3 if it confirmed, else on V2."""

    confirmed: _Flags  # 0 or 1
    signatures: _Signatures  # of live neighbours


class HelperKeysRequest(Message, frozen=True, kw_only=True, tag="helper-keys-request"):
    """Opens a round with helpers, whose ids follow those of the members."""

    number: _Number  # of the round in its series


class HelperKeysReply(Message, frozen=True, kw_only=True, tag="helper-keys-reply"):
    """Shows the public keys of a helper for this round, signed by its identity."""

    keys: Annotated[bytes, Size(helper_bundles=1)]
    not_after: Annotated[bytes, Size(TIME_BYTES)]  # seconds since 1970: the key is gone then
    signature: _Signature


class MaskForHelpersRequest(Message, frozen=True, kw_only=True, tag="mask-for-helpers-request"):
    """Asks a member for its vector: the keys of all helpers, in the order of the charter, and the task."""

    number: _Number
    keys: Annotated[bytes, Size(bundles_per_helper=1)]
    not_after: Annotated[bytes, Size(per_helper=TIME_BYTES)]
    signatures: Annotated[bytes, Size(per_helper=SIGNATURE_BYTES)]
    task: _Task


class BoxedMaskReply(Message, frozen=True, kw_only=True, tag="boxed-mask-reply"):
    """Carries the masked vector with its check words, and for each helper a box: only the same keys give it."""

    fingerprint: ClassVar[Fingerprint] = Fingerprint("tag", keys.vector_tag)

    key: Annotated[bytes, Size(PUBLIC_KEY_BYTES)]  # one-time
    boxes: Annotated[bytes, Size(per_helper=TAG_BYTES)]
    ciphertexts: Annotated[bytes, Size(ciphertexts_per_helper=1)]
    tag: _Tag
    signature: _Signature
    vector: _Vector


class ConfirmBoxesRequest(Message, frozen=True, kw_only=True, tag="confirm-boxes-request"):
    """Asks a helper which of these members' boxes fit."""

    number: _Number
    task: _Task
    keyring: _Digest  # of all helpers' keys, as the members saw them
    members: _Named  # ids
    records: _Records
    ciphertexts: _Ciphertexts  # those for this helper


class ConfirmBoxesReply(Message, frozen=True, kw_only=True, tag="confirm-boxes-reply"):
    """Names the members whose boxes do not fit; all others are confirmed."""

    boxes: _Digest  # of the request
    refused: _Named  # ids
    signature: _Signature


class UnmaskSumRequest(Message, frozen=True, kw_only=True, tag="unmask-sum-request"):
    """Asks a helper for the sum of its masks over V3: the one question that it answers in a round."""

    number: _Number
    task: _Task
    keyring: _Digest
    members: _Named  # ids: V3
    records: _Records
    ciphertexts: _Ciphertexts


class UnmaskSumReply(Message, frozen=True, kw_only=True, tag="unmask-sum-reply"):
    """Carries the sum of a helper's masks over V3."""

    fingerprint: ClassVar[Fingerprint] = Fingerprint("tag", keys.vector_tag)

    tag: _Tag
    signature: _Signature
    vector: _Vector


#: All of them, in the order above.
MESSAGES: tuple[type[Message], ...] = tuple(Message.__subclasses__())

AnyAdvertiseReply = AdvertiseReply | SignedAdvertiseReply
Accusing = AcceptReply | Complaint
Texts = AcceptRequest | MaskAtOnceRequest | MaskAmongAtOnceRequest
#: Messages of clients with masked vectors; a server adds the first two to its sum when they come.
SummedVector = MaskReply | SignedMaskReply
MaskedVector = SummedVector | BoxedMaskReply
#: All messages with a vector.
VectorReply = MaskedVector | UnmaskSumReply
BoxesRequest = ConfirmBoxesRequest | UnmaskSumRequest

#: By their names as they are encoded, behind one byte with their length.
_BY_NAME = {msgspec.msgpack.encode(kind.__struct_config__.tag): kind for kind in MESSAGES}
#: The header of the array, and the longest name that has one byte with its length.
_HEAD_BYTES = 1 + 1 + 31
_DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(reduce(or_, MESSAGES))

M = TypeVar("M", bound=Message)
D = TypeVar("D", bytes, memoryview)


@cache
def sizes(kind: type[Message]) -> dict[str, Size]:
    """Return the size that each field of these messages declares, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if hasattr(hint, "__metadata__")}


@lru_cache(maxsize=4096)  # a server calls it for every reply
def _exact_sizes(kind: type[Message], *known: Any) -> tuple[tuple[str, int], ...]:
    """Return the size of each field whose size the reader knows beforehand."""
    return tuple((name, int(size.of(*known))) for name, size in sizes(kind).items() if size.is_exact)


@cache
def body(kind: type[Message]) -> Size:
    return Size(*map(sum, zip(*sizes(kind).values(), strict=True)))


def limit(kind: type[Message], config: RoundConfig) -> int:
    """Return the most bytes that a message of this kind can have in a round of this configuration."""
    clients = config.clients
    degree = clients if config.helper_ids else config.graph.max_degree(clients)
    # A path for each neighbour and the client itself, and never more than the whole tree.
    proof = HASH_BYTES * min((degree + 1) * clients.bit_length(), 2 * clients)
    known: dict[str, Any] = {"agreement": config.agreement, "vector_bytes": config.masked_bytes}
    known["helpers"] = len(config.helper_ids)
    most = body(kind).of(**known, clients=clients, neighbours=degree, named=degree, proof=proof)
    return OVERHEAD_BYTES + int(most)


def check(message: M, config: RoundConfig, neighbours: int = 0) -> M:
    """Return the message; raise MalformedMessage if a field has another size than its class declares.

    ``neighbours`` is their number. The readers of ids and of proofs check the numbers of those.
    """
    for name, size in _exact_sizes(type(message), *_known(config), neighbours, len(config.helper_ids)):
        check_size(name, getattr(message, name), size)
    return message


def _known(config: RoundConfig) -> tuple[str, int, int]:
    return config.agreement, config.clients, config.masked_bytes


def each(message: Message, name: str, config: RoundConfig) -> list[bytes]:
    """Cut a field into its items, one per neighbour."""
    data, size = getattr(message, name), sizes(type(message))[name].each(config.agreement)
    return items(name, data, len(data) // size, size)


def each_helper(message: Message, name: str, config: RoundConfig) -> list[bytes]:
    """Cut a field into its items, one per helper."""
    data, count = getattr(message, name), len(config.helper_ids)
    return items(name, data, count, len(data) // count)


def has_vector(kind: type[Message]) -> bool:
    return body(kind).per_vector_byte > 0


def is_masked_vector(kind: type[Message]) -> bool:
    """Tell whether these messages carry a client's vector under its masks."""
    return issubclass(kind, MaskedVector)


def blank(kind: type[M], **head: Any) -> M:
    """Return a message with this head whose fields are zeros, as many as each has in every round."""
    return kind(**head | {name: bytes(size.constant) for name, size in sizes(kind).items()})


def draft(kind: type[Message], config: RoundConfig, head: dict[str, Any]) -> wire.Draft:
    """Return the place for a masked vector inside the message of this kind that will carry it."""
    agreement, clients, nbytes = _known(config)
    exact = _exact_sizes(kind, agreement, clients, 0, 0, len(config.helper_ids))
    front = wire.front(kind(**head | {name: bytes(size) for name, size in exact}), nbytes)
    return wire.Draft(len(front), nbytes)


def view_of(data: object, what: str) -> Data:
    """Return the bytes or a view of them, without a copy: they may be far too many."""
    if isinstance(data, bytes):
        return data
    if not isinstance(data, bytearray | memoryview):
        raise UsageError(f"a {what} must be bytes, not {type(data).__name__}")
    try:
        return memoryview(data).cast("B")
    except (TypeError, ValueError) as error:  # a view with gaps, or one that was released
        raise UsageError(f"a {what} must be bytes in one piece: {error}") from None


def kind_of(data: Data) -> type[Message] | None:
    """Return the kind of message that these bytes claim to be, by the name at their front."""
    head = bytes(data[:_HEAD_BYTES])
    if len(head) < 2 or head[0] >> 4 != 0x9:
        return None
    return _BY_NAME.get(head[1 : 2 + (head[1] & 0x1F)])


def context_of(data: Data) -> bytes | None:
    """Return the context that these bytes claim, behind their name; it is checked after decoding."""
    if kind_of(data) is None:
        return None
    start = 2 + (data[1] & 0x1F) + 2
    return bytes(data[start : start + CONTEXT_BYTES])


def decode(data: Data, most: int) -> Message:
    """Decode any message strictly: bounded before it is parsed or copied, and in its only encoding."""
    return wire.decode(_DECODER, data, most, "message")


def expect(message: Message, kind: type[M]) -> M:
    """Return the message if it is of this kind, or raise MalformedMessage."""
    if not isinstance(message, kind):
        raise MalformedMessage(f"expected {kind.__struct_config__.tag}, got {message.__struct_config__.tag}")
    return message


def check_size(name: str, data: D, size: int) -> D:
    """Return the data if it has this size, or raise MalformedMessage."""
    if len(data) != size:
        raise MalformedMessage(f"{name}: expected {size} bytes, got {len(data)}")
    return data


def items(name: str, data: bytes, count: int, size: int) -> list[bytes]:
    check_size(name, data, count * size)
    return [data[place * size : (place + 1) * size] for place in range(count)]


def pack_set(members: NDArray[np.bool_]) -> bytes:
    return np.packbits(members, bitorder="little").tobytes()


def pack_members(members: Iterable[int], clients: int) -> bytes:
    flags = np.zeros(clients, bool)
    flags[np.fromiter(members, np.int64)] = True
    return pack_set(flags)


def unpack_set(name: str, data: bytes, clients: int) -> NDArray[np.bool_]:
    """Unpack one flag for each enrolled client; bits beyond the last one must be zero."""
    check_size(name, data, set_bytes(clients))
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little").view(bool)
    if bits[clients:].any():
        raise MalformedMessage(f"{name} contains a client that was never enrolled")
    return bits[:clients]


def pack_ids(ids: NDArray[np.int64]) -> bytes:
    return ids.astype("<u4").tobytes()


def unpack_ids(name: str, data: bytes, clients: int) -> NDArray[np.int64]:
    """Unpack ids, which must ascend strictly (so none comes twice) and be enrolled."""
    if len(data) % ID_BYTES:
        raise MalformedMessage(f"{name}: expected a multiple of {ID_BYTES} bytes, got {len(data)}")
    ids = np.frombuffer(data, "<u4").astype(np.int64)
    if (ids[1:] <= ids[:-1]).any():
        raise MalformedMessage(f"{name} is not strictly ascending: an id twice, or out of order")
    if ids.size and ids[-1] >= clients:
        raise MalformedMessage(f"{name} contains {ids[-1]}, which was never enrolled")
    return ids
