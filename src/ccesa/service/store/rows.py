"""What the store keeps, as it is handed over: rows of its tables, and how a claim ended."""

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, kw_only=True)
class SeriesRow:
    """A series that was begun; ``config`` is the encoding of its first round."""

    series: int
    config: bytes
    rounds: int
    over: bool = False


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """What the opening of an exchange decided; all hubs follow it."""

    exchange: int
    #: Who is asked to take part in a round that starts with it, if one does.
    members: tuple[int, ...]
    #: The digest of what the round that is asked for vectors works on; 32 zero bytes where none is.
    task: bytes
    #: Which question that is; None where no vectors are asked for.
    question: int | None
    #: Seconds since 1970.
    opened: float
    closed: float | None = None


class Claim(Enum):
    """How a hub fared that wanted to take a client's reply to an exchange."""

    #: It alone may take it now.
    OWN = "own"
    #: The same bytes were saved before, here or elsewhere.
    SAVED = "saved"
    #: The same bytes are being taken elsewhere right now.
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
    #: What it was to answer, and in which attempt; None for a round that was never asked for vectors.
    question: int | None
    attempt: int
    #: The digest of its task, and the context of the round, which noise depends on.
    task: bytes
    context: bytes
    started: float
    ended: float
    #: The name of an error's class, or "sum".
    outcome: str
    #: The error's text; empty for a sum.
    reason: str
    survivors: tuple[int, ...]
    #: How many were asked to take part.
    asked: int
    #: Pairs of clients of whom one lied.
    pairs: tuple[tuple[int, int], ...]
    #: The sum's words as bytes; empty where there is none.
    total: bytes
    #: What the coordinator said about the result, such as an accuracy.
    metrics: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class MemberRow:
    """What the hub remembers about one client."""

    client: int
    #: How often it was faulty, or blamed, since it was last let in.
    blames: int = 0
    #: Why it is set aside; empty where it is not.
    set_aside: str = ""
    #: When it was last heard from, in seconds since 1970; 0 for never.
    seen: float = 0.0
    #: Series and exchange that it says it knows, where this database had none such.
    known: tuple[int, int] = (0, -1)


@dataclass(frozen=True, kw_only=True)
class TokenRow:
    """A token that was handed out; the store knows only its hash."""

    #: Whom it speaks for; None for the operator.
    client: int | None
    label: str
