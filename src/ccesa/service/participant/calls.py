"""A participant's core asks its driver for calls over HTTP and for pauses, and reports events.

The core has no socket and no clock. It is a generator: it yields a ``Call`` and is sent its ``HubAnswer``, or
yields a ``Pause`` and is sent None. An answer comes from the hub, or from a proxy on the way.
"""

import base64
import binascii
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import msgspec

from ccesa.errors import FaultyServer, shown
from ccesa.wire import Data

T = TypeVar("T")
J = TypeVar("J", bound=msgspec.Struct)

MOST_JSON = 1 << 20  # the maximum size of an answer in JSON
_PROBLEM = "urn:ccesa:problem:"
#: A call is repeated after these refusals: the call was too slow or one too many, or the hub is starting, stopping
#: or overloaded.
_AGAIN = {408, 425, 429, 500, 502, 503, 504}
_MOST_DIGITS = 15  # the maximum number of digits in a header
_LONGEST = 60  # the maximum of seconds until the hub is asked again


@dataclass(frozen=True, kw_only=True)
class Call:
    """A request. At most ``most`` bytes of the answer's body are read, and one more to notice a longer body."""

    method: str
    path: str  # under the address of the hub, with the query
    most: int = MOST_JSON
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Data = field(default=b"", repr=False)
    wait: float = 0.0  # seconds that the hub was asked to wait before it answers


@dataclass(frozen=True, kw_only=True)
class Pause:
    """A time to wait. A driver of many participants varies it a little."""

    seconds: float


@dataclass(frozen=True, kw_only=True)
class HubAnswer:
    """An answer, with names of headers in lower case. Status 0 means that no answer came, for this reason."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    reason: str = ""
    broken: bool = False  # whether the line broke before the end of the body

    @property
    def is_hubs(self) -> bool:
        """Whether a hub gave this answer. It refuses with a problem document, of which HEAD shows only the type."""
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if 200 <= self.status < 300:
            return kind != "text/html"
        return bool(self.problem) or (not self.body and kind == "application/problem+json")

    @property
    def is_final(self) -> bool:
        """Whether the same call again would change nothing."""
        return self.is_hubs and not self.broken and self.status not in _AGAIN

    @property
    def is_cut(self) -> bool:
        """Whether a smaller part might have come through."""
        return self.broken or not self.is_hubs or self.status == 408

    def number(self, name: str) -> int | None:
        """Return a header that is a whole number, 0 or greater; None for any other header."""
        text = self.headers.get(name, "")
        is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
        return int(text) if is_number else None

    @property
    def problem(self) -> str:
        """The name of the problem that the hub reports; empty without one."""
        kind = self._problem.type
        return kind.removeprefix(_PROBLEM) if kind.startswith(_PROBLEM) else ""

    @property
    def upload_offset(self) -> int | None:
        return self._problem.upload_offset

    def __str__(self) -> str:
        """The status, and the hub's words about it."""
        text = shown(self._problem.detail or self.reason, 300)
        if self.broken:
            return f"broken off: {text}"
        if self.status and not self.is_hubs:
            text = "this is not a hub's answer; check the address and the port"
        return f"{self.status or 'no answer'}{': ' if text else ''}{text}"

    @property
    def _problem(self) -> "_Problem":
        try:
            return msgspec.json.decode(self.body[:MOST_JSON], type=_Problem)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _Problem()


class _Problem(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a problem document (RFC 9457) on which a site decides."""

    type: str = ""
    detail: str = ""
    upload_offset: int | None = None


#: A piece of the core: it yields calls and pauses, and returns a result in the end.
Flow = Generator[Call | Pause, Any, T]


def read(answer: HubAnswer, what: type[J]) -> J:
    if answer.status not in (200, 201):
        raise FaultyServer(f"the hub answered {answer}")
    return read_json(answer.body, what)


def read_base64(text: str, what: str) -> bytes:
    """Return the bytes of a text in base64; raise FaultyServer for anything else."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise FaultyServer(f"the hub's {what} is not in base64") from None


def read_json(body: bytes, what: type[J]) -> J:
    """Return the JSON of a body; raise FaultyServer for anything else."""
    try:
        return msgspec.json.decode(body, type=what)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FaultyServer(f"this is not a hub's answer; check the address: {shown(str(error), 200)}") from None


def pause_of(answer: HubAnswer) -> int:
    seconds = answer.number("retry-after")
    return 1 if seconds is None else min(seconds, _LONGEST)


Kind = Literal[
    "waiting", "joined", "working", "sending", "sent", "summed", "late", "out", "nothing", "refused", "away", "over"
]


@dataclass(frozen=True, kw_only=True)
class Event:
    """An event for people and for logs, without vectors, shares and keys; ``text`` is a sentence without a full stop.

    Its kind is: waiting for the hub, joined a round, working on a task, sending and sent a vector, in a sum, late,
    out of the rounds in flight, sent nothing but noise, refused something, hub away, or over.
    """

    kind: Kind
    text: str
    round: int | None = None  # the number of the round; None if the event is not about a round


Tell = Callable[[Event], None]


def silent(event: Event) -> None:
    """Say nothing."""
