"""A desk is what the HTTP side knows of a hub: what there is to fetch, and where replies are handed in.

It belongs to one event loop. Behind it one thread does everything that touches the series or the store.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from ccesa.service.status import State, Status
from ccesa.wire import Data

#: What an operator can do to the federation, and to a member.
ACTIONS, TO_MEMBERS = ("pause", "resume", "finish"), ("set-aside", "let-in")


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """What is open now; a new one is published whenever that changes."""

    state: State
    #: The number of the series, from 1 on; 0 before the first. ``config`` encodes its first round.
    series: int
    config: bytes
    #: Where the open exchange stands in its series, from 0 on; -1 where none is open.
    exchange: int
    #: The last exchange of the series that was opened, be it closed or not; -1 before the first.
    latest: int
    #: Envelopes by client id; made on demand, from any thread.
    requests: Mapping[int, bytes]
    #: The digest of the task if this exchange asks for vectors.
    task: bytes | None
    #: Seconds since 1970 when the exchange closes at the latest; 0 where that is not decided.
    closes: float
    #: When the next round is likely to start, in seconds since 1970; 0 where nobody knows.
    next_start: float
    #: The highest question whose outcome is known, or -1.
    question: int
    #: No longer replies than this are taken in this exchange.
    most_bytes: int

    @property
    def is_over(self) -> bool:
        """Whether nothing will be asked any more."""
        return self.state == "over"


class Taken(Enum):
    """What became of a reply."""

    SAVED = "saved"
    #: Other bytes of this client came first; those count.
    CONFLICT = "conflict"
    #: The exchange has closed.
    LATE = "late"
    #: Try again: the store is away, or another hub has it in hand.
    AGAIN = "again"
    #: An honest client would not send this.
    FAULTY = "faulty"


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """What became of a reply, and why in words, where it was not saved."""

    taken: Taken
    reason: str = ""


class Desk(Protocol):
    """What ``service/http`` and ``service/operator`` call, on the event loop."""

    @property
    def view(self) -> View: ...
    async def changed(self, view: View, seconds: float) -> View:
        """Return the newest view: at once if it is not this one, else when it changes or time is up."""

    async def take(self, client: int, series: int, exchange: int, reply: Data) -> Receipt:
        """Hand a reply in. The buffer must not change before this returns."""

    def seen(self, client: int, series: int = 0, exchange: int = -1) -> None:
        """Note that a client was heard from, and the latest exchange that it says it knows."""

    def is_set_aside(self, client: int) -> bool:
        """Return whether a client is asked for nothing, and given no result, until it is let in again."""

    async def task(self, digest: bytes) -> Data | None:
        """Return the payload of a task; whoever sends it holds on to this very object."""

    async def result(self, question: int) -> dict[str, Any] | None:
        """Return what is published about a question; None as long as nothing is."""

    async def member_of(self, token: str) -> int | None:
        """Return whose bearer token or session this is; None for nobody's."""

    async def is_operator(self, token: str) -> bool: ...
    async def new_session(self, client: int, nonce: bytes) -> tuple[str, float] | None:
        """Return a new session's token and how long it lives; None if the nonce was used before."""

    @property
    def secret(self) -> bytes:
        """32 bytes that all hubs of this federation have in common and nobody else has."""

    def status(self) -> Status:
        """Return the newest ``Status``."""

    def alive(self) -> bool:
        """Return whether the engine works; one that has stopped stays so."""

    def trouble(self) -> str:
        """Return why members cannot be served now, such as a store that is away; empty where they can."""

    async def act(self, action: str, client: int | None, reason: str) -> None:
        """Do what an operator asks: one of ``ACTIONS``, or of ``TO_MEMBERS`` to a client.

        Raises ConfigError for anything else, and Unavailable.
        """
