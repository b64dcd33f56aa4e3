"""A mark says how far a database had come at a hub's last look. A database that went back lacks part of it.

A standby that took over before it had everything, and a restored dump or copy, are databases of the past: they
lack the latest rows. So a mark has only the latest row of each kind. The counter of a hub keeps the last opening of
its mark, and outlives the hub: a hub that starts has a mark of that.
"""

import hashlib
from dataclasses import dataclass, replace

import msgspec

from ccesa.logfile import MARK_BYTES
from ccesa.service.store import audit
from ccesa.service.store.audit import AuditRow
from ccesa.service.store.database import Row, Run, fact
from ccesa.service.store.rows import ExchangeRow, SeriesRow

ABOVE = "series above"  # the fact with a number that the number of the next series is above
SavedAnswer = tuple[int, int, int, bytes]
_EXCHANGES = 1 << 32  # a counter counts this many exchanges for a series
_SERIES = "SELECT series, config, rounds, over FROM series"
_OPENED = "SELECT members, task, question, opened, exchange, closed IS NOT NULL FROM exchanges WHERE series = ?"


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The newest series, its last exchange, the head of the audit log, and the last answer that a hub has saved."""

    series: SeriesRow | None = None
    #: Numbers of the newest series and of its last exchange, and a digest of that exchange's opening.
    place: tuple[int, int] = (0, -1)
    opening: bytes = b""
    closed: bool = False
    head: AuditRow | None = None
    #: Series, exchange, client and bytes of an answer that this hub has saved: one of those saved together is enough.
    saved: SavedAnswer | None = None
    above: int = 0  # this database may have forgotten series up to this number

    @classmethod
    def of_count(cls, value: tuple[int, bytes]) -> "Mark":
        """Return the mark of a hub that starts, from the value of its counter."""
        number, opening = value
        series, exchanges = divmod(number, _EXCHANGES)
        return cls(place=(series, exchanges - 1), opening=opening)


def count_of(series: int, opened: ExchangeRow) -> tuple[int, bytes]:
    """Return the value of a counter once this exchange is open."""
    members = msgspec.json.encode(opened.members).decode()
    mark = _opening(members, opened.task, opened.question, opened.opened)
    return series * _EXCHANGES + opened.exchange + 1, mark


def _opening(members: str, task: bytes, question: int | None, opened: float) -> bytes:
    """Return a digest of an opening, which no other opening under its number has."""
    text = repr((members, bytes(task), question, float(opened)))
    return hashlib.sha256(text.encode()).digest()[:MARK_BYTES]


def mark_of(run: Run, saved: SavedAnswer | None) -> Mark:
    """Return the current mark of a database, with the answer that was saved last."""
    series = newest(run)
    rows = [] if series is None else run(f"{_OPENED} ORDER BY exchange DESC LIMIT 1", series.series)
    *opened, exchange, closed = rows[0] if rows else (-1, False)
    return Mark(
        series=series,
        place=(0 if series is None else series.series, exchange),
        opening=_opening(*opened) if opened else b"",
        closed=bool(closed),
        head=audit.head(run),
        saved=saved,
        above=int(fact(run, ABOVE) or b"0"),
    )


def find_missing(run: Run, mark: Mark, now: Mark) -> str:
    """Return the part of a mark that a database lacks; empty if it has all of it."""
    if mark.head is not None and mark.head != now.head:
        rows = run("SELECT hash FROM audit WHERE place = ?", mark.head.place)
        if rows != [(mark.head.hash,)]:
            return f"entry {mark.head.place} of the audit log"
    if mark.series is not None and mark.series != now.series:
        row = _first_series(run(f"{_SERIES} WHERE series = ?", mark.series.series))
        if row not in (mark.series, replace(mark.series, over=True)):
            return f"series {mark.series.series}"
    return _missing_opening(run, mark, now) or _missing_answer(run, mark.saved)


def _missing_opening(run: Run, mark: Mark, now: Mark) -> str:
    series, exchange = mark.place
    if exchange < 0 or series <= now.above:
        return ""
    text = f"exchange {exchange} of series {series}"
    for *opened, _, closed in run(f"{_OPENED} AND exchange = ?", series, exchange):
        if _opening(*opened) != mark.opening:
            return f"{text} as it was opened"
        return f"the end of {text}" if mark.closed and not closed else ""
    return text


def _missing_answer(run: Run, saved: SavedAnswer | None) -> str:
    if saved is None:
        return ""
    series, exchange, client, answer = saved
    if run("SELECT 1 FROM series WHERE series = ? AND forgotten > ?", series, exchange):
        return ""
    rows = run("SELECT body FROM answers WHERE series = ? AND exchange = ? AND client = ?", series, exchange, client)
    return "" if rows == [(answer,)] else f"an answer of client {client} to exchange {exchange} of series {series}"


def newest(run: Run) -> SeriesRow | None:
    """Return the newest series; None before the first."""
    return _first_series(run(f"{_SERIES} ORDER BY series DESC LIMIT 1"))


def _first_series(rows: list[Row]) -> SeriesRow | None:
    for series, config, rounds, over in rows:
        return SeriesRow(series=series, config=config, rounds=rounds, over=bool(over))
    return None
