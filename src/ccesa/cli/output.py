"""What commands print, and where they write their report."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.table import Table

from ccesa.errors import ConfigError


def lines(rows: Iterable[tuple[str, str]]) -> Table:
    """Make a table without a frame: a name and what there is to say, line by line."""
    return _filled(Table(show_header=False, box=None, pad_edge=False), rows)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Make a table with a title; columns that have a name are of figures."""
    made = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name in columns:
        made.add_column(name, justify="right" if name else "left")
    return _filled(made, rows)


def _filled(made: Table, rows: Iterable[Sequence[str]]) -> Table:
    for row in rows:
        made.add_row(*row)
    return made


def check_output(path: Path, option: str = "--output") -> None:
    """Refuse a place that cannot be written to before the work is done, not after it."""
    if not path.parent.is_dir():
        raise ConfigError(f"{option}: there is no folder {path.parent}")
    if path.is_dir():
        raise ConfigError(f"{option}: {path} is a folder; name a file in it")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ConfigError(f"{option}: no permission to write {path}")
