"""Everything beside the log: facts, tasks, rounds, the audit log, members, tokens, sessions, and live hubs."""

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
from ccesa.service.store.rows import MemberRow, RoundRow, TokenRow

_ROUND = msgspec.json.Decoder(RoundRow)
_ENTRIES = 1000  # entries of the audit log read at a time
_OPERATOR = -1  # the client number of an operator's token
_BEARER = "SELECT client FROM tokens WHERE hash = ?"
#: The lease is one row.
_LEASE = (
    "INSERT INTO lease VALUES (1, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET hub = excluded.hub, until = excluded.until"
    " WHERE lease.hub = excluded.hub OR lease.until <= ? OR lease.until > ? RETURNING hub"
)
_SKEW = 60.0  # Clocks of hubs differ by less. A later time is from before a clock was set back.
_GRACE = 3600.0  # seconds that a nonce is kept after its session ends, as clocks of hubs differ
_PUT_ROUND = (
    "INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (series, number) DO UPDATE"
    " SET question = excluded.question, outcome = excluded.outcome, told = excluded.told,"
    " total = excluded.total WHERE rounds.outcome = '' RETURNING number"
)


class Records(StorePart):
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
            raise ConfigError(
                f"the database does not belong to federation {name} as it is set up now: use a new database"
            )

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
        return self._find("SELECT payload FROM tasks WHERE digest = ? LIMIT 1", digest)

    def task_of(self, question: int) -> bytes | None:
        """Return the task of a question; None before it was decided."""
        return self._find("SELECT payload FROM tasks WHERE question = ?", question)

    def _find(self, sql: str, key: bytes | int) -> Any:
        """Return the one value that a statement finds, or None."""
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

    # Members

    def members(self) -> dict[int, MemberRow]:
        """Return members by client id, without those that were never heard from."""
        rows = self._read(
            "SELECT client, blames, set_aside, seen, known_series, known_exchange FROM members ORDER BY client"
        )
        return {
            client: MemberRow(client=client, blames=blames, set_aside=reason, seen=seen, known=(series, exchange))
            for client, blames, reason, seen, series, exchange in rows
        }

    def note_contacts(self, times: Mapping[int, float]) -> None:
        """Note when members were heard from. An older time changes nothing, unless a clock was set back."""
        with self._database.writing() as run:
            run.many(
                "INSERT INTO members (client, seen) VALUES (?, ?) ON CONFLICT (client) DO UPDATE"
                " SET seen = excluded.seen WHERE members.seen < excluded.seen OR members.seen > ?",
                [(client, when, when + _SKEW) for client, when in sorted(times.items())],
            )

    def note_known(self, places: Mapping[int, tuple[int, int]]) -> None:
        with self._database.writing() as run:
            run.many(
                "INSERT INTO members (client, known_series, known_exchange) VALUES (?, ?, ?)"
                " ON CONFLICT (client) DO UPDATE"
                " SET known_series = excluded.known_series, known_exchange = excluded.known_exchange"
                " WHERE (members.known_series, members.known_exchange)"
                " < (excluded.known_series, excluded.known_exchange)",
                [(client, *places[client]) for client in sorted(places)],
            )

    def blame(self, counts: Mapping[int, int], reason: str, now: float, limit: int = 3) -> set[int]:
        """Count faults of members, and set those aside that reach the limit; return those newly set aside."""
        with self._database.alone() as run:
            return audit.blame(run, counts, reason, now, limit)

    def set_aside(self, client: int, reason: str) -> None:
        """Exclude a member until it is let in; the first reason stays."""
        sql = (
            "INSERT INTO members (client, set_aside) VALUES (?, ?) ON CONFLICT (client) DO UPDATE"
            " SET set_aside = excluded.set_aside WHERE members.set_aside = ''"
        )
        self._write(sql, client, reason_of(reason))

    def let_in(self, client: int) -> None:
        """Let a member take part again, and forget its faults."""
        self._write("UPDATE members SET blames = 0, set_aside = '' WHERE client = ?", client)

    # Tokens and sessions, by the hash of the bearer's token

    def add_token(self, digest: bytes, client: int | None, label: str) -> None:
        """Let the bearer of a token act for a client; None is the operator."""
        self._write("INSERT INTO tokens VALUES (?, ?, ?)", digest, _stored(client), label)

    def revoke_tokens(self, client: int | None) -> int:
        """Delete all tokens of a client, or of operators (None); return their number."""
        return len(self._write("DELETE FROM tokens WHERE client = ? RETURNING client", _stored(client)))

    def member_of(self, digest: bytes) -> int | None:
        """Return the client of a token; None for an unknown one and for an operator's."""
        found: int | None = self._find(_BEARER, digest)
        return None if found == _OPERATOR else found

    def is_operator(self, digest: bytes) -> bool:
        return bool(self._find(_BEARER, digest) == _OPERATOR)

    def tokens(self) -> list[TokenRow]:
        rows = self._read("SELECT client, label FROM tokens ORDER BY client, label")
        return [TokenRow(client=None if client == _OPERATOR else client, label=label) for client, label in rows]

    def add_session(self, digest: bytes, nonce: bytes, client: int, expires: float) -> bool:
        """Begin a session; return False if the nonce was used before."""
        sql = "INSERT INTO sessions VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING client"
        return bool(self._write(sql, digest, nonce, client, expires))

    def session(self, digest: bytes, now: float) -> int | None:
        """Return the client of a session that has not expired, and delete expired ones in time."""
        with self._database.reading() as run:
            found = run("SELECT client FROM sessions WHERE hash = ? AND expires > ?", digest, now)
            old = run("SELECT 1 FROM sessions WHERE expires <= ? LIMIT 1", now - _GRACE)
        if old:
            self._write("DELETE FROM sessions WHERE expires <= ?", now - _GRACE)
        return found[0][0] if found else None

    # Hubs

    def note_alive(self, hub: str, now: float) -> None:
        sql = "INSERT INTO hubs VALUES (?, ?) ON CONFLICT (hub) DO UPDATE SET seen = excluded.seen"
        self._write(sql, hub, now)

    def hubs(self, since: float) -> list[str]:
        """Return the names, up to a slash, of hubs heard from since then; the leader first."""
        with self._database.reading() as run:
            names = {hub.partition("/")[0] for (hub,) in run("SELECT hub FROM hubs WHERE seen >= ?", since)}
            leaders = {hub for (hub,) in run("SELECT hub FROM lease")}
        return sorted(names, key=lambda name: (name not in leaders, name))

    def lead(self, hub: str, now: float, seconds: float) -> bool:
        """Take or renew the lease, unless another hub has it; return whether this hub leads.

        Zero seconds give the lease back. A lease that ends too late is from before a clock was set back, and is
        void. Two hubs that both lead for a moment do no harm: the first entry in the log wins.
        """
        return bool(self._write(_LEASE, hub, now + seconds, now, now + seconds + _SKEW))


def _round(text: str, total: bytes | None) -> RoundRow:
    return replace(_ROUND.decode(text), total=total or b"")


def _audit_body(row: RoundRow) -> dict[str, Any]:
    """Return the fields of the audit log about a round, such as the members in its sum."""
    left_out = ("total", "metrics", "started", "ended")
    body = {name: value for name, value in asdict(row).items() if name not in left_out}
    return body | {"task": row.task.hex(), "context": row.context.hex()}


def _stored(client: int | None) -> int:
    if client is not None and client < 0:
        raise ConfigError(f"a client must be 0 or greater, not {client}")
    return _OPERATOR if client is None else client
