"""The command line. A mistake ends in one line on standard error and a non-zero exit status."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:  # the packages are imported where an interrupt is caught
    import typer

#: Exit statuses; ``ccesa --help`` says what they mean.
WENT_WRONG, MISTAKE, LOST, STOPPED = 1, 2, 3, 130


def main() -> None:
    """Run the command ``ccesa``."""

    def load() -> "typer.Typer":
        from ccesa.cli.app import app

        return app

    run("ccesa", load)


def run(name: str, load: Callable[[], "typer.Typer"]) -> NoReturn:
    """Run the commands that ``load`` imports, and exit. An error is one line after the name."""
    try:
        status, said = _run(load)
    except KeyboardInterrupt:  # also while the packages are being imported
        status, said = STOPPED, "stopped"
    if said:
        line = " ".join(said.split())
        # Names of files are not ours. Characters that control a terminal are escaped.
        safe = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
        print(f"{name}: {safe}", file=sys.stderr)  # noqa: T201 - the one line
    sys.exit(status)


def _run(load: Callable[[], "typer.Typer"]) -> tuple[int, str]:
    """Run the commands; return the exit status and the line about it."""
    import typer

    from ccesa.errors import CcesaError, RoundFailed, UsageError

    app = load()
    # The parser raises this on a wrong option. Its name and home differ between versions of typer.
    wrong_command_line = next(base for base in reversed(typer.BadParameter.__mro__) if hasattr(base, "exit_code"))
    try:
        code = app(prog_name=app.info.name, standalone_mode=False)
    except CcesaError as error:
        status = LOST if isinstance(error, RoundFailed) else MISTAKE if isinstance(error, UsageError) else WENT_WRONG
        return status, str(error)
    except typer.Abort:
        code = STOPPED
    except MemoryError:
        return WENT_WRONG, "not enough memory for that many clients and elements on this machine"
    except OSError as error:
        return WENT_WRONG, f"{error.strerror}: {error.filename}" if error.filename else str(error)
    except wrong_command_line as error:  # type: ignore[misc]  # an exception, found by what it has
        text = error.format_message()
        where = error.ctx.command_path if error.ctx else app.info.name
        # Without a text it has shown its help already.
        return error.exit_code, f"{text} (see {where} --help)" if text else ""
    if code == STOPPED:
        return STOPPED, "stopped"
    return code if isinstance(code, int) else 0, ""
