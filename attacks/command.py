"""The command ``python -m attacks``: attacks on the real parties, with a defence in place or without."""

import json
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from attacks.base import Attack, Outcome
from attacks.registry import ATTACKS, find
from ccesa.cli import WENT_WRONG
from ccesa.words import Vector

#: Elements of a vector that are shown.
SHOWN = 4


app = typer.Typer(name="python -m attacks", add_completion=False, pretty_exceptions_enable=False)


class Defence(StrEnum):
    ON = "on"
    OFF = "off"


@app.command()
def attack(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name or number, or 'list'.")],
    defence: Annotated[Defence, typer.Option(help="Leave the defence in place, or take it away.")] = Defence.ON,
    as_json: Annotated[bool, typer.Option("--json", help="JSON on standard output, nothing else.")] = False,
) -> None:
    """Attack a round. Says who lied about what, what each client saw, and what the attacker ended up with.

    NAME is an attack's name or number; `python -m attacks list` shows all of them. The last line is one word:
    `held` if the attack failed, `broken` if it succeeded. It has to fail with its defence in place, and to
    succeed with that one defence taken away: the exit status is 0 if it came out like that, 1 if not.
    """
    if name.lower() == "list":
        _list(as_json)
        return
    chosen, defended = find(name), defence is Defence.ON
    outcome = (_run_quietly if as_json else _run_aloud)(chosen, defended)
    if outcome.succeeded is defended:
        raise typer.Exit(WENT_WRONG)


def _run_aloud(chosen: Attack, defended: bool) -> Outcome:
    _introduce(chosen, defended)
    outcome = chosen.run(defended, typer.echo)
    typer.echo(f"\n{outcome.summary}")
    if outcome.succeeded and outcome.stolen is not None and outcome.victim is not None:
        typer.echo(f"stolen {_start(outcome.stolen)}, the victim's own {_start(outcome.victim)}")
    typer.echo(_verdict(outcome))
    return outcome


def _run_quietly(chosen: Attack, defended: bool) -> Outcome:
    story: list[str] = []
    outcome = chosen.run(defended, story.append)
    found = {
        **_described(chosen),
        "defended": defended,
        "verdict": _verdict(outcome),
        "as_it_should": outcome.succeeded is not defended,
        "summary": outcome.summary,
        "stolen": None if outcome.stolen is None else outcome.stolen.tolist(),
        "victim": None if outcome.victim is None else outcome.victim.tolist(),
        "story": story,
    }
    typer.echo(json.dumps(found))
    return outcome


def _described(known: Attack) -> dict[str, str]:
    return {name: getattr(known, name) for name in ("number", "name", "title", "guard", "defence")}


def _verdict(outcome: Outcome) -> str:
    return "broken" if outcome.succeeded else "held"


def _list(as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([_described(known) for known in ATTACKS.values()]))
        return
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


def _start(vector: Vector) -> str:
    return "[" + " ".join(map(str, vector[:SHOWN].tolist())) + (" ...]" if vector.size > SHOWN else "]")
