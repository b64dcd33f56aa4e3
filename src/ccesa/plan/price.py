"""The cost of a round: bytes and operations, and time if the rates of a machine are given. No clock here.

Bytes follow from the sizes that the messages declare. Those of a client are for a round in which nobody
drops out, which is the maximum. The work of the server is a mean over dropouts, which are equally likely in
each step unless they are given per step.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

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
#: Python around the primitives, in messages taken in without content: what a client does with each of its requests, and
#: a server with each reply. Fitted with bench/protocol/plan.py; they hardly depend on the machine.
_CLIENT_HANDLINGS = 3
_SERVER_HANDLINGS = 0.8


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The properties of a round that its cost depends on.

    Degrees are those of the assignment graph, the mean where they vary, and ``threshold`` is that of a client
    of mean degree; ``dropout`` is the probability that a client drops out in the course of the round, and
    ``per_step`` says in which step, where that is known.
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
        """How many clients are expected in V1, V2 and V3."""
        masking = next(place for place, step in enumerate(self.steps) if m.has_vector(step.reply))
        return self.alive[0], self.alive[masking - 1], self.alive[masking]

    @cached_property
    def alive(self) -> tuple[float, ...]:
        """How many clients are expected to have answered each step."""
        if self.per_step is not None:
            return tuple(self.clients * (1.0 - self.per_step.leaving("advertise", step.name)) for step in self.steps)
        stay = 1 - step_dropout(self.dropout, len(self.steps))
        return tuple(self.clients * stay**done for done in range(1, len(self.steps) + 1))


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of one client that stays to the end while nobody drops out, and of the server.

    Attributes:
        sent_bytes: The mean over client ids, which take one to five bytes; exact where all degrees are equal.
        received_bytes: The same for what the client receives.
        agreements: One for each neighbour to seal shares, one for each neighbour to mask with.
        verifications: Signatures to check: as many for each neighbour as the requests show of it.
        keystream_bytes: Keystream for the client's masks.
        server_bytes: All that passes the server while nobody drops out.
        server_agreements: Expected: one for each survivor that shares a mask with a client that dropped out
            after sharing.
        server_keystream_bytes: Expected: the self masks of the survivors, and a mask for each of those.
        client_seconds: Processor time of one core; None where no rates are known.
        server_seconds: Processor time of one core; None where no rates are known.
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
    """Seconds for work of any size, from ascending sizes at which it was measured."""

    sizes: tuple[float, ...]
    seconds: tuple[float, ...]

    def at(self, size: float) -> float:
        """Return the seconds: straight between the measurements and after them, level before."""
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
        sealing: For one neighbour: its keys checked, one pair of shares sealed and another opened.
        hybrid_sealing: The same under ``x25519-mlkem768``, with a seed derived, deposited and masked with;
            None if the installed ``cryptography`` has no ML-KEM.
        splitting: Both secrets of a client, by holders times threshold: the matrix product.
        joining: One secret among many, by threshold times (1 + absent holders): the Lagrange weights.
        masking: One keystream made and added, by bytes.
        taking: One masked vector taken in, by bytes: they are parsed, compared with their tag and added up.
        signed_taking: The same where it has a digest that is signed, without the signatures.
        edge: One direction of an edge at the server: drawn, its keys and its sealed shares passed on.
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
        what: A plan, or a ``Shape`` of any round.
        rates: The speed of a machine, as ``calibrate()`` measures it; there are seconds only with it.
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
    """Return the size of an array of name, context, client's id and fields, each behind its header."""
    name = str(kind.__struct_config__.tag)
    head = 1 + 1 + len(name) + 2 + _CONTEXT_BYTES + _mean_id_bytes(shape.clients)
    sizes = [
        size.of(
            agreement=shape.agreement,
            clients=shape.clients,
            vector_bytes=shape.vector_bytes,
            neighbours=shape.degree,
            proof=_proof_bytes(shape),
        )
        for size in m.sizes(kind).values()
    ]
    return head + sum(_header_bytes(size) + size for size in sizes)


def _proof_bytes(shape: Shape) -> float:
    """Return the expected size of a proof: on each level, the siblings that are not known from below.

    Neighbours are anywhere among the leaves. A node over 2^k leaves is known if one of these is.
    """
    unknown, nodes, siblings = max(0.0, 1 - (shape.degree + 1) / shape.clients), float(shape.clients), 0.0
    while nodes > 1:
        siblings += nodes * (1 - unknown) * unknown
        unknown, nodes = unknown**2, nodes / 2
    return HASH_BYTES * siblings


def _header_bytes(size: float) -> int:
    """Return the size of the header of a byte string, in msgpack's shortest form."""
    return 2 if size < 1 << 8 else 3 if size < 1 << 16 else 5


def _mean_id_bytes(clients: int) -> float:
    """Return the mean size of an id, over all ids 0 ... clients - 1."""
    total, first = 0, 0
    for end, size in _ID_FORMS:
        total += size * (min(end, clients) - first)
        first = min(end, clients)
    return total / clients


def _pairs_to_open(shape: Shape) -> float:
    """Return how many masks survivors share with clients that dropped out before they masked.

    The graph is drawn over V1, so a mask neighbour is in V1 for certain, and in V3 with probability v3 / v1.
    Where edges are drawn pair by pair there are slightly fewer: earlier dropouts have none.
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
        + shape.degree * _sealing_seconds(shape, rates)
        + _verifications(shape) * rates.verification
        + rates.splitting.at((shape.degree + 1) * shape.threshold)
        + (shape.mask_degree + 1) * rates.masking.at(shape.vector_bytes)
    )


def _sealing_seconds(shape: Shape, rates: Rates) -> float:
    if shape.agreement != POST_QUANTUM:
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
    """Return the time to take in a reply: a vector costs its bytes, a signature its verification."""
    is_signed = "signature" in m.sizes(reply)
    signed = rates.verification if is_signed else 0.0
    if m.has_vector(reply):
        return signed + (rates.signed_taking if is_signed else rates.taking).at(shape.vector_bytes)
    return signed + _SERVER_HANDLINGS * rates.taking.at(0)
