"""``ccesa join`` takes part in a federation."""

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import IO, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text
from typer import Argument, Option

from ccesa import files
from ccesa.agreement.charter import Charter
from ccesa.cli import STOPPED, options
from ccesa.errors import ConfigError, shown
from ccesa.service.participant.assistant import Assistant
from ccesa.service.participant.calls import Event
from ccesa.service.participant.driver import Participant
from ccesa.service.participant.site import Contribute
from ccesa.statistics import Schema, read_csv
from ccesa.statistics.tally import check_columns

_NO_STATISTICS = "this federation asks for no statistics: its charter has no [statistics]"
#: Styles of kinds of events.
_STYLES = {"summed": "green", "nothing": "red", "refused": "red", "away": "yellow", "late": "yellow", "out": "yellow"}
#: Kinds that are printed only to a terminal.
_PASSING = {"sending"}


@dataclass(frozen=True, kw_only=True)
class SiteOptions:
    """Arguments of ``Participant``."""

    charter: Annotated[Path | None, Option(help="Your own copy of the charter.")] = None
    identity: Annotated[Path | None, Option(help="Your private key.")] = None
    token: Annotated[
        str | None,
        Option(envvar="CCESA_TOKEN", help="Without a charter: your token from `ccesa invite`, or @FILE with it."),
    ] = field(default=None, repr=False)
    memory: Annotated[
        Path | None, Option(help="Folder of this site's memory (IDENTITY.memory). Never restore it from a backup.")
    ] = None
    ledger: Annotated[Path | None, Option(help="Ledger that is charged for vectors with noise.")] = None
    ca: Annotated[Path | None, Option(help="File with certificates of a private authority.")] = None
    answer_after: Annotated[
        float | None,
        Option(
            metavar="SECONDS",
            help="With noise: send every vector this many seconds after your function was called, so that the "
            "time reveals nothing about your data. If the vector is not ready by then, send noise around zeros.",
        ),
    ] = None
    once: Annotated[bool, Option("--once", help="Take part in one sum only.")] = False
    strict: Annotated[bool, Option("--strict", help="End at the first fault, not only its round.")] = False
    insecure_http: Annotated[
        bool, Option("--insecure-http", help="Allow another machine without TLS, for use inside a tunnel.")
    ] = False

    def make(self, url: str, **others: Any) -> Participant:
        memory = self.memory
        if memory is None and self.identity is not None:
            memory = memory_of(self.identity)
        token = self.token
        if token is not None and token.startswith("@"):  # a file hides it from the list of processes
            token = files.read_trusted(token[1:], 4096, private=True).strip()
        return Participant(url, **vars(self) | {"token": token, "memory": memory}, **others)


@options.group_options
def join(
    *,
    url: Annotated[str, Argument(metavar="URL", help="Address of the hub.")],
    run: Annotated[
        str | None,
        Option(
            metavar="MODULE:FUNCTION",
            help="Your function. It gets the task and the number of the round, and returns your contribution.",
        ),
    ] = None,
    statistics: Annotated[
        Path | None,
        Option(metavar="CSV", help="In place of --run: your table. The charter says which columns are counted."),
    ] = None,
    results: Annotated[
        Path | None,
        Option(help="New file for published results, in lines of JSON. It appears when the federation is over."),
    ] = None,
    site: SiteOptions,
    max_task_mib: Annotated[
        int | None,
        Option(min=1, metavar="MIB", help="The largest task to fetch (as large as the federation can need)."),
    ] = None,
    quiet: Annotated[bool, Option("--quiet", help="Print only problems.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object per event.")] = False,
) -> None:
    """Take part in a federation until it is over.

    With --charter, the hub cannot change anything that the charter says. You can stop and start again at any
    moment: rounds in flight continue without you, and you take part in the next one.
    """
    if (run is None) == (statistics is None):
        raise ConfigError("give either --run MODULE:FUNCTION or --statistics CSV")
    contribute = contribute_table(statistics, site.charter) if statistics else options.import_function(run or "")
    collected = _Collected(results, prints=statistics is not None and not quiet)
    if results is not None and results.exists():
        raise ConfigError(f"{results} already exists and will not be overwritten")
    participant = site.make(
        url,
        progress=_Printer(quiet, as_json),
        results=collected.take if results or statistics else None,
        max_task_bytes=None if max_task_mib is None else max_task_mib << 20,
    )
    with _stopped_by(signal.SIGTERM), collected:
        participant.run(contribute)
    if results is not None and not results.exists():
        files.write_new(results, "", private=False)  # nothing was published


def assist(
    url: Annotated[str, Argument(metavar="URL", help="Address of the hub.")],
    charter: Annotated[Path, Option(help="Your own copy of the charter.")],
    identity: Annotated[Path, Option(help="Your private key.")],
    memory: Annotated[
        Path | None, Option(help="Folder of this helper's memory (IDENTITY.memory), beside its keys. Never restore it.")
    ] = None,
    ca: Annotated[Path | None, Option(help="File with certificates of a private authority.")] = None,
    insecure_http: Annotated[
        bool, Option("--insecure-http", help="Allow another machine without TLS, for use inside a tunnel.")
    ] = False,
    quiet: Annotated[bool, Option("--quiet", help="Print only problems.")] = False,
    as_json: Annotated[bool, Option("--json", help="Print one JSON object per event.")] = False,
) -> None:
    """Help the members of a federation until it is over, without a vector of your own.

    A helper holds a key of each round, for some days at most. The hub can open a sum only with the answers of all
    helpers. A member that is also a helper runs `ccesa join`, which does both.
    """
    assistant = Assistant(
        url,
        charter=charter,
        identity=identity,
        memory=memory_of(identity) if memory is None else memory,
        ca=ca,
        insecure_http=insecure_http,
        progress=_Printer(quiet, as_json),
    )
    with _stopped_by(signal.SIGTERM):
        assistant.run()


def memory_of(identity: Path) -> Path:
    """Return the usual folder of a memory."""
    return identity.with_name(identity.name + ".memory")


def contribute_table(table: Path, charter: Path | None) -> Contribute:
    """Return a function that contributes the records of a table, read again for every question.

    Refuse a table without the charter's columns at once. Do not look at its records then: with noise, they
    must not decide whether a site takes part.
    """
    if not table.is_file():
        raise ConfigError(f"there is no table {table}")

    def contribute(schema: object, number: int) -> Iterator[dict[str, Any]]:
        if not isinstance(schema, Schema):
            raise ConfigError(_NO_STATISTICS)
        return read_csv(table, schema)

    if charter is not None:
        schema = Charter.load(charter).schema
        if schema is None:
            raise ConfigError(_NO_STATISTICS)
        check_columns(table, schema)
    return contribute


class _Collected(ExitStack):
    """Writes results to a file as they come, or prints reports. It keeps only one at a time in memory."""

    def __init__(self, path: Path | None, prints: bool) -> None:
        super().__init__()
        self._path, self._prints = path, prints
        self._file: IO[bytes] | None = None

    def take(self, result: dict[str, Any]) -> None:
        """Write a result to the file, or print a report in the hub's words, without control characters."""
        value = result["value"]
        if self._path is not None:
            if self._file is None:
                self._file = self.enter_context(files.new_file(self._path, private=False))
            self._file.write(json.dumps(result).encode() + b"\n")
        elif self._prints and isinstance(value, dict):
            for line in str(value.get("text") or "").splitlines():
                typer.echo(shown(line, 200))


class _Printer:
    """Prints events; repeated ones only once."""

    def __init__(self, quiet: bool, as_json: bool) -> None:
        self._quiet, self._as_json, self._last = quiet, as_json, ""
        self._console = Console(stderr=True, highlight=False)

    def __call__(self, event: Event) -> None:
        if self._as_json:
            typer.echo(json.dumps({name: value for name, value in asdict(event).items() if value is not None}))
            return
        wrong = event.kind in _STYLES and event.kind != "summed"
        if (self._quiet and not wrong) or event.text == self._last:
            return
        if event.kind in _PASSING and not self._console.is_terminal:
            return
        self._last = event.text
        self._console.print(Text(event.text, style=_STYLES.get(event.kind, "")))


@contextmanager
def _stopped_by(number: signal.Signals) -> Iterator[None]:
    """Let a signal end the work as Ctrl-C does, which drops all secrets."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, stop)
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(STOPPED) from None
    finally:
        signal.signal(number, before)
