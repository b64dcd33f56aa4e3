"""Replies to an exchange: claims on them, and the saved answers and sums of the hubs.

A hub claims a reply first, under a unique key. Only the hub with the claim adds the vector to its sum, and it
saves answer and sum together. Closing waits for saves under way, and no save comes after it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ccesa.service.errors import Forgotten
from ccesa.service.store.database import Row, Run, StorePart
from ccesa.service.store.rows import Claim
from ccesa.wire import Data

_VALUES = 1000  # every database accepts this many values in one statement
_OPEN = "SELECT closed FROM exchanges WHERE series = ? AND exchange = ? FOR SHARE"
_CLAIM = "INSERT INTO answers (series, exchange, client, hub, digest) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
_CLAIMS = "SELECT client, hub, digest, body IS NOT NULL FROM answers WHERE series = ? AND exchange = ? AND client IN"
_RELEASE = "DELETE FROM answers WHERE series = ? AND exchange = ? AND client = ? AND hub = ? AND body IS NULL"
_SAVE = (
    "UPDATE answers SET body = ? WHERE series = ? AND exchange = ? AND client = ? AND hub = ?"
    " AND (body IS NULL OR body = ?)"
)
_TOTAL = "INSERT INTO sums VALUES (?, ?, ?, ?) ON CONFLICT (series, exchange, hub) DO UPDATE SET total = excluded.total"
_RELEASED = ("", None, False)  # the place of a claim that another hub gave up in between


class _Fenced(Exception):
    """Undoes a save."""


class Replies(StorePart):
    """The answers of clients, and the hubs that have saved them."""

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

    def save(self, series: int, exchange: int, hub: str, answers: Mapping[int, bytes], total: Data | None) -> bool:
        """Save answers that a hub has claimed, together with its whole sum in this exchange so far, if any.

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
                if total is not None:
                    run(_TOTAL, series, exchange, hub, total)
        except _Fenced:
            return False
        return True

    def answers(self, series: int, exchange: int, besides: str = "") -> dict[int, bytes]:
        """Return the saved answers by client, without those of one hub. Raises ``Forgotten``."""
        with self._database.reading() as run:
            _check_known(run, series, exchange)
            sql = "SELECT client, body FROM answers WHERE series = ? AND exchange = ? AND hub <> ?"
            return dict(run(f"{sql} AND body IS NOT NULL ORDER BY client", series, exchange, besides))

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
                for table in ("answers", "sums")
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


def _check_known(run: Run, series: int, exchange: int) -> None:
    if run("SELECT 1 FROM series WHERE series = ? AND forgotten > ?", series, exchange):
        raise Forgotten(f"the replies to exchange {exchange} of series {series} were deleted")


def _is_open(run: Run, series: int, exchange: int) -> bool:
    """Return whether an exchange is open; it stays open until the transaction ends."""
    return run(_OPEN, series, exchange) == [(None,)]


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
