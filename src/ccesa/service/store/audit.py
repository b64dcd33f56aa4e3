"""The audit log: a chain of hashes over entries, which shows every change and gap; and the blames in it.

With the noted hash of one entry, anyone can check later that all entries up to it are unchanged. An entry is
appended in the same transaction as its subject is done: a hub that is killed has done both or neither.
"""

import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ccesa import labels
from ccesa.errors import ConfigError
from ccesa.service.errors import DamagedAudit
from ccesa.service.store.database import Row, Run, fact, put_fact, reason_of

START = bytes(32)  # the hash before the first entry


@dataclass(frozen=True, kw_only=True)
class AuditRow:
    """An entry of the audit log. ``hash`` covers the entry and the hash of the one before."""

    place: int
    time: float
    kind: str
    #: JSON with sorted keys.
    body: str
    hash: bytes


def entry(head: AuditRow | None, kind: str, body: dict[str, Any], now: float) -> AuditRow:
    """Return the entry that follows ``head``; raise ConfigError if it cannot be JSON."""
    if not math.isfinite(now):
        raise ConfigError("an entry of the audit log needs a time")
    try:
        text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError):
        raise ConfigError(f"an entry {kind} of the audit log is not JSON") from None
    place, previous = (0, START) if head is None else (head.place + 1, head.hash)
    return AuditRow(place=place, time=float(now), kind=kind, body=text, hash=_hash(previous, place, now, kind, text))


def verify(rows: Iterable[AuditRow], noted: bytes | None = None) -> list[AuditRow]:
    """Check and return all entries; raise DamagedAudit for any change, or if none has the hash ``noted``."""
    checked: list[AuditRow] = []
    for place, row in enumerate(rows):
        previous = checked[-1].hash if checked else START
        if row.place != place:
            raise DamagedAudit(place, "is missing")
        if row.hash != _hash(previous, place, row.time, row.kind, row.body):
            raise DamagedAudit(place, "was changed, or does not follow the previous one")
        checked.append(row)
    if noted is not None and noted not in {row.hash for row in checked}:
        raise DamagedAudit(len(checked), "is missing: no earlier entry has the noted hash")
    return checked


def append(run: Run, kind: str, body: dict[str, Any], now: float) -> AuditRow:
    """Append an entry in an ``alone`` transaction, unless the last one is the same."""
    last = head(run)
    row = entry(last, kind, body, now)
    if last is not None and (last.time, last.kind, last.body) == (row.time, row.kind, row.body):
        return last
    run("INSERT INTO audit VALUES (?, ?, ?, ?, ?)", row.place, row.time, row.kind, row.body, row.hash)
    return row


def head(run: Run) -> AuditRow | None:
    rows = run("SELECT * FROM audit ORDER BY place DESC LIMIT 1")
    return read_row(rows[0]) if rows else None


def read_row(row: Row) -> AuditRow:
    place, time, kind, body, digest = row
    return AuditRow(place=place, time=time, kind=kind, body=body, hash=digest)


def seat(run: Run, names: Sequence[str]) -> None:
    """Note the members' numbers. If a charter changes them, faults move with the members' names."""
    now, noted = msgspec.json.encode(names), fact(run, "seats")
    if noted == now:
        return
    before = msgspec.json.decode(noted) if noted else names
    places = {name: place for place, name in enumerate(names)}
    rows = run("DELETE FROM members RETURNING client, blames, set_aside, seen")
    moved = [(places.get(before[row[0]]), *row[1:]) for row in rows if row[0] < len(before)]
    sql = "INSERT INTO members (client, blames, set_aside, seen) VALUES (?, ?, ?, ?)"
    run.many(sql, [row for row in moved if row[0] is not None])
    put_fact(run, "seats", now)


def blame(run: Run, counts: Mapping[int, int], reason: str, now: float, limit: int) -> set[int]:
    """Count faults of members, and set those aside that reach the limit; return those newly set aside."""
    newly = set()
    for client, count in sorted(counts.items()):
        [(blames, before)] = run(
            "INSERT INTO members (client, blames) VALUES (?, ?) ON CONFLICT (client) DO UPDATE"
            " SET blames = members.blames + excluded.blames RETURNING blames, set_aside",
            client,
            count,
        )
        if blames >= limit and not before:
            run("UPDATE members SET set_aside = ? WHERE client = ?", reason_of(reason), client)
            append(run, "set aside", {"client": client, "reason": reason}, now)
            newly.add(client)
    return newly


def _hash(previous: bytes, place: int, time: float, kind: str, body: str) -> bytes:
    return labels.digest(
        labels.AUDIT, previous, struct.pack("<Q", place), struct.pack("<d", time), kind.encode(), body.encode()
    )
