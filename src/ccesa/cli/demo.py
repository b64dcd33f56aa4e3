"""``ccesa demo``: train a classifier through secure aggregation while clients drop out."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.columns import Columns
from rich.console import Console, Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from ccesa.cli import options
from ccesa.cli.output import check_output, lines, table
from ccesa.demo import learning, pictures, report
from ccesa.demo.training import History, Wiretap, conventional, train
from ccesa.graphs import Harary
from ccesa.simulate import Independent, Report, usual_plan


def demo(
    clients: options.Clients = 40,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of training.")] = 20,
    dropout: options.Dropout = 0.1,
    degree: options.Degree = None,
    post_quantum: options.PostQuantum = False,
    seed: Annotated[int, typer.Option(min=0, help="Fixes data and dropouts, never keys.")] = 1,
    threads: options.Threads = 0,
    output: Annotated[Path, typer.Option(help="Where the HTML report goes.")] = Path("demo-report.html"),
) -> None:
    """Train on scikit-learn's digits by federated averaging, every sum through secure aggregation.

    Clients drop out in every step. Shows accuracy with and without, lost rounds, the cost beside
    conventional secure aggregation, and one client's update next to what the server saw of it.
    """
    console = Console()
    Independent(dropout)  # refuses what is not a probability
    check_output(output)
    data, agreement = learning.digits(clients, seed), options.agreement(post_quantum)
    graph = usual_plan(clients, dropout).graph if degree is None else Harary(degree=degree)
    console.print(
        f"[bold]{clients} clients[/bold] with {min(data.sizes)} to {max(data.sizes)} images, "
        f"{graph.mean_degree(clients):.0f} neighbours, {dropout:.0%} drop out of every round"
    )
    with _progress(console, rounds) as show:
        history = train(
            data,
            rounds=rounds,
            dropout=dropout,
            graph=graph,
            seed=seed,
            agreement=agreement,
            threads=threads,
            progress=show,
        )
    _show(console, history, conventional(data, seed, agreement), output)


@contextmanager
def _progress(console: Console, rounds: int) -> Iterator[Callable[[int, History], None]]:
    """Show a bar of rounds, with the accuracy so far."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[now]}"),
    )
    with Progress(*columns, console=console) as bars:
        task = bars.add_task("training", total=rounds, now="")

        def show(done: int, history: History) -> None:
            lost = f", {len(history.lost)} lost" if history.lost else ""
            now = f"accuracy {history.secure[-1]:.1%} (plain {history.plain[-1]:.1%}){lost}"
            bars.update(task, completed=done, now=now)

        yield show


def _show(console: Console, history: History, baseline: Report, output: Path) -> None:
    if history.wiretap is not None:
        console.print(_picture(history.wiretap))
    console.print(lines(report.summary(history)))
    columns = ("", "ccesa", "conventional", "ratio")
    console.print(table("cost of a round", columns, report.bill(history, baseline)))
    output.write_text(report.to_html(history, baseline), encoding="utf-8")
    console.print(f"[bold]report[/bold]  {output.resolve()}", soft_wrap=True)


def _picture(tap: Wiretap) -> Columns:
    """Draw the first digits of one client's update, as it was and as it was received."""
    left = Group(Text(f"the update of client {tap.client}", "bold"), pictures.tiles_text(tap.update))
    right = Group(Text("what the server received", "bold"), pictures.tiles_text(tap.received))
    return Columns([left, right], padding=(1, 2))
