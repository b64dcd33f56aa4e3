"""The log that all hubs follow: series, exchanges, who may take a reply, and what was taken.

A reply is claimed first, under a key that is unique. Only the hub that owns the claim adds the vector to its
own sum, and it saves answer and sum together. Closing waits for saves under way, and none comes after it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from ccesa.errors import OrderError
from ccesa.service.store.database import Database, Row, Run
from ccesa.service.store.rows import Claim, Exchange, SeriesRow
from ccesa.wire import Data

_MEMBERS = msgspec.json.Decoder(tuple[int, ...])
#: Databases take so many values in one statement without asking.
_VALUES = 1000
_CLAIMS = (
    "SELECT client, hub, digest, body IS NOT NULL FROM answers"
    " WHERE series = ? AND exchange = ? AND client IN"
)
_OPEN = "SELECT closed FROM exchanges WHERE series = ? AND exchange = ?"


#: What is found of a claim that another hub gave up in between.
_RELEASED = ("", None, False)


class _Fenced(Exception):
    """Raised to undo a save."""


class Log:
    """What happened in a series, exchange by exchange."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def series(self) -> SeriesRow | None:
        """Return the newest series; None before the first."""
        with self._database.reading() as run:
            return _newest(run)

    def begin_series(self, config: bytes, rounds: int) -> SeriesRow:
        """Begin a series, unless one is running; return the one that runs now."""
        with self._database.alone() as run:
            newest = _newest(run)
            if newest is None or newest.over:
                series = 1 if newest is None else newest.series + 1
                run("INSERT INTO series VALUES (?, ?, ?, 0)", series, config, rounds)
                newest = SeriesRow(series=series, config=config, rounds=rounds)
            return newest

    def end_series(self, series: int) -> None:
        """Note that a series is over; another one can begin."""
        with self._database.alone() as run:
            run("UPDATE series SET over = 1 WHERE series = ?", series)

    def open_exchange(self, series: int, exchange: Exchange) -> Exchange:
        """Open the next exchange, unless that was done; return what was decided first.

        Raises OrderError if the series does not run, or if this is not the next exchange after a closed one.
        """
        with self._database.alone() as run:
            logged = [*_exchanges(run, series, exchange.exchange - 1)]
            for found in logged:
                if found.exchange == exchange.exchange:
                    return found
            newest = _newest(run)
            if newest is None or newest.series != series or newest.over:
                raise OrderError(f"series {series} does not run, so no exchange of it opens")
            if exchange.exchange != 0 and (not logged or logged[0].closed is None):
                raise OrderError(f"exchange {exchange.exchange} opens when the one before has closed")
            if exchange.exchange < 0:
                raise OrderError("exchanges are counted from 0 on")
            _insert(run, series, exchange)
            return exchange

    def exchanges(self, series: int, since: int = 0) -> list[Exchange]:
        """Return the exchanges of a series from this one on, in their order."""
        with self._database.reading() as run:
            return [*_exchanges(run, series, since)]

    def close_exchange(self, series: int, exchange: int, now: float) -> None:
        """Close an exchange, unless that was done. What is not saved by now never will be.

        Raises OrderError if it was never opened.
        """
        with self._database.writing() as run:
            found = run(f"{_OPEN} FOR UPDATE", series, exchange)
            if not found:
                raise OrderError(f"exchange {exchange} of series {series} was never opened")
            if found == [(None,)]:
                run(
                    "UPDATE exchanges SET closed = ? WHERE series = ? AND exchange = ?", now, series, exchange
                )
                run(
                    "DELETE FROM answers WHERE series = ? AND exchange = ? AND body IS NULL", series, exchange
                )

    def claim(self, series: int, exchange: int, hub: str, digests: Mapping[int, bytes]) -> dict[int, Claim]:
        """Claim replies, known by their digests, for a hub; return how that went for each client."""
        clients = sorted(digests)  # hubs that insert in one order do not wait for each other in a circle
        with self._database.writing() as run:
            if not _is_open(run, series, exchange):
                return dict.fromkeys(clients, Claim.LATE)
            run.many(
                "INSERT INTO answers (series, exchange, client, hub, digest) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                [(series, exchange, client, hub, digests[client]) for client in clients],
            )
            found = {client: row for client, *row in _claims(run, series, exchange, clients)}
        return {client: _fared(hub, digests[client], *found.get(client, _RELEASED)) for client in clients}

    def release(self, series: int, exchange: int, hub: str, clients: Iterable[int]) -> None:
        """Give up claims of a hub, so that these clients can send something else."""
        with self._database.writing() as run:
            run.many(
                "DELETE FROM answers WHERE series = ? AND exchange = ? AND client = ? AND hub = ?"
                " AND body IS NULL",
                [(series, exchange, client, hub) for client in sorted(clients)],
            )

    def save(
        self, series: int, exchange: int, hub: str, answers: Mapping[int, bytes], total: Data | None
    ) -> bool:
        """Save answers to replies that a hub has claimed, with its whole sum in this exchange so far.

        Saving the same answers again is harmless.

        Args:
            series: Number of the series.
            exchange: Place of the exchange in it.
            hub: Name of the hub.
            answers: What is kept of each reply, by client.
            total: The hub's sum over everything that it has taken in this exchange; None where there is none.

        Returns:
            Whether all is saved. If not, nothing is: the exchange has closed, or a claim is gone because the
            hub was taken for dead. What it holds in memory is not what counts any more.
        """
        if not answers:
            return True
        rows = [
            (answers[client], series, exchange, client, hub, answers[client]) for client in sorted(answers)
        ]
        try:
            with self._database.writing() as run:
                if not _is_open(run, series, exchange) or run.many(_SAVE, rows) != len(rows):
                    raise _Fenced
                if total is not None:
                    run(_TOTAL, series, exchange, hub, total)
        except _Fenced:
            return False
        return True

    def answers(self, series: int, exchange: int, besides: str = "") -> dict[int, bytes]:
        """Return the saved answers by client, in their order; those of one hub left out."""
        with self._database.reading() as run:
            return dict(
                run(
                    "SELECT client, body FROM answers WHERE series = ? AND exchange = ? AND hub <> ?"
                    " AND body IS NOT NULL ORDER BY client",
                    series,
                    exchange,
                    besides,
                )
            )

    def sums(self, series: int, exchange: int, besides: str = "") -> list[bytes]:
        """Return the sums of all hubs in an exchange; that of one hub left out."""
        with self._database.reading() as run:
            rows = run(
                "SELECT total FROM sums WHERE series = ? AND exchange = ? AND hub <> ? ORDER BY hub",
                series,
                exchange,
                besides,
            )
        return [total for (total,) in rows]

    def answered(self, series: int, exchange: int) -> set[int]:
        """Return the clients whose answers are saved."""
        with self._database.reading() as run:
            rows = run(
                "SELECT client FROM answers WHERE series = ? AND exchange = ? AND body IS NOT NULL",
                series,
                exchange,
            )
        return {client for (client,) in rows}

    def forget(self, series: int, before: int) -> None:
        """Delete answers and sums of the exchanges before this one: shares go with their round."""
        with self._database.writing() as run:
            for table in ("answers", "sums"):
                run(f"DELETE FROM {table} WHERE series = ? AND exchange < ?", series, before)  # noqa: S608
        self._database.erase("answers", "sums")

    def drop_claims(self, since: float) -> None:
        """Delete the claims of hubs that were not heard of since then; saved answers stay."""
        with self._database.writing() as run:
            # Claims are in open exchanges only, and nobody claims or saves while their rows are locked.
            run("SELECT exchange FROM exchanges WHERE closed IS NULL FOR UPDATE")
            run(
                "DELETE FROM answers WHERE body IS NULL"
                " AND hub NOT IN (SELECT hub FROM hubs WHERE seen >= ?)",
                since,
            )


_SAVE = (
    "UPDATE answers SET body = ? WHERE series = ? AND exchange = ? AND client = ? AND hub = ?"
    " AND (body IS NULL OR body = ?)"
)
_TOTAL = (
    "INSERT INTO sums VALUES (?, ?, ?, ?)"
    " ON CONFLICT (series, exchange, hub) DO UPDATE SET total = excluded.total"
)


def _newest(run: Run) -> SeriesRow | None:
    for series, config, rounds, over in run("SELECT * FROM series ORDER BY series DESC LIMIT 1"):
        return SeriesRow(series=series, config=config, rounds=rounds, over=bool(over))
    return None


def _exchanges(run: Run, series: int, since: int) -> Iterator[Exchange]:
    rows = run(
        "SELECT exchange, members, task, question, opened, closed FROM exchanges"
        " WHERE series = ? AND exchange >= ? ORDER BY exchange",
        series,
        since,
    )
    for exchange, members, task, question, opened, closed in rows:
        yield Exchange(
            exchange=exchange,
            members=_MEMBERS.decode(members),
            task=task,
            question=question,
            opened=opened,
            closed=closed,
        )


def _insert(run: Run, series: int, exchange: Exchange) -> None:
    run(
        "INSERT INTO exchanges VALUES (?, ?, ?, ?, ?, ?, NULL)",
        series,
        exchange.exchange,
        msgspec.json.encode(exchange.members).decode(),
        exchange.task,
        exchange.question,
        exchange.opened,
    )


def _is_open(run: Run, series: int, exchange: int) -> bool:
    """Whether an exchange is open; it stays so until the transaction ends."""
    return run(f"{_OPEN} FOR SHARE", series, exchange) == [(None,)]


def _claims(run: Run, series: int, exchange: int, clients: Sequence[int]) -> Iterator[Row]:
    for start in range(0, len(clients), _VALUES):
        part = clients[start : start + _VALUES]
        yield from run(f"{_CLAIMS} ({', '.join('?' * len(part))})", series, exchange, *part)


def _fared(hub: str, digest: bytes, owner: str, claimed: bytes | None, saved: bool) -> Claim:
    if claimed is not None and claimed != digest:
        return Claim.OTHER
    if saved:
        return Claim.SAVED
    return Claim.OWN if owner == hub else Claim.PENDING
