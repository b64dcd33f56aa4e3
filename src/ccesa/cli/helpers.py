"""Options and words of ``ccesa plan --guard assisted``: helpers in place of a graph."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.markup import escape
from typer import Option

from ccesa.agreement.charter import KEY_DAYS, Charter, all_of, promise_of_helpers
from ccesa.agreement.identity import Admission, Member
from ccesa.cli.output import seconds_in_words, table
from ccesa.crypto.keys import DEFAULT
from ccesa.errors import ConfigError, quoted
from ccesa.guards import ACTIVE, ASSISTED, Guard
from ccesa.plan import Plan, Rates, charters, report
from ccesa.plan.helpers import USUAL_HELPERS, AssistedPlan, HelpersRequest
from ccesa.plan.planner import PlanRequest, advise
from ccesa.plan.price import AssistedCost, price_helpers
from ccesa.values.fields import Fields

#: Python reads no whole number of thousands of digits.
_DIGITS = 10


@dataclass(frozen=True, kw_only=True)
class HelperOptions:
    """The helpers of a plan, and the figures of their charter."""

    helpers: Annotated[
        str | None,
        Option(help="Helpers (assisted): names from --members, as in a,b,c; without names their number (3)."),
    ] = None
    helper_list: Annotated[
        Path | None,
        Option(
            help="Instead of --helpers: a list like --members of all helpers, also for helpers that are not members."
        ),
    ] = None
    min_survivors: Annotated[int | None, Option(help="Minimum of members in a sum (assisted); planned by default.")] = (
        None
    )
    colluders: Annotated[
        int | None, Option(help="Instead of --collusion (assisted): how many members may work with the server.")
    ] = None
    key_days: Annotated[int | None, Option(help="Most days that a helper keeps a key (assisted): 7.")] = None

    def check(self, guard: Guard) -> None:
        """Refuse these options under a guard with a graph, and two lists of helpers."""
        given = [f"--{one.name.replace('_', '-')}" for one in fields(self) if getattr(self, one.name) is not None]
        if guard.has_graph and given:
            raise ConfigError(f"{given[0]} goes with --guard {ASSISTED.name}: guard {guard.name} has no helpers")
        if None not in (self.helpers, self.helper_list):
            raise ConfigError("--helpers and --helper-list say the same thing; give one of them")

    def load(self, members: Admission | None, before: Charter | None) -> Admission | int:
        """Return the helpers, or only their number if they have no names yet."""
        if self.helper_list is not None:
            return Admission.load(self.helper_list)
        known = {} if members is None else {one.name: one for one in members.members}
        if self.helpers is None:
            kept = () if before is None else before.helper_seats
            admitted = Admission(known.get(seat.name, Member(seat.name, seat.key)) for seat in kept)
            return admitted if kept else USUAL_HELPERS
        if self.helpers.isdecimal() and len(self.helpers) < _DIGITS and self.helpers not in known:
            return int(self.helpers)
        names = [name.strip() for name in self.helpers.split(",")]
        strangers = [name for name in names if name not in known]
        if strangers:
            raise ConfigError(
                f"--helpers: {quoted(strangers[0])} is not in --members; give names from that list, a number, or all "
                "helpers by --helper-list FILE"
            )
        return Admission(known[name] for name in names)

    def request(
        self, members: Admission | None, helpers: Admission | int, before: Charter | None, **asked: Any
    ) -> HelpersRequest:
        """Return the demand, with minimum and colluders of the charter before where nothing else is asked for."""
        kept: dict[str, Any] = {"min_survivors": self.min_survivors, "colluders": self.colluders}
        if before is not None and not before.guard.has_graph and asked["collusion"] is None:
            both = {"min_survivors": before.min_survivors, "colluders": before.certificate.colluders}
            kept = {name: both[name] if value is None else value for name, value in kept.items()}
        number, helping = (helpers, 0) if isinstance(helpers, int) else (len(helpers), 0)
        if members is not None and isinstance(helpers, Admission):
            helping = charters.count_helping(members, helpers)
        return HelpersRequest(helpers=number, helping_members=helping, **kept, **asked)

    def days(self, before: Charter | None) -> int:
        """Return how long helpers keep keys, as in the charter before where nothing else is asked for."""
        if self.key_days is not None:
            return self.key_days
        return KEY_DAYS if before is None else before.longest_key_days


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A plan with helpers, as it is shown."""

    made: AssistedPlan
    #: The helpers by name; empty if they have no names yet.
    names: list[str]
    #: The plan with a graph for the same demand, or the error if no graph keeps it.
    graph: Plan | ConfigError
    costs: AssistedCost
    fields: Fields | None
    advised: tuple[dict[str, Any], ...]

    def as_json(self) -> dict[str, object]:
        made, graph = self.made, self.graph
        noise = None if made.mechanism is None else asdict(report.compute_figures(made, made.mechanism))
        return {
            **{name: getattr(made, name) for name in _JSON},
            "names": self.names,
            "dropout": made.assumptions.dropout,
            "exact_dropout": made.assumptions.exact,
            "exchanges": made.exchanges,
            "failure": {"unreliable": max(made.unreliable, report.IMPOSSIBLE)},
            "cost": {party: _without_none(one._asdict()) for party, one in self.costs._asdict().items()},
            "graph": None if isinstance(graph, ConfigError) else report.promise_in_words(graph),
            "no_graph": str(graph) if isinstance(graph, ConfigError) else None,
            "noise": noise,
            "fields": None if self.fields is None else self.fields.as_dict(),
            "advice": list(self.advised),
            "notes": list(made.notes),
        }

    def print(self) -> None:
        console, made, noise = Console(), self.made, self.made.mechanism
        console.print(table(self._in_words()))
        if noise is not None:
            console.print(table(report.noise_in_words(made, noise)))
        title = f"a round of vectors of {made.length:,} words costs"
        console.print(table(self._bill(), title, ("", "a member", "a helper", "the hub")))
        if self.costs.member.seconds is None:
            console.print("[dim]--calibrate measures this machine and adds the seconds[/dim]")
        if noise is not None and (found := report.compute_figures(made, noise)).drowns:
            console.print(f"[red]too much noise[/red]  {report.drowning_in_words(found, self.advised)}")
        for note in made.notes:
            console.print(f"[yellow]note[/yellow]  {note}")

    def _in_words(self) -> Iterator[tuple[str, str]]:
        made, names = self.made, [escape(name) for name in self.names]
        gone = report.dropout_in_words(made.assumptions.dropout, None)
        leaving = f"{gone}, at most {made.colluders:,} collude, guard {made.guard}"
        yield "[bold]plan[/bold]", f"[bold]{made.clients:,} members[/bold], {leaving}"
        who = f"{', '.join(names)}: " * bool(names) + f"{made.helpers}, of whom {made.helping_members} are members"
        yield "helpers", who
        promise, price = promise_of_helpers(
            all_of(names) if names else f"all {made.helpers} helpers",
            made.least_honest,
            made.colluders,
            made.clients,
            noisy=made.mechanism is not None,
        )
        yield "promise", f"[green]{promise}[/green]"
        yield "assumes", report.assumed_in_words(made.helping_members, made.colluders)
        each = "{member} for a member in a round, {helper} or more for a helper; {series} in each round of a series"
        yield "exchanges", each.format(**made.exchanges)
        chance = report.probability_in_words(made.unreliable)
        yield "is lost", f"with probability {chance}: fewer than {made.min_survivors:,} members answer. {price}"
        if made.agreement != DEFAULT:
            yield "agreement", made.agreement
        if self.fields is not None:
            yield "words", self.fields.in_words
        if isinstance(self.graph, ConfigError):
            yield "a graph", f"does not do the same, under guard {ACTIVE.name}: {self.graph}"
        else:
            yield "a graph", f"does this, under guard {ACTIVE.name}: {_graph_in_words(self.graph)}"

    def _bill(self) -> Iterator[list[str]]:
        for title, name, show in _BILL:
            figures = [getattr(one, name) for one in self.costs]
            if None not in figures:
                yield [title, *map(show, figures)]


def show_helpers(
    request: HelpersRequest, helpers: Admission | int, *, fields: Fields | None, rates: Rates | None
) -> Shown:
    """Plan with helpers, and with a graph for the same demand beside them."""
    made = request.plan()
    return Shown(
        made=made,
        names=[] if isinstance(helpers, int) else [one.name for one in helpers.members],
        graph=_plan_graph(made, request),
        costs=price_helpers(made.shape, rates),
        fields=fields,
        advised=advise(made, request),
    )


def _plan_graph(made: AssistedPlan, request: HelpersRequest) -> Plan | ConfigError:
    names = ("clients", "dropout", "length", "bits", "reliability_bits", "exact_dropout", "agreement", "privacy")
    given = {name: getattr(request, name) for name in (*names, "field_bits")}
    try:
        return PlanRequest(guard=ACTIVE.name, collusion=made.assumptions.collusion, **given).plan(names_helpers=False)
    except ConfigError as error:
        return error


def _graph_in_words(made: Plan) -> str:
    lost = report.probability_in_words(made.certificate.unreliable)
    return (
        f"{report.promise_in_words(made)}; {report.bytes_in_words(made.cost.sent_bytes)} sent by each, "
        f"{made.degree:.4g} neighbours, {report.exchanges(made)['round']} exchanges; a round is lost with {lost}"
    )


def _without_none(figures: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in figures.items() if value is not None}


_JSON = (
    *("clients", "guard", "agreement", "helpers", "helping_members", "min_survivors", "least_honest", "colluders"),
    *("one_must_be_honest", "reliability_bits", "length", "bits"),
)
#: The lines of the bill: a name, the figure of ``Work``, and how it is written.
_BILL: tuple[tuple[str, str, Callable[[float], str]], ...] = (
    ("sends", "sent_bytes", report.bytes_in_words),
    ("receives", "received_bytes", report.bytes_in_words),
    ("key agreements", "agreements", "{:,.0f}".format),
    ("checks signatures", "verifications", "{:,.0f}".format),
    ("makes keystream", "keystream_bytes", report.bytes_in_words),
    ("works, about", "seconds", seconds_in_words),
)
