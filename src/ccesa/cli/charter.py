"""``ccesa charter`` shows and checks the agreement of a federation, and accepts it for a site."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.markup import escape

from ccesa import files
from ccesa.agreement.charter import Charter, Learning
from ccesa.agreement.identity import Admission, Identity
from ccesa.cli import WENT_WRONG, options
from ccesa.cli.output import check_output, lines
from ccesa.errors import ConfigError, shown
from ccesa.guards import guard_named
from ccesa.plan import Plan, charters, report
from ccesa.privacy import Mechanism
from ccesa.statistics import Schema
from ccesa.values.fields import Fields, is_positive

charter = typer.Typer(
    help="The agreement of a federation, for rounds with a server that may lie.", no_args_is_help=True
)
YEAR = 365 * 24 * 3600
#: The most members that are shown by name.
_NAMES = 100
_File = Annotated[Path, typer.Argument(metavar="FILE", help="File of the charter.", show_default=False)]
_Key = Annotated[
    Path | None,
    typer.Option(
        "--identity",
        help="This site's private key, to check that it is among the members.",
        show_default=False,
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
    """Compute a charter's certificate anew, and check its expiry; exit with 1 if anything is wrong."""
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
    """Accept a charter that you were given by hand, if it is newer than the one in force here.

    Compare the digest with the other sites first: this site is bound once it accepts. The file of --as also
    remembers the accepted serial. If that file is lost, this command takes an older charter again.
    """
    found = Charter.load(path)
    problems = _problems(found, identity)
    holds = Charter.load(accepted) if accepted.exists() else found
    if found.digest != holds.digest and found.serial <= holds.serial:
        problems.append(f"serial {found.serial} is not above {holds.serial}, which is in force here")
    if problems:
        raise ConfigError(f"{path} is not accepted: {'; '.join(problems)}")
    files.replace(accepted, str(found))
    typer.echo(f"{accepted}: serial {found.serial} is in force from now on; digest {found.fingerprint}")


@dataclass(frozen=True)
class Values:
    """The options of ``ccesa plan`` about values, in fields of 64-bit words."""

    clients: int
    bits: int | None
    precision: float | None
    clip: float

    def __post_init__(self) -> None:
        if None not in (self.bits, self.precision):
            raise ConfigError("give either --value-bits or --precision, not both")
        if not is_positive(self.clip):
            raise ConfigError(f"--clip must be a positive number, not {self.clip}")

    @property
    def asked(self) -> bool:
        """Whether an option asks for a width; else fields have 32 bits."""
        return (self.bits, self.precision) != (None, None)

    @cached_property
    def fields(self) -> Fields:
        return Fields.chosen(self.clients, self.bits, self.precision, self.clip)

    def learning(self, before: Learning | None) -> Learning:
        """Return the table of the previous charter with fields of this width, or a new table."""
        if before is None:
            return Learning(clip=self.clip, field_bits=self.fields.bits)
        return msgspec.structs.replace(before, field_bits=self.fields.bits) if self.asked else before


@dataclass(frozen=True)
class NewCharter:
    """The options of ``ccesa plan`` about a charter."""

    path: Path | None
    replaces: Path | None
    expires: datetime | None
    attempts: int | None
    releases: int | None
    learning: bool
    statistics: Path | None = None

    def check(self, members: Admission | None, guard: str) -> None:
        """Refuse options that cannot become a charter, before the plan is made."""
        if self.path is None:
            if self.replaces or self.expires or self.attempts or self.releases or self.learning:
                raise ConfigError(
                    "--replaces, --expires, --attempts, --releases and --learning need --charter FILE"
                )
            return
        if not guard_named(guard).chartered:
            raise ConfigError(f"--charter needs --guard active: rounds under {guard} have no charter")
        if members is None:
            raise ConfigError("--charter needs --members, the admission list of all members")
        check_output(self.path, "--charter")
        if self.path.exists():
            raise ConfigError(f"--charter: {self.path} already exists and will not be overwritten")
        if self._ends <= time.time():
            raise ConfigError(f"--expires {self.expires:%Y-%m-%d} is in the past")
        _ = self._before

    def between(self, post_quantum: bool) -> str:
        """Return how two members agree on keys; it is never weaker than in the previous charter."""
        if post_quantum or self._before is None:
            return options.agreement(post_quantum)
        return self._before.agreement

    def write(self, made: Plan, members: Admission, values: Values) -> None:
        """Write the charter of a plan to a new file, and print the next steps to stderr."""
        if self.path is None:
            return
        before = self._before
        agreed = None if before is None or self.schema else before.learning
        found = charters.charter(
            made,
            members,
            expires=self._ends,
            serial=1 if before is None else before.serial + 1,
            attempts=self.attempts or (2 if before is None else before.attempts),
            releases=self.releases or (1 if before is None else before.releases),
            learning=values.learning(agreed) if agreed or self.learning else None,
            statistics=self.schema or msgspec.UNSET,
        )
        files.write_new(self.path, str(found), private=False)
        self._tell(found)

    def _tell(self, found: Charter) -> None:
        path, told = escape(str(self.path)), f"digest   [bold]{found.fingerprint}[/bold]"
        if self.learning:
            told = f"fill in its table \\[learning], then: ccesa charter show {path}"
        Console(stderr=True).print(
            f"\n[bold]charter[/bold]  {path}, serial {found.serial}, until {found.expiry}\n{told}\n"
            f"needs    {_needed(found)} for a round\n"
            "Send it to every member. Each compares the digest: ccesa charter show FILE",
            soft_wrap=True,
        )

    @cached_property
    def schema(self) -> Schema | None:
        """The statistics, from their file or from the previous charter."""
        if self.statistics is not None:
            return Schema.load(self.statistics)
        return None if self._before is None else self._before.schema

    @cached_property
    def _before(self) -> Charter | None:
        return None if self.replaces is None else Charter.load(self.replaces)

    @cached_property
    def _ends(self) -> int:
        if self.expires is None:
            return int(time.time()) + YEAR
        return int(self.expires.replace(tzinfo=UTC).timestamp())


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
    yield "needs", f"{_needed(found)}: with fewer no round begins"
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
    released = (
        "once" if found.releases == 1 else f"{found.releases} times: its sums may differ by few members"
    )
    table = (
        f"; over all tasks a member sends its table {found.attempts} time(s), so sums of two questions may "
        "differ by few members"
    )
    return f"{sent}, in one series, and shares for it are released {released}" + table * (
        found.schema is not None and found.attempts > 1
    )


def _needed(found: Charter) -> str:
    return f"{found.needed:,} of the {len(found.members):,} members"


def _statistics_in_words(schema: Schema) -> Iterator[tuple[str, str]]:
    """Yield which statistics of a member's table are counted, and what is left out."""
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
    """Yield the promise of the noise, and its size."""
    fields, noise, each = mechanism.fields, mechanism.noise, report.noted(mechanism)
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
        f"fields of {fields.bits} bits, {fields.per_word} per 64-bit word: {fields.bytes_each:.3g} bytes per "
        f"{each}",
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
