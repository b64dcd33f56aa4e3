"""``ccesa attack``: run an attack against the real clients and servers, with its defence or without."""

from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ccesa.attacks.base import Attack, Outcome
from ccesa.attacks.registry import ATTACKS, find
from ccesa.ring import Vector

#: Elements of a vector that are shown.
SHOWN = 4


class Defence(StrEnum):
    ON = "on"
    OFF = "off"


def attack(
    name: Annotated[str, typer.Argument(help="Its name or number, or 'list'.")],
    defence: Annotated[
        Defence, typer.Option(help="Leave the defence in place, or take it away.")
    ] = Defence.ON,
) -> None:
    """Attack a round. Says who lied about what, what each client saw, and what the attacker ended up with.

    With its defence in place every attack fails; with that one defence taken away it succeeds. The exit
    code is 0 if it came out like that, 1 if not. `ccesa attack list` shows all of them.
    """
    if name == "list":
        _list()
        return
    chosen, defended = find(name), defence is Defence.ON
    _introduce(chosen, defended)
    outcome = chosen.run(defended, typer.echo)
    typer.echo(f"\n{outcome.summary}")
    typer.echo(_verdict(outcome, defended))
    if outcome.succeeded is defended:
        raise typer.Exit(1)


def _list() -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("", "name", "guard", "what is tried"):
        table.add_column(column, no_wrap=column != "what is tried")
    for known in ATTACKS.values():
        table.add_row(known.number, known.name, known.guard, known.title)
    Console().print(table)


def _introduce(chosen: Attack, defended: bool) -> None:
    typer.echo(f"{chosen.number} {chosen.name}: {chosen.title}")
    typer.echo(f"guard    {chosen.guard}")
    typer.echo(f"defence  {chosen.defence}: {'in place' if defended else 'TAKEN AWAY'}\n")


def _verdict(outcome: Outcome, defended: bool) -> str:
    if not outcome.succeeded:
        return "FAILED (defence held)" if defended else "FAILED, although the defence was taken away"
    if outcome.stolen is None or outcome.victim is None:
        return "SUCCEEDED"
    return f"SUCCEEDED: stolen {_start(outcome.stolen)}, the victim's own {_start(outcome.victim)}"


def _start(vector: Vector) -> str:
    return "[" + " ".join(map(str, vector[:SHOWN].tolist())) + (" …]" if vector.size > SHOWN else "]")
