"""``ccesa plan``: the cheapest graph for a promise, its certificate and its price."""

import json
import math
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from click import Choice
from rich.console import Console
from rich.table import Table

from ccesa.cli.charter import Agreement
from ccesa.errors import ConfigError
from ccesa.graphs import BEST, NAMES
from ccesa.guards import guard_named
from ccesa.identity import Admission
from ccesa.plan import Plan, report
from ccesa.plan import plan as make_plan
from ccesa.plan.cost import Cost

_MEANING = {
    "unreliable": "a client has too few live share holders, the round is lost",
    "disconnected": "the honest survivors' masks fall apart, a partial sum could be opened",
    "exposed": "with its own share, colluding neighbours can open a client",
    "unmaskable": "two disjoint sets of shares exist, a lying server could open a client",
}
#: Said of an event that is not among the promises of the guard.
_BY_CHANCE = " (by chance; a lying server can bring it about)"

#: A choice of all families of graphs, for the command line.
GraphName = Annotated[str, typer.Option(help="Assignment graph.", click_type=Choice(NAMES))]


class Guard(StrEnum):
    CURIOUS = "curious"
    ACTIVE = "active"


def plan(
    clients: Annotated[int | None, typer.Option(help="Number of clients.")] = None,
    dropout: Annotated[float, typer.Option(help="Fraction that may vanish in a round.")] = 0.1,
    collusion: Annotated[
        float | None,
        typer.Option(
            help="Fraction of those who take part that may work with the server; 0, or 0.1 under active, "
            "where it is one client at least.",
            show_default=False,
        ),
    ] = None,
    guard: Annotated[
        Guard, typer.Option(help="What the server may do: look at everything, or also lie.")
    ] = Guard.CURIOUS,
    graph: GraphName = BEST,
    length: Annotated[int, typer.Option(help="Elements of each vector.")] = 1_000_000,
    bits: Annotated[int, typer.Option(help="Bits of an element: 8, 16, 32 or 64.")] = 32,
    privacy_bits: Annotated[
        float | None,
        typer.Option(help="A privacy event has probability 2^-P at most; 40, or 128 under active."),
    ] = None,
    reliability_bits: Annotated[
        float | None, typer.Option(help="A round is lost with probability 2^-R at most; 20, if possible.")
    ] = None,
    exact_dropout: Annotated[
        bool, typer.Option("--exact-dropout", help="Exactly this fraction vanishes, not each by chance.")
    ] = False,
    members: Annotated[
        Path | None,
        typer.Option(help="Admission list, one line per client: plan for all of them.", show_default=False),
    ] = None,
    charter: Annotated[
        Path | None,
        typer.Option(
            help="Write their charter to this new file (active, with --members).", show_default=False
        ),
    ] = None,
    replaces: Annotated[
        Path | None,
        typer.Option(help="The charter before: serial and learning go on from it.", show_default=False),
    ] = None,
    expires: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d"],
            help="Until when the charter holds (UTC); a year from now.",
            show_default=False,
        ),
    ] = None,
    attempts: Annotated[
        int | None,
        typer.Option(
            help="Vectors of a member for one task: 2, or as the charter before.", show_default=False
        ),
    ] = None,
    learning: Annotated[
        bool, typer.Option("--learning", help="With a table of learning, to be filled in before it is sent.")
    ] = False,
    as_object: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
    curve: Annotated[
        bool, typer.Option("--curve", help="Draw cost against the number of clients instead.")
    ] = False,
    output: Annotated[Path, typer.Option(help="Where --curve draws: .png, .svg or .pdf.")] = Path(
        "plan-curve.png"
    ),
) -> None:
    """Plan a round: say how many clients there are, how many may vanish and how many may collude.

    Shows the cheapest assignment graph, the probability of everything that could go wrong, what a round
    costs, and what the paper's rule and conventional secure aggregation would cost. With --members and
    --charter it also writes what the members agree on under the guard active; see ccesa charter.
    """
    demands: dict[str, Any] = {
        "dropout": dropout,
        "collusion": collusion,
        "guard": guard.value,
        "length": length,
        "bits": bits,
        "privacy_bits": privacy_bits,
        "reliability_bits": reliability_bits,
        "graph": graph,
        "exact_dropout": exact_dropout,
    }
    if curve:
        _draw(output, demands)
        return
    listed = None if members is None else Admission.load(members)
    agreement = Agreement(charter, replaces, expires, attempts, learning)
    agreement.check(listed, guard.value)
    made = make_plan(_count(clients, listed), **demands)
    if as_object:
        typer.echo(json.dumps(report.as_json(made)))
    else:
        _show(made)
    if listed is not None:
        agreement.write(made, listed)


def _count(clients: int | None, listed: Admission | None) -> int:
    if listed is None:
        if clients is None:
            raise ConfigError("say how many clients there are: --clients N, or --members FILE")
        return clients
    if clients not in (None, len(listed)):
        raise ConfigError(f"--clients {clients} and a list of {len(listed)} members; leave --clients out")
    return len(listed)


def _show(made: Plan) -> None:
    console = Console()
    console.print(_recommendation(made))
    console.print(_certificate(made))
    console.print(_bill(made))
    for note in made.notes:
        console.print(f"[yellow]note[/yellow]  {note}")


def _recommendation(made: Plan) -> Table:
    assumptions = made.assumptions
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_row(
        "[bold]plan[/bold]",
        f"[bold]{made.clients:,} clients[/bold], {assumptions.dropout:.3g} vanish, "
        f"{assumptions.collusion:.3g} collude, guard {made.guard}",
    )
    table.add_row("graph", f"[green]{report.graph_in_words(made)}[/green]")
    table.add_row("masks", report.masks_in_words(made))
    table.add_row("threshold", report.threshold_in_words(made))
    promise = report.promise_in_words(made)
    if promise:
        table.add_row("promise", promise)
    return table


def _certificate(made: Plan) -> Table:
    table, guard = _table("certificate", "", "at most", ""), guard_named(made.guard)
    for name, log2 in made.certificate.as_dict().items():
        if name in guard.events:
            unless = "" if name in guard.promises else _BY_CHANCE
            table.add_row(name, report.probability_in_words(log2), _MEANING[name] + unless)
    return table


def _bill(made: Plan) -> Table:
    table = _table("a round costs", "", "ccesa", "paper's rule", "conventional")
    for name, show in _LINES.items():
        paper = "-" if made.paper.cost is None else show(made.paper.cost)
        table.add_row(name, show(made.cost), paper, show(made.conventional))
    degrees = ["-" if made.paper.degree is None else f"{made.paper.degree:,.0f}", f"{made.clients - 1:,}"]
    table.add_row("neighbours", f"{made.degree:,.4g}", *degrees)
    return table


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place == 0 or not name else "right")
    return table


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} PB"


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    for unit, size in (("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0)):
        if value < {"µs": 1e-3, "ms": 1.0, "s": 120.0, "min": 7200.0, "h": math.inf}[unit]:
            return f"{value / size:,.3g} {unit}"
    return ""


_LINES: dict[str, Callable[[Cost], str]] = {
    "client sends": lambda cost: _bytes(cost.sent_bytes),
    "client receives": lambda cost: _bytes(cost.received_bytes),
    "client agrees on keys": lambda cost: f"{cost.agreements:,.0f} times",
    "client checks signatures": lambda cost: f"{cost.verifications:,.0f}",
    "client makes keystream": lambda cost: _bytes(cost.keystream_bytes),
    "client works, about": lambda cost: _seconds(cost.client_seconds),
    "through the server": lambda cost: _bytes(cost.server_bytes),
    "server makes keystream": lambda cost: _bytes(cost.server_keystream_bytes),
    "server works, about": lambda cost: _seconds(cost.server_seconds),
}


def _draw(path: Path, demands: dict[str, Any]) -> None:
    if not path.parent.is_dir():
        raise ConfigError(f"--output: there is no folder {path.parent}")
    from ccesa.plan import curve  # it needs matplotlib

    console = Console(stderr=True)
    with console.status("planning") as status:
        curve.draw(path, demands, lambda clients: status.update(f"planning {clients:,} clients"))
    Console().print(f"[bold]curve[/bold]  {path.resolve()}", soft_wrap=True)
