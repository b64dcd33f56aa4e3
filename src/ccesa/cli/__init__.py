"""The command line. Mistakes end in one line on standard error and a non-zero exit status, no traceback."""

import sys
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:  # the packages are imported where an interrupt is caught
    from ccesa.errors import CcesaError

#: Exit statuses; ``ccesa --help`` says what they mean.
WENT_WRONG, MISTAKE, LOST, STOPPED = 1, 2, 3, 130


def main() -> None:
    """Entry point of the ``ccesa`` command."""
    try:
        sys.exit(_run())
    except KeyboardInterrupt:  # also while the packages are being imported
        _fail("stopped", STOPPED)


def _run() -> int:
    import typer

    from ccesa.cli.app import app
    from ccesa.errors import CcesaError

    # What the parser raises on a wrong option. Its name and home differ between versions of typer.
    wrong_command_line = next(
        base for base in reversed(typer.BadParameter.__mro__) if hasattr(base, "exit_code")
    )
    try:
        code = app(standalone_mode=False)
    except CcesaError as error:
        _fail(str(error), _status(error))
    except typer.Abort:
        _fail("stopped", STOPPED)
    except MemoryError:
        _fail("not enough memory for that many clients and elements on this machine", WENT_WRONG)
    except OSError as error:
        _fail(f"{error.strerror}: {error.filename}" if error.filename else str(error), WENT_WRONG)
    except wrong_command_line as error:  # type: ignore[misc]  # an exception, found by what it has
        text = error.format_message()
        if not text:  # it has shown its help already
            sys.exit(error.exit_code)
        where = error.ctx.command_path if error.ctx else "ccesa"
        _fail(f"{text} ({where} --help shows what there is)", error.exit_code)
    if code == STOPPED:
        _fail("stopped", STOPPED)
    return code if isinstance(code, int) else 0


def _status(error: "CcesaError") -> int:
    from ccesa.errors import RoundFailed, UsageError

    if isinstance(error, RoundFailed):
        return LOST
    return MISTAKE if isinstance(error, UsageError) else WENT_WRONG


def _fail(text: str, code: int) -> NoReturn:
    line = " ".join(text.split())
    # Names of files are not ours: what a terminal would obey is escaped.
    safe = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)
    print(f"ccesa: {safe}", file=sys.stderr)  # noqa: T201 - the one line
    sys.exit(code)
