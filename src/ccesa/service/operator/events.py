"""Server-sent events: the whole status first, then what has changed of it, at most four times a second.

A status of 5,000 members is most of a megabyte, of which an answer changes a hundred bytes: members and
rounds are sent again only where they differ.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from ccesa.service.desk import Desk
from ccesa.service.status import MemberStatus, RoundStatus, Status

#: Seconds between two looks at the status, and between signs of life while nothing changes.
PERIOD, HEARTBEAT = 0.25, 15.0
#: That a member was heard from again is news only after so many seconds; members poll all the time.
_STALE = 20.0
_PLAIN = [name for name in Status.__struct_fields__ if name not in ("members", "rounds", "now")]


def change(old: Status, new: Status) -> dict[str, Any] | None:
    """Return what a page that shows ``old`` has to be told to show ``new``.

    Members and rounds are those that differ. Where members have come or gone, only a whole status will do.

    Args:
        old: What was sent before, as a whole or in parts.
        new: What is the case now.

    Returns:
        Fields of ``new`` by name, empty where nothing has changed; None if all of it has to be sent.
    """
    members = _members(old.members, new.members)
    if members is None:
        return None
    rounds = _rounds(old.rounds, new.rounds)
    told = {name: getattr(new, name) for name in _PLAIN if getattr(old, name) != getattr(new, name)}
    return told | ({"members": members} if members else {}) | ({"rounds": rounds} if rounds else {})


def _members(old: list[MemberStatus], new: list[MemberStatus]) -> list[MemberStatus] | None:
    if [one.client for one in old] != [one.client for one in new]:
        return None
    return [after for before, after in zip(old, new, strict=True) if _differs(before, after)]


def _differs(old: MemberStatus, new: MemberStatus) -> bool:
    if old == new:
        return False
    return new.seen - old.seen > _STALE or msgspec.structs.replace(new, seen=old.seen) != old


def _rounds(old: list[RoundStatus], new: list[RoundStatus]) -> list[RoundStatus]:
    known = {(one.series, one.number): one for one in old}
    return [one for one in new if known.get((one.series, one.number)) != one]


def merged(old: Status, new: Status, told: dict[str, Any]) -> Status:
    """Return what a page shows that was told so; members keep the time at which they were shown as seen."""
    fresh = {one.client: one for one in told.get("members", ())}
    return msgspec.structs.replace(new, members=[fresh.get(one.client, one) for one in old.members])


def sent(name: str, data: object) -> bytes:
    """Return an event as it goes over the wire; JSON has no line breaks in it."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


async def follow(desk: Desk, stopping: Callable[[], bool] = lambda: False) -> AsyncIterator[bytes]:
    """Yield events for one viewer until the hub stops: ``status``, then ``change`` and ``tick``.

    Args:
        desk: The hub's desk.
        stopping: Whether it stops; checked four times a second.

    Yields:
        Events as bytes. Each has the hub's clock, ``now``.
    """
    shown = desk.status()
    yield sent("status", shown)
    quiet = 0.0
    while not stopping():
        await asyncio.sleep(PERIOD)
        quiet += PERIOD
        newest = desk.status()
        told = {} if newest is shown else change(shown, newest)
        if told is None:
            shown, quiet = newest, 0.0
            yield sent("status", newest)
        elif told:
            shown, quiet = merged(shown, newest, told), 0.0
            yield sent("change", told | {"now": newest.now})
        elif quiet >= HEARTBEAT:
            quiet = 0.0
            yield sent("tick", {"now": newest.now})
