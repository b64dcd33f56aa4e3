"""What came out, as the hub tells its members: it is the hub's word, and nothing else vouches for it."""

from collections.abc import Callable
from typing import Any

import msgspec

from ccesa.errors import FaultyServer
from ccesa.service.forms import AnyForm, Statistics
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


class _Plain(Published, frozen=True, kw_only=True):
    """What a hub publishes where it is no report."""

    value: _Sum


class _Outline(msgspec.Struct, frozen=True):
    """Where the value is: nothing else is made of it."""

    value: msgspec.Raw


#: Gets what the hub publishes about one question, as JSON has it.
TakeResult = Callable[[dict[str, Any]], None]

#: The most results that are asked for, the most bytes of one beside its value, and how deep it may be nested.
MOST_RESULTS, _MOST_BESIDE, _DEPTH = 100_000, 1 << 22, 20


def fetch_results(line: Line, form: AnyForm, last: int, take: TakeResult) -> Part[None]:
    """Fetch all that is published, one after the other, up to the last question that has an answer.

    Raises:
        FaultyServer: The hub publishes something else than sums of this form.
    """
    for question in range(min(last + 1, MOST_RESULTS)):
        body = yield from fetch(line, f"/v1/results/{question}", form.most_result)
        if body is not None:  # neither lost nor unpublished
            take(_read(body, form))


def _read(body: bytes, form: AnyForm) -> dict[str, Any]:
    """Return what a result says. Only a report can have any form: lists take thirty times its bytes."""
    if len(body) - len(decoded(body, _Outline).value) > _MOST_BESIDE:
        raise FaultyServer(f"a result has more than {_MOST_BESIDE} bytes beside its value")
    what = Published if isinstance(form, Statistics) else _Plain
    found: dict[str, Any] = msgspec.to_builtins(decoded(body, what))
    if not _is_flat(found, _DEPTH):
        raise FaultyServer("a result is nested more deeply than any report")
    return found


def _is_flat(value: object, depth: int) -> bool:
    """Tell whether nothing lies deeper than this: whoever writes it down again would fail."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > 0 and all(_is_flat(one, depth - 1) for one in inner)
