"""``ccesa charter``: what a federation has agreed on, in words, checked, and accepted by a site."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ccesa import files
from ccesa.charter import Charter, Learning
from ccesa.cli.output import check_output
from ccesa.errors import ConfigError, shown
from ccesa.identity import Admission, Identity
from ccesa.plan import Plan, charters, report

charter = typer.Typer(
    help="What a federation has agreed on, for rounds with a server that may lie.",
    no_args_is_help=True,
)
YEAR = 365 * 24 * 3600
_File = Annotated[Path, typer.Argument(help="File of the charter.", show_default=False)]
_Key = Annotated[
    Path | None,
    typer.Option("--identity", help="This site's private key: is it among the members?", show_default=False),
]


@charter.command()
def show(
    path: _File,
    as_object: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Print a charter for people: its digest, which all sites compare, and its promise in words."""
    found = Charter.load(path)
    if as_object:
        typer.echo(json.dumps({"digest": found.digest.hex(), **_plain(found)}))
        return
    Console().print(table(found))


@charter.command()
def check(path: _File, identity: _Key = None) -> None:
    """Compute a charter's certificate anew, and look at its expiry; exit with 1 if anything is wrong."""
    found = Charter.load(path)
    problems = _problems(found, identity)
    for problem in problems:
        typer.echo(f"{path}: {problem}", err=True)
    if problems:
        raise typer.Exit(1)
    typer.echo(f"{path}: serial {found.serial} keeps what it promises; digest {found.fingerprint}")


@charter.command()
def accept(
    path: _File,
    accepted: Annotated[Path, typer.Option("--as", help="The file that this site's client reads.")],
    identity: _Key = None,
) -> None:
    """Take a charter that you were given by hand in place of the one that holds here, if it is newer.

    Compare the digest with the other sites first: accepting is what binds this site.
    """
    found = Charter.load(path)
    problems = [*_problems(found, identity), *_not_newer(found, accepted)]
    if problems:
        raise ConfigError(f"{path} is not accepted: {'; '.join(problems)}")
    files.replace(accepted, str(found))
    typer.echo(f"{accepted}: serial {found.serial} holds from now on; digest {found.fingerprint}")


def check_place(path: Path, members: Admission | None, guard: str) -> None:
    """Refuse what cannot become a charter before the plan is made, not after it."""
    if guard != "active":
        raise ConfigError("--charter goes with --guard active: under curious the server follows the protocol")
    if members is None:
        raise ConfigError("--charter needs --members: the admission list of all who agree on it")
    check_output(path, "--charter")
    if path.exists():
        raise ConfigError(f"--charter: {path} is there already; a charter is never overwritten")


def write(
    path: Path,
    made: Plan,
    members: Admission,
    replaces: Path | None,
    expires: datetime | None,
    attempts: int,
    learning: bool,
) -> None:
    """The charter of a plan into a new file, with what to do next."""
    before = None if replaces is None else Charter.load(replaces)
    ends = int(time.time()) + YEAR if expires is None else int(expires.replace(tzinfo=UTC).timestamp())
    found = charters.charter(
        made,
        members,
        expires=ends,
        serial=1 if before is None else before.serial + 1,
        attempts=attempts,
        learning=before.learning if before is not None else Learning() if learning else None,
    )
    found.check_current()
    files.write_new(path, str(found), private=False)
    console = Console()
    console.print(
        f"\n[bold]charter[/bold]  {path}, serial {found.serial}, until {found.expiry}", soft_wrap=True
    )
    console.print(f"digest   [bold]{found.fingerprint}[/bold]", soft_wrap=True)
    console.print("send it to every member, who compares the digest: ccesa charter show FILE", soft_wrap=True)


def table(found: Charter) -> Table:
    """All of it in words, the promise first."""
    told = found.certificate
    rows = Table(show_header=False, box=None, pad_edge=False)
    rows.add_row("[bold]charter[/bold]", f"serial {found.serial}, until {found.expiry}")
    rows.add_row("digest", f"[bold]{found.fingerprint}[/bold]")
    rows.add_row("members", f"{len(found.members):,}: {_some([seat.name for seat in found.members])}")
    rows.add_row("against", f"a server that lies, and up to {told.colluders:,} members that work with it")
    rows.add_row(
        "promise",
        f"[green]whatever is opened is a sum over at least {told.least_honest:,} honest members[/green], "
        f"whoever drops out, except with 2^-{told.privacy_bits:g} for each roster that the server tries",
    )
    rows.add_row(
        "a round",
        f"has a roster of {found.least_roster:,} members or more and opens nothing below "
        f"{found.min_survivors:,} survivors; {found.attempts} vector(s) of a member for one task",
    )
    rows.add_row(
        "is lost",
        f"with probability {report.probability_in_words(told.unreliable)} if {told.dropout:.3g} vanish",
    )
    rows.add_row("graph", _part(found.graph))
    rows.add_row("threshold", _part(found.threshold))
    rows.add_row("vectors", f"{found.bits} bits, masks by {found.generator}")
    if found.learning is not None:
        rows.add_row("learning", _part(found.learning))
    return rows


def _part(part: msgspec.Struct) -> str:
    values = {name: value for name, value in msgspec.to_builtins(part).items() if value is not None}
    kind = [str(values.pop("type"))] if "type" in values else []
    return ", ".join(kind + [f"{name} = {_shown(value)}" for name, value in values.items()])


def _shown(value: object) -> str:
    """Names come from whoever wrote the file: plain text, whatever they look like."""
    words = value if isinstance(value, list | tuple) else [value]
    return " ".join(escape(shown(str(word), 100)) for word in words) or "none"


def _some(names: list[str]) -> str:
    return ", ".join(map(_shown, names[:6])) + (", …" if len(names) > 6 else "")


def _plain(found: Charter) -> dict[str, object]:
    """As JSON has it, which knows no infinity."""
    plain = msgspec.to_builtins(found)
    plain["certificate"] = {
        name: max(value, report.IMPOSSIBLE) for name, value in plain["certificate"].items()
    }
    return plain


def _problems(found: Charter, identity: Path | None) -> list[str]:
    problems = list(charters.shortfalls(found))
    try:
        found.check_current(time.time())
        if identity is not None:
            found.admission.id_of(Identity.load(identity).public)
    except ConfigError as error:
        problems.append(str(error))
    return problems


def _not_newer(found: Charter, accepted: Path) -> list[str]:
    if not accepted.exists():
        return []
    holds = Charter.load(accepted)
    if found.digest == holds.digest or found.serial > holds.serial:
        return []
    return [f"serial {found.serial} is not above {holds.serial}, which holds here"]
