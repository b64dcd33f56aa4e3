"""``ccesa join``: take part in a federation."""

import importlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ccesa.cli import STOPPED
from ccesa.errors import ConfigError, quoted, shown
from ccesa.service.participant.core import Contribute
from ccesa.service.participant.driver import Participant
from ccesa.service.participant.events import Event
from ccesa.statistics import Schema, read_csv

_Url = Annotated[str, typer.Argument(metavar="URL", help="Address of the hub.", show_default=False)]
_Charter = Annotated[
    Path | None, typer.Option(help="What the federation has agreed on, your own copy.", show_default=False)
]
_Identity = Annotated[Path | None, typer.Option(help="Your private key.", show_default=False)]
_Token = Annotated[
    str | None,
    typer.Option(
        help="Without a charter: what `ccesa invite` printed for you, or @FILE that has it.",
        envvar="CCESA_TOKEN",
        show_default=False,
    ),
]
_Run = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION",
        help="What is called with the task and the round's number, and returns your contribution.",
        show_default=False,
    ),
]
_Statistics = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Instead of --run: your table, CSV, for joint statistics.", show_default=False
    ),
]
_Memory = Annotated[
    Path | None,
    typer.Option(
        help="Folder that remembers what must not happen twice; by default IDENTITY.memory.",
        show_default=False,
    ),
]
_Ledger = Annotated[
    Path | None, typer.Option(help="What vectors with noise are charged to.", show_default=False)
]
_Ca = Annotated[Path | None, typer.Option(help="Certificates of a private authority.", show_default=False)]
#: How kinds of events look.
_STYLES = {"summed": "green", "refused": "red", "away": "yellow", "late": "yellow", "out": "yellow"}
#: Said only while somebody watches.
_PASSING = {"sending"}


def join(
    url: _Url,
    charter: _Charter = None,
    identity: _Identity = None,
    token: _Token = None,
    run: _Run = None,
    statistics: _Statistics = None,
    memory: _Memory = None,
    ledger: _Ledger = None,
    ca: _Ca = None,
    once: Annotated[bool, typer.Option("--once", help="Take part in one sum, and end.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="End with the first fault, in place of sitting out its round.")
    ] = False,
    insecure_http: Annotated[
        bool, typer.Option("--insecure-http", help="Talk to another machine without TLS, as in a tunnel.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but what goes wrong.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON per event.")] = False,
) -> None:
    """Take part in a federation, until it is over.

    With --charter nothing about a round is taken from the hub that the charter says. Stopping and starting
    again is safe at any moment: rounds in flight go on without you, and you are in the next one.
    """
    if (run is None) == (statistics is None):
        raise ConfigError("say what you contribute: either --run MODULE:FUNCTION or --statistics FILE")
    if memory is None and identity is not None:
        memory = identity.with_name(identity.name + ".memory")
    participant = Participant(
        url,
        charter=charter,
        identity=identity,
        token=_token(token),
        memory=memory,
        ledger=ledger,
        ca=ca,
        insecure_http=insecure_http,
        once=once,
        strict=strict,
        progress=_Printer(quiet, as_json),
    )
    contribute = counting(statistics) if statistics is not None else imported(run or "")
    with _stopped_by(signal.SIGTERM):
        participant.run(contribute)


class _Printer:
    """Prints events; the same one again is said once."""

    def __init__(self, quiet: bool, as_json: bool) -> None:
        self._quiet, self._as_json, self._last = quiet, as_json, ""
        self._console = Console(stderr=True, highlight=False)

    def __call__(self, event: Event) -> None:
        if self._as_json:
            said = {"kind": event.kind, "text": event.text, "round": event.round}
            typer.echo(json.dumps({name: value for name, value in said.items() if value is not None}))
            return
        wrong = event.kind in _STYLES and event.kind != "summed"
        if (self._quiet and not wrong) or event.text == self._last:
            return
        if event.kind in _PASSING and not self._console.is_terminal:
            return
        self._last = event.text
        self._console.print(Text(event.text, style=_STYLES.get(event.kind, "")))


def imported(name: str) -> Contribute:
    """Return a function by module and name; modules of the current folder are found, too."""
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise ConfigError(f"--run takes MODULE:FUNCTION, as in my_module:contribute, not {quoted(name)}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), function, None)
    except ImportError as error:
        raise ConfigError(f"--run: cannot import {quoted(module)}: {shown(str(error), 200)}") from error
    except SyntaxError as error:
        raise ConfigError(f"--run: {error.filename}, line {error.lineno}: {error.msg}") from error
    if not callable(found):
        raise ConfigError(f"--run: there is no function {quoted(function)} in {quoted(module)}")
    return found


def counting(path: Path) -> Contribute:
    """Return a function that gives the records of a table, by the schema that was agreed on."""
    with path.open("rb"):  # what cannot be read is said now
        pass

    def contribute(schema: object, number: int) -> object:
        if not isinstance(schema, Schema):
            raise ConfigError("--statistics: this federation does not ask for statistics; see --run")
        return read_csv(path, schema)

    return contribute


def _token(given: str | None) -> str | None:
    """Return a token that was given itself or, so that no list of processes shows it, in a file."""
    if given is None or not given.startswith("@"):
        return given
    return Path(given[1:]).read_text(encoding="ascii").strip()


@contextmanager
def _stopped_by(number: signal.Signals) -> Iterator[None]:
    """Let a signal end the work as Ctrl-C does: what is secret is dropped on the way out."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, stop)
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(STOPPED) from None
    finally:
        signal.signal(number, before)
