"""What commands print, and where they write their report."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import typer
from rich.table import Table

from ccesa.cli import WENT_WRONG
from ccesa.errors import ConfigError


def lines(rows: Iterable[Sequence[str]]) -> Table:
    """Make a table without a frame: a name and its text in each line."""
    return _fill(Table(show_header=False, box=None, pad_edge=False), rows)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Make a table with a title. Columns with a name are aligned to the right, for figures."""
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name in columns:
        made.add_column(name, justify="right" if name else "left")
    return _fill(made, rows)


def _fill(made: Table, rows: Iterable[Sequence[str]]) -> Table:
    for row in rows:
        made.add_row(*row)
    return made


def end_wrong(*problems: str) -> NoReturn:
    """Print problems on standard error, and exit with 1."""
    for problem in problems:
        typer.echo(problem, err=True)
    raise typer.Exit(WENT_WRONG)


def check_output(path: Path, option: str = "--output") -> None:
    """Refuse a place that cannot be written to before the work is done, not after it."""
    if not path.parent.is_dir():
        raise ConfigError(f"{option}: there is no folder {path.parent}")
    if path.is_dir():
        raise ConfigError(f"{option}: {path} is a folder; name a file in it")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigError(f"{option}: no permission to write {path}")
