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
from typer import Argument, Option

from ccesa import files
from ccesa.agreement.charter import Charter
from ccesa.agreement.identity import Identity
from ccesa.cli import options
from ccesa.cli.output import end_wrong, table
from ccesa.errors import ConfigError, shown
from ccesa.plan import charters, report
from ccesa.privacy import Mechanism
from ccesa.statistics import Schema
from ccesa.values.fields import Fields

charter = typer.Typer(
    help="The agreement of a federation, for rounds with a server that may lie.", no_args_is_help=True
)
#: The maximum of members, groups or values that are shown by name.
_NAMES = 100
_File = Annotated[Path, Argument(metavar="FILE", help="File of the charter.")]
_Key = Annotated[
    Path | None, Option("--identity", help="This site's private key, to check that it is among the members.")
]


@charter.command()
def show(path: _File, as_json: options.Json = False) -> None:
    """Print a charter for people, with its digest to compare between sites, and its promise in words."""
    agreed = Charter.load(path)
    if as_json:
        plain = msgspec.to_builtins(agreed)
        for part in plain.keys() & {"certificate", "privacy"}:  # JSON has no infinity
            figures = {name: value for name, value in plain[part].items() if isinstance(value, float)}
            plain[part] |= {name: max(value, report.IMPOSSIBLE) for name, value in figures.items()}
        typer.echo(json.dumps({"digest": agreed.digest.hex(), **plain}))
    else:
        Console().print(table(_in_words(agreed)))


@charter.command()
def check(path: _File, identity: _Key = None) -> None:
    """Compute a charter's certificate again and check its expiry. Exit with 1 if anything is wrong."""
    try:
        agreed = Charter.load(path)
    except ConfigError as error:  # such as noise or a certificate that contradicts itself
        end_wrong(str(error))
    problems = _problems(agreed, identity)
    if problems:
        end_wrong(*(f"{path}: {problem}" for problem in problems))
    typer.echo(f"{path}: serial {agreed.serial} keeps its promise; digest {agreed.fingerprint}")


@charter.command()
def accept(
    path: _File,
    accepted: Annotated[Path, Option("--as", help="The file that this site's client reads.")],
    identity: _Key = None,
) -> None:
    """Replace the charter of this site with a newer one that you were given by hand.

    First compare the digest with the other sites: accepting the charter binds this site. The file that --as
    names is also the memory of what was accepted. Without that file an older charter would be accepted again.
    """
    agreed = Charter.load(path)
    problems = _problems(agreed, identity)
    before = Charter.load(accepted) if accepted.exists() else agreed
    if agreed.digest != before.digest and agreed.serial <= before.serial:
        problems.append(f"serial {agreed.serial} is not above {before.serial}, the one in force here")
    if problems:
        raise ConfigError(f"{path} is not accepted: {'; '.join(problems)}")
    files.replace(accepted, str(agreed))
    typer.echo(f"{accepted}: serial {agreed.serial} is in force from now on; digest {agreed.fingerprint}")


def _problems(agreed: Charter, identity: Path | None) -> list[str]:
    problems = list(charters.shortfalls(agreed))
    try:
        agreed.check_current(time.time())
        if identity is not None:
            agreed.admission.id_of(Identity.load(identity).public)
    except ConfigError as error:
        problems.append(str(error))
    return problems


def _in_words(agreed: Charter) -> Iterator[tuple[str, str]]:
    """Yield the lines of a charter, the promise first."""
    stated, noise, members = agreed.certificate, agreed.mechanism, len(agreed.members)
    expired = " [red bold]EXPIRED[/red bold]" if time.time() >= agreed.expires else ""
    yield "[bold]charter[/bold]", f"serial {agreed.serial}, until {agreed.expiry}{expired}"
    yield "digest", f"[bold]{agreed.fingerprint}[/bold]"
    yield "members", f"{members:,}: {_some([seat.name for seat in agreed.members])}"
    yield "against", f"a server that lies, and up to {stated.colluders:,} of the members working with it"
    honest = f"at least {stated.least_honest:,} honest members"
    covers = report.covers_in_words(honest, noisy=noise is not None, releases=agreed.releases)
    alone = report.one_sum_in_words(agreed.threshold, members, stated.colluders)
    yield (
        "promise",
        f"[green]{covers}[/green], whoever drops out, except with 2^-{stated.privacy_bits:g} for each roster "
        f"that the server tries{alone * (agreed.releases == 1 and noise is None)}. "
        "This is the charter's word; `ccesa charter check` computes it",
    )
    yield (
        "a round",
        f"has a roster of {agreed.least_roster:,} members or more; members sign no list of fewer than "
        f"{agreed.min_survivors:,} survivors",
    )
    yield "a task", _attempts_in_words(agreed)
    if noise is None:
        yield "excepted", "a server that calls the same work another task; a member that lost its memory"
    yield "needs", f"{quorum_in_words(agreed)} to be present: with fewer no round starts"
    chance = report.probability_in_words(stated.unreliable)
    leaving = report.dropout_in_words(stated.dropout, stated.dropout_per_step or None)
    yield "is lost", f"with probability {chance} if {leaving}"
    yield "graph", _part(agreed.graph)
    yield "threshold", _part(agreed.threshold)
    yield "agreement", agreed.agreement
    yield "vectors", f"{agreed.bits} bits, masks by {agreed.generator}"
    if agreed.learning is not None:
        yield "learning", _part(agreed.learning)
    if agreed.schema is not None:
        yield from _statistics_in_words(agreed.schema)
    if noise is not None:
        yield from _noise_in_words(noise, members)
    elif agreed.learning is not None:
        yield "words", Fields(agreed.learning.field_bits, members).in_words


def _attempts_in_words(agreed: Charter) -> str:
    """Return how often members answer for the same task."""
    sent = f"gets up to {agreed.attempts} vector(s) of a member"
    if agreed.mechanism is not None:
        return f"{sent}, each of which is charged to its ledger"
    released = "once" if agreed.releases == 1 else f"{agreed.releases} times: its sums may differ by few members"
    line = f"{sent}, in one series, and shares for it are released {released}"
    if agreed.schema is None or agreed.attempts == 1:
        return line
    return (
        f"{line}; over all tasks a member sends its table {agreed.attempts} time(s), so sums of two questions may "
        "differ by few members"
    )


def quorum_in_words(agreed: Charter) -> str:
    return f"{agreed.needed:,} of the {len(agreed.members):,} members"


def _statistics_in_words(schema: Schema) -> Iterator[tuple[str, str]]:
    """Yield the parts of a member's table that are counted, and those that are left out."""
    by = f", by {_some(list(schema.group_by))}" if schema.group_by else ""
    yield (
        "statistics",
        f"{_shown(schema.name)}: of tables with up to {schema.max_records:,} records, in {len(schema.cells):,} "
        f"group(s){by}; {schema.length:,} words",
    )
    for column in schema.numbers:
        bounds = f"{column.lower:.10g} to {column.upper:.10g} with {column.places} decimal place(s)"
        yield "number", f"{_shown(column.name)}, {bounds}: {_shown(column.measures)}"
    for category in schema.categories:
        yield "category", f"{_shown(category.name)}: {_some(list(category.values))}"
    if schema.least_group > 1:
        yield (
            "small groups",
            f"a member leaves out each group with fewer than {schema.least_group:,} records, and in the other "
            "groups each column of numbers with fewer values",
        )
    elif schema.privacy_unit == "none":
        yield "small groups", "[yellow]are counted: a group of one record is visible[/yellow]"


def _noise_in_words(mechanism: Mechanism, members: int) -> Iterator[tuple[str, str]]:
    """Yield the promise and the amount of the noise."""
    fields, noise, unit = mechanism.fields, mechanism.noise, report.number_in_words(mechanism)
    yield "noise", report.demand_in_words(mechanism)
    yield (
        "counts on",
        f"{mechanism.honest:,} honest members in every sum that can be opened, and on ledgers: each member "
        "charges every vector to its own",
    )
    yield (
        "a member adds",
        f"noise with a standard deviation of {noise(1):.3g} to each {unit}; a sum has "
        f"{noise(mechanism.honest):.3g} from that many members, {noise(members):.3g} if all "
        f"members are in it; a trusted curator would add {mechanism.curator:.3g}",
    )
    yield (
        "words",
        f"fields of {fields.bits} bits, {fields.per_word} per 64-bit word: {fields.bytes_each:.3g} bytes per {unit}",
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
