"""``ccesa audit``: who was in which sum, checked and printed."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ccesa.cli import WENT_WRONG, options
from ccesa.errors import ConfigError, shown

if TYPE_CHECKING:
    from ccesa.service.store.audit import AuditRow

#: Characters of an entry that are printed.
_MOST = 2000


def audit(
    where: Annotated[
        str, typer.Argument(metavar="FILE|URL", help="The federation's file, or its database.", show_default=False)
    ],
    head: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="A hash that you have noted: is it still in the log?", show_default=False),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check the audit log of a federation, and print it; exit with 1 if it is damaged.

    Each entry has a hash over everything before it. Whoever runs the hub can write all of the log anew, but
    not so that it has the hash that a member noted before.
    """
    from ccesa.service.errors import DamagedAudit
    from ccesa.service.store import open_store
    from ccesa.service.store.audit import verify

    noted = None if head is None else _hash(head)
    store = open_store(_url(where), create=False)
    try:
        rows = verify(store.audit_rows(), noted)
    except DamagedAudit as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(WENT_WRONG) from error
    finally:
        store.close()
    if as_json:
        last = rows[-1].hash.hex() if rows else None
        typer.echo(json.dumps({"head": last, "entries": [_plain(row) for row in rows]}))
    else:
        for line in _in_words(rows):
            typer.echo(line)


def _hash(text: str) -> bytes:
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != 32:
        raise ConfigError("--head is a hash of 64 hexadecimal digits")
    return found


def _url(where: str) -> str:
    """Return the URL of a database, which may be named by the federation's file."""
    from ccesa.service.federation import Federation

    return where if "://" in where else Federation.load(Path(where)).store


def _plain(row: "AuditRow") -> dict[str, Any]:
    body = json.loads(row.body)
    return {"place": row.place, "time": row.time, "kind": row.kind, "body": body, "hash": row.hash.hex()}


def _in_words(rows: "list[AuditRow]") -> Iterator[str]:
    for row in rows:
        body = ", ".join(f"{name}: {json.dumps(value)}" for name, value in json.loads(row.body).items())
        yield f"{row.place}  {_time(row.time)}  {shown(row.kind)}  {shown(body, _MOST)}"
    yield f"{len(rows):,} entries, each as it was written"
    if rows:
        yield f"head: {rows[-1].hash.hex()}"


def _time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):  # a hub whose clock was far off
        return f"{seconds:g}"
