"""The audit log: a chain of hashes over entries, so that no change or gap goes unnoticed.

With the noted hash of one entry, anyone can check later that all entries up to it are unchanged.
"""

import json
import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ccesa import labels
from ccesa.errors import ConfigError
from ccesa.service.errors import DamagedAudit

#: The hash before the first entry.
START = bytes(32)


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
    return AuditRow(
        place=place, time=float(now), kind=kind, body=text, hash=_hash(previous, place, now, kind, text)
    )


def verify(rows: Iterable[AuditRow], noted: bytes | None = None) -> list[AuditRow]:
    """Check and return all entries of an audit log, in their order.

    Args:
        rows: From the first entry on.
        noted: A hash that one of the entries must have.

    Raises:
        DamagedAudit: An entry was changed, removed or inserted, or no entry has the hash ``noted``.
    """
    checked: list[AuditRow] = []
    for place, row in enumerate(rows):
        previous = checked[-1].hash if checked else START
        if row.place != place:
            raise DamagedAudit(place, "is missing")
        if row.hash != _hash(previous, place, row.time, row.kind, row.body):
            raise DamagedAudit(place, "was changed, or does not follow the one before")
        checked.append(row)
    if noted is not None and noted not in {row.hash for row in checked}:
        raise DamagedAudit(len(checked), "is missing: no entry before has the hash that was noted")
    return checked


def _hash(previous: bytes, place: int, time: float, kind: str, body: str) -> bytes:
    return labels.digest(
        labels.AUDIT,
        previous,
        struct.pack("<Q", place),
        struct.pack("<d", time),
        kind.encode(),
        body.encode(),
    )
