"""What a federation works on and what came out: tasks, rounds, the operator's wishes, and the audit log."""

import math
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import msgspec

from ccesa.errors import ConfigError
from ccesa.service.audit import AuditRow
from ccesa.service.store import chain
from ccesa.service.store.database import Database, Run, reason_of
from ccesa.service.store.rows import RoundRow

_ROUND = msgspec.json.Decoder(RoundRow)
#: Entries of the audit log that are read at a time.
_ENTRIES = 1000


class Results:
    """Questions, their answers, and what became of them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # The federation

    def wanted(self) -> int:
        """Return how many questions are wanted; 0 where no hub has said so yet."""
        return int(self._fact("questions") or b"0")

    def want(self, questions: int, now: float) -> int:
        """Say how many questions a hub's file wants; return how many are wanted: the most that any file has.

        So a file with fewer does not end what others still work on.
        """
        with self._database.alone() as run:
            noted = int(_value(run, "questions") or b"0")
            if questions > noted:
                _put(run, "questions", str(questions).encode())
            if questions > noted > 0:
                chain.append(run, "questions", {"before": noted, "now": questions}, now)
        return max(noted, questions)

    def check_federation(self, name: str, digest: bytes) -> None:
        """Note whose database this is; raise ConfigError if it is another federation's."""
        found = self._first("federation", digest + name.encode())
        if found != digest + name.encode():
            raise ConfigError(
                f"the database does not belong to federation {name} as it is set up now: give it a new one"
            )

    def secret(self) -> bytes:
        """Return 32 bytes that all hubs of this federation have in common, made once."""
        return self._first("secret", secrets.token_bytes(32))

    def paused(self) -> str:
        """Return why the federation is paused; empty where it is not."""
        return self._fact("paused").decode()

    def pause(self, reason: str) -> None:
        """Let no more rounds start."""
        self._note("paused", reason_of(reason).encode())

    def resume(self) -> None:
        """Let rounds start again."""
        self._note("paused", b"")

    def finishing(self) -> bool:
        """Whether the federation ends when the round that runs is over."""
        return bool(self._fact("finishing"))

    def finish(self) -> None:
        """End when the round that runs is over."""
        self._note("finishing", b"yes")

    def _fact(self, name: str) -> bytes:
        with self._database.reading() as run:
            return _value(run, name)

    def _note(self, name: str, value: bytes) -> None:
        with self._database.writing() as run:
            _put(run, name, value)

    def _first(self, name: str, value: bytes) -> bytes:
        """Note a fact unless it is noted; return what is."""
        with self._database.writing() as run:
            run("INSERT INTO facts VALUES (?, ?) ON CONFLICT DO NOTHING", name, value)
            return _value(run, name)

    # Tasks

    def put_task(self, question: int, payload: bytes, digest: bytes) -> None:
        """Keep what a question works on; what was put first counts, whenever it is asked again."""
        with self._database.writing() as run:
            run("INSERT INTO tasks VALUES (?, ?, ?) ON CONFLICT DO NOTHING", question, digest, payload)

    def task(self, digest: bytes) -> bytes | None:
        """Return a payload by its digest."""
        return self._payload("SELECT payload FROM tasks WHERE digest = ? LIMIT 1", digest)

    def task_of(self, question: int) -> bytes | None:
        """Return what a question works on; None where that was not decided yet."""
        return self._payload("SELECT payload FROM tasks WHERE question = ?", question)

    def _payload(self, sql: str, key: bytes | int) -> bytes | None:
        with self._database.reading() as run:
            rows = run(sql, key)
        return rows[0][0] if rows else None

    # Rounds

    def put_round(
        self,
        row: RoundRow,
        blamed: Iterable[int] = (),
        limit: int = 3,
        promised: Mapping[str, object] | None = None,
    ) -> set[int] | None:
        """Keep a round. One that is over stays as it is; one without an outcome is replaced.

        Args:
            row: The round. With an outcome it goes into the audit log, along with who is set aside.
            blamed: Each of these is blamed once more.
            limit: How many blames set a client aside.
            promised: What the audit log says beside the round: on what it rests, and what was spent.

        Returns:
            Who is set aside by this; None where the round was kept before, and nothing has changed.
        """
        metrics = {name: value for name, value in row.metrics.items() if math.isfinite(value)}  # JSON's
        told = msgspec.json.encode(replace(row, total=b"", metrics=metrics)).decode()
        with self._database.alone() as run:
            if not run(_PUT_ROUND, row.series, row.number, row.question, row.outcome, told, row.total):
                return None
            if row.outcome:
                chain.append(run, "round", _audited(row) | dict(promised or {}), row.ended)
            reason = f"round {row.number} of series {row.series}"
            return chain.blame(run, dict.fromkeys(blamed, 1), reason, row.ended, limit)

    def rounds(self, limit: int | None = None, *, totals: bool = False) -> list[RoundRow]:
        """Return the newest rounds in their order, all without a limit; with their sums only if asked."""
        what = "told, total" if totals else "told, NULL"
        sql = f"SELECT {what} FROM rounds ORDER BY series DESC, number DESC"  # noqa: S608
        with self._database.reading() as run:
            rows = run(sql) if limit is None else run(f"{sql} LIMIT ?", limit)
        return [_round(*row) for row in reversed(rows)]

    def rounds_besides(self, known: Sequence[RoundRow]) -> list[RoundRow]:
        """Return all rounds in their order, without their sums, of which these were read before.

        Where nothing else has changed, only those after them are read.
        """
        last = (known[-1].series, known[-1].number) if known else (0, -1)
        with self._database.reading() as run:
            rows = run(
                "SELECT told, NULL FROM rounds WHERE (series, number) > (?, ?) ORDER BY series, number", *last
            )
            [(count,)] = run("SELECT count(*) FROM rounds")
            if count != len(known) + len(rows):
                known, rows = (), run("SELECT told, NULL FROM rounds ORDER BY series, number")
        return [*known, *(_round(*row) for row in rows)]

    def total_of(self, question: int) -> RoundRow | None:
        """Return the round that answered a question, with its sum."""
        with self._database.reading() as run:
            for row in run(
                "SELECT told, total FROM rounds WHERE question = ? AND outcome = 'sum'"
                " ORDER BY series, number LIMIT 1",
                question,
            ):
                return _round(*row)
        return None

    # The audit log

    def audit(self, kind: str, body: dict[str, Any], now: float) -> AuditRow:
        """Append an entry to the audit log; the same one again, after ``Unavailable``, is not."""
        with self._database.alone() as run:
            return chain.append(run, kind, body, now)

    def head(self) -> AuditRow | None:
        """Return the last entry of the audit log."""
        with self._database.reading() as run:
            return chain.head(run)

    def audit_rows(self, since: int = 0) -> Iterator[AuditRow]:
        """Return the entries of the audit log from this place on; what is appended meanwhile comes, too."""
        while rows := self._entries(since):
            yield from rows
            since = rows[-1].place + 1

    def _entries(self, since: int) -> list[AuditRow]:
        with self._database.reading() as run:
            rows = run("SELECT * FROM audit WHERE place >= ? ORDER BY place LIMIT ?", since, _ENTRIES)
        return [chain.entry(row) for row in rows]


_PUT_ROUND = (
    "INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (series, number) DO UPDATE"
    " SET question = excluded.question, outcome = excluded.outcome, told = excluded.told,"
    " total = excluded.total WHERE rounds.outcome = '' RETURNING number"
)


def _value(run: Run, name: str) -> bytes:
    rows = run("SELECT value FROM facts WHERE name = ?", name)
    return rows[0][0] if rows else b""


def _put(run: Run, name: str, value: bytes) -> None:
    run(
        "INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value
    )


def _round(told: str, total: bytes | None) -> RoundRow:
    return replace(_ROUND.decode(told), total=total or b"")


def _audited(row: RoundRow) -> dict[str, Any]:
    """Return what the audit log has about a round: who was in which sum."""
    left_out = ("total", "metrics", "started", "ended")
    body = {name: value for name, value in asdict(row).items() if name not in left_out}
    return body | {"task": row.task.hex(), "context": row.context.hex()}
