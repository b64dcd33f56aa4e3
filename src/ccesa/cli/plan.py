"""``ccesa plan``: the cheapest graph for a promise, its certificate and its price."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from ccesa.agreement.identity import Admission
from ccesa.cli import options
from ccesa.cli.charter import NewCharter, Values
from ccesa.cli.output import lines, table
from ccesa.crypto.keys import DEFAULT
from ccesa.errors import ConfigError
from ccesa.graphs import BEST
from ccesa.guards import CURIOUS
from ccesa.plan import Plan, Rates, calibrate, paper, report
from ccesa.plan import plan as make_plan
from ccesa.plan.advice import advice
from ccesa.plan.figures import figures
from ccesa.values.fields import WORD_BITS, Fields

_OFFERED = ("beside a curator", "neighbours", "client sends", "key agreements")

_Clients = Annotated[int | None, typer.Option(help="Number of clients.")]
_Dropout = Annotated[
    float | None,
    typer.Option(
        help="Fraction that may drop out of a round, in whichever step is worst; 0.1.", show_default=False
    ),
]
_Collusion = Annotated[
    float | None,
    typer.Option(
        help="Fraction of those who take part that may work with the server; 0, or 0.1 under active, "
        "where it is one client at least.",
        show_default=False,
    ),
]
_PrivacyBits = Annotated[
    float | None,
    typer.Option(
        help="A privacy event has probability 2^-P at most; 40, or 80 with noise and colluders, or 128 "
        "under active."
    ),
]
_ReliabilityBits = Annotated[
    float | None, typer.Option(help="A round is lost with probability 2^-R at most; 20, if possible.")
]
_ExactDropout = Annotated[
    bool, typer.Option("--exact-dropout", help="Exactly this fraction drops out, not each by chance.")
]
_Members = Annotated[
    Path | None,
    typer.Option(help="Admission list, one line per client: plan for all of them.", show_default=False),
]
_Charter = Annotated[
    Path | None,
    typer.Option(help="Write their charter to this new file (active, with --members).", show_default=False),
]
_Replaces = Annotated[
    Path | None,
    typer.Option(
        help="The charter before: serial, agreement, learning and statistics go on.", show_default=False
    ),
]
_Expires = Annotated[
    datetime | None,
    typer.Option(
        formats=["%Y-%m-%d"],
        metavar="YYYY-MM-DD",
        help="Until when the charter holds (UTC); a year from now.",
        show_default=False,
    ),
]
_Attempts = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1000,
        help="Vectors of a member for one task, all in one series. By default 2, or what the charter "
        "before says.",
        show_default=False,
    ),
]
_Releases = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1000,
        help="Rounds in which a member releases shares for one task. By default 1, or what the charter "
        "before says. With more, sums of a task may differ by few members.",
        show_default=False,
    ),
]
_Learning = Annotated[
    bool, typer.Option("--learning", help="With a table of learning, to be filled in before it is sent.")
]
_Statistics = Annotated[
    Path | None,
    typer.Option(help="Plan for joint statistics by this schema, and not for --length.", show_default=False),
]
_ValueBits = Annotated[
    int | None,
    typer.Option(
        help="Bits of one client's value: --length counts values, several of them in a 64-bit word.",
        show_default=False,
    ),
]
_Precision = Annotated[
    float | None,
    typer.Option(help="In place of --value-bits: how far a mean may be off.", show_default=False),
]
_Clip = Annotated[float, typer.Option(help="The largest value, for --precision and --learning.")]
_Calibrate = Annotated[
    bool, typer.Option("--calibrate", help="Measure this machine and say the costs in seconds, too.")
]


def plan(
    clients: _Clients = None,
    dropout: _Dropout = None,
    dropout_per_step: options.DropoutPerStep = None,
    collusion: _Collusion = None,
    guard: options.GuardName = CURIOUS.name,
    graph: options.GraphName = BEST,
    degree: options.Degree = None,
    length: options.Length = 1_000_000,
    bits: options.Bits = 32,
    value_bits: _ValueBits = None,
    precision: _Precision = None,
    clip: _Clip = 2.0,
    post_quantum: options.PostQuantum = False,
    accept: options.Accept = False,
    privacy_bits: _PrivacyBits = None,
    reliability_bits: _ReliabilityBits = None,
    exact_dropout: _ExactDropout = False,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rounds: options.Releases = None,
    norm: options.Norm = None,
    against: options.AgainstName = None,
    field_bits: options.FieldBits = None,
    members: _Members = None,
    charter: _Charter = None,
    replaces: _Replaces = None,
    expires: _Expires = None,
    attempts: _Attempts = None,
    releases: _Releases = None,
    learning: _Learning = False,
    statistics: _Statistics = None,
    calibrated: _Calibrate = False,
    as_json: options.Json = False,
) -> None:
    """Plan a round: say how many clients there are, how many may drop out and how many may collude.

    Shows the cheapest assignment graph, the probability of everything that could go wrong, what a round
    costs, and what the paper's rule and conventional secure aggregation would cost. With --members and
    --charter it also writes what the members agree on under the guard active; see ccesa charter.

    With --dropout all may drop out in the worst step, after they have dealt their shares. A federation that
    has counted who leaves when says it with --dropout-per-step and needs fewer neighbours: who left before
    dealing needs nothing, and the client's own share counts. Only reliability rests on it, privacy does not.

    With --epsilon, --delta, --rounds and --norm every client adds noise before it masks: --length counts
    parameters, and the plan says how much noise that is, beside a trusted curator's, and what it promises
    against a server that follows the protocol and against one that lies.

    With --statistics vectors are counts of the members' tables. Where its schema has privacy_unit = record,
    say --epsilon, --delta and --rounds: noise then hides any one record, not a whole client.
    """
    listed = None if members is None else Admission.load(members)
    new_charter = NewCharter(charter, replaces, expires, attempts, releases, learning, statistics)
    new_charter.check(listed, guard)
    count = _count(clients, listed)
    values, schema = Values(count, value_bits, precision, clip), new_charter.schema
    noise = epsilon, delta, rounds, norm, against, field_bits
    if schema is None:
        asked = options.privacy(*noise)
    elif values.asked or learning:
        raise ConfigError("statistics are exact: leave out --value-bits, --precision and --learning")
    else:
        asked = options.about_records(schema, *noise)
        length, bits, field_bits = schema.length, schema.bits, schema.bits if asked else None
    if asked and values.asked:
        raise ConfigError(
            "with noise --field-bits says how wide a parameter is, not --value-bits or --precision"
        )
    fields = values.fields if not asked and (values.asked or learning) else None
    length, bits = (length, bits) if fields is None else (fields.length(length), WORD_BITS)
    leaving = options.leaving(dropout, dropout_per_step)
    arguments: dict[str, Any] = {
        "clients": count,
        "dropout": leaving.dropout,
        "collusion": collusion,
        "guard": guard,
        "length": length,
        "bits": bits,
        "privacy_bits": privacy_bits,
        "reliability_bits": reliability_bits,
        "graph": graph,
        "exact_dropout": exact_dropout,
        "dropout_per_step": leaving.per_step,
        "agreement": new_charter.between(post_quantum),
        "accept": accept,
        "privacy": asked,
        "degree": degree,
        "field_bits": field_bits,
    }
    made = make_plan(**arguments)
    _show(made, fields, calibrate() if calibrated else None, advice(made, arguments), as_json)
    if listed is not None:
        new_charter.write(made, listed, values)


def _count(clients: int | None, listed: Admission | None) -> int:
    if listed is None:
        if clients is None:
            raise ConfigError("say how many clients there are: --clients N, or --members FILE")
        return clients
    if not listed.members:
        raise ConfigError("the list admits nobody; `ccesa identity new` prints the line of a client")
    if clients not in (None, len(listed)):
        raise ConfigError(f"--clients {clients} and a list of {len(listed)} members; leave --clients out")
    return len(listed)


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
    if made.mechanism is not None and (found := figures(made, made.mechanism)).drowns:
        console.print(f"[red]too much noise[/red]  {report.drowning_in_words(found, advised)}")
    for note in made.notes:
        console.print(f"[yellow]note[/yellow]  {note}")


def _recommendation(made: Plan, fields: Fields | None) -> Iterator[tuple[str, str]]:
    told = made.assumptions
    leaving = report.dropout_in_words(told.dropout, None if told.per_step is None else told.per_step.each)
    who = f"{leaving}, {told.collusion:.3g} collude"
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
    for unit, size, below in (
        ("µs", 1e-6, 1e-3),
        ("ms", 1e-3, 1.0),
        ("s", 1.0, 120.0),
        ("min", 60.0, 7200.0),
    ):
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
