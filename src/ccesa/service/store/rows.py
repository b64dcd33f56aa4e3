"""Rows of the store's tables, and the outcomes of a claim."""

from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True, kw_only=True)
class SeriesRow:
    """A series; ``config`` is the encoding of its first round."""

    series: int
    config: bytes
    rounds: int
    over: bool = False


@dataclass(frozen=True, kw_only=True)
class ExchangeRow:
    """An exchange as its opening decided it, for all hubs."""

    exchange: int
    members: tuple[int, ...]  # clients to ask if a round starts with this exchange
    task: bytes  # the digest of the task of the round that is asked for vectors; 32 zero bytes if none is
    question: int | None  # the question of that round; None if no vectors are asked for
    #: Seconds since 1970.
    opened: float
    closed: float | None = None


class Claim(Enum):
    """The outcome of a hub's claim on a client's reply to an exchange."""

    OWN = "own"  # this hub alone may take the reply now
    SAVED = "saved"  # the same bytes were saved before
    PENDING = "pending"  # another hub is taking the same bytes
    OTHER = "other"  # other bytes of this client came first
    LATE = "late"  # the exchange is closed, or was never opened


@dataclass(frozen=True, kw_only=True)
class RoundRow:
    """A round that is over, or whose vectors are asked for."""

    series: int
    number: int
    #: The question and the attempt at it; None if the round was never asked for vectors.
    question: int | None
    attempt: int
    #: The digest of its task, and the context of the round, on which noise depends.
    task: bytes
    context: bytes = b""
    started: float
    ended: float
    outcome: str  # the name of an error's class, or "sum"
    reason: str = ""  # the error's text; empty for a sum
    survivors: tuple[int, ...] = ()
    asked: int  # the number of clients asked to take part
    pairs: tuple[tuple[int, int], ...] = ()  # pairs of clients, one of whom lied
    total: bytes = b""  # the sum's words as bytes; empty without a sum
    #: Numbers from the coordinator about the result, such as an accuracy.
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MemberRow:
    """A member's faults and last contact."""

    client: int
    blames: int = 0  # faults and blames since it was last let in
    set_aside: str = ""  # why it is set aside; empty if it is not
    seen: float = 0.0  # when it was last heard from, in seconds since 1970; 0 for never
    #: The newest series and exchange that it claims to know and this database did not have.
    known: tuple[int, int] = (0, -1)


@dataclass(frozen=True, kw_only=True)
class TokenRow:
    """A token that was issued; the store knows only its hash."""

    client: int | None  # its client; None for the operator
    label: str
