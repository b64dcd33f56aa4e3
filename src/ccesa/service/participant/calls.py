"""A participant's core asks its driver for calls over HTTP and for pauses, and reports events.

The core has no socket and no clock. It is a generator: it yields a ``Call`` and is sent its ``Answer``, or
yields a ``Pause`` and is sent None. An answer comes from the hub, or from a proxy on the way.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec

from ccesa.errors import FaultyServer, shown
from ccesa.wire import Data

T = TypeVar("T")
J = TypeVar("J", bound=msgspec.Struct)

#: The most bytes of an answer in JSON.
MOST_JSON = 1 << 20
_PROBLEM = "urn:ccesa:problem:"
#: Refusals of a hub after which a call is repeated: too slow, too many, or it is being started, stopped or
#: overrun.
_AGAIN = {408, 425, 429, 500, 502, 503, 504}
#: The most that a number in a header can be.
_MOST_DIGITS = 15
#: The most seconds until the hub is asked again, whatever it says.
_LONGEST = 60


@dataclass(frozen=True, kw_only=True)
class Call:
    """A request: at most ``most`` bytes of the answer's body are read, and one more to know that."""

    method: str
    #: Under the address of the hub, with the query.
    path: str
    most: int = MOST_JSON
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Data = field(default=b"", repr=False)
    #: Seconds that the hub was asked to wait before it answers.
    wait: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Pause:
    """A time to wait; whoever drives many participants lets their times differ a little."""

    seconds: float


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back. Names of headers are in lower case. Status 0 says that nothing did, and why."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    reason: str = ""
    #: Whether the line broke before all of the body was there.
    broken: bool = False

    @property
    def is_hubs(self) -> bool:
        """Whether a hub says this: it refuses by a problem document, and has no pages and no redirects.

        To HEAD there is no document, and its type has to do.
        """
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if 200 <= self.status < 300:
            return kind != "text/html"
        return bool(self.problem) or (not self.body and kind == "application/problem+json")

    @property
    def is_final(self) -> bool:
        """Whether to ask the same again would change nothing."""
        return self.is_hubs and not self.broken and self.status not in _AGAIN

    @property
    def is_cut(self) -> bool:
        """Whether a smaller part might have come through."""
        return self.broken or not self.is_hubs or self.status == 408

    def number(self, name: str) -> int | None:
        """Return a header that is a whole number from 0 on; None where there is none."""
        text = self.headers.get(name, "")
        plain = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
        return int(text) if plain else None

    @property
    def problem(self) -> str:
        """The name of the problem that the hub states; empty where it states none."""
        kind = self._problem.type
        return kind.removeprefix(_PROBLEM) if kind.startswith(_PROBLEM) else ""

    @property
    def upload_offset(self) -> int | None:
        """Where the hub wants an upload to go on, if it says so."""
        return self._problem.upload_offset

    def __str__(self) -> str:
        """The status, and in words what the hub says about it."""
        said = shown(self._problem.detail or self.reason, 300)
        if self.broken:
            return f"broken off: {said}"
        if self.status and not self.is_hubs:
            said = "this is not a hub's answer, is it the right address and port?"
        return f"{self.status or 'no answer'}{': ' if said else ''}{said}"

    @property
    def _problem(self) -> "_Problem":
        try:
            return msgspec.json.decode(self.body[:MOST_JSON], type=_Problem)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _Problem()


class _Problem(msgspec.Struct, frozen=True, kw_only=True):
    """As much of a problem document (RFC 9457) as decisions are made by."""

    type: str = ""
    detail: str = ""
    upload_offset: int | None = None


#: A part of the core: it yields calls and pauses, and returns something in the end.
Part = Generator[Call | Pause, Any, T]


def read(answer: Answer, what: type[J]) -> J:
    """Return what an answer says in JSON; raise FaultyServer where it says something else."""
    if answer.status not in (200, 201):
        raise FaultyServer(f"the hub answered {answer}")
    return decoded(answer.body, what)


def decoded(body: bytes, what: type[J]) -> J:
    """Return what a body says in JSON; raise FaultyServer where it says something else."""
    try:
        return msgspec.json.decode(body, type=what)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FaultyServer(
            f"the hub did not answer as a hub does, is it the right address? {shown(str(error), 200)}"
        ) from None


def pause_of(answer: Answer) -> int:
    """Return the seconds after which it is worth asking again."""
    told = answer.number("retry-after")
    return 1 if told is None else min(told, _LONGEST)


Kind = Literal[
    "waiting",
    "joined",
    "working",
    "sending",
    "sent",
    "summed",
    "late",
    "out",
    "nothing",
    "refused",
    "away",
    "over",
]


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened, for people and for logs. No vector, share or key is in it.

    Attributes:
        kind: What it is about: waiting for the hub, joined a round, working on a task, sending and sent a
            vector, in a sum, late, out of the rounds in flight, nothing but noise sent, refused something,
            hub away, all over.
        text: A sentence without a full stop.
        round: The number of the round, where it is about one.
    """

    kind: Kind
    text: str
    round: int | None = None


Tell = Callable[[Event], None]


def silent(event: Event) -> None:
    """Say nothing."""
