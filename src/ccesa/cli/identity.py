"""``ccesa identity``: a client's own key, and the line that admits it."""

from pathlib import Path
from typing import Annotated

import typer

from ccesa.errors import ConfigError
from ccesa.identity import Identity, Member

identity = typer.Typer(
    help="A client's long-lived key, for rounds with a server that may lie.",
    no_args_is_help=True,
)
_File = Annotated[Path, typer.Argument(help="File of the private key.", show_default=False)]
_Name = Annotated[
    str | None,
    typer.Option(help="Name in the admission list; by default that of the file.", show_default=False),
]


@identity.command()
def new(
    path: _File,
    name: _Name = None,
    comment: Annotated[str, typer.Option(help="Anything for people to read, in the same line.")] = "",
) -> None:
    """Make a new key, write it to a file that only you can read, print its admission line."""
    made = Identity.new()
    line = _line(made, path, name, comment)  # a name that cannot be printed leaves no file behind
    made.save(path)
    typer.echo(line)


@identity.command()
def show(path: _File, name: _Name = None) -> None:
    """Print the admission line of a key. It is public; the file is not."""
    typer.echo(_line(Identity.load(path), path, name))


def _line(one: Identity, path: Path, name: str | None, comment: str = "") -> str:
    """As it goes into the list."""
    try:
        return str(Member(path.stem if name is None else name, one.public, " ".join(comment.split())))
    except ConfigError as error:
        raise ConfigError(f"{error} (--name gives the name, --comment the rest of the line)") from error
