"""``ccesa serve``: run a federation that sites take part in over HTTP."""

from typing import TYPE_CHECKING, Annotated

import typer

from ccesa.cli import LOST, options
from ccesa.cli.importing import imported

if TYPE_CHECKING:
    from ccesa.service import Hub


def serve(
    path: options.FederationFile,
    run: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:COORDINATOR",
            help="Class, or function that returns one: makes tasks and takes results.",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Of this process, where several hubs share a store.", show_default=False)
    ] = None,
    until_over: Annotated[
        bool, typer.Option("--until-over", help="End when all is over, with 3 if sums are missing.")
    ] = False,
    new_series: Annotated[
        bool,
        typer.Option(
            "--new-series",
            help="End a running series and begin another: with a new charter, or after a restored backup.",
        ),
    ] = False,
    log_format: Annotated[str, typer.Option(help="text or json.")] = "text",
) -> None:
    """Run a federation: sites join with `ccesa join`, and the page shows what is going on.

    It can be killed at any moment and started again: rounds go on. Several of them share a federation where
    its store is PostgreSQL.
    """
    from ccesa.service import Federation, Hub, logs

    federation = Federation.load(path)
    logs.set_up(log_format)
    coordinator = None if run is None else imported(run)()
    hub = Hub(federation, coordinator, name=name, until_over=until_over, new_series=new_series)
    hub.serve(_ready)
    if until_over and hub.missing:
        typer.echo(f"ccesa: {hub.missing} of {hub.questions} sums are missing", err=True)
        raise typer.Exit(LOST)


def _ready(hub: "Hub") -> None:
    typer.echo(f"sites: {' or '.join(hub.origins)}")
    typer.echo(f"page:  {hub.page}")
