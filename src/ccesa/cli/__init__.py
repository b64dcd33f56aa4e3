"""The command line. Mistakes end in one line on standard error and a non-zero exit code, no traceback."""

import sys
from typing import Annotated, Any

import typer

import ccesa
from ccesa.cli.demo import demo
from ccesa.cli.simulate import simulate
from ccesa.errors import CcesaError, UsageError

app = typer.Typer(
    name="ccesa",
    help="Secure aggregation: the server learns the sum of everyone's vectors and nothing else.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(simulate)

#: What the parser raises on a wrong option. Its name and home differ between versions of typer.
_WrongCommandLine: type[Any] = next(
    base for base in reversed(typer.BadParameter.__mro__) if hasattr(base, "exit_code")
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ccesa {ccesa.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Entry point of the ``ccesa`` command."""
    try:
        code = app(standalone_mode=False)
    except CcesaError as error:
        _fail(str(error), 2 if isinstance(error, UsageError) else 1)
    except (typer.Abort, KeyboardInterrupt):
        _fail("stopped", 130)
    except _WrongCommandLine as error:
        _fail(f"{error.format_message()} (ccesa --help shows what there is)", error.exit_code)
    except OSError as error:
        _fail(f"{error.strerror}: {error.filename}" if error.filename else str(error), 1)
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _fail(text: str, code: int) -> None:
    typer.echo("ccesa: " + " ".join(text.split()), err=True)
    sys.exit(code)
