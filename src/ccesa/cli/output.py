"""Tables and errors that commands print, and places for their files."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import typer
from rich.table import Column, Table

from ccesa.cli import WENT_WRONG
from ccesa.errors import ConfigError


def table(rows: Iterable[Sequence[str]], title: str | None = None, columns: Sequence[str] = ()) -> Table:
    """Make a table without a frame. Columns with a name are aligned to the right, for figures."""
    heads = [Column(name, justify="right" if name else "left") for name in columns]
    made = Table(*heads, title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    made.show_header = bool(heads)
    for row in rows:
        made.add_row(*row)
    return made


def seconds_in_words(value: float) -> str:
    for unit, size, below in (("µs", 1e-6, 1e-3), ("ms", 1e-3, 1.0), ("s", 1.0, 120.0), ("min", 60.0, 7200.0)):
        if value < below:
            return f"{value / size:,.3g} {unit}"
    return f"{value / 3600:,.3g} h"


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
