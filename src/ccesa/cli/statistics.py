"""``ccesa statistics`` shows a site its own table before anything of it is counted with others."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from typer import Argument

from ccesa.agreement.charter import Charter
from ccesa.cli import options
from ccesa.cli.output import table
from ccesa.errors import ConfigError
from ccesa.statistics import Schema, read_csv
from ccesa.statistics.tally import ColumnPreview, Preview, preview

statistics = typer.Typer(help="Tables of sites, for joint statistics.", no_args_is_help=True)
_SchemaFile = Annotated[Path, Argument(metavar="SCHEMA", help="The schema, or a charter that has one.")]
_Table = Annotated[Path, Argument(metavar="CSV", help="Your table.")]
#: The maximum of lines about parts that are left out; ``--json`` lists all of them.
_MAXIMUM_LINES = 20


@statistics.command()
def check(schema: _SchemaFile, csv: _Table, as_json: options.Json = False) -> None:
    """Show how a table is counted: values that are missing, clipped, counted as other, or left out.

    Nothing leaves this machine. Only values that the schema names are printed. If the table cannot be
    counted, an error names the line and the column.
    """
    agreed = _schema(schema)
    found = preview(agreed, read_csv(csv, agreed))
    if as_json:
        typer.echo(json.dumps({"least_group": agreed.least_group, **asdict(found)}))
        return
    console = Console()
    records = f"{found.records:,}, at most {agreed.max_records:,}"
    console.print(table([("[bold]records[/bold]", records), ("least group", f"{agreed.least_group:,}")]))
    console.print(table(map(_row, found.columns), "", ("", "values", "missing", "clipped", "other")))
    for line in _warnings(agreed, found):
        console.print(f"[yellow]{line}[/yellow]")


def _schema(path: Path) -> Schema:
    """Read a schema, or that of a charter."""
    try:
        return Schema.load(path)
    except ConfigError as no_schema:
        try:
            schema = Charter.load(path).schema
        except ConfigError:
            raise no_schema from None
    if schema is None:
        raise ConfigError(f"{path} is a charter without statistics")
    return schema


def _row(column: ColumnPreview) -> list[str]:
    counts = (column.values, column.missing, column.clipped, column.other)
    return [escape(column.name), *("" if count is None else f"{count:,}" for count in counts)]


def _warnings(schema: Schema, found: Preview) -> Iterator[str]:
    for column in found.columns:
        for value, count in column.alike.items():
            yield (
                f"{escape(column.name)}: {count:,} record(s) are counted as other and look like "
                f'"{escape(value)}": compare case, accents and spaces'
            )
    for part in found.left_out[:_MAXIMUM_LINES]:
        group = ", ".join(f"{escape(name)} = {escape(value)}" for name, value in part.group.items()) or "everything"
        unit = "record(s)" if part.column is None else "value(s)"
        where = "" if part.column is None else f", {escape(part.column)}"
        yield f"left out: {group}{where}: {part.count:,} {unit}, fewer than {schema.least_group:,}"
    if (more := len(found.left_out) - _MAXIMUM_LINES) > 0:
        yield f"left out: {more:,} more, which --json lists"
