"""``ccesa simulate``: one round in memory, and what it cost."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, cast

import msgspec
import typer
from click import Choice
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ccesa import simulate as simulation
from ccesa.cli import LOST, WENT_WRONG
from ccesa.cli.plan import GraphName, Guard
from ccesa.config import RoundConfig
from ccesa.crypto.masks import GENERATORS
from ccesa.errors import ConfigError, RoundFailed
from ccesa.graphs import BEST, KINDS, Graph
from ccesa.plan import charters
from ccesa.thresholds import Fixed, Majority


def simulate(
    clients: Annotated[int, typer.Option(help="Number of clients.")] = 100,
    length: Annotated[int, typer.Option(help="Elements of each vector.")] = 10_000,
    bits: Annotated[int, typer.Option(help="Bits of an element: 8, 16, 32 or 64.")] = 32,
    dropout: Annotated[float, typer.Option(help="Probability to vanish, over all steps together.")] = 0.1,
    graph: GraphName = BEST,
    p: Annotated[float | None, typer.Option(help="Edge probability (erdos-renyi); else planned.")] = None,
    degree: Annotated[
        int | None, typer.Option(help="Neighbours of a client, even (harary); else planned.")
    ] = None,
    mask_p: Annotated[
        float | None, typer.Option(help="Edge probability of the mask subgraph (erdos-renyi, complete).")
    ] = None,
    mask_degree: Annotated[
        int | None, typer.Option(help="Neighbours to mask with, even (harary, complete).")
    ] = None,
    threshold: Annotated[
        int | None, typer.Option(help="The paper's common t; by default the majority of each neighbourhood.")
    ] = None,
    guard: Annotated[
        Guard, typer.Option(help="What the server may do: look at everything, or also lie.")
    ] = Guard.CURIOUS,
    generator: Annotated[
        str, typer.Option(help="Mask generator.", click_type=Choice(list(GENERATORS)))
    ] = "aes128-ctr",
    seed: Annotated[int | None, typer.Option(min=0, help="Fixes inputs and dropouts, never keys.")] = None,
    threads: Annotated[int, typer.Option(min=1, help="Clients that work at the same time.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Run one round in memory and show the result, times and bytes.

    Times are processor time in milliseconds, means over the clients that took the step; bytes are those
    of a client that stays to the end. The exit status is 0 if the sum is the plain sum, 1 if it is not, and
    3 if the round was lost and there is no sum.
    """
    chosen = _graph(graph, p=p, degree=degree, mask_p=mask_p, mask_degree=mask_degree)
    agreed: dict[str, Any] = (
        _planned(clients, dropout, graph, guard)
        if chosen is None
        else {"graph": chosen, "threshold": Majority()}
    )
    agreed |= {"bits": bits, "generator": generator}
    if threshold is not None:
        agreed["threshold"] = Fixed(t=threshold)
    federation = simulation.federate(clients, **agreed) if guard is Guard.ACTIVE else None
    config = (
        RoundConfig(clients=clients, length=length, **agreed)
        if federation is None
        else federation.charter.config(length=length)
    )
    with _progress() as progress:
        report = simulation.simulate(
            config,
            dropout=simulation.Independent(dropout),
            seed=seed,
            threads=threads,
            federation=federation,
            progress=progress,
        )
    _print(report, as_json)


def _print(report: simulation.Report, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(report.as_json()))
    else:
        _show(report)
    if isinstance(report.result, RoundFailed):
        raise typer.Exit(LOST)
    if not report.exact:
        raise typer.Exit(WENT_WRONG)


def _planned(clients: int, dropout: float, graph: str, guard: Guard) -> dict[str, Any]:
    """What the planner chooses, as configurations and charters take it."""
    planned = simulation.usual_plan(clients, dropout, graph, guard.value)
    for note in planned.notes:
        Console(stderr=True).print(f"note  {note}", soft_wrap=True)
    agreed: dict[str, Any] = {"graph": planned.graph, "threshold": planned.threshold}
    if guard is Guard.ACTIVE:
        agreed |= {"least_roster": planned.least_roster, "min_survivors": planned.least_survivors}
        agreed["certificate"] = charters.stated(planned)
    return agreed


def _graph(name: str, **options: float | None) -> Graph | None:
    """Return the graph that the options describe; None where they leave it to the planner."""
    given = {option: value for option, value in options.items() if value is not None}
    if name == BEST:
        name = next((kind for kind in KINDS if set(_needed(kind)) & set(given)), BEST)
    fitting = [] if name == BEST else [*KINDS[name].__struct_fields__]
    for option in given:
        if option not in fitting:
            takes = " and ".join(map(_option, fitting)) or "none of them: name a graph"
            raise ConfigError(f"{_option(option)} does not go with --graph {name}; it takes {takes}")
    missing = [] if not given else [option for option in _needed(name) if option not in given]
    if missing:
        raise ConfigError(f"the masks of a {name} graph need {_option(missing[0])} beside them")
    return cast(Graph, KINDS[name](**given)) if given else None


def _needed(name: str) -> list[str]:
    """Return the parameters without which there is no graph of this name."""
    return [field.name for field in msgspec.structs.fields(KINDS[name]) if field.required]


def _option(parameter: str) -> str:
    return f"--{parameter.replace('_', '-')}"


@contextmanager
def _progress() -> Iterator[simulation.simulation.Progress]:
    """A bar for each step, on standard error and only where somebody watches."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:>10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bars:
        tasks: dict[str, int] = {}

        def advance(step: str, done: int, of: int) -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=of)
            bars.update(tasks[step], completed=done)  # type: ignore[arg-type]  # TaskID is an int

        yield advance


def _show(report: simulation.Report) -> None:
    table = Table(show_header=False, box=None, pad_edge=False)
    failed = isinstance(report.result, RoundFailed)
    outcome = f"[red]{report.outcome}[/red]" if failed else "[green]aggregate[/green]"
    exact = "equal to the plain sum" if report.exact else "[red bold]NOT the plain sum[/red bold]"
    table.add_row("outcome", f"{outcome}  {report.result if failed else exact}")
    table.add_row("clients", f"{report.clients}, {report.survivors} in the sum")
    table.add_row(
        "neighbours",
        f"{report.degree_mean:.1f} hold shares, {report.mask_degree_mean:.1f} share a mask (means)",
    )
    steps = ", ".join(f"{name} {ms:.2f}" for name, ms in report.client_ms.items())
    table.add_row("client", f"{sum(report.client_ms.values()):.2f} ms ({steps})")
    ways = report.client_bytes
    table.add_row("", f"{ways['sent']:,.0f} bytes sent, {ways['received']:,.0f} received")
    table.add_row("server", f"{report.server_ms:.1f} ms")
    table.add_row("memory", f"{report.peak_rss_mb:.0f} MB at the peak")
    Console().print(table)
