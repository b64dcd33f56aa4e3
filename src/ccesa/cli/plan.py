"""``ccesa plan`` shows the cheapest graph for a promise, its certificate and its price."""

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
from typer import Option

from ccesa import files
from ccesa.agreement.charter import Charter, Learning
from ccesa.agreement.identity import Admission
from ccesa.cli import options
from ccesa.cli.charter import list_changes, quorum_in_words
from ccesa.cli.helpers import HelperOptions, show_helpers
from ccesa.cli.output import check_output, seconds_in_words, table
from ccesa.crypto.keys import DEFAULT
from ccesa.errors import ConfigError
from ccesa.graphs import BEST
from ccesa.guards import ASSISTED, CURIOUS, Guard, guard_named
from ccesa.plan import Plan, Rates, calibrate, charters, paper, report
from ccesa.plan.planner import AnyPlan, PlanRequest, advise
from ccesa.privacy import DifferentialPrivacy
from ccesa.statistics import Schema
from ccesa.values.fields import WORD_BITS, Fields, is_positive

_OFFERED = ("beside a curator", "neighbours", "client sends", "key agreements")
_YEAR = 365 * 24 * 3600


@dataclass(frozen=True, kw_only=True)
class DemandOptions:
    """The demands on the plan and its graph: arguments of ``PlanRequest``."""

    exact_dropout: Annotated[
        bool, Option("--exact-dropout", help="Exactly this fraction drops out, not each client by chance.")
    ] = False
    collusion: Annotated[
        float | None,
        Option(help="Fraction of clients that may work with the server (0; under active 0.1, at least one client)."),
    ] = None
    guard: options.AnyGuardName = None
    graph: options.GraphName = BEST
    degree: options.Degree = None
    accept: options.Accept = False
    privacy_bits: Annotated[
        float | None,
        Option(help="Privacy fails with 2^-P at most (40; 80 with noise and colluders; 128 under active)."),
    ] = None
    reliability_bits: Annotated[float | None, Option(help="Rounds are lost with 2^-R at most (20, if possible).")] = (
        None
    )


@dataclass(frozen=True, kw_only=True)
class VectorOptions:
    """The contents of vectors: words, values in fields of 64-bit words, or parameters with noise."""

    length: options.Length = 1_000_000
    bits: options.Bits = 32
    value_bits: Annotated[int | None, Option(help="Bits of a value, several to a word; --length counts values.")] = None
    precision: Annotated[float | None, Option(help="Instead of --value-bits: largest error of a mean.")] = None
    clip: Annotated[float, Option(help="The largest value, for --precision and --learning.")] = 2.0
    field_bits: Annotated[int | None, Option(help="Noise: bits of a parameter (as few as possible).")] = None

    def __post_init__(self) -> None:
        if None not in (self.value_bits, self.precision):
            raise ConfigError("--value-bits and --precision say the same thing; give one of them")
        if not is_positive(self.clip):
            raise ConfigError(f"--clip must be a positive number, not {self.clip}")

    @property
    def have_values(self) -> bool:
        """Whether fields are asked for. Otherwise vectors of learning have fields of 32 bits."""
        return (self.value_bits, self.precision) != (None, None)

    def fields(self, clients: int) -> Fields:
        """Return the fields for the values of this many clients."""
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
    """The members and the file of a charter, and its values that no plan has."""

    members: Annotated[Path | None, Option(help="Admission list, a line per client: plan for all of them.")] = None
    path: Annotated[
        Path | None, Option("--charter", help="New file for their charter (active or assisted, --members).")
    ] = None
    replaces: Annotated[
        Path | None,
        Option(help="The charter before this one, with guard, helpers and values to keep if you give no others."),
    ] = None
    expires: Annotated[
        datetime | None,
        Option(metavar="YYYY-MM-DD", formats=["%Y-%m-%d"], help="Day of expiry in UTC (a year from now)."),
    ] = None
    attempts: Annotated[
        int | None, Option(min=1, max=1000, help="Maximum of vectors of a member for a task (2, or as in --replaces).")
    ] = None
    releases: Annotated[
        int | None,
        Option(
            min=1,
            max=1000,
            help="Maximum of rounds in which a member releases shares for a task (1, or as in --replaces). With "
            "more than 1, two sums of a task may differ by few members.",
        ),
    ] = None
    learning: Annotated[bool, Option("--learning", help="Add a table of learning; fill it in before sending.")] = False
    statistics: Annotated[Path | None, Option(help="Plan for joint statistics by this schema, not --length.")] = None

    def guard(self, given: str | None) -> Guard:
        """Return the guard that is asked for, or that of the charter before, or ``curious``."""
        if given is not None:
            return guard_named(given)
        return CURIOUS if self.before is None else self.before.guard

    def load_members(self, guard: Guard) -> Admission | None:
        """Load the admission list; refuse options that cannot make a charter before the plan is made."""
        members = None if self.members is None else Admission.load(self.members)
        if self.path is None:
            if self.replaces or self.expires or self.attempts or self.releases or self.learning:
                raise ConfigError("--replaces, --expires, --attempts, --releases and --learning go with --charter FILE")
            return members
        if not guard.chartered:
            raise ConfigError(f"--charter goes with --guard active or assisted: {guard.name} rounds have no charter")
        if members is None:
            raise ConfigError("--charter needs --members: the admission list of all who agree on it")
        check_output(self.path, "--charter")
        if self.path.exists():
            raise ConfigError(f"--charter: {self.path} already exists and will not be overwritten")
        if self.expires is not None and self._ends <= time.time():
            raise ConfigError(f"--expires {self.expires:%Y-%m-%d} is in the past")
        _ = self.before
        return members

    def agreement(self, post_quantum: bool) -> str:
        """Return how two members agree on keys: never in a weaker way than in the charter before."""
        if post_quantum or self.before is None:
            return options.agreement(post_quantum)
        return self.before.agreement

    @cached_property
    def schema(self) -> Schema | None:
        """The schema of the statistics, from its file or from the charter before."""
        if self.statistics is not None:
            return Schema.load(self.statistics)
        return None if self.before is None else self.before.schema

    def write(self, made: AnyPlan, members: Admission, vectors: VectorOptions, **helped: Any) -> None:
        """Write the charter of a plan to a new file, and print changes and next steps on standard error."""
        if self.path is None:
            return
        before = self.before
        learned = None if before is None or self.schema else before.learning
        agreed = charters.charter(
            made,
            members,
            expires=self._ends,
            **helped,
            serial=1 if before is None else before.serial + 1,
            attempts=self.attempts or (2 if before is None else before.attempts),
            releases=self.releases or (1 if before is None or helped else before.releases),
            learning=vectors.learning(learned, len(members)) if learned or self.learning else None,
            statistics=self.schema or msgspec.UNSET,
        )
        files.write_new(self.path, str(agreed), private=False)
        path, next_step = escape(str(self.path)), f"digest   [bold]{agreed.fingerprint}[/bold]"
        if self.learning:
            next_step = f"fill in its table \\[learning], then: ccesa charter show {path}"
        changes = "".join(f"changed  {line}\n" for line in list_changes(before, agreed))
        Console(stderr=True).print(
            f"\n[bold]charter[/bold]  {path}, serial {agreed.serial}, until {agreed.expiry}\n{next_step}\n"
            f"needs    {quorum_in_words(agreed)} to be present for a round\n"
            f"{changes}"
            "Send it to every member. Each compares the digest: ccesa charter show FILE",
            soft_wrap=True,
        )

    @cached_property
    def before(self) -> Charter | None:
        return None if self.replaces is None else Charter.load(self.replaces)

    @cached_property
    def _ends(self) -> int:
        if self.expires is None:
            return int(time.time()) + _YEAR
        return int(self.expires.replace(tzinfo=UTC).timestamp())


@options.group_options
def plan(
    *,
    clients: Annotated[int | None, Option(help="Number of clients.")] = None,
    dropouts: options.DropoutOptions,
    demand: DemandOptions,
    vectors: VectorOptions,
    post_quantum: options.PostQuantum = False,
    noise: options.NoiseOptions,
    charter: CharterOptions,
    helped: HelperOptions,
    calibrated: Annotated[bool, Option("--calibrate", help="Measure this machine; show costs in seconds.")] = False,
    as_json: options.Json = False,
) -> None:
    """Plan a round for a number of clients, some of which may drop out or collude.

    Shows the cheapest assignment graph, the probability of everything that could go wrong, the cost of a
    round, and the costs by the paper's rule and of conventional secure aggregation. With --members and
    --charter it also writes the members' charter under the guard active or assisted; see ccesa charter.

    With --guard assisted helpers take the place of the graph. The plan shows the promise, how many members a sum
    needs, the cost of a round for members, helpers and hub, and what a graph does for the same demand.

    With --dropout all dropouts may happen in the worst step, after clients have dealt their shares. If you
    have measured when clients leave, use --dropout-per-step: the plan needs fewer neighbours. Only
    reliability depends on these numbers, privacy does not.

    With --epsilon, --delta, --rounds and --norm every client adds noise before it masks, and --length counts
    parameters. The plan shows the amount of noise beside that of a trusted curator, and the promises against
    a server that follows the protocol and against one that lies.

    With --statistics vectors are counts of the members' tables. If the schema has privacy_unit = record, give
    --epsilon, --delta and --rounds: noise then hides any single record, not a whole client.
    """
    guard = charter.guard(demand.guard)
    helped.check(guard)
    members = charter.load_members(guard)
    count = _count(clients, members)
    privacy, vectors = _planned_values(noise, vectors, charter)
    has_fields = privacy is None and (vectors.have_values or charter.learning)
    fields = vectors.fields(count) if has_fields else None
    asked: dict[str, Any] = {
        "clients": count,
        "length": vectors.length if fields is None else fields.length(vectors.length),
        "bits": vectors.bits if fields is None else WORD_BITS,
        "agreement": charter.agreement(post_quantum),
        "privacy": privacy,
        "field_bits": vectors.field_bits,
    }
    rates = calibrate() if calibrated else None
    if not guard.has_graph:
        _refuse_graph_options(demand, dropouts, charter)
        before, admitted = charter.before, helped.load(members, charter.before)
        if charter.path is not None and isinstance(admitted, int):
            raise ConfigError("--charter needs the helpers by name: --helpers a,b,c, or --helper-list FILE")
        asked |= {name: getattr(demand, name) for name in ("collusion", "reliability_bits", "exact_dropout")}
        wanted = helped.request(members, admitted, before, dropout=dropouts.fraction, **asked)
        shown = show_helpers(wanted, admitted, fields=fields, rates=rates)
        typer.echo(json.dumps(shown.as_json())) if as_json else shown.print()
        if members is not None:
            charter.write(shown.made, members, vectors, helpers=admitted, key_days=helped.days(before))
        return
    request = PlanRequest(
        dropout=dropouts.fraction, dropout_per_step=dropouts.per_step, **vars(demand) | {"guard": guard.name}, **asked
    )
    made = request.plan()
    _show(made, fields, rates, advise(made, request), as_json)
    if members is not None:
        charter.write(made, members, vectors)


def _refuse_graph_options(demand: DemandOptions, dropouts: options.DropoutOptions, charter: CharterOptions) -> None:
    """Refuse options that helpers have no use for."""
    unused = {
        "--dropout-per-step": dropouts.per_step,
        "--graph": None if demand.graph == BEST else demand.graph,
        "--degree": demand.degree,
        "--accept": demand.accept or None,
        "--privacy-bits": demand.privacy_bits,
        "--releases": charter.releases,
    }
    given = [name for name, value in unused.items() if value is not None]
    if given:
        raise ConfigError(f"{given[0]} does not go with --guard {ASSISTED.name}, which has no graph: leave it out")


def _planned_values(
    noise: options.NoiseOptions, vectors: VectorOptions, charter: CharterOptions
) -> tuple[DifferentialPrivacy | None, VectorOptions]:
    """Return the demand on noise, and the vectors; a schema decides about both."""
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
        more: dict[str, object] = {} if fields is None else {"fields": fields.as_dict()}
        if made.mechanism is not None:
            more["advice"] = list(advised)
        typer.echo(json.dumps(report.as_json(made, rates) | more))
        return
    console = Console()
    console.print(table(_recommendation(made, fields)))
    if made.mechanism is not None:
        console.print(table(report.noise_in_words(made, made.mechanism)))
    if made.offers:
        offers = []
        for one in made.offers:
            price = [report.bytes_in_words(one.sent_bytes), f"{one.agreements:,.0f}"]
            offers.append([one.graph.name, f"{one.ratio:.2f}", f"{one.degree:,}", *price])
        console.print(table(offers, "denser graphs have less noise", ("", *_OFFERED)))
    events = [(name, report.probability_in_words(log2), text) for name, log2, text in report.certificate_in_words(made)]
    console.print(table(events, "certificate", ("", "at most", "")))
    costs = f"a round of vectors of {made.shape.length:,} words costs"
    console.print(table(_bill(made, rates), costs, ("", "ccesa", "paper's rule", "conventional")))
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


def _bill(made: Plan, rates: Rates | None) -> Iterator[list[str]]:
    costs = report.bill(made, rates)
    for name, figure, show in _FIGURES:
        if getattr(costs.plan, figure) is not None:
            yield [name, *("-" if one is None else show(getattr(one, figure)) for one in costs)]
    rule = paper.rule(made.clients, made.assumptions.dropout)
    degree = "-" if rule is None else f"{rule.degree:,.0f}"
    yield ["neighbours", f"{made.degree:,.4g}", degree, f"{made.clients - 1:,}"]


#: The lines of the bill: a name, the figure of ``Cost``, and how it is written.
_FIGURES: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("client sends", "sent_bytes", report.bytes_in_words),
    ("client receives", "received_bytes", report.bytes_in_words),
    ("client key agreements", "agreements", "{:,.0f}".format),
    ("client checks signatures", "verifications", "{:,.0f}".format),
    ("client makes keystream", "keystream_bytes", report.bytes_in_words),
    ("through the server", "server_bytes", report.bytes_in_words),
    ("server key agreements", "server_agreements", "{:,.0f}".format),
    ("server makes keystream", "server_keystream_bytes", report.bytes_in_words),
    ("client works, about", "client_seconds", seconds_in_words),
    ("server works, about", "server_seconds", seconds_in_words),
)
