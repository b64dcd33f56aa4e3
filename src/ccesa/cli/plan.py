"""``ccesa plan``: the cheapest graph for a promise, its certificate and its price."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.markup import escape

from ccesa import files
from ccesa.agreement.charter import Charter, Learning
from ccesa.agreement.identity import Admission
from ccesa.cli import options
from ccesa.cli.charter import quorum_in_words
from ccesa.cli.output import check_output, lines, table
from ccesa.crypto.keys import DEFAULT
from ccesa.errors import ConfigError
from ccesa.graphs import BEST
from ccesa.guards import CURIOUS, guard_named
from ccesa.plan import Plan, Rates, calibrate, charters, paper, report
from ccesa.plan.planner import PlanRequest, advise
from ccesa.privacy import DifferentialPrivacy
from ccesa.statistics import Schema
from ccesa.values.fields import WORD_BITS, Fields, is_positive

_OFFERED = ("beside a curator", "neighbours", "client sends", "key agreements")
_YEAR = 365 * 24 * 3600

_Clients = Annotated[int | None, typer.Option(help="Number of clients.")]
_Calibrate = Annotated[
    bool, typer.Option("--calibrate", help="Measure this machine, and show the costs in seconds too.")
]


@dataclass(frozen=True, kw_only=True)
class DemandOptions:
    """What the plan has to keep, and which graphs it may take: arguments of ``PlanRequest``."""

    exact_dropout: Annotated[
        bool,
        typer.Option("--exact-dropout", help="Exactly this fraction drops out, rather than each client by chance."),
    ] = False
    collusion: Annotated[
        float | None,
        options.described(
            "Fraction of the participants that may work with the server; 0 by default, or 0.1 under active, "
            "and then at least one client."
        ),
    ] = None
    guard: options.GuardName = CURIOUS.name
    graph: options.GraphName = BEST
    degree: options.Degree = None
    accept: options.Accept = False
    privacy_bits: Annotated[
        float | None,
        typer.Option(
            help="A privacy event has probability 2^-P at most; 40 by default, 80 with noise and colluders, "
            "128 under active."
        ),
    ] = None
    reliability_bits: Annotated[
        float | None, typer.Option(help="A round is lost with probability 2^-R at most; 20 by default, if possible.")
    ] = None


@dataclass(frozen=True, kw_only=True)
class VectorOptions:
    """What vectors consist of: words, values in fields of 64-bit words, or parameters with noise."""

    length: options.Length = 1_000_000
    bits: options.Bits = 32
    value_bits: Annotated[
        int | None,
        options.described("Bits of one client's value. Then --length counts values, and a 64-bit word holds several."),
    ] = None
    precision: Annotated[float | None, options.described("Instead of --value-bits: the largest error of a mean.")] = (
        None
    )
    clip: Annotated[float, typer.Option(help="The largest value, for --precision and --learning.")] = 2.0
    field_bits: Annotated[
        int | None, options.described("Noise: bits of a parameter; by default as few as possible.")
    ] = None

    def __post_init__(self) -> None:
        if None not in (self.value_bits, self.precision):
            raise ConfigError("--value-bits and --precision say the same thing; give one of them")
        if not is_positive(self.clip):
            raise ConfigError(f"--clip must be a positive number, not {self.clip}")

    @property
    def have_values(self) -> bool:
        """Whether fields are asked for; otherwise they have 32 bits where there are any."""
        return (self.value_bits, self.precision) != (None, None)

    def fields(self, clients: int) -> Fields:
        """Return the fields for the values of so many clients."""
        return Fields.choose(clients, self.value_bits, self.precision, self.clip)

    def learning(self, before: Learning | None, clients: int) -> Learning:
        """Return the earlier charter's table with the fields that are asked for, or a new table."""
        if before is None:
            return Learning(clip=self.clip, field_bits=self.fields(clients).bits)
        if not self.have_values:
            return before
        return msgspec.structs.replace(before, field_bits=self.fields(clients).bits)


@dataclass(frozen=True, kw_only=True)
class CharterOptions:
    """Whose charter to write, and what it says besides the plan."""

    members: Annotated[Path | None, options.described("Admission list, one line per client: plan for all of them.")] = (
        None
    )
    path: Annotated[
        Path | None, options.described("Write their charter to this new file (active, with --members).", "--charter")
    ] = None
    replaces: Annotated[
        Path | None,
        options.described("The charter before this one, whose serial, agreement, learning and statistics go on."),
    ] = None
    expires: Annotated[
        datetime | None,
        options.described(
            "Until when the charter holds (UTC); a year from now by default.",
            formats=["%Y-%m-%d"],
            metavar="YYYY-MM-DD",
        ),
    ] = None
    attempts: Annotated[
        int | None,
        options.described(
            "How many vectors a member sends for one task, all in one series. By default 2, or as in the "
            "charter before.",
            min=1,
            max=1000,
        ),
    ] = None
    releases: Annotated[
        int | None,
        options.described(
            "In how many rounds a member releases shares for one task. By default 1, or as in the charter "
            "before. With more, two sums of a task may differ by few members.",
            min=1,
            max=1000,
        ),
    ] = None
    learning: Annotated[
        bool, typer.Option("--learning", help="Add a table of learning, to fill in before you send it.")
    ] = False
    statistics: Annotated[
        Path | None, options.described("Plan for joint statistics by this schema, instead of for --length.")
    ] = None

    def listed(self, guard: str) -> Admission | None:
        """Load the list; refuse what cannot become a charter before the plan is made, not after it."""
        members = None if self.members is None else Admission.load(self.members)
        if self.path is None:
            if self.replaces or self.expires or self.attempts or self.releases or self.learning:
                raise ConfigError("--replaces, --expires, --attempts, --releases and --learning go with --charter FILE")
            return members
        if not guard_named(guard).chartered:
            raise ConfigError(f"--charter goes with --guard active: {guard} rounds have no charter")
        if members is None:
            raise ConfigError("--charter needs --members: the admission list of all who agree on it")
        check_output(self.path, "--charter")
        if self.path.exists():
            raise ConfigError(f"--charter: {self.path} already exists and will not be overwritten")
        if self.expires is not None and self._ends <= time.time():
            raise ConfigError(f"--expires {self.expires:%Y-%m-%d} is in the past")
        _ = self._before
        return members

    def agreement(self, post_quantum: bool) -> str:
        """Return how two members agree on keys, which never falls back behind the charter before."""
        if post_quantum or self._before is None:
            return options.agreement(post_quantum)
        return self._before.agreement

    @cached_property
    def schema(self) -> Schema | None:
        """What is counted: by its file, or as in the charter before."""
        if self.statistics is not None:
            return Schema.load(self.statistics)
        return None if self._before is None else self._before.schema

    def write(self, made: Plan, members: Admission, vectors: VectorOptions) -> None:
        """Write the charter of a plan to a new file, and print the next steps beside the plan's output."""
        if self.path is None:
            return
        before = self._before
        learned = None if before is None or self.schema else before.learning
        agreed = charters.charter(
            made,
            members,
            expires=self._ends,
            serial=1 if before is None else before.serial + 1,
            attempts=self.attempts or (2 if before is None else before.attempts),
            releases=self.releases or (1 if before is None else before.releases),
            learning=vectors.learning(learned, len(members)) if learned or self.learning else None,
            statistics=self.schema or msgspec.UNSET,
        )
        files.write_new(self.path, str(agreed), private=False)
        path, next_step = escape(str(self.path)), f"digest   [bold]{agreed.fingerprint}[/bold]"
        if self.learning:
            next_step = f"fill in its table \\[learning], then: ccesa charter show {path}"
        Console(stderr=True).print(
            f"\n[bold]charter[/bold]  {path}, serial {agreed.serial}, until {agreed.expiry}\n{next_step}\n"
            f"needs    {quorum_in_words(agreed)} to be there for a round\n"
            "Send it to every member. Each compares the digest: ccesa charter show FILE",
            soft_wrap=True,
        )

    @cached_property
    def _before(self) -> Charter | None:
        return None if self.replaces is None else Charter.load(self.replaces)

    @cached_property
    def _ends(self) -> int:
        if self.expires is None:
            return int(time.time()) + _YEAR
        return int(self.expires.replace(tzinfo=UTC).timestamp())


@options.grouped
def plan(
    *,
    clients: _Clients = None,
    dropouts: options.DropoutOptions,
    demand: DemandOptions,
    vectors: VectorOptions,
    post_quantum: options.PostQuantum = False,
    noise: options.NoiseOptions,
    charter: CharterOptions,
    calibrated: _Calibrate = False,
    as_json: options.Json = False,
) -> None:
    """Plan a round: say how many clients there are, how many may drop out and how many may collude.

    Shows the cheapest assignment graph, the probability of everything that could go wrong, what a round
    costs, and what the paper's rule and conventional secure aggregation would cost. With --members and
    --charter it also writes what the members agree on under the guard active; see ccesa charter.

    With --dropout all dropouts may happen in the worst step, after clients have dealt their shares. If you
    have measured when clients leave, use --dropout-per-step: the plan needs fewer neighbours. Only
    reliability depends on these numbers, privacy does not.

    With --epsilon, --delta, --rounds and --norm every client adds noise before it masks, and --length counts
    parameters. The plan says how much noise that is, compares it with a trusted curator's, and says what it
    promises against a server that follows the protocol and against one that lies.

    With --statistics vectors are counts of the members' tables. If the schema has privacy_unit = record, give
    --epsilon, --delta and --rounds: noise then hides any one record, not a whole client.
    """
    members = charter.listed(demand.guard)
    count = _count(clients, members)
    privacy, vectors = _planned_values(noise, vectors, charter)
    has_fields = privacy is None and (vectors.have_values or charter.learning)
    fields = vectors.fields(count) if has_fields else None
    request = PlanRequest(
        clients=count,
        dropout=dropouts.fraction,
        dropout_per_step=dropouts.per_step,
        length=vectors.length if fields is None else fields.length(vectors.length),
        bits=vectors.bits if fields is None else WORD_BITS,
        agreement=charter.agreement(post_quantum),
        privacy=privacy,
        field_bits=vectors.field_bits,
        **vars(demand),
    )
    made = request.plan()
    _show(made, fields, calibrate() if calibrated else None, advise(made, request), as_json)
    if members is not None:
        charter.write(made, members, vectors)


def _planned_values(
    noise: options.NoiseOptions, vectors: VectorOptions, charter: CharterOptions
) -> tuple[DifferentialPrivacy | None, VectorOptions]:
    """Return the demand on noise, and the vectors as a schema makes them if there is one."""
    schema = charter.schema
    if schema is None:
        privacy = noise.privacy(vectors.field_bits)
        if privacy is not None and vectors.have_values:
            raise ConfigError("with noise leave out --value-bits and --precision; use --field-bits")
        return privacy, vectors
    if vectors.have_values or charter.learning:
        raise ConfigError("statistics are exact: leave out --value-bits, --precision and --learning")
    privacy = noise.about_records(schema, vectors.field_bits)
    field_bits = None if privacy is None else schema.bits
    return privacy, replace(vectors, length=schema.length, bits=schema.bits, field_bits=field_bits)


def _count(clients: int | None, members: Admission | None) -> int:
    if members is None:
        if clients is None:
            raise ConfigError("give the number of clients: --clients N, or --members FILE")
        return clients
    if not members.members:
        raise ConfigError("the list has no members; `ccesa identity new` prints the line of a client")
    if clients not in (None, len(members)):
        raise ConfigError(f"--clients {clients} does not match the {len(members)} members; leave it out")
    return len(members)


def _show(
    made: Plan, fields: Fields | None, rates: Rates | None, advised: tuple[dict[str, Any], ...], as_json: bool
) -> None:
    if as_json:
        lie = {} if fields is None else {"fields": fields.as_dict()}
        tried = {} if made.mechanism is None else {"advice": list(advised)}
        typer.echo(json.dumps(report.as_json(made, rates) | lie | tried))
        return
    console = Console()
    console.print(lines(_recommendation(made, fields)))
    if made.mechanism is not None:
        console.print(lines(report.noise_in_words(made, made.mechanism)))
    if made.offers:
        console.print(table("denser graphs have less noise", ("", *_OFFERED), _offers(made)))
    console.print(table("certificate", ("", "at most", ""), _certificate(made)))
    costs = f"a round of vectors of {made.shape.length:,} words costs"
    console.print(table(costs, ("", "ccesa", "paper's rule", "conventional"), _bill(made, rates)))
    if rates is None:
        console.print("[dim]--calibrate measures this machine and adds the seconds[/dim]")
    if made.mechanism is not None and (found := report.compute_figures(made, made.mechanism)).drowns:
        console.print(f"[red]too much noise[/red]  {report.drowning_in_words(found, advised)}")
    for note in made.notes:
        console.print(f"[yellow]note[/yellow]  {note}")


def _recommendation(made: Plan, fields: Fields | None) -> Iterator[tuple[str, str]]:
    assumed = made.assumptions
    leaving = report.dropout_in_words(assumed.dropout, assumed.per_step.each if assumed.per_step else None)
    who = f"{leaving}, {assumed.collusion:.3g} collude"
    yield "[bold]plan[/bold]", f"[bold]{made.clients:,} clients[/bold], {who}, guard {made.guard}"
    yield "graph", f"[green]{made.graph.in_words(made.clients)}[/green]"
    yield "masks", report.masks_in_words(made)
    yield "threshold", report.threshold_in_words(made)
    yield "exchanges", report.exchanges_in_words(made)
    yield "tightest", report.tightest_in_words(made)
    if made.agreement != DEFAULT:
        yield "agreement", f"{made.agreement}, with the step accept"
    if fields is not None:
        yield "words", fields.in_words
    if promise := report.promise_in_words(made):
        yield "promise", promise


def _offers(made: Plan) -> Iterator[list[str]]:
    for one in made.offers:
        price = [_bytes(one.sent_bytes), f"{one.agreements:,.0f}"]
        yield [one.graph.name, f"{one.ratio:.2f}", f"{one.degree:,}", *price]


def _certificate(made: Plan) -> Iterator[tuple[str, str, str]]:
    for name, log2, meaning in report.certificate_in_words(made):
        yield name, report.probability_in_words(log2), meaning


def _bill(made: Plan, rates: Rates | None) -> Iterator[list[str]]:
    costs = report.bill(made, rates)
    for name, figure, show in _FIGURES:
        if getattr(costs.plan, figure) is not None:
            yield [name, *("-" if one is None else show(getattr(one, figure)) for one in costs)]
    rule = paper.rule(made.clients, made.assumptions.dropout)
    degree = "-" if rule is None else f"{rule.degree:,.0f}"
    yield ["neighbours", f"{made.degree:,.4g}", degree, f"{made.clients - 1:,}"]


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} PB"


def _seconds(value: float) -> str:
    for unit, size, below in (("µs", 1e-6, 1e-3), ("ms", 1e-3, 1.0), ("s", 1.0, 120.0), ("min", 60.0, 7200.0)):
        if value < below:
            return f"{value / size:,.3g} {unit}"
    return f"{value / 3600:,.3g} h"


#: The lines of the bill: a name, the figure of ``Cost``, and how it is written.
_FIGURES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("client sends", "sent_bytes", _bytes),
    ("client receives", "received_bytes", _bytes),
    ("client key agreements", "agreements", "{:,.0f}".format),
    ("client checks signatures", "verifications", "{:,.0f}".format),
    ("client makes keystream", "keystream_bytes", _bytes),
    ("through the server", "server_bytes", _bytes),
    ("server key agreements", "server_agreements", "{:,.0f}".format),
    ("server makes keystream", "server_keystream_bytes", _bytes),
    ("client works, about", "client_seconds", _seconds),
    ("server works, about", "server_seconds", _seconds),
)
