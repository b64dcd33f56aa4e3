"""HTTP and the operator see a hub through its desk: the view of what is open, and the status.

A desk belongs to one event loop. Behind it, one thread does everything that touches the series or the store.
A status has no vectors, shares or keys, and nothing that a member must not know.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, Protocol

import msgspec

from ccesa.wire import Data

#: Actions of an operator on the federation, and on a member.
ACTIONS, TO_MEMBERS = ("pause", "resume", "finish"), ("set-aside", "let-in")
#: A federation waits for members, is in a round, was paused by its operator, has ended, or has a problem.
State = Literal["gathering", "running", "paused", "over", "stuck"]
#: A member was heard from lately, or not, or is no longer asked.
MemberState = Literal["present", "absent", "set aside"]


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """The open exchange and its series. The hub publishes a new view for each change."""

    state: State
    #: The number of the series; 0 before the first. ``config`` encodes its first round.
    series: int
    config: bytes
    exchange: int  # the open exchange in its series, the first of which is 0; -1 if none is open
    latest: int  # the last exchange that was opened in the series, closed or not; -1 before the first
    requests: Mapping[int, bytes]  # envelopes by client id, made on demand from any thread
    #: Envelopes for helpers beside the open exchange, until they have answered; one helper may get several.
    beside: Mapping[int, bytes] = field(default_factory=dict)
    task: bytes | None  # the digest of the task if this exchange asks for vectors
    closes: float  # when the exchange closes at the latest, in seconds since 1970; 0 if not decided
    next_start: float  # when the next round is likely to start, in seconds since 1970; 0 if unknown
    question: int  # the highest question whose outcome is known, or -1
    most_bytes: int  # the maximum size of a reply in this exchange
    serves: bool = True  # whether this hub gives requests and takes replies; otherwise another one does

    @property
    def is_over(self) -> bool:
        """Whether the federation has ended."""
        return self.state == "over"


class Taken(Enum):
    """The outcome of a reply."""

    SAVED = "saved"
    CONFLICT = "conflict"  # other bytes of this client came first, and count
    LATE = "late"  # the exchange has closed
    AGAIN = "again"  # try again: the store is away, or another hub is processing the reply
    FAULTY = "faulty"  # an honest client would not send this


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """The outcome of a reply, and the reason if it was not saved."""

    taken: Taken
    reason: str = ""


class StepStatus(msgspec.Struct, frozen=True, kw_only=True):
    round: int
    step: str
    asked: int
    answered: int


class MemberStatus(msgspec.Struct, frozen=True, kw_only=True):
    client: int
    name: str
    state: MemberState
    reason: str = ""
    blames: int = 0
    seen: float = 0.0
    #: Whether the open exchange asks it, and whether it has answered.
    asked: bool = False
    answered: bool = False


class RoundStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A round that is over. ``outcome`` is "sum", or the name of an error's class."""

    series: int
    number: int
    question: int | None
    attempt: int
    outcome: str
    reason: str
    survivors: int
    asked: int
    pairs: list[tuple[int, int]]
    started: float
    ended: float
    metrics: dict[str, float]


class PrivacyStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The epsilon spent so far, and the budget."""

    epsilon: float
    budget: float
    delta: float
    vectors: int
    rounds: int


class Status(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    guard: str
    state: State
    reason: str = ""
    #: When the state began, as far as this hub knows, and advice for the operator.
    since: float = 0.0
    advice: str = ""
    #: Sums wanted in all, and sums done.
    questions: int
    answered: int
    series: int
    exchange: int
    steps: list[StepStatus]
    #: When the open exchange opened and when it closes at the latest, in seconds since 1970; 0 if not decided.
    opened: float
    closes: float
    members: list[MemberStatus]
    helpers: list[MemberStatus] = []
    rounds: list[RoundStatus]
    #: The certificate in words, one sentence each.
    certificate: list[str]
    privacy_bits: float | None
    privacy: PrivacyStatus | None = None
    head: str = ""  # the head of the audit log in hexadecimal
    hubs: list[str] = []  # names of the live hub processes; the first one leads
    now: float


class Desk(Protocol):
    """The part of a hub that ``service/http`` and ``service/operator`` call, on the event loop."""

    @property
    def view(self) -> View: ...
    async def next_view(self, view: View, seconds: float) -> View:
        """Return the newest view. If it is still this one, wait for a change, at most this long."""

    async def take(self, client: int, series: int, exchange: int, reply: Data) -> Receipt:
        """Hand a reply in. The buffer must not change before this returns."""

    def hear(self, client: int, series: int = 0, exchange: int = -1) -> None:
        """Note that a client was heard from, and the latest exchange that it claims to know."""

    def is_set_aside(self, client: int) -> bool:
        """Return whether a client is excluded from rounds and results until it is let in again."""

    async def task(self, digest: bytes) -> Data | None:
        """Return the payload of a task; None for an unknown one. All that send it share one object."""

    async def result(self, question: int) -> dict[str, Any] | None:
        """Return the published result of a question; None until there is one."""

    async def member_of(self, token: str) -> int | None:
        """Return the client of a token or session; None for an unknown one."""

    async def is_operator(self, token: str) -> bool: ...
    async def new_session(self, client: int, nonce: bytes) -> tuple[str, float] | None:
        """Return a new session's token and its lifetime in seconds; None if the nonce was used before."""

    @property
    def secret(self) -> bytes:
        """32 bytes that only the hubs of this federation know."""

    def status(self) -> Status: ...
    def alive(self) -> bool:
        """Return whether the engine works. Once stopped, it stays stopped."""

    def trouble(self) -> str:
        """Return why members cannot be served now, such as a store that is away; empty if they can."""

    async def act(self, action: str, client: int | None, reason: str) -> None:
        """Do one of ``ACTIONS``, or one of ``TO_MEMBERS`` to a client; raise ConfigError for anything else."""
