"""``ccesa ledger`` shows a site's own budget of differential privacy, and what was spent of it."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from typer import Argument, Option

from ccesa.agreement.charter import Charter
from ccesa.cli import options
from ccesa.cli.output import end_wrong, table
from ccesa.errors import ConfigError, DamagedLedger
from ccesa.privacy.ledger import Ledger, Spent

ledger = typer.Typer(
    help="The privacy budget of a site's data, for rounds with differential privacy.", no_args_is_help=True
)
_File = Annotated[Path, Argument(metavar="FILE", help="File of the ledger.")]
_Charter = Annotated[Path | None, Option(help="A charter with noise: show whether it fits the budget.")]


@ledger.command()
def new(
    path: _File,
    epsilon: Annotated[float, Option(help="The maximum that all vectors together may spend.")],
    delta: Annotated[float, Option(help="The delta of this epsilon, well below one over the number of clients.")],
) -> None:
    """Make the ledger of a site's data, with a budget for all charters and tasks together.

    FILE and FILE.head belong to the data, and only you can read them. Keep both out of backups that are
    restored with the system: a restored ledger does not know what was spent after the backup.
    """
    Ledger.new(path, epsilon=epsilon, delta=delta)
    typer.echo(f"{path}: epsilon = {epsilon:g} at delta = {delta:g}, nothing spent")


@ledger.command()
def show(path: _File, charter: _Charter = None, as_json: options.Json = False) -> None:
    """Print the budget, what was spent of it under each charter, and how many vectors are left.

    With --charter also print how many vectors under that charter fit the budget. See it before you agree.
    """
    found = Ledger(path)
    room = None if charter is None else _room(found, charter)
    if as_json:
        plain = {
            "epsilon": found.epsilon,
            "delta": found.delta,
            "spent": asdict(found.spent()),
            "left": found.left(),
            "charters": [{"charter": digest} | asdict(part) for digest, part in found.spent_by_charter().items()],
        }
        typer.echo(json.dumps(plain if room is None else plain | {"room": room[0]}))
    else:
        Console().print(table(_in_words(found, room)))


@ledger.command()
def check(path: _File) -> None:
    """Check every line of a ledger, and that FILE.head belongs to it; exit with 1 if it is damaged."""
    try:
        spent = Ledger(path).spent()
    except DamagedLedger as error:
        end_wrong(str(error))
    typer.echo(f"{path}: whole, {_sum(spent)}")


def _sum(spent: Spent) -> str:
    return f"{spent.vectors:,} vector(s) have spent epsilon = {spent.epsilon:.4g}"


def _room(found: Ledger, path: Path) -> tuple[int, int]:
    """Return how many vectors under this charter fit the budget, and how many the charter is made for."""
    charter = Charter.load(path)
    if charter.mechanism is None:
        raise ConfigError(f"{path} is a charter without noise; nothing is charged under it")
    return found.account(charter.mechanism, charter.digest).left(), charter.mechanism.rounds


def _in_words(found: Ledger, room: tuple[int, int] | None) -> Iterator[tuple[str, str]]:
    spent, left = found.spent(), found.left()
    yield "[bold]ledger[/bold]", f"budget epsilon = {found.epsilon:g} at delta = {found.delta:g}"
    yield "spent", f"[bold]{_sum(spent)}[/bold]"
    if spent.vectors:
        yield "of which", f"mu = {spent.mu:.4g} by noise, and {spent.outright:.2g} of delta by draws and graphs"
    if room is not None:
        yield "room", f"for {room[0]:,} more vector(s) under this charter, which is made for {room[1]:,}"
    if left is not None:
        yield "left", f"{left:,} more vector(s) with the noise of the last one"
    for digest, part in found.spent_by_charter().items():
        yield f"charter {digest[:16]}..." if digest else "no charter", _sum(part)
