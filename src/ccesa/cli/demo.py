"""``ccesa demo`` trains a classifier through secure aggregation while clients drop out."""

from pathlib import Path
from typing import Annotated

from rich.columns import Columns
from rich.console import Console, Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text
from typer import Option

from ccesa.cli import options
from ccesa.cli.output import check_output, table
from ccesa.demo import learning, pictures, report
from ccesa.demo.learning import History, Wiretap, plan_rounds, run_conventional, train_rounds
from ccesa.demo.report import Story, compare_costs
from ccesa.simulate import Independent


def demo(
    clients: options.Clients = 40,
    rounds: Annotated[int, Option(min=1, help="Rounds of training.")] = 20,
    dropout: options.Dropout = 0.1,
    degree: options.Degree = None,
    post_quantum: options.PostQuantum = False,
    seed: Annotated[int, Option(min=0, help="Repeats data and dropouts, never keys.")] = 1,
    threads: options.Threads = 0,
    output: Annotated[Path, Option(help="File for the HTML report.")] = Path("demo-report.html"),
) -> None:
    """Train on scikit-learn's digits by federated averaging, every sum through secure aggregation.

    Clients drop out in every step. Shows one client's update, what the server received in its place, and the
    sum of all. Shows the accuracy beside that of plain averaging, and the cost beside that of conventional
    secure aggregation. Writes all of it and the promises to a report of one HTML file.
    """
    console = Console()
    Independent(dropout)  # refuses a number that is not a probability
    check_output(output)
    data = learning.digits(clients, seed)
    plan = plan_rounds(data, dropout, degree, options.agreement(post_quantum))
    console.print(
        f"[bold]{clients} clients[/bold] with {min(data.sizes)} to {max(data.sizes)} images, "
        f"{plan.degree:.0f} neighbours, {dropout:.0%} drop out of every round"
    )
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[now]}"))
    with Progress(*columns, console=console) as bars:
        task = bars.add_task("training", total=rounds, now="")

        def show(done: int, history: History) -> None:
            lost = f", {len(history.lost)} lost" if history.lost else ""
            now = f"accuracy {history.secure[-1]:.1%} (plain {history.plain[-1]:.1%}){lost}"
            bars.update(task, completed=done, now=now)

        history = train_rounds(data, plan, rounds=rounds, dropout=dropout, seed=seed, threads=threads, progress=show)
    command = f"ccesa demo --clients {clients} --rounds {rounds} --dropout {dropout:g} --seed {seed}"
    command += f" --degree {degree}" * (degree is not None) + " --post-quantum" * post_quantum
    story = Story(history, run_conventional(plan, seed), command)
    if history.wiretap is not None:
        console.print(_picture(history.wiretap))
    console.print(table(report.summary(history)))
    costs = compare_costs(history, story.conventional)
    console.print(table(costs, "cost of a round", ("", "ccesa", "conventional", "ratio")))
    output.write_text(report.to_html(story), encoding="utf-8")
    console.print(f"[bold]report[/bold]  {output.resolve()}", soft_wrap=True)
    console.print("        one file for any browser; it loads nothing else, and can be sent to others")


def _picture(tap: Wiretap) -> Columns:
    """Draw the first digits of an update, of the masked vector that was received, and of the sum of all."""
    names = {
        "own": f"update of client {tap.client}",
        "received": "the server received",
        "opened": f"sum of all {tap.senders}",
    }
    drawn = [
        Group(Text(name, "bold"), pictures.tiles_text(tap.numbers(tap.vectors[kind])))
        for kind, name in names.items()
        if kind in tap.vectors
    ]
    return Columns(drawn, padding=(1, 2))
