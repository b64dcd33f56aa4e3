"""What is written down together with what it is about: entries of the audit log, and blames.

They are part of the transaction of whoever appends them: a hub that is killed in between has done both, or
neither.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ccesa.service import audit
from ccesa.service.audit import AuditRow
from ccesa.service.store.database import Row, Run, reason_of


def append(run: Run, kind: str, body: dict[str, Any], now: float) -> AuditRow:
    """Append an entry, in a transaction beside which no other one appends."""
    last = head(run)
    row = audit.entry(last, kind, body, now)
    if last is not None and (last.time, last.kind, last.body) == (row.time, row.kind, row.body):
        return last
    run("INSERT INTO audit VALUES (?, ?, ?, ?, ?)", row.place, row.time, row.kind, row.body, row.hash)
    return row


def head(run: Run) -> AuditRow | None:
    """Return the last entry."""
    for row in run("SELECT * FROM audit ORDER BY place DESC LIMIT 1"):
        return entry(row)
    return None


def entry(row: Row) -> AuditRow:
    """Return a row of the table as an entry."""
    place, time, kind, body, digest = row
    return AuditRow(place=place, time=time, kind=kind, body=body, hash=digest)


def seat(run: Run, names: Sequence[str]) -> None:
    """Note who has which number; where that has changed, what is held against members goes with their names.

    In a charter without one of them others have moved up, who have done nothing.
    """
    told = msgspec.json.encode(names)
    noted = run("SELECT value FROM facts WHERE name = 'seats'")
    if noted == [(told,)]:
        return
    before = msgspec.json.decode(noted[0][0]) if noted else names
    places = {name: place for place, name in enumerate(names)}
    rows = run("DELETE FROM members RETURNING client, blames, set_aside, seen")
    kept = [(places.get(before[row[0]]), *row[1:]) for row in rows if row[0] < len(before)]
    run.many(
        "INSERT INTO members (client, blames, set_aside, seen) VALUES (?, ?, ?, ?)",
        [row for row in kept if row[0] is not None],
    )
    run("DELETE FROM facts WHERE name = 'seats'")
    run("INSERT INTO facts VALUES ('seats', ?)", told)


def blame(run: Run, counts: Mapping[int, int], reason: str, now: float, limit: int) -> set[int]:
    """Count faults of members; set those aside that reach the limit, and return who that is new for."""
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
