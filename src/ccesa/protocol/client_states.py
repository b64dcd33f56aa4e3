"""The states of a client after each step, one type per state, and the round, which stays the same.

A wrong order of steps is a type error. Guards add fields to these states for their own steps.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from ccesa.agreement.charter import Charter
from ccesa.agreement.config import RoundConfig
from ccesa.agreement.identity import Identity
from ccesa.crypto import primitives, shamir
from ccesa.errors import VectorError
from ccesa.graphs.assignment import Neighbourhood
from ccesa.protocol.spending import Spending
from ccesa.wire import Draft
from ccesa.words import Vector

VectorSource = Vector | Callable[[], Vector]
TaskSource = bytes | Callable[[], bytes]
Own = TypeVar("Own", covariant=True)


@dataclass(frozen=True, kw_only=True)
class Membership:
    identity: Identity
    charter: Charter


@dataclass(frozen=True, kw_only=True)
class ClientRound(Generic[Own]):
    """Everything that stays the same through the steps of one client."""

    config: RoundConfig
    context: bytes
    client: int
    #: The client's own demands: its floor, or its membership.
    own: Own
    random: shamir.Randomness = field(repr=False)
    vector: VectorSource = field(repr=False)
    #: The work of this client, by its own account.
    task: TaskSource
    spend: Spending
    threads: int
    #: Seconds since 1970; None stands for the system's clock.
    now: float | None = None
    #: The masks of the vector, if they were summed ahead. With the masked vector they reveal it: never suspend them.
    ahead: "MasksAhead | None" = field(default=None, repr=False)
    #: Why its vector is only noise, if it is; for the client itself.
    failures: list[VectorError] = field(default_factory=list)

    @property
    def head(self) -> dict[str, Any]:
        return {"context": self.context, "client": self.client}


class MasksAhead(NamedTuple):
    """The sum of a client's self mask and of those with these neighbours, in the message for it."""

    neighbours: frozenset[int]
    #: One, until it is taken out for a vector: no sum of masks is ever used twice.
    drafts: list[Draft]

    def __repr__(self) -> str:
        return "MasksAhead(...)"


@dataclass(frozen=True, kw_only=True)
class Joined:
    """Before step 0 no secret exists yet."""


@dataclass(frozen=True, kw_only=True)
class Advertised:
    """After step 0 a client has fresh key pairs."""

    sealing_private: primitives.PrivateKey = field(repr=False)
    mask_secret: shamir.Elements = field(repr=False)
    mask_private: primitives.PrivateKey = field(repr=False)
    #: The seed of the key pair of ML-KEM, if the agreement has one.
    kem_seed: bytes = field(repr=False)
    public_keys: bytes


@dataclass(frozen=True, kw_only=True)
class Shared:
    """After step 1 the neighbourhood is known, and both secrets are dealt."""

    near: Neighbourhood
    threshold: int
    #: All public keys of each member, the client included.
    public_keys: dict[int, bytes]
    mask_secret: bytes = field(repr=False)
    mask_private: primitives.PrivateKey = field(repr=False)
    self_secret: bytes = field(repr=False)
    #: The keys that seal for each neighbour and open its text, agreed on by their c_i.
    sealings: dict[int, bytes] = field(repr=False)
    kem_seed: bytes = field(repr=False)
    #: The pair seeds that this client gave its neighbours.
    given: dict[int, bytes] = field(repr=False)
    own_share: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """After *accept* the client holds one pair of shares from each neighbour whose text it could use."""

    #: With the accused.
    near: Neighbourhood
    threshold: int
    public_keys: dict[int, bytes]
    mask_private: primitives.PrivateKey = field(repr=False)
    self_secret: bytes = field(repr=False)
    #: The shares for each member; empty for the accused.
    shares: list[bytes] = field(repr=False)
    #: For the masks with each neighbour: the seed that this client gave, and the one that it was given.
    seeds: dict[int, tuple[bytes, bytes]] = field(repr=False)

    @property
    def accused(self) -> list[int]:
        return [member for member, shares in zip(self.near.members.tolist(), self.shares, strict=True) if not shares]


@dataclass(frozen=True, kw_only=True)
class Holding:
    """After step 2 only shares are left, one pair from each live member of the neighbourhood."""

    near: Neighbourhood
    threshold: int
    shares: list[bytes] = field(repr=False)
    #: The name of the task of the vector in this client's memory; empty without a memory.
    counted: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Done:
    """After the last step, or after an abort, no secret is left."""
