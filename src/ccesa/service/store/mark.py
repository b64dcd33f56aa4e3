"""A mark says how far a database had come when a hub last looked. One that went back is not there any more.

A standby that took over before it had everything, and a dump or a copy that was put back, are databases of
the past: what they lack is the end. So the last thing of each kind is enough to know one by. The last opening
of the mark is in the counter of the hub, which outlives it: a hub that starts has a mark of that.
"""

import hashlib
from dataclasses import dataclass, replace

import msgspec

from ccesa.logfile import MARK_BYTES
from ccesa.service.store import audit
from ccesa.service.store.audit import AuditRow
from ccesa.service.store.database import Run
from ccesa.service.store.rows import ExchangeRow, SeriesRow

#: The fact that says which number the next series is above.
ABOVE = "series above"
#: A counter counts this many exchanges for a series.
_EXCHANGES = 1 << 32
_OPENED = "SELECT members, task, question, opened, exchange, closed IS NOT NULL FROM exchanges WHERE series = ?"
_LAST, _ONE = f"{_OPENED} ORDER BY exchange DESC LIMIT 1", f"{_OPENED} AND exchange = ?"


@dataclass(frozen=True, kw_only=True)
class SavedAnswer:
    """One answer of those that a hub has acknowledged together: they were saved in one transaction."""

    series: int
    exchange: int
    client: int
    answer: bytes


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The newest series, its last exchange, the head of the audit log, and what a hub has just saved."""

    series: SeriesRow | None = None
    #: Numbers of the newest series and of its last exchange, and how that was opened.
    place: tuple[int, int] = (0, -1)
    opening: bytes = b""
    closed: bool = False
    head: AuditRow | None = None
    saved: SavedAnswer | None = None
    #: Numbers of series up to this one are for what this database may have forgotten.
    above: int = 0

    @classmethod
    def counted(cls, value: tuple[int, bytes]) -> "Mark":
        """Return what a counter says: the mark of a hub that starts."""
        number, opening = value
        series, exchanges = divmod(number, _EXCHANGES)
        return cls(place=(series, exchanges - 1), opening=opening)


def count_of(series: int, opened: ExchangeRow) -> tuple[int, bytes]:
    """Return what a counter says once this exchange is open."""
    members = msgspec.json.encode(opened.members).decode()
    mark = opening_of(members, opened.task, opened.question, opened.opened)
    return series * _EXCHANGES + opened.exchange + 1, mark


def opening_of(members: str, task: bytes, question: int | None, opened: float) -> bytes:
    """Return what tells an opening from any other one under its number."""
    text = repr((members, bytes(task), question, float(opened)))
    return hashlib.sha256(text.encode()).digest()[:MARK_BYTES]


def reached(run: Run, before: Mark) -> Mark:
    """Return how far a database is now; what was saved stays as it was noted before."""
    series = newest(run)
    rows = [] if series is None else run(_LAST, series.series)
    *opened, exchange, closed = rows[0] if rows else (-1, False)
    above = run("SELECT value FROM facts WHERE name = ?", ABOVE)
    return Mark(
        series=series,
        place=(0 if series is None else series.series, exchange),
        opening=opening_of(*opened) if opened else b"",
        closed=bool(closed),
        head=audit.head(run),
        saved=before.saved,
        above=int(above[0][0]) if above else 0,
    )


def lacking(run: Run, mark: Mark, now: Mark) -> str:
    """Return what a database lacks of a mark; empty if it has all of it."""
    if mark.head is not None and mark.head != now.head:
        rows = run("SELECT hash FROM audit WHERE place = ?", mark.head.place)
        if rows != [(mark.head.hash,)]:
            return f"entry {mark.head.place} of the audit log"
    if mark.series is not None and mark.series != now.series:
        found = numbered(run, mark.series.series)
        if found not in (mark.series, replace(mark.series, over=True)):
            return f"series {mark.series.series}"
    answer = "" if mark.saved is None else _lacking_answer(run, mark.saved)
    return _lacking_opening(run, mark, now) or answer


def _lacking_opening(run: Run, mark: Mark, now: Mark) -> str:
    series, exchange = mark.place
    if exchange < 0 or series <= now.above:
        return ""
    text = f"exchange {exchange} of series {series}"
    for *opened, _, closed in run(_ONE, series, exchange):
        if opening_of(*opened) != mark.opening:
            return f"{text} as it was opened"
        return f"the end of {text}" if mark.closed and not closed else ""
    return text


def _lacking_answer(run: Run, saved: SavedAnswer) -> str:
    place = (saved.series, saved.exchange)
    for (forgotten,) in run("SELECT forgotten FROM series WHERE series = ?", saved.series):
        if forgotten > saved.exchange:
            return ""
    rows = run("SELECT body FROM answers WHERE series = ? AND exchange = ? AND client = ?", *place, saved.client)
    kept = rows == [(saved.answer,)]
    return "" if kept else f"an answer of client {saved.client} to exchange {place[1]} of series {place[0]}"


def newest(run: Run) -> SeriesRow | None:
    """Return the newest series; None before the first."""
    for row in run("SELECT series, config, rounds, over FROM series ORDER BY series DESC LIMIT 1"):
        return _series(*row)
    return None


def numbered(run: Run, series: int) -> SeriesRow | None:
    """Return a series by its number."""
    for row in run("SELECT series, config, rounds, over FROM series WHERE series = ?", series):
        return _series(*row)
    return None


def _series(series: int, config: bytes, rounds: int, over: int) -> SeriesRow:
    return SeriesRow(series=series, config=config, rounds=rounds, over=bool(over))
