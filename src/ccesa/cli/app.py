"""The commands, put together."""

from typing import Annotated

import typer
from typer import Option

import ccesa
from ccesa.cli.charter import charter
from ccesa.cli.demo import demo
from ccesa.cli.hub import audit, invite, results, serve
from ccesa.cli.identity import identity
from ccesa.cli.join import assist, join
from ccesa.cli.ledger import ledger
from ccesa.cli.plan import plan
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
for command in (assist, audit, demo, invite, join, plan, results, serve, simulate):
    app.command()(command)
for name, group in {"charter": charter, "identity": identity, "ledger": ledger, "statistics": statistics}.items():
    app.add_typer(group, name=name)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ccesa {ccesa.__version__}")
        typer.echo(f"kernel: {kernel().name}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show the version, and the kernel that adds masks on this machine.",
        ),
    ] = False,
) -> None:
    pass
