"""The commands, put together."""

from typing import Annotated

import typer

import ccesa
from ccesa.cli.audit import audit
from ccesa.cli.charter import charter
from ccesa.cli.demo import demo
from ccesa.cli.identity import identity
from ccesa.cli.invite import invite
from ccesa.cli.join import join
from ccesa.cli.ledger import ledger
from ccesa.cli.plan import plan
from ccesa.cli.results import results
from ccesa.cli.serve import serve
from ccesa.cli.simulate import simulate
from ccesa.cli.statistics import statistics
from ccesa.crypto.kernels import kernel

app = typer.Typer(
    name="ccesa",
    help="Secure aggregation: the server learns the sum of everyone's vectors and nothing else.",
    epilog="Exit status: 0 done, 1 failed, 2 a wrong call, 3 a round without a sum, 130 stopped.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command()(audit)
app.add_typer(charter, name="charter")
app.command()(demo)
app.add_typer(identity, name="identity")
app.command()(invite)
app.command()(join)
app.add_typer(ledger, name="ledger")
app.command()(plan)
app.command()(results)
app.command()(serve)
app.command()(simulate)
app.add_typer(statistics, name="statistics")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ccesa {ccesa.__version__}")
        typer.echo(f"kernel: {kernel().name}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show the version, and the kernel that adds masks on this machine.",
        ),
    ] = False,
) -> None:
    pass
