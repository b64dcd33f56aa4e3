"""``ccesa serve`` runs a federation that sites take part in over HTTP."""

from typing import TYPE_CHECKING, Annotated

import typer

from ccesa.cli import LOST, options

if TYPE_CHECKING:
    from ccesa.service import Hub


def serve(
    path: options.FederationFile,
    run: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:COORDINATOR",
            help="Your coordinator, which makes tasks and gets results: its class, or a function that returns one.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="A name for this process, if several hubs share a store.")] = None,
    until_over: Annotated[
        bool, typer.Option("--until-over", help="End when the federation is over; exit with 3 if sums are missing.")
    ] = False,
    new_series: Annotated[
        bool,
        typer.Option(
            "--new-series", help="End a running series and begin another: for a new charter, or a restored backup."
        ),
    ] = False,
    log_format: Annotated[str, typer.Option(help="Format of the log: text or json.")] = "text",
) -> None:
    """Run a federation: sites join with `ccesa join`, and the page shows the state of the federation.

    You can kill a hub at any moment and start it again: its rounds continue. With PostgreSQL several hubs can
    share a federation.
    """
    from ccesa.service import Federation, Hub, logs

    federation = Federation.load(path)
    logs.set_up(log_format)
    coordinator = None if run is None else options.import_function(run)()
    hub = Hub(federation, coordinator, name=name, until_over=until_over, new_series=new_series)
    hub.serve(_print_addresses)
    if until_over and hub.missing:
        typer.echo(f"ccesa: {hub.missing} of {hub.questions} sums are missing", err=True)
        raise typer.Exit(LOST)


def _print_addresses(hub: "Hub") -> None:
    typer.echo(f"sites: {' or '.join(hub.origins)}")
    typer.echo(f"page:  {hub.page}")
