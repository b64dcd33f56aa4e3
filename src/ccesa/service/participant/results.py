"""What came out, as the hub tells its members: it is the hub's word, and nothing else vouches for it."""

from collections.abc import Callable
from typing import Any

import msgspec

from ccesa.service.participant.calls import Part, decoded
from ccesa.service.participant.line import Line
from ccesa.service.participant.parts import fetch


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What a hub publishes about one question."""

    question: int
    outcome: str
    series: int
    number: int
    survivors: list[int]
    value: Any
    metrics: dict[str, float]
    #: Of the audit log, in hexadecimal: whoever keeps it can tell later whether the log was changed.
    head: str


class _Sum(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sum of words or the mean of arrays, in base64: no larger in memory than on the way."""

    words: str | msgspec.UnsetType = msgspec.UNSET
    bits: int | msgspec.UnsetType = msgspec.UNSET
    arrays: str | msgspec.UnsetType = msgspec.UNSET
    weight: float | msgspec.UnsetType = msgspec.UNSET


class _Large(Published, frozen=True, kw_only=True):
    """What a hub publishes that is too large to be anything but one sum."""

    value: _Sum


#: Gets what the hub publishes about one question, as JSON has it.
TakeResult = Callable[[dict[str, Any]], None]

#: The most bytes of one result, and the most results that are asked for.
MOST_RESULT, MOST_RESULTS = 1 << 30, 100_000
#: The most bytes of a report, which can have any form: empty lists are thirty times as large in memory.
MOST_REPORT = 1 << 26


def fetch_results(line: Line, last: int, take: TakeResult) -> Part[None]:
    """Fetch all that is published, up to the last question that has an answer."""
    for question in range(min(last + 1, MOST_RESULTS)):
        body = yield from fetch(line, f"/v1/results/{question}", MOST_RESULT)
        if body is not None:  # neither lost nor unpublished
            what = Published if len(body) <= MOST_REPORT else _Large
            take(msgspec.to_builtins(decoded(body, what)))
