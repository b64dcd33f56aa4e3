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
from ccesa.agreement.charter import OF_GRAPHS, Charter
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
#: Fields by which two charters are compared, besides their members and helpers.
_STATED = ("colluders", "least_honest", "privacy_bits")
_COMPARED = (
    *(*_STATED, *OF_GRAPHS[:3], "key_days", "min_survivors", "agreement", "generator", "bits", "attempts"),
    *("releases", "learning", "privacy", "statistics"),
)
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
        for name in () if agreed.guard.has_graph else OF_GRAPHS:
            del plain[name]  # placeholders that nobody reads
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
    for line in list_changes(before, agreed):
        Console().print(f"changed  {line}", soft_wrap=True)
    files.replace(accepted, str(agreed))
    typer.echo(f"{accepted}: serial {agreed.serial} is in force from now on; digest {agreed.fingerprint}")


def _problems(agreed: Charter, identity: Path | None) -> list[str]:
    problems = list(charters.shortfalls(agreed))
    try:
        agreed.check_current(time.time())
        if identity is not None:
            _check_named(agreed, Identity.load(identity).public)
    except ConfigError as error:
        problems.append(str(error))
    return problems


def _check_named(agreed: Charter, key: bytes) -> None:
    """Refuse a key that is neither a member's nor a helper's."""
    if key not in {seat.key for seat in agreed.helper_seats}:
        agreed.admission.id_of(key)


def list_changes(before: Charter | None, after: Charter) -> Iterator[str]:
    """Yield what a charter changes, but for serial and expiry."""
    if before is None:
        return
    if before.guard != after.guard:
        yield f"guard: {before.guard.name} -> {after.guard.name}"
    for name, one, other in (
        ("members", before.members, after.members),
        ("helpers", before.helper_seats, after.helper_seats),
    ):
        old, new = ({seat.name: seat.key for seat in seats} for seats in (one, other))
        gone, come = old.keys() - new.keys(), new.keys() - old.keys()
        keys = {seat for seat in old.keys() & new.keys() if old[seat] != new[seat]}
        for what, names in (("leave", gone), ("join", come), ("have another key", keys)):
            if names:
                yield f"{name} that {what}: {_some(sorted(names))}"
    for name in _COMPARED:
        was, now = _figure(before, name), _figure(after, name)
        if was != now:
            yield f"{name}: {was} -> {now}"


def _figure(agreed: Charter, name: str) -> str:
    """Return a field in words; a promise about colluders is in the certificate under every guard."""
    value = getattr(agreed.certificate if name in _STATED else agreed, name)
    if (name in OF_GRAPHS and not agreed.guard.has_graph) or value is msgspec.UNSET:
        return "none"
    return _part(value) if isinstance(value, msgspec.Struct) else _shown(value)


def _in_words(agreed: Charter) -> Iterator[tuple[str, str]]:
    """Yield the lines of a charter, the promise first."""
    noise, members = agreed.mechanism, len(agreed.members)
    expired = " [red bold]EXPIRED[/red bold]" if time.time() >= agreed.expires else ""
    yield "[bold]charter[/bold]", f"serial {agreed.serial}, until {agreed.expiry}{expired}"
    yield "digest", f"[bold]{agreed.fingerprint}[/bold]"
    yield "members", f"{members:,}: {_some([seat.name for seat in agreed.members])}"
    yield from _helpers_in_words(agreed) if agreed.helper_seats else _graph_in_words(agreed)
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


def _graph_in_words(agreed: Charter) -> Iterator[tuple[str, str]]:
    """Yield the lines of a charter whose members mask along a graph."""
    stated, noise, members = agreed.certificate, agreed.mechanism, len(agreed.members)
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


def _helpers_in_words(agreed: Charter) -> Iterator[tuple[str, str]]:
    """Yield the lines of a charter with helpers."""
    stated, seats = agreed.certificate, {seat.key for seat in agreed.members}
    promise, waits, _ = agreed.promises
    names = [_shown(seat.name) + " (also a member)" * (seat.key in seats) for seat in agreed.helper_seats]
    helping = sum(seat.key in seats for seat in agreed.helper_seats)
    yield "helpers", f"{len(names)}: {', '.join(names)}"
    yield (
        "trusted with",
        "each helper: not to open vectors together with the hub and all other helpers, to answer in every round, and "
        f"to keep its keys out of backups; it destroys each key after {agreed.longest_key_days} day(s) at the latest",
    )
    yield "against", f"a server that lies, and up to {stated.colluders:,} of the members working with it"
    yield "promise", f"[green]{escape(promise)}[/green]"
    yield "assumes", report.assumed_in_words(helping, stated.colluders)
    yield "a task", _attempts_in_words(agreed)
    if agreed.mechanism is None:
        yield "excepted", "a server that calls the same work another task; a member or helper that lost its memory"
    yield "needs", f"{quorum_in_words(agreed)}: with fewer there is no sum. {waits}"


def _attempts_in_words(agreed: Charter) -> str:
    """Return how often members answer for the same task."""
    sent = f"gets up to {agreed.attempts} vector(s) of a member"
    if agreed.mechanism is not None:
        return f"{sent}, each of which is charged to its ledger"
    if not agreed.guard.has_graph:
        return f"{sent}, in one series, and each helper answers about it in one round"
    released = "once" if agreed.releases == 1 else f"{agreed.releases} times: its sums may differ by few members"
    line = f"{sent}, in one series, and shares for it are released {released}"
    if agreed.schema is None or agreed.attempts == 1:
        return line
    return (
        f"{line}; over all tasks a member sends its table {agreed.attempts} time(s), so sums of two questions may "
        "differ by few members"
    )


def quorum_in_words(agreed: Charter) -> str:
    return f"{agreed.needed:,} of the {len(agreed.members):,} members" + " and all helpers" * bool(agreed.helper_seats)


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
