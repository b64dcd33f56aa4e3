"""``ccesa statistics``: a look at a site's own table before anything of it is counted with others."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from ccesa.agreement.charter import Charter
from ccesa.cli import options
from ccesa.cli.output import lines, table
from ccesa.errors import ConfigError
from ccesa.statistics import Schema, read_csv
from ccesa.statistics.tally import ColumnPreview, LeftOut, Preview, preview

statistics = typer.Typer(help="Tables of sites, for joint statistics.", no_args_is_help=True)
_SchemaFile = Annotated[
    Path, typer.Argument(metavar="SCHEMA", help="The schema, or the charter that has it.", show_default=False)
]
_Table = Annotated[Path, typer.Argument(metavar="CSV", help="Your table.", show_default=False)]
#: The most lines about what is left out; ``--json`` has all of them.
_MOST_LINES = 20


@statistics.command()
def check(schema: _SchemaFile, csv: _Table, as_json: options.Json = False) -> None:
    """Say what becomes of a table: what is missing, clipped, counted as other, and left out.

    Nothing leaves this machine, and no value is printed but those that the schema names. A table that
    cannot be counted is an error with the line and the column.
    """
    agreed = _schema(schema)
    found = preview(agreed, read_csv(csv, agreed))
    if as_json:
        typer.echo(json.dumps({"least_group": agreed.least_group, **asdict(found)}))
        return
    console = Console()
    console.print(lines(_in_words(agreed, found)))
    console.print(table("", ["", "values", "missing", "clipped", "other"], map(_row, found.columns)))
    for line in _warnings(agreed, found):
        console.print(line)


def _schema(path: Path) -> Schema:
    """Read a schema, or that of a charter."""
    try:
        return Schema.load(path)
    except ConfigError as no_schema:
        try:
            found = Charter.load(path).schema
        except ConfigError:
            raise no_schema from None
    if found is None:
        raise ConfigError(f"{path} is a charter without statistics")
    return found


def _in_words(schema: Schema, found: Preview) -> Iterator[tuple[str, str]]:
    yield "[bold]records[/bold]", f"{found.records:,}, at most {schema.max_records:,}"
    yield "least group", f"{schema.least_group:,}"


def _row(column: ColumnPreview) -> list[str]:
    counts = (column.values, column.missing, column.clipped, column.other)
    return [_text(column.name), *("" if one is None else f"{one:,}" for one in counts)]


def _warnings(schema: Schema, found: Preview) -> Iterator[str]:
    for column in found.columns:
        for value, count in column.alike.items():
            yield (
                f"[yellow]{_text(column.name)}: {count:,} record(s) are counted as other and look like "
                f'"{_text(value)}": compare case, accents and spaces[/yellow]'
            )
    for one in found.left_out[:_MOST_LINES]:
        yield f"[yellow]left out: {_left_out(schema, one)}[/yellow]"
    if (more := len(found.left_out) - _MOST_LINES) > 0:
        yield f"[yellow]left out: {more:,} more, which --json lists[/yellow]"


def _left_out(schema: Schema, one: LeftOut) -> str:
    group = ", ".join(f"{_text(name)} = {_text(value)}" for name, value in one.group.items()) or "everything"
    what = f"{one.count:,} record(s)" if one.column is None else f"{one.count:,} value(s)"
    column = "" if one.column is None else f", {_text(one.column)}"
    return f"{group}{column}: {what}, fewer than {schema.least_group:,}"


def _text(text: str) -> str:
    """Return a text of the schema for the terminal; it has nothing in it that cannot be printed."""
    return escape(text)
