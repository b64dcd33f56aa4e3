"""The audit log: entries that are bound to each other by hashes, so that none is changed or left out unseen.

Whoever has noted the hash of one entry can tell later that everything up to it is as it was.
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

#: What the first entry follows.
START = bytes(32)


@dataclass(frozen=True, kw_only=True)
class AuditRow:
    """One entry of the audit log. ``hash`` is over the entry and the hash of the one before."""

    place: int
    time: float
    kind: str
    #: JSON with sorted keys.
    body: str
    hash: bytes


def entry(head: AuditRow | None, kind: str, body: dict[str, Any], now: float) -> AuditRow:
    """Return the entry that follows the last one; raise ConfigError for what JSON has no word for."""
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
    """Check all entries of an audit log, from the first on.

    Args:
        rows: All entries in their order.
        noted: The hash of an entry that somebody wrote down, which must be among them.

    Returns:
        The entries.

    Raises:
        DamagedAudit: If an entry was changed, left out or put in, or if ``noted`` is the hash of none.
    """
    checked: list[AuditRow] = []
    for place, row in enumerate(rows):
        previous = checked[-1].hash if checked else START
        if row.place != place:
            raise DamagedAudit(place, "is missing")
        if row.hash != _hash(previous, place, row.time, row.kind, row.body):
            raise DamagedAudit(place, "is not as it was written, or does not follow the one before")
        checked.append(row)
    if noted is not None and noted not in {row.hash for row in checked}:
        raise DamagedAudit(len(checked), "is missing: none of those before has the hash that was noted")
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
