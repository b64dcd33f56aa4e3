"""Tasks, rounds, the operator's wishes, and the audit log."""

import math
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import msgspec

from ccesa.errors import ConfigError
from ccesa.service.store import audit
from ccesa.service.store.audit import AuditRow
from ccesa.service.store.database import StorePart, fact, put_fact, reason_of
from ccesa.service.store.rows import RoundRow

_ROUND = msgspec.json.Decoder(RoundRow)
_ENTRIES = 1000  # entries of the audit log read at a time


class Results(StorePart):
    # The federation

    def count_questions(self) -> int:
        """Return the number of questions that are wanted; 0 before the first hub."""
        return int(self._fact("questions") or b"0")

    def note_questions(self, questions: int, now: float) -> int:
        """Note the number of questions in a hub's file; return the maximum over all files, which all hubs ask."""
        with self._database.alone() as run:
            noted = int(fact(run, "questions") or b"0")
            if questions > noted:
                put_fact(run, "questions", str(questions).encode())
            if questions > noted > 0:
                audit.append(run, "questions", {"before": noted, "now": questions}, now)
        return max(noted, questions)

    def check_federation(self, name: str, digest: bytes) -> None:
        """Note the federation of this database; raise ConfigError if it is another one's."""
        own = digest + name.encode()
        if self._note_first("federation", own) != own:
            raise ConfigError(f"the database is not that of federation {name} as set up now: use a new database")

    def secret(self) -> bytes:
        """Return 32 random bytes that all hubs of this federation share, made once."""
        return self._note_first("secret", secrets.token_bytes(32))

    def pause_reason(self) -> str:
        """Return the reason for which the federation is paused; empty if it is not."""
        return self._fact("paused").decode()

    def pause(self, reason: str) -> None:
        """Start no more rounds."""
        self._note("paused", reason_of(reason).encode())

    def resume(self) -> None:
        self._note("paused", b"")

    def is_finishing(self) -> bool:
        """Return whether the federation ends after the running round."""
        return bool(self._fact("finishing"))

    def finish(self) -> None:
        self._note("finishing", b"yes")

    def _note(self, name: str, value: bytes) -> None:
        with self._database.writing() as run:
            put_fact(run, name, value)

    def _note_first(self, name: str, value: bytes) -> bytes:
        """Note a fact, unless it is known; return the first value."""
        with self._database.writing() as run:
            run("INSERT INTO facts VALUES (?, ?) ON CONFLICT DO NOTHING", name, value)
            return fact(run, name)

    # Tasks

    def put_task(self, question: int, payload: bytes, digest: bytes) -> None:
        """Keep the task of a question; the first one counts."""
        self._write("INSERT INTO tasks VALUES (?, ?, ?) ON CONFLICT DO NOTHING", question, digest, payload)

    def task(self, digest: bytes) -> bytes | None:
        return self._payload("SELECT payload FROM tasks WHERE digest = ? LIMIT 1", digest)

    def task_of(self, question: int) -> bytes | None:
        """Return the task of a question; None before it was decided."""
        return self._payload("SELECT payload FROM tasks WHERE question = ?", question)

    def _payload(self, sql: str, key: bytes | int) -> bytes | None:
        rows = self._read(sql, key)
        return rows[0][0] if rows else None

    # Rounds

    def put_round(
        self, row: RoundRow, blamed: Iterable[int] = (), limit: int = 3, promised: Mapping[str, object] | None = None
    ) -> set[int] | None:
        """Keep a round, and return the clients that this sets aside; None if the round had an outcome before.

        An outcome goes into the audit log, with the ``promised`` fields: charter, certificate and privacy spent.
        ``blamed`` clients are blamed once more, and ``limit`` blames set a client aside.
        """
        metrics = {name: value for name, value in row.metrics.items() if math.isfinite(value)}  # JSON has no others
        text = msgspec.json.encode(replace(row, total=b"", metrics=metrics)).decode()
        with self._database.alone() as run:
            if not run(_PUT_ROUND, row.series, row.number, row.question, row.outcome, text, row.total):
                return None
            if row.outcome:
                audit.append(run, "round", _audit_body(row) | dict(promised or {}), row.ended)
            reason = f"round {row.number} of series {row.series}"
            return audit.blame(run, dict.fromkeys(blamed, 1), reason, row.ended, limit)

    def rounds(self, *, totals: bool = False) -> list[RoundRow]:
        """Return all rounds in their order, with their sums only on request."""
        columns = "told, total" if totals else "told, NULL"
        rows = self._read(f"SELECT {columns} FROM rounds ORDER BY series, number")  # noqa: S608
        return [_round(*row) for row in rows]

    def rounds_besides(self, known: Sequence[RoundRow]) -> list[RoundRow]:
        """Return all rounds in their order, without sums; read only those after ``known`` if that suffices."""
        last = (known[-1].series, known[-1].number) if known else (0, -1)
        with self._database.reading() as run:
            rows = run("SELECT told, NULL FROM rounds WHERE (series, number) > (?, ?) ORDER BY series, number", *last)
            [(count,)] = run("SELECT count(*) FROM rounds")
            if count != len(known) + len(rows):
                known, rows = (), run("SELECT told, NULL FROM rounds ORDER BY series, number")
        return [*known, *(_round(*row) for row in rows)]

    def total_of(self, question: int) -> RoundRow | None:
        """Return the round that answered a question, with its sum."""
        sql = "SELECT told, total FROM rounds WHERE question = ? AND outcome = 'sum' ORDER BY series, number LIMIT 1"
        rows = self._read(sql, question)
        return _round(*rows[0]) if rows else None

    # The audit log

    def audit(self, kind: str, body: dict[str, Any], now: float) -> AuditRow:
        """Append an entry to the audit log, unless the last one is the same, as in a call after ``Unavailable``."""
        with self._database.alone() as run:
            return audit.append(run, kind, body, now)

    def head(self) -> AuditRow | None:
        with self._database.reading() as run:
            return audit.head(run)

    def audit_rows(self, since: int = 0) -> Iterator[AuditRow]:
        """Yield the entries of the audit log from this place on, also those that are appended meanwhile."""
        sql = "SELECT * FROM audit WHERE place >= ? ORDER BY place LIMIT ?"
        while rows := self._read(sql, since, _ENTRIES):
            yield from map(audit.read_row, rows)
            since = rows[-1][0] + 1


_PUT_ROUND = (
    "INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (series, number) DO UPDATE"
    " SET question = excluded.question, outcome = excluded.outcome, told = excluded.told,"
    " total = excluded.total WHERE rounds.outcome = '' RETURNING number"
)


def _round(text: str, total: bytes | None) -> RoundRow:
    return replace(_ROUND.decode(text), total=total or b"")


def _audit_body(row: RoundRow) -> dict[str, Any]:
    """Return the fields of the audit log about a round, such as the members in its sum."""
    left_out = ("total", "metrics", "started", "ended")
    body = {name: value for name, value in asdict(row).items() if name not in left_out}
    return body | {"task": row.task.hex(), "context": row.context.hex()}
