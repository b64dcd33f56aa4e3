"""The log that all hubs follow: which series there are, and their exchanges, opened once and closed once."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ccesa.errors import OrderError, StaleLog
from ccesa.service.store import audit
from ccesa.service.store.database import Run
from ccesa.service.store.mark import ABOVE, Mark, lacking, newest, reached
from ccesa.service.store.replies import Replies
from ccesa.service.store.rows import ExchangeRow, SeriesRow

_MEMBERS = msgspec.json.Decoder(tuple[int, ...])
#: The fact that says that, and how, this database has gone back.
_GONE_BACK = "gone back"
#: So many numbers of series are left out: no copy that is put back is older than that.
_SKIPPED = 1000
#: No series has so many exchanges.
_ALL = 1 << 62
_OPEN = "SELECT closed FROM exchanges WHERE series = ? AND exchange = ? FOR UPDATE"


class Log(Replies):
    """What happened in a series, exchange by exchange."""

    def series(self) -> SeriesRow | None:
        """Return the newest series; None before the first."""
        with self._database.reading() as run:
            return newest(run)

    def follow(self, mark: Mark) -> Mark:
        """Return how far this database is, which was at a mark before.

        Raises StaleLog if it is not there any more, or if it was found to have gone back before.
        """
        with self._database.reading() as run:
            noted = run("SELECT value FROM facts WHERE name = ?", _GONE_BACK)
            if noted:
                raise StaleLog(noted[0][0].decode())
            now = reached(run, mark)
            missing = lacking(run, mark, now)
        if missing:
            raise StaleLog(f"the database has gone back: it lacks {missing}, which this hub has seen")
        return now

    def went_back(self, reason: str, now: float) -> None:
        """Note in a database that it has gone back: no hub goes on with it, until one begins anew."""
        with self._database.alone() as run:
            if run(
                "INSERT INTO facts VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING name", _GONE_BACK, reason.encode()
            ):
                audit.append(run, "gone back", {"reason": reason}, now)

    def begin_anew(self, counted: int = 0) -> None:
        """Let the next series have a number that no member knows, whatever this database has forgotten.

        ``counted`` is the last series that the counter of this hub knows.
        """
        with self._database.alone() as run:
            run("DELETE FROM facts WHERE name = ?", _GONE_BACK)
            run("DELETE FROM facts WHERE name = ?", ABOVE)
            run("UPDATE members SET known_series = 0, known_exchange = -1")
            found = newest(run)
            above = max(0 if found is None else found.series, counted) + _SKIPPED
            run("INSERT INTO facts VALUES (?, ?)", ABOVE, str(above).encode())

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

        What ``body`` says about a new one goes into the audit log with it. ``names`` are its clients', and
        ``form`` says what its sums mean, whatever a later file of the federation says.
        """
        with self._database.alone() as run:
            row = newest(run)
            if row is None or row.over:
                above = run("SELECT value FROM facts WHERE name = ?", ABOVE)
                series = max(0 if row is None else row.series, int(above[0][0]) if above else 0) + 1
                run("INSERT INTO series VALUES (?, ?, ?, 0, 0)", series, config, rounds)
                row = SeriesRow(series=series, config=config, rounds=rounds)
                run("INSERT INTO facts VALUES (?, ?)", f"form of series {series}", form)
                if names:
                    audit.seat(run, names)
                if body is not None:
                    audit.append(run, "series", body | {"series": series, "rounds": rounds}, now)
            return row

    def form_of(self, series: int) -> bytes:
        """Return what the sums of a series mean, as ``begin_series`` was told; nothing for an unknown one."""
        with self._database.reading() as run:
            found = run("SELECT value FROM facts WHERE name = ?", f"form of series {series}")
        return found[0][0] if found else b""

    def end_series(self, series: int, place: int | None = None) -> None:
        """Note that a series is over, and forget all of its answers; another one can begin.

        Args:
            series: Its number.
            place: Only if this exchange would be next: a hub that is behind ends nothing that goes on.
        """
        with self._database.alone() as run:
            if place is not None and _next(run, series) != place:
                return
            run("UPDATE exchanges SET closed = opened WHERE series = ? AND closed IS NULL", series)
            run("UPDATE series SET over = 1 WHERE series = ?", series)
        self.forget(series, _ALL)

    def open_exchange(self, series: int, exchange: ExchangeRow) -> ExchangeRow:
        """Open the next exchange, unless that was done; return what was decided first.

        Raises OrderError if the series does not run, or if this is not the next exchange after a closed one.
        """
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
                raise OrderError("exchanges are counted from 0 on")
            _insert(run, series, exchange)
            return replace(exchange, closed=None)

    def exchanges(self, series: int, since: int = 0) -> list[ExchangeRow]:
        """Return the exchanges of a series from this one on, in their order."""
        with self._database.reading() as run:
            return [*_exchanges(run, series, since)]

    def close_exchange(self, series: int, exchange: int, now: float) -> None:
        """Close an exchange, unless that was done. What is not saved by now never will be.

        Raises OrderError if it was never opened.
        """
        with self._database.writing() as run:
            found = run(_OPEN, series, exchange)
            if not found:
                raise OrderError(f"exchange {exchange} of series {series} was never opened")
            if found == [(None,)]:
                run("UPDATE exchanges SET closed = ? WHERE series = ? AND exchange = ?", now, series, exchange)
                run("DELETE FROM answers WHERE series = ? AND exchange = ? AND body IS NULL", series, exchange)


def _next(run: Run, series: int) -> int | None:
    """Return which exchange is opened next; None while one is open."""
    for exchange, closed in run(
        "SELECT exchange, closed FROM exchanges WHERE series = ? ORDER BY exchange DESC LIMIT 1", series
    ):
        return None if closed is None else exchange + 1
    return 0


def _exchanges(run: Run, series: int, since: int) -> Iterator[ExchangeRow]:
    rows = run(
        "SELECT exchange, members, task, question, opened, closed FROM exchanges"
        " WHERE series = ? AND exchange >= ? ORDER BY exchange",
        series,
        since,
    )
    for exchange, members, task, question, opened, closed in rows:
        yield ExchangeRow(
            exchange=exchange,
            members=_MEMBERS.decode(members),
            task=task,
            question=question,
            opened=opened,
            closed=closed,
        )


def _insert(run: Run, series: int, exchange: ExchangeRow) -> None:
    run(
        "INSERT INTO exchanges VALUES (?, ?, ?, ?, ?, ?, NULL)",
        series,
        exchange.exchange,
        msgspec.json.encode(exchange.members).decode(),
        exchange.task,
        exchange.question,
        exchange.opened,
    )
