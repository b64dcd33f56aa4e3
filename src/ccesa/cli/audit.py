"""``ccesa audit`` checks and prints who was in which sum."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ccesa.cli import options
from ccesa.cli.output import end_wrong
from ccesa.errors import ConfigError, shown

if TYPE_CHECKING:
    from ccesa.service.store.audit import AuditRow

#: Characters of an entry that are printed.
_MAXIMUM = 2000


def audit(
    where: Annotated[
        str, typer.Argument(metavar="FILE|URL", help="The federation's file, or the URL of its database.")
    ],
    head: Annotated[
        str | None, typer.Option(metavar="HEX", help="A hash that you have noted: check that the log contains it.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check the audit log of a federation, and print it; exit with 1 if it is damaged.

    Each entry has a hash over everything before it. The operator of the hub can write a whole new log, but
    the new log does not contain a hash that a member has noted.
    """
    from ccesa.service.errors import DamagedAudit
    from ccesa.service.federation import Federation
    from ccesa.service.store import open_store
    from ccesa.service.store.audit import verify

    noted = None if head is None else _hash(head)
    store = open_store(where if "://" in where else Federation.load(Path(where)).store, create=False)
    try:
        rows = verify(store.audit_rows(), noted)
    except DamagedAudit as error:
        end_wrong(str(error))
    finally:
        store.close()
    if as_json:
        entries = [asdict(row) | {"body": json.loads(row.body), "hash": row.hash.hex()} for row in rows]
        typer.echo(json.dumps({"head": entries[-1]["hash"] if entries else None, "entries": entries}))
    else:
        for line in _in_words(rows):
            typer.echo(line)


def _hash(text: str) -> bytes:
    try:
        digest = bytes.fromhex(text)
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise ConfigError("--head is a hash of 64 hexadecimal digits")
    return digest


def _in_words(rows: "list[AuditRow]") -> Iterator[str]:
    for row in rows:
        body = ", ".join(f"{name}: {json.dumps(value)}" for name, value in json.loads(row.body).items())
        yield f"{row.place}  {_time(row.time)}  {shown(row.kind)}  {shown(body, _MAXIMUM)}"
    yield f"{len(rows):,} entries, each as it was written"
    if rows:
        yield f"head: {rows[-1].hash.hex()}"


def _time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):  # a hub whose clock was far off
        return f"{seconds:g}"
