"""``ccesa charter`` shows and checks the agreement of a federation, and accepts it for a site."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.markup import escape

from ccesa import files
from ccesa.agreement.charter import Charter
from ccesa.agreement.identity import Identity
from ccesa.cli import WENT_WRONG, options
from ccesa.cli.output import lines
from ccesa.errors import ConfigError, shown
from ccesa.plan import charters, report
from ccesa.privacy import Mechanism
from ccesa.statistics import Schema
from ccesa.values.fields import Fields

charter = typer.Typer(
    help="The agreement of a federation, for rounds with a server that may lie.", no_args_is_help=True
)
#: Members that are shown by name.
_NAMES = 100
_File = Annotated[Path, typer.Argument(metavar="FILE", help="File of the charter.", show_default=False)]
_Key = Annotated[
    Path | None,
    typer.Option(
        "--identity", help="This site's private key, to check that it is among the members.", show_default=False
    ),
]


@charter.command()
def show(path: _File, as_json: options.Json = False) -> None:
    """Print a charter for people, with its digest to compare between sites, and its promise in words."""
    found = Charter.load(path)
    if as_json:
        typer.echo(json.dumps({"digest": found.digest.hex(), **_plain(found)}))
    else:
        Console().print(lines(_in_words(found)))


@charter.command()
def check(path: _File, identity: _Key = None) -> None:
    """Compute a charter's certificate again and check its expiry. Exit with 1 if anything is wrong."""
    try:
        found = Charter.load(path)
    except ConfigError as error:  # such as noise or a certificate that contradicts itself
        typer.echo(str(error), err=True)
        raise typer.Exit(WENT_WRONG) from error
    problems = _problems(found, identity)
    for problem in problems:
        typer.echo(f"{path}: {problem}", err=True)
    if problems:
        raise typer.Exit(WENT_WRONG)
    typer.echo(f"{path}: serial {found.serial} keeps its promise; digest {found.fingerprint}")


@charter.command()
def accept(
    path: _File,
    accepted: Annotated[Path, typer.Option("--as", help="The file that this site's client reads.")],
    identity: _Key = None,
) -> None:
    """Replace the charter of this site with a newer one that you were given by hand.

    First compare the digest with the other sites: accepting the charter binds this site. The file that --as
    names is also the memory of what was accepted. Without that file an older charter would be accepted again.
    """
    found = Charter.load(path)
    problems = _problems(found, identity)
    holds = Charter.load(accepted) if accepted.exists() else found
    if found.digest != holds.digest and found.serial <= holds.serial:
        problems.append(f"serial {found.serial} is not above {holds.serial}, the one in force here")
    if problems:
        raise ConfigError(f"{path} is not accepted: {'; '.join(problems)}")
    files.replace(accepted, str(found))
    typer.echo(f"{accepted}: serial {found.serial} is in force from now on; digest {found.fingerprint}")


def _in_words(found: Charter) -> Iterator[tuple[str, str]]:
    """Yield the lines of a charter, the promise first."""
    told = found.certificate
    expired = " [red bold]EXPIRED[/red bold]" if time.time() >= found.expires else ""
    yield "[bold]charter[/bold]", f"serial {found.serial}, until {found.expiry}{expired}"
    yield "digest", f"[bold]{found.fingerprint}[/bold]"
    yield "members", f"{len(found.members):,}: {_some([seat.name for seat in found.members])}"
    yield "against", f"a server that lies, and up to {told.colluders:,} of the members working with it"
    noisy, honest = found.mechanism is not None, f"at least {told.least_honest:,} honest members"
    covers = report.covers_in_words(honest, noisy=noisy, releases=found.releases)
    alone = report.one_sum_in_words(found.threshold, len(found.members), told.colluders)
    yield (
        "promise",
        f"[green]{covers}[/green], whoever drops out, except with 2^-{told.privacy_bits:g} for each roster "
        f"that the server tries{alone * (found.releases == 1 and not noisy)}. "
        "This is the charter's word; `ccesa charter check` computes it",
    )
    yield (
        "a round",
        f"has a roster of {found.least_roster:,} members or more; members sign no list of fewer than "
        f"{found.min_survivors:,} survivors",
    )
    yield "a task", _attempts_in_words(found)
    if not noisy:
        yield "excepted", "a server that calls the same work another task; a member that lost its memory"
    yield "needs", f"{quorum_in_words(found)} to be there: with fewer no round starts"
    chance = report.probability_in_words(told.unreliable)
    leaving = report.dropout_in_words(told.dropout, told.dropout_per_step or None)
    yield "is lost", f"with probability {chance} if {leaving}"
    yield "graph", _part(found.graph)
    yield "threshold", _part(found.threshold)
    yield "agreement", found.agreement
    yield "vectors", f"{found.bits} bits, masks by {found.generator}"
    if found.learning is not None:
        yield "learning", _part(found.learning)
    if found.schema is not None:
        yield from _statistics_in_words(found.schema)
    if found.mechanism is not None:
        yield from _noise_in_words(found.mechanism, len(found.members))
    elif found.learning is not None:
        yield "words", Fields(found.learning.field_bits, len(found.members)).in_words


def _attempts_in_words(found: Charter) -> str:
    """Return how often members answer for the same task, in words."""
    sent = f"gets up to {found.attempts} vector(s) of a member"
    if found.mechanism is not None:
        return f"{sent}, each of which is charged to its ledger"
    released = "once" if found.releases == 1 else f"{found.releases} times: its sums may differ by few members"
    table = (
        f"; over all tasks a member sends its table {found.attempts} time(s), so sums of two questions may "
        "differ by few members"
    )
    return f"{sent}, in one series, and shares for it are released {released}" + table * (
        found.schema is not None and found.attempts > 1
    )


def quorum_in_words(found: Charter) -> str:
    return f"{found.needed:,} of the {len(found.members):,} members"


def _statistics_in_words(schema: Schema) -> Iterator[tuple[str, str]]:
    """Describe which parts of a member's table are counted, and which are left out."""
    groups = f"{len(schema.cells):,} group(s)"
    by = f", by {_some(list(schema.group_by))}" if schema.group_by else ""
    yield (
        "statistics",
        f"{_shown(schema.name)}: of tables with up to {schema.max_records:,} records, in {groups}{by}; "
        f"{schema.length:,} words",
    )
    for column in schema.numbers:
        bounds = f"{column.lower:.10g} to {column.upper:.10g} with {column.places} decimal place(s)"
        yield "number", f"{_shown(column.name)}, {bounds}: {_shown(column.measures)}"
    for category in schema.categories:
        yield "category", f"{_shown(category.name)}: {_some(list(category.values))}"
    if schema.least_group > 1:
        yield (
            "small groups",
            f"a member leaves out each group of which it has fewer than {schema.least_group:,} records, and "
            "in others each column of numbers with fewer values",
        )
    elif schema.privacy_unit == "none":
        yield "small groups", "[yellow]are counted: a group of one record is visible[/yellow]"


def _noise_in_words(mechanism: Mechanism, members: int) -> Iterator[tuple[str, str]]:
    """Describe the promise and the amount of the noise."""
    fields, noise, each = mechanism.fields, mechanism.noise, report.number_in_words(mechanism)
    yield "noise", report.demand_in_words(mechanism)
    yield (
        "counts on",
        f"{mechanism.honest:,} honest members in every sum that can be opened, and on ledgers: each member "
        "charges every vector to its own",
    )
    yield (
        "a member adds",
        f"noise with a standard deviation of {noise(1):.3g} to each {each}; a sum has "
        f"{noise(mechanism.honest):.3g} from that many members, {noise(members):.3g} if all "
        f"members are in it; a trusted curator would add {mechanism.curator:.3g}",
    )
    yield (
        "words",
        f"fields of {fields.bits} bits, {fields.per_word} per 64-bit word: {fields.bytes_each:.3g} bytes per {each}",
    )


def _part(part: msgspec.Struct) -> str:
    values = {name: value for name, value in msgspec.to_builtins(part).items() if value is not None}
    kind = [str(values.pop("type"))] if "type" in values else []
    return ", ".join(kind + [f"{name} = {_shown(value)}" for name, value in values.items()])


def _shown(value: object) -> str:
    """Return a name as plain text, without markup: the author of the file chose it."""
    words = value if isinstance(value, list | tuple) else [value]
    return " ".join(escape(shown(str(word), 100)) for word in words) or "none"


def _some(names: list[str]) -> str:
    rest = f", and {len(names) - _NAMES:,} more (--json has all)" if len(names) > _NAMES else ""
    return ", ".join(map(_shown, names[:_NAMES])) + rest


def _plain(found: Charter) -> dict[str, object]:
    """Return the charter's fields for JSON, which has no infinity."""
    plain = msgspec.to_builtins(found)
    for table in ("certificate", "privacy"):
        if table in plain:
            plain[table] = {
                name: max(value, report.IMPOSSIBLE) if isinstance(value, float) else value
                for name, value in plain[table].items()
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
