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
    #: Clients to ask if a round starts with this exchange.
    members: tuple[int, ...]
    #: The digest of the task of the round that is asked for vectors; 32 zero bytes if none is.
    task: bytes
    #: The question of that round; None if no vectors are asked for.
    question: int | None
    #: Seconds since 1970.
    opened: float
    closed: float | None = None


class Claim(Enum):
    """The outcome of a hub's claim on a client's reply to an exchange."""

    #: This hub alone may take the reply now.
    OWN = "own"
    #: The same bytes were saved before.
    SAVED = "saved"
    #: Another hub is taking the same bytes.
    PENDING = "pending"
    #: Other bytes of this client came first.
    OTHER = "other"
    #: The exchange is closed, or was never opened.
    LATE = "late"


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
    #: The name of an error's class, or "sum".
    outcome: str
    #: The error's text; empty for a sum.
    reason: str = ""
    survivors: tuple[int, ...] = ()
    #: How many were asked to take part.
    asked: int
    #: Pairs of clients, one of whom lied.
    pairs: tuple[tuple[int, int], ...] = ()
    #: The sum's words as bytes; empty if there is none.
    total: bytes = b""
    #: Numbers from the coordinator about the result, such as an accuracy.
    metrics: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MemberRow:
    """A member's faults and last contact."""

    client: int
    #: Faults and blames since it was last let in.
    blames: int = 0
    #: Why it is set aside; empty if it is not.
    set_aside: str = ""
    #: When it was last heard from, in seconds since 1970; 0 for never.
    seen: float = 0.0
    #: The newest series and exchange that it claims to know and this database did not have.
    known: tuple[int, int] = (0, -1)


@dataclass(frozen=True, kw_only=True)
class TokenRow:
    """A token that was issued; the store knows only its hash."""

    #: Its client; None for the operator.
    client: int | None
    label: str
