"""``ccesa identity`` makes a client's own key, and prints its line of the admission list."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from ccesa.agreement.identity import Identity, Member
from ccesa.errors import ConfigError

identity = typer.Typer(help="A client's long-lived key, for rounds with a server that may lie.", no_args_is_help=True)
_File = Annotated[Path, Argument(metavar="FILE", help="File of the private key.")]
_Name = Annotated[str | None, Option(help="Name in the admission list; by default that of the file.")]
_OtherName = Annotated[str | None, Option(help="A name to use in place of the one in the file.")]


@identity.command()
def new(
    path: _File,
    name: _Name = None,
    comment: Annotated[str, Option(help="A comment for people, in the same line.")] = "",
) -> None:
    """Make a key, write it and its name to a file that only you can read, and print its admission line."""
    with _hint():
        made = Identity.new(path.stem if name is None else name)
        line = str(Member(made.name, made.public, " ".join(comment.split())))
    made.save(path)
    typer.echo(line)


@identity.command()
def show(path: _File, name: _OtherName = None) -> None:
    """Print the admission line of a key from `ccesa identity new`. The line is public. The file is secret."""
    loaded = Identity.load(path)
    with _hint():
        line = str(Member(name if name is not None else loaded.name or path.stem, loaded.public))
    typer.echo(line)


@contextmanager
def _hint() -> Iterator[None]:
    """Name the options behind a name or a comment that is refused."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{error} (--name gives the name, --comment the rest of the line)") from error
