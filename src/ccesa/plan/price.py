"""The cost of a round: bytes and operations, and time if the rates of a machine are given. No clock here.

Bytes follow from the sizes that the messages declare. Those of a client are for a round in which nobody drops out,
which is the maximum. The work of the server is a mean over dropouts. These are equally likely in each step unless they
are given per step.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ccesa.crypto import check_words
from ccesa.crypto.keys import DEFAULT, POST_QUANTUM
from ccesa.crypto.merkle import HASH_BYTES
from ccesa.errors import ConfigError
from ccesa.graphs.per_step import PerStep
from ccesa.guards import CURIOUS, guard_named
from ccesa.plan.paper import step_dropout
from ccesa.protocol import messages as m
from ccesa.protocol.steps import Step, steps_of

if TYPE_CHECKING:
    from ccesa.plan.result import Plan

_CONTEXT_BYTES = 32
#: Client ids below each limit take this number of bytes, in msgpack's shortest form.
_ID_FORMS = ((1 << 7, 1), (1 << 8, 2), (1 << 16, 3), (1 << 32, 5))
#: The time of Python around the primitives, for each request at a client and each reply at the server, as a multiple of
#: taking in an empty message. They were fitted with bench/protocol/plan.py and hardly depend on the machine.
_CLIENT_HANDLINGS = 3
_SERVER_HANDLINGS = 0.8


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The properties of a round that its cost depends on.

    Degrees are means where they vary, and ``threshold`` is that of a client of mean degree. ``dropout`` is the
    probability that a client drops out during the round, and ``per_step`` says in which step, if that is known.
    """

    clients: int
    degree: float
    mask_degree: float
    threshold: int
    length: int
    bits: int
    dropout: float
    guard: str = CURIOUS.name
    agreement: str = DEFAULT
    accept: bool = False
    per_step: PerStep | None = None

    def __post_init__(self) -> None:
        guard_named(self.guard)

    @property
    def vector_bytes(self) -> float:
        """Bytes of one vector."""
        return self.length * self.bits / 8

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the guard."""
        return steps_of(self)

    @property
    def settled(self) -> tuple[float, float, float]:
        """The expected numbers of clients in V1, V2 and V3."""
        masking = next(place for place, step in enumerate(self.steps) if m.has_vector(step.reply))
        return self.alive[0], self.alive[masking - 1], self.alive[masking]

    @cached_property
    def alive(self) -> tuple[float, ...]:
        """The expected number of clients that have answered each step."""
        if self.per_step is not None:
            return tuple(self.clients * (1.0 - self.per_step.leaving("advertise", step.name)) for step in self.steps)
        stay = 1 - step_dropout(self.dropout, len(self.steps))
        return tuple(self.clients * stay**done for done in range(1, len(self.steps) + 1))


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of one client if nobody drops out, and of the server.

    Attributes:
        sent_bytes: Bytes that the client sends, a mean over client ids of one to five bytes; exact for equal degrees.
        received_bytes: Bytes that the client receives, the same mean.
        agreements: One for each neighbour to seal shares, one for each neighbour to mask with.
        verifications: Signatures of neighbours that the client checks.
        keystream_bytes: Keystream for the client's masks.
        server_bytes: All bytes that the server sends and receives if nobody drops out.
        server_agreements: Expected number of survivors' masks with clients that dropped out after sharing.
        server_keystream_bytes: Expected keystream for these masks and for the self masks of the survivors.
        client_seconds: Processor time of one core; None without rates.
        server_seconds: Processor time of one core; None without rates.
    """

    sent_bytes: float
    received_bytes: float
    agreements: float
    verifications: float
    keystream_bytes: float
    server_bytes: float
    server_agreements: float
    server_keystream_bytes: float
    client_seconds: float | None = None
    server_seconds: float | None = None


class Timing(NamedTuple):
    """Seconds for work of any size, measured at ascending sizes."""

    sizes: tuple[float, ...]
    seconds: tuple[float, ...]

    def at(self, size: float) -> float:
        """Return the seconds: constant before the measurements, and linear between and after them."""
        if size <= self.sizes[-1]:
            return float(np.interp(size, self.sizes, self.seconds))
        slope = (self.seconds[-1] - self.seconds[-2]) / (self.sizes[-1] - self.sizes[-2])
        return self.seconds[-1] + max(slope, 0.0) * (size - self.sizes[-1])


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Seconds for one unit of each kind of work, on one core.

    Attributes:
        key_pair: A private key from its seed, and its public key.
        agreement: From the 32 bytes of a peer's public key to the keys derived from the common secret.
        verification: One signature checked.
        sealing: The keys of one neighbour checked, one pair of shares sealed and another opened.
        hybrid_sealing: The same under ``x25519-mlkem768``, with a seed derived, deposited and masked with; None if the
            installed ``cryptography`` has no ML-KEM.
        splitting: Both secrets of a client, by holders times threshold: the matrix product.
        joining: One secret among many, by threshold times (1 + absent holders): the Lagrange weights.
        masking: One keystream made and added, by bytes.
        taking: One masked vector parsed, compared with its tag and added to the sum, by bytes.
        signed_taking: The same with a digest in place of the tag, without the signatures.
        edge: One direction of an edge at the server: drawn, with its keys and its sealed shares passed on.
    """

    key_pair: float
    agreement: float
    verification: float
    sealing: float
    hybrid_sealing: float | None = None
    splitting: Timing
    joining: Timing
    masking: Timing
    taking: Timing
    signed_taking: Timing
    edge: float


def price(what: "Plan | Shape", rates: Rates | None = None) -> Cost:
    """Return the cost of one round in bytes and operations, which are the same on every machine.

    Args:
        what: A plan, or the ``Shape`` of a round.
        rates: The speed of a machine, as ``calibrate()`` measures it; adds the seconds.
    """
    shape = what if isinstance(what, Shape) else what.shape
    sent = sum(_message_bytes(step.reply, shape) for step in shape.steps)
    received = sum(_message_bytes(step.request, shape) for step in shape.steps)
    pairs = _pairs_to_open(shape)
    return Cost(
        sent_bytes=sent,
        received_bytes=received,
        agreements=shape.degree + shape.mask_degree,
        verifications=_verifications(shape),
        keystream_bytes=(shape.mask_degree + 1) * shape.vector_bytes,
        server_bytes=shape.clients * (sent + received),
        server_agreements=pairs,
        server_keystream_bytes=(shape.settled[2] + pairs) * shape.vector_bytes,
        client_seconds=None if rates is None else _client_seconds(shape, rates),
        server_seconds=None if rates is None else _server_seconds(shape, rates),
    )


def _message_bytes(kind: type[m.Message], shape: Shape) -> float:
    items = {"vector_bytes": shape.vector_bytes, "neighbours": shape.degree, "proof": _proof_bytes(shape)}
    return _array_bytes(kind, _mean_id_bytes(shape.clients), agreement=shape.agreement, clients=shape.clients, **items)


def _array_bytes(kind: type[m.Message], id_bytes: float, **items: Any) -> float:
    """Return the size of an array of name, context, client's id and fields, with headers in msgpack's shortest form."""
    head = 1 + 1 + len(str(kind.__struct_config__.tag)) + 2 + _CONTEXT_BYTES + id_bytes
    sizes = [size.of(**items) for size in m.sizes(kind).values()]
    return head + sum(size + (2 if size < 1 << 8 else 3 if size < 1 << 16 else 5) for size in sizes)


def _proof_bytes(shape: Shape) -> float:
    """Return the expected size of a proof for neighbours anywhere among the leaves.

    A node is known if a leaf below it is. Each level adds the unknown siblings of known nodes.
    """
    unknown, nodes, siblings = max(0.0, 1 - (shape.degree + 1) / shape.clients), float(shape.clients), 0.0
    while nodes > 1:
        siblings += nodes * (1 - unknown) * unknown
        unknown, nodes = unknown**2, nodes / 2
    return HASH_BYTES * siblings


def _mean_id_bytes(clients: int, first: int = 0) -> float:
    """Return the mean size of an id, over all ids from the first one to ``clients`` - 1."""
    total, start = 0, first
    for end, size in _ID_FORMS:
        total += size * max(min(end, clients) - start, 0)
        start = max(start, min(end, clients))
    return total / (clients - first)


def _pairs_to_open(shape: Shape) -> float:
    """Return how many masks survivors share with clients that dropped out before they masked.

    The graph is drawn over V1, so a mask neighbour is in V3 with probability v3 / v1. In an Erdős-Rényi graph there are
    slightly fewer such masks, because earlier dropouts leave no edges.
    """
    v1, v2, v3 = shape.settled
    return (v2 - v3) * min(shape.mask_degree, max(v1 - 1, 0)) * v3 / v1


def _verifications(shape: Shape) -> float:
    return shape.degree * sum("signatures" in step.request.__struct_fields__ for step in shape.steps)


def _client_seconds(shape: Shape, rates: Rates) -> float:
    return (
        len(shape.steps) * _CLIENT_HANDLINGS * rates.taking.at(0)
        + 2 * rates.key_pair
        + (shape.degree + shape.mask_degree) * rates.agreement
        + shape.degree * _sealing_seconds(shape.agreement, rates)
        + _verifications(shape) * rates.verification
        + rates.splitting.at((shape.degree + 1) * shape.threshold)
        + (shape.mask_degree + 1) * rates.masking.at(shape.vector_bytes)
    )


def _sealing_seconds(agreement: str, rates: Rates) -> float:
    if agreement != POST_QUANTUM:
        return rates.sealing
    if rates.hybrid_sealing is None:
        raise ConfigError(f"the rates have no time for {POST_QUANTUM}: measure them with cryptography 48 or newer")
    return rates.hybrid_sealing


def _server_seconds(shape: Shape, rates: Rates) -> float:
    (v1, v2, v3), last = shape.settled, shape.alive[-1]
    pairs, absent = _pairs_to_open(shape), shape.threshold * (v1 / last - 1)
    return (
        sum(_taking_seconds(step.reply, shape, rates) * n for step, n in zip(shape.steps, shape.alive, strict=True))
        + v1 * shape.degree * rates.edge
        + v2 * rates.joining.at(shape.threshold * (1 + absent))
        + (v2 - v3) * 2 * rates.key_pair
        + pairs * rates.agreement
        + (v3 + pairs) * rates.masking.at(shape.vector_bytes)
    )


def _taking_seconds(reply: type[m.Message], shape: Shape, rates: Rates) -> float:
    """Return the time to take in a reply, by the bytes of a vector and the verification of a signature."""
    is_signed = "signature" in m.sizes(reply)
    signed = rates.verification if is_signed else 0.0
    if m.has_vector(reply):
        return signed + (rates.signed_taking if is_signed else rates.taking).at(shape.vector_bytes)
    return signed + _SERVER_HANDLINGS * rates.taking.at(0)


# With helpers


@dataclass(frozen=True, kw_only=True)
class AssistedShape:
    """The properties of a round with helpers that its cost depends on."""

    clients: int
    helpers: int
    length: int
    bits: int
    agreement: str = DEFAULT

    @property
    def vector_bytes(self) -> int:
        """Bytes of one masked vector, with its check words."""
        return (self.length + check_words.count(self.bits)) * self.bits // 8


class Work(NamedTuple):
    """The work of one party in a round with helpers, if nobody drops out.

    Attributes:
        sent_bytes: Bytes that it sends, a mean over ids of one to five bytes.
        received_bytes: Bytes that it receives, the same mean.
        agreements: Agreements on a secret.
        verifications: Signatures that it checks.
        keystream_bytes: Keystream for masks.
        seconds: Processor time of one core; None without rates.
    """

    sent_bytes: float
    received_bytes: float
    agreements: float
    verifications: float
    keystream_bytes: float
    seconds: float | None = None


class AssistedCost(NamedTuple):
    """The cost of a round with helpers.

    Attributes:
        member: The work of one member.
        helper: The work of one helper, about all members.
        hub: The work of the hub.
    """

    member: Work
    helper: Work
    hub: Work


def price_helpers(shape: AssistedShape, rates: Rates | None = None) -> AssistedCost:
    """Return the cost of one round with helpers, which are asked about all vectors at once.

    Args:
        shape: The shape of the round, as ``AssistedPlan.shape`` gives it.
        rates: The speed of a machine, as ``calibrate()`` measures it; adds the seconds.
    """
    n, a, vector = shape.clients, shape.helpers, shape.vector_bytes
    to_member, from_member = (_assisted_bytes(one, shape) for one in (m.MaskForHelpersRequest, m.BoxedMaskReply))
    to_helper = sum(
        _assisted_bytes(one, shape) for one in (m.HelperKeysRequest, m.ConfirmBoxesRequest, m.UnmaskSumRequest)
    )
    from_helper = sum(_assisted_bytes(one, shape) for one in (m.HelperKeysReply, m.ConfirmBoxesReply, m.UnmaskSumReply))
    counts = {
        "member": (from_member, to_member, a, a, a * vector),
        "helper": (from_helper, to_helper, n, n, n * vector),
        "hub": (n * to_member + a * to_helper, n * from_member + a * from_helper, 0, n + 3 * a, 0),
    }
    seconds: dict[str, float] = {} if rates is None else _assisted_seconds(shape, rates)
    return AssistedCost(**{name: Work(*figures, seconds.get(name)) for name, figures in counts.items()})


def _assisted_bytes(kind: type[m.Message], shape: AssistedShape) -> float:
    """Return the size of a message of a round with helpers in which nobody drops out, and no box is refused."""
    n, names_members = shape.clients, kind in (m.ConfirmBoxesRequest, m.UnmaskSumRequest)
    by_member = kind in (m.MaskForHelpersRequest, m.BoxedMaskReply)
    id_bytes = _mean_id_bytes(n) if by_member else _mean_id_bytes(n + shape.helpers, n)
    items = {"agreement": shape.agreement, "clients": n, "vector_bytes": shape.vector_bytes, "neighbours": 0}
    return _array_bytes(kind, id_bytes, **items, helpers=shape.helpers, named=n * names_members)


def _assisted_seconds(shape: AssistedShape, rates: Rates) -> dict[str, float]:
    """Return the seconds of each party. Under hybrid agreements a secret costs as much as with a neighbour.

    ``passed`` is one pass over a vector beyond the caches. A member makes several, for check words, masks and message,
    and the hub holds a vector before it adds it; their numbers were fitted with bench/protocol/plan.py.
    """
    n, a, vector, handling = shape.clients, shape.helpers, shape.vector_bytes, rates.taking.at(0)
    each = rates.agreement + rates.verification + _kem_seconds(shape, rates)
    mask, passed = rates.masking.at(vector), rates.taking.at(vector) - handling
    return {
        "member": _CLIENT_HANDLINGS * handling + rates.key_pair + a * (each + mask) + 4 * passed,
        "helper": 3 * _CLIENT_HANDLINGS * handling + rates.key_pair + n * (each + mask) + 2 * passed,
        "hub": (n + 3 * a) * (handling + rates.verification) + (3 * n + a) * passed,
    }


def _kem_seconds(shape: AssistedShape, rates: Rates) -> float:
    return 0.0 if shape.agreement != POST_QUANTUM else _sealing_seconds(shape.agreement, rates)
