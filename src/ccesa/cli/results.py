"""``ccesa results``: what came out of a federation, for whoever runs its hub."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from ccesa.cli import LOST, options
from ccesa.errors import shown

if TYPE_CHECKING:
    from ccesa.service.store.rows import RoundRow


def results(
    path: options.FederationFile,
    question: Annotated[int | None, typer.Option(min=0, help="Only this one, from 0 on.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="A line of JSON per sum, as sites get it.")] = False,
) -> None:
    """Print the sums of a federation, also beside a running hub; exit with 3 if there is none.

    Words are printed as numbers, the first of them where there are many; arrays by name and shape; statistics
    as a report. With --json nothing is left out.
    """
    from ccesa.service import Federation
    from ccesa.service.hub.agenda import describe_result, form_of_series, value_of
    from ccesa.service.store import open_store

    federation = Federation.load(path)
    store = open_store(federation.store, create=False)
    try:
        wanted = range(max(federation.rounds, store.count_questions())) if question is None else [question]
        rows = [row for row in map(store.total_of, wanted) if row is not None]
        for row in rows:
            if as_json:
                typer.echo(json.dumps(describe_result(federation, store, row.question or 0)))
            else:
                form = form_of_series(federation, store, row.series)
                typer.echo(_told(row, form.in_words(value_of(federation, store, row))))
    finally:
        store.close()
    if not rows:
        raise typer.Exit(LOST)


def _told(row: "RoundRow", value: str) -> str:
    """Return a sum for people; what a coordinator has called its numbers is escaped."""
    metrics = "".join(f", {shown(name)} {number:.6g}" for name, number in row.metrics.items())
    lines = [f"  {shown(line, 500)}" for line in value.splitlines()]
    return "\n".join([f"question {row.question}: a sum over {len(row.survivors)}{metrics}", *lines])
