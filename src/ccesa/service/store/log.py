"""The log that all hubs follow: series, exchanges, each opened once and closed once, and the replies to them.

A hub claims a reply first, under a unique key. Only the hub with the claim adds the vector to its sum, and it
saves answer and sum together. Closing waits for saves under way, and no save comes after it.

With helpers a vector is held first, whole. When all helpers have confirmed its box, it leaves that table in the
transaction that saves the sum with it. One that is left out leaves an empty row there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from ccesa.errors import OrderError, StaleLog
from ccesa.service.errors import Forgotten
from ccesa.service.store import audit
from ccesa.service.store.database import Row, Run, StorePart, fact, put_fact
from ccesa.service.store.mark import ABOVE, Mark, find_missing, mark_of, newest
from ccesa.service.store.rows import Claim, ExchangeRow, SeriesRow
from ccesa.wire import Data

_MEMBERS = msgspec.json.Decoder(tuple[int, ...])
_GONE_BACK = "gone back"  # this fact says that this database has gone back, and how
_SKIPPED = 1000  # a new beginning skips this many numbers of series: no restored copy is older than that
_ALL = 1 << 62  # above the number of any exchange
_OPEN = "SELECT closed FROM exchanges WHERE series = ? AND exchange = ?"
_EXCHANGES = (
    "SELECT exchange, members, task, question, opened, closed FROM exchanges"
    " WHERE series = ? AND exchange >= ? ORDER BY exchange"
)
_VALUES = 1000  # every database accepts this many values in one statement
_CLAIM = "INSERT INTO answers (series, exchange, client, hub, digest) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_CLAIMS = "SELECT client, hub, digest, body IS NOT NULL FROM answers WHERE series = ? AND exchange = ? AND client IN"
_RELEASE = "DELETE FROM answers WHERE series = ? AND exchange = ? AND client = ? AND hub = ? AND body IS NULL"
_SAVE = (
    "UPDATE answers SET body = ? WHERE series = ? AND exchange = ? AND client = ? AND hub = ?"
    " AND (body IS NULL OR body = ?)"
)
_TOTAL = "INSERT INTO sums VALUES (?, ?, ?, ?) ON CONFLICT (series, exchange, hub) DO UPDATE SET total = excluded.total"
_HOLD = "INSERT INTO held VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
#: A held vector of this hub is left out, or is in its sum.
_LEAVE_OUT = (
    "UPDATE held SET reply = ? WHERE series = ? AND exchange = ? AND client = ? AND EXISTS (SELECT 1 FROM answers"
    " WHERE answers.series = held.series AND answers.exchange = held.exchange AND answers.client = held.client"
    " AND answers.hub = ?)"
)
_LET_GO = _LEAVE_OUT.replace("UPDATE held SET reply = ? WHERE", "DELETE FROM held WHERE")
_HELD = "SELECT client, reply FROM held WHERE series = ? AND exchange = ? AND length(reply) > 0 ORDER BY client"
_RELEASED = ("", None, False)  # the place of a claim that another hub gave up in between


class _Fenced(Exception):
    """Undoes a save."""


class Log(StorePart):
    # Series and exchanges

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
            rows = run("SELECT exchange, closed FROM exchanges WHERE series = ? ORDER BY exchange DESC LIMIT 1", series)
            last, closed = rows[0] if rows else (-1, 0.0)
            if place is not None and (closed is None or last + 1 != place):
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
                raise OrderError(f"series {series} is not running, so no exchange can open")
            if exchange.exchange != 0 and (not logged or logged[0].closed is None):
                raise OrderError(f"exchange {exchange.exchange} cannot open before the previous one has closed")
            if exchange.exchange < 0:
                raise OrderError("the number of an exchange must be 0 or greater")
            members = msgspec.json.encode(exchange.members).decode()
            values = (exchange.exchange, members, exchange.task, exchange.question, exchange.opened)
            run("INSERT INTO exchanges VALUES (?, ?, ?, ?, ?, ?, NULL)", series, *values)
            return replace(exchange, closed=None)

    def exchanges(self, series: int, since: int = 0) -> list[ExchangeRow]:
        """Return the exchanges of a series from this one on, in their order."""
        with self._database.reading() as run:
            return [*_exchanges(run, series, since)]

    def close_exchange(self, series: int, exchange: int, now: float) -> None:
        """Close an exchange, unless it was closed before. Nothing is saved for it afterwards.

        Vectors that are still held are left out.
        """
        with self._database.writing() as run:
            rows = run(f"{_OPEN} FOR UPDATE", series, exchange)
            if not rows:
                raise OrderError(f"exchange {exchange} of series {series} was never opened")
            if rows == [(None,)]:
                run("UPDATE held SET reply = ? WHERE series = ? AND exchange = ?", b"", series, exchange)
                run("UPDATE exchanges SET closed = ? WHERE series = ? AND exchange = ?", now, series, exchange)
                run("DELETE FROM answers WHERE series = ? AND exchange = ? AND body IS NULL", series, exchange)

    # Replies

    def claim(self, series: int, exchange: int, hub: str, digests: Mapping[int, bytes]) -> dict[int, Claim]:
        """Claim replies by their digests; return the outcomes. If a crash undoes a claim, the reply is not saved."""
        clients = sorted(digests)  # hubs that insert in one order do not wait for each other in a circle
        with self._database.claiming() as run:
            if not _is_open(run, series, exchange):
                return dict.fromkeys(clients, Claim.LATE)
            run.many(_CLAIM, [(series, exchange, client, hub, digests[client]) for client in clients])
            rows = {client: row for client, *row in _claims(run, series, exchange, clients)}
        return {client: _outcome(hub, digests[client], *rows.get(client, _RELEASED)) for client in clients}

    def release(self, series: int, exchange: int, hub: str, clients: Iterable[int]) -> None:
        """Give up claims of a hub, so that these clients can send another reply."""
        with self._database.writing() as run:
            run.many(_RELEASE, [(series, exchange, client, hub) for client in sorted(clients)])

    def save(
        self,
        series: int,
        exchange: int,
        hub: str,
        answers: Mapping[int, bytes],
        total: Data | None,
        held: Mapping[int, Data] | None = None,
    ) -> bool:
        """Save answers that a hub has claimed, together with its whole sum in this exchange so far, if any.

        ``held`` has the whole replies of those whose vectors wait for helpers, and are not in the sum.
        Saving the same answers again is harmless. Returns whether all is saved. Otherwise nothing is: the exchange
        has closed, or a claim is gone because the hub seemed dead. Then the sum in its memory no longer counts.
        """
        if not answers:
            return True
        rows = [(answers[client], series, exchange, client, hub, answers[client]) for client in sorted(answers)]
        try:
            with self._database.writing() as run:
                if not _is_open(run, series, exchange) or run.many(_SAVE, rows) != len(rows):
                    raise _Fenced
                run.many(_HOLD, [(series, exchange, client, reply) for client, reply in sorted((held or {}).items())])
                if total is not None:
                    run(_TOTAL, series, exchange, hub, total)
        except _Fenced:
            return False
        return True

    def settle(
        self, series: int, exchange: int, hub: str, summed: Iterable[int], left_out: Iterable[int], total: Data | None
    ) -> bool:
        """Note which held vectors are in this hub's sum now, and which are left out; save the sum with them.

        Returns whether all is saved. Otherwise nothing is: the exchange has closed, or another hub has adopted them.
        """
        gone = [(series, exchange, client, hub) for client in sorted(summed)]
        out = [(b"", series, exchange, client, hub) for client in sorted(left_out)]
        if not gone and not out:
            return True
        try:
            with self._database.writing() as run:
                if not _is_open(run, series, exchange):
                    raise _Fenced
                changed = (run.many(_LET_GO, gone) if gone else 0) + (run.many(_LEAVE_OUT, out) if out else 0)
                if changed != len(gone) + len(out):
                    raise _Fenced
                if total is not None:
                    run(_TOTAL, series, exchange, hub, total)
        except _Fenced:
            return False
        return True

    def adopt(self, series: int, exchange: int, hub: str) -> dict[int, bytes]:
        """Return all replies that are held in an open exchange, by client, for a hub that serves in place of another.

        The other hub can save nothing about them any more.
        """
        with self._database.writing() as run:
            held: dict[int, bytes] = dict(run(_HELD, series, exchange)) if _is_open(run, series, exchange) else {}
            sql = "UPDATE answers SET hub = ? WHERE series = ? AND exchange = ? AND client = ?"
            run.many(sql, [(hub, series, exchange, client) for client in held])
            return held

    def answers(self, series: int, exchange: int, besides: str = "") -> dict[int, bytes]:
        """Return the saved answers by client, without those of one hub and those that are held or left out.

        Raises ``Forgotten``.
        """
        with self._database.reading() as run:
            _check_known(run, series, exchange)
            sql = "SELECT client, body FROM answers WHERE series = ? AND exchange = ? AND hub <> ? AND body IS NOT NULL"
            found: dict[int, bytes] = dict(run(f"{sql} ORDER BY client", series, exchange, besides))
            held = run("SELECT client FROM held WHERE series = ? AND exchange = ?", series, exchange)
            return {client: body for client, body in found.items() if (client,) not in held}

    def sums(self, series: int, exchange: int, besides: str = "") -> list[bytes]:
        """Return the sums of all hubs in an exchange, without that of one hub. Raises ``Forgotten``."""
        with self._database.reading() as run:
            _check_known(run, series, exchange)
            sql = "SELECT total FROM sums WHERE series = ? AND exchange = ? AND hub <> ? ORDER BY hub"
            return [total for (total,) in run(sql, series, exchange, besides)]

    def answered(self, series: int, exchange: int) -> set[int]:
        """Return the clients whose answers are saved."""
        sql = "SELECT client FROM answers WHERE series = ? AND exchange = ? AND body IS NOT NULL"
        return {client for (client,) in self._read(sql, series, exchange)}

    def count_answered(self, series: int, exchange: int) -> tuple[int, int]:
        """Return the number of saved answers, and of empty ones among them."""
        sql = (
            "SELECT count(*), coalesce(sum(CASE WHEN length(body) = 0 THEN 1 ELSE 0 END), 0)"
            " FROM answers WHERE series = ? AND exchange = ? AND body IS NOT NULL"
        )
        [(saved, empty)] = self._read(sql, series, exchange)
        return int(saved), int(empty)

    def forget(self, series: int, before: int) -> None:
        """Delete answers and sums, and the shares in them, of the exchanges before this one."""
        with self._database.writing() as run:
            run("UPDATE series SET forgotten = ? WHERE series = ? AND forgotten < ?", before, series, before)
            gone = sum(
                run.many(f"DELETE FROM {table} WHERE series = ? AND exchange < ?", [(series, before)])  # noqa: S608
                for table in ("answers", "sums", "held")
            )
        if gone:
            self._database.erase()

    def drop_claims(self, since: float) -> None:
        """Delete the claims, but not the saved answers, of hubs that were not heard from since then."""
        with self._database.writing() as run:
            # Claims are in open exchanges only, and nobody claims or saves while their rows are locked.
            run("SELECT exchange FROM exchanges WHERE closed IS NULL FOR UPDATE")
            run("DELETE FROM answers WHERE body IS NULL AND hub NOT IN (SELECT hub FROM hubs WHERE seen >= ?)", since)
            run("DELETE FROM hubs WHERE seen < ?", since)


def _exchanges(run: Run, series: int, since: int) -> Iterator[ExchangeRow]:
    for number, members, task, question, opened, closed in run(_EXCHANGES, series, since):
        asked = _MEMBERS.decode(members)
        yield ExchangeRow(exchange=number, members=asked, task=task, question=question, opened=opened, closed=closed)


def _check_known(run: Run, series: int, exchange: int) -> None:
    if run("SELECT 1 FROM series WHERE series = ? AND forgotten > ?", series, exchange):
        raise Forgotten(f"the replies to exchange {exchange} of series {series} were deleted")


def _is_open(run: Run, series: int, exchange: int) -> bool:
    """Return whether an exchange is open; it stays open until the transaction ends."""
    return run(f"{_OPEN} FOR SHARE", series, exchange) == [(None,)]


def _claims(run: Run, series: int, exchange: int, clients: Sequence[int]) -> Iterator[Row]:
    for start in range(0, len(clients), _VALUES):
        part = clients[start : start + _VALUES]
        yield from run(f"{_CLAIMS} ({', '.join('?' * len(part))})", series, exchange, *part)


def _outcome(hub: str, digest: bytes, owner: str, claimed: bytes | None, saved: bool) -> Claim:
    if claimed is not None and claimed != digest:
        return Claim.OTHER
    if saved:
        return Claim.SAVED
    return Claim.OWN if owner == hub else Claim.PENDING
