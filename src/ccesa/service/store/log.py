"""The log that all hubs follow: the series and their exchanges, each opened once and closed once."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ccesa.errors import OrderError, StaleLog
from ccesa.service.store import audit
from ccesa.service.store.database import Run, fact, put_fact
from ccesa.service.store.mark import ABOVE, Mark, find_missing, mark_of, newest
from ccesa.service.store.replies import Replies
from ccesa.service.store.rows import ExchangeRow, SeriesRow

_MEMBERS = msgspec.json.Decoder(tuple[int, ...])
_GONE_BACK = "gone back"  # this fact says that this database has gone back, and how
_SKIPPED = 1000  # a new beginning skips this many numbers of series: no restored copy is older than that
_ALL = 1 << 62  # above the number of any exchange
_OPEN = "SELECT closed FROM exchanges WHERE series = ? AND exchange = ? FOR UPDATE"
_EXCHANGES = (
    "SELECT exchange, members, task, question, opened, closed FROM exchanges"
    " WHERE series = ? AND exchange >= ? ORDER BY exchange"
)


class Log(Replies):
    """The history of all series, exchange by exchange."""

    def series(self) -> SeriesRow | None:
        """Return the newest series; None before the first."""
        with self._database.reading() as run:
            return newest(run)

    def follow(self, mark: Mark) -> Mark:
        """Return a newer mark; raise StaleLog if the database lacks anything of this one, or has gone back before."""
        with self._database.reading() as run:
            if noted := fact(run, _GONE_BACK):
                raise StaleLog(noted.decode())
            now = mark_of(run, mark.saved)
            missing = find_missing(run, mark, now)
        if missing:
            raise StaleLog(f"the database has gone back: it lacks {missing}, which this hub has seen")
        return now

    def note_gone_back(self, reason: str, now: float) -> None:
        """Note in a database that it has gone back. All hubs stop until one begins a new series."""
        with self._database.alone() as run:
            if not fact(run, _GONE_BACK):
                put_fact(run, _GONE_BACK, reason.encode())
                audit.append(run, "gone back", {"reason": reason}, now)

    def begin_anew(self, counted: int = 0) -> None:
        """Let the next series have a number that no member knows: above all here, and above this hub's counter."""
        with self._database.alone() as run:
            run("DELETE FROM facts WHERE name = ?", _GONE_BACK)
            run("UPDATE members SET known_series = 0, known_exchange = -1")
            row = newest(run)
            above = max(0 if row is None else row.series, counted) + _SKIPPED
            put_fact(run, ABOVE, str(above).encode())

    def begin_series(
        self,
        config: bytes,
        rounds: int,
        body: dict[str, Any] | None = None,
        now: float = 0.0,
        names: Sequence[str] = (),
        form: bytes = b"",
    ) -> SeriesRow:
        """Begin a series, unless one is running; return the one that runs now.

        The audit log gets ``body`` for a new one. ``names`` are those of its clients. ``form`` is that of its sums,
        which a later file of the federation does not change.
        """
        with self._database.alone() as run:
            row = newest(run)
            if row is None or row.over:
                series = max(0 if row is None else row.series, int(fact(run, ABOVE) or b"0")) + 1
                run("INSERT INTO series VALUES (?, ?, ?, 0, 0)", series, config, rounds)
                row = SeriesRow(series=series, config=config, rounds=rounds)
                put_fact(run, f"form of series {series}", form)
                if names:
                    audit.seat(run, names)
                if body is not None:
                    audit.append(run, "series", body | {"series": series, "rounds": rounds}, now)
            return row

    def form_of(self, series: int) -> bytes:
        """Return the form of a series' sums, as given to ``begin_series``; empty for an unknown series."""
        return self._fact(f"form of series {series}")

    def end_series(self, series: int, place: int | None = None) -> None:
        """End a series and forget its answers; with a ``place``, only if that exchange would be next."""
        with self._database.alone() as run:
            if place is not None and _next(run, series) != place:
                return
            run("UPDATE exchanges SET closed = opened WHERE series = ? AND closed IS NULL", series)
            run("UPDATE series SET over = 1 WHERE series = ?", series)
        self.forget(series, _ALL)

    def open_exchange(self, series: int, exchange: ExchangeRow) -> ExchangeRow:
        """Open the next exchange of a running series, unless it was opened before; return the first opening."""
        with self._database.alone() as run:
            logged = [*_exchanges(run, series, exchange.exchange - 1)]
            for found in logged:
                if found.exchange == exchange.exchange:
                    return found
            row = newest(run)
            if row is None or row.series != series or row.over:
                raise OrderError(f"series {series} does not run, so no exchange of it opens")
            if exchange.exchange != 0 and (not logged or logged[0].closed is None):
                raise OrderError(f"exchange {exchange.exchange} opens when the one before has closed")
            if exchange.exchange < 0:
                raise OrderError("the number of an exchange must be 0 or greater")
            _insert(run, series, exchange)
            return replace(exchange, closed=None)

    def exchanges(self, series: int, since: int = 0) -> list[ExchangeRow]:
        """Return the exchanges of a series from this one on, in their order."""
        with self._database.reading() as run:
            return [*_exchanges(run, series, since)]

    def close_exchange(self, series: int, exchange: int, now: float) -> None:
        """Close an exchange, unless it was closed before. Nothing is saved for it afterwards."""
        with self._database.writing() as run:
            rows = run(_OPEN, series, exchange)
            if not rows:
                raise OrderError(f"exchange {exchange} of series {series} was never opened")
            if rows == [(None,)]:
                run("UPDATE exchanges SET closed = ? WHERE series = ? AND exchange = ?", now, series, exchange)
                run("DELETE FROM answers WHERE series = ? AND exchange = ? AND body IS NULL", series, exchange)


def _next(run: Run, series: int) -> int | None:
    """Return the next exchange to open; None while one is open."""
    for exchange, closed in run(
        "SELECT exchange, closed FROM exchanges WHERE series = ? ORDER BY exchange DESC LIMIT 1", series
    ):
        return None if closed is None else exchange + 1
    return 0


def _exchanges(run: Run, series: int, since: int) -> Iterator[ExchangeRow]:
    for number, members, task, question, opened, closed in run(_EXCHANGES, series, since):
        asked = _MEMBERS.decode(members)
        yield ExchangeRow(exchange=number, members=asked, task=task, question=question, opened=opened, closed=closed)


def _insert(run: Run, series: int, exchange: ExchangeRow) -> None:
    members = msgspec.json.encode(exchange.members).decode()
    values = (series, exchange.exchange, members, exchange.task, exchange.question, exchange.opened)
    run("INSERT INTO exchanges VALUES (?, ?, ?, ?, ?, ?, NULL)", *values)
