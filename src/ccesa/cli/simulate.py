"""``ccesa simulate``: one round in memory, and what it cost."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Annotated, Any, cast

import msgspec
import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ccesa import simulate as simulation
from ccesa.agreement.config import RoundConfig
from ccesa.cli import LOST, WENT_WRONG, options
from ccesa.cli.output import lines
from ccesa.crypto.keys import needs_accept
from ccesa.errors import ConfigError, RoundFailed
from ccesa.graphs import BEST, KINDS, Graph, kind_named
from ccesa.graphs.thresholds import Fixed
from ccesa.guards import CURIOUS, Guard, guard_named
from ccesa.plan import Plan, charters

_Dropout = Annotated[
    float | None,
    typer.Option(
        help="Probability to drop out of a round, over all steps together; 0.1.", show_default=False
    ),
]
_P = Annotated[float | None, typer.Option(help="Edge probability (erdos-renyi); else planned.")]
_MaskP = Annotated[
    float | None, typer.Option(help="Edge probability of the mask subgraph (erdos-renyi, complete).")
]
_MaskDegree = Annotated[int | None, typer.Option(help="Neighbours to mask with, even (harary, complete).")]
_Threshold = Annotated[
    int | None, typer.Option(help="The paper's common t; by default the majority of each neighbourhood.")
]
_Seed = Annotated[int | None, typer.Option(min=0, help="Fixes inputs and dropouts, never keys or noise.")]


def simulate(
    clients: options.Clients = 100,
    length: options.Length = 10_000,
    bits: options.Bits = 32,
    dropout: _Dropout = None,
    dropout_per_step: options.DropoutPerStep = None,
    graph: options.GraphName = BEST,
    p: _P = None,
    degree: options.Degree = None,
    mask_p: _MaskP = None,
    mask_degree: _MaskDegree = None,
    threshold: _Threshold = None,
    guard: options.GuardName = CURIOUS.name,
    generator: options.GeneratorName = "aes128-ctr",
    post_quantum: options.PostQuantum = False,
    accept: options.Accept = False,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    rounds: options.Releases = None,
    norm: options.Norm = None,
    against: options.AgainstName = None,
    seed: _Seed = None,
    threads: options.Threads = 0,
    as_json: options.Json = False,
) -> None:
    """Run one round in memory and show the result, times and bytes.

    Times are processor time in milliseconds, means over the clients that took the step; bytes are those
    of a client that stays to the end. The step accept is there with --accept and --post-quantum. The exit
    status is 0 if the sum is the plain sum, 1 if it is not, and 3 if the round was lost and there is no sum.

    With --epsilon, --delta, --rounds and --norm graph and noise are planned together, --length counts
    parameters, and clients have made-up models with noise: it shows how much noise the sum has. The round is
    one of --rounds; no ledger is kept.
    """
    asked = options.privacy(epsilon, delta, rounds, norm, against)
    chosen = _graph(graph, p=p, degree=degree, mask_p=mask_p, mask_degree=mask_degree)
    leaving = options.leaving(dropout, dropout_per_step)
    agreement = options.agreement(post_quantum)
    accept = accept or needs_accept(agreement)
    agreed: dict[str, Any] = {"graph": chosen, "bits": bits}
    planned = None
    if asked is not None and (chosen is not None or threshold is not None):
        raise ConfigError("with noise graph and threshold are planned: leave out their options")
    if chosen is None:
        steps: dict[str, Any] = {"guard": guard, "agreement": agreement, "accept": accept}
        planned = _planned(clients, leaving, graph=graph, length=length, privacy=asked, **steps)
        agreed = _agreed(planned, bits)
        accept = planned.accept
    agreed |= {"generator": generator, "agreement": agreement}
    if threshold is not None:
        agreed["threshold"] = Fixed(t=threshold)
    mechanism = planned.mechanism if planned else None
    length = mechanism.length if mechanism else length
    config, federation = _configured(guard_named(guard), clients, agreed, length=length, accept=accept)
    seed = int(np.random.default_rng().integers(2**63)) if seed is None else seed
    noise = None if mechanism is None else simulation.NoisyVectors(mechanism, config, seed)
    with _progress() as progress:
        report = simulation.simulate(
            config,
            noise,
            dropout=_dropouts(leaving),
            seed=seed,
            threads=threads,
            federation=federation,
            progress=progress,
        )
    _print(report, None if noise is None else _Noise.of(noise, report), as_json)


def _configured(
    guard: Guard, clients: int, agreed: dict[str, Any], **left: Any
) -> tuple[RoundConfig, simulation.Enrolment | None]:
    if not guard.chartered:
        return RoundConfig(clients=clients, **agreed, **left), None
    federation = simulation.federate(clients, **agreed)
    return federation.charter.config(**left), federation


@dataclass(frozen=True)
class _Noise:
    """What noise is in the sum; standard deviations of a coordinate, where there is a sum."""

    epsilon: float
    delta: float
    rounds: int
    against: str
    honest: int
    field_bits: int
    curator: float
    expected: float | None
    measured: float | None

    @classmethod
    def of(cls, noise: simulation.NoisyVectors, report: simulation.SimulatedRound) -> "_Noise":
        made, found = noise.mechanism, report.result
        lost = isinstance(found, RoundFailed)
        return cls(
            epsilon=made.certified(),
            delta=made.delta,
            rounds=made.rounds,
            against=made.against,
            honest=made.honest,
            field_bits=made.field_bits,
            curator=made.curator,
            expected=None if lost else made.noise(report.survivors),
            measured=None if isinstance(found, RoundFailed) else noise.measure(found),
        )

    @property
    def rows(self) -> Iterator[tuple[str, str]]:
        server = {"follows": "that follows the protocol", "lies": "that lies"}[self.against]
        yield (
            "privacy",
            f"epsilon = {self.epsilon:.3g} at delta = {self.delta:g} over {self.rounds:,} round(s) like this "
            f"one, against a server {server}; no ledger is kept",
        )
        if self.measured is not None:
            yield (
                "noise",
                f"{self.measured:.3g} in a parameter of the sum, {self.expected:.3g} expected (standard "
                f"deviations), {self.measured / self.curator:.3f} times a trusted curator's; "
                f"{self.honest:,} honest clients are counted on",
            )


def _print(report: simulation.SimulatedRound, noise: _Noise | None, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({**report.as_json(), "noise": noise and asdict(noise)}))
    else:
        _show(report, noise)
    if isinstance(report.result, RoundFailed):
        raise typer.Exit(LOST)
    if not report.exact:
        raise typer.Exit(WENT_WRONG)


def _dropouts(leaving: options.Leaving) -> simulation.Dropout:
    if leaving.per_step is not None:
        return simulation.StepProbabilities(leaving.per_step)
    return simulation.Independent(leaving.dropout or 0.0)


def _planned(clients: int, leaving: options.Leaving, **asked: Any) -> Plan:
    """Return what the planner chooses, and say what it has to say."""
    per_step = leaving.per_step
    planned = simulation.usual_plan(clients, leaving.dropout, dropout_per_step=per_step, **asked)
    for note in planned.notes:
        # It names options of the planner, not all of which are here.
        Console(stderr=True).print(f"note  ccesa plan says: {note}", soft_wrap=True)
    return planned


def _agreed(planned: Plan, bits: int) -> dict[str, Any]:
    """Return it as configurations and charters take it; a plan with noise says of how many bits words are."""
    noise = planned.mechanism
    agreed: dict[str, Any] = {"graph": planned.graph, "threshold": planned.threshold}
    agreed["bits"] = bits if noise is None else planned.bits
    chartered = guard_named(planned.guard).chartered
    if chartered or noise is not None:
        agreed["min_survivors"] = planned.least_survivors
    if chartered:
        agreed |= {"least_roster": planned.least_roster, "certificate": charters.stated(planned)}
        agreed["privacy"] = noise or msgspec.UNSET
    return agreed


def _graph(name: str, **options: float | None) -> Graph | None:
    """Return the graph that the options describe; None where they leave it to the planner."""
    kind_named(name)
    given = {option: value for option, value in options.items() if value is not None}
    if name == BEST:
        name = next((kind for kind in KINDS if set(_needed(kind)) & set(given)), BEST)
    fitting = [] if name == BEST else [*KINDS[name].__struct_fields__]
    for option in given:
        if option not in fitting:
            takes = " and ".join(map(_option, fitting)) or "none of them: name a graph"
            raise ConfigError(f"{_option(option)} does not go with --graph {name}; it takes {takes}")
    if not given:
        return None
    for option in _needed(name):
        if option not in given:
            raise ConfigError(f"the masks of a {name} graph need {_option(option)} beside them")
    return cast(Graph, KINDS[name](**given))


def _needed(name: str) -> list[str]:
    """Return the parameters without which there is no graph of this name."""
    return [field.name for field in msgspec.structs.fields(KINDS[name]) if field.required]


def _option(parameter: str) -> str:
    return f"--{parameter.replace('_', '-')}"


@contextmanager
def _progress() -> Iterator[simulation.simulation.Progress]:
    """Show a bar for each step, on standard error and only where somebody watches."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:>10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bars:
        tasks: dict[str, int] = {}

        def advance(step: str, done: int, of: int) -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=of)
            bars.update(tasks[step], completed=done)  # type: ignore[arg-type]  # TaskID is an int

        yield advance


def _show(report: simulation.SimulatedRound, noise: _Noise | None) -> None:
    exact = "equal to the plain sum" if report.exact else "[red bold]NOT the plain sum[/red bold]"
    outcome = f"[green]aggregate[/green]  {exact}"
    if isinstance(report.result, RoundFailed):
        outcome = f"[red]{report.outcome}[/red]  {report.result}"
    degrees = f"{report.degree_mean:.1f} hold shares, {report.mask_degree_mean:.1f} share a mask (means)"
    steps = ", ".join(f"{name} {ms:.2f}" for name, ms in report.client_ms.items())
    ways = report.client_bytes
    rows = [
        ("outcome", outcome),
        *(noise.rows if noise else ()),
        ("clients", f"{report.clients}, {report.survivors} in the sum"),
        ("neighbours", degrees),
        ("client", f"{sum(report.client_ms.values()):.2f} ms ({steps})"),
        ("", f"{ways['sent']:,.0f} bytes sent, {ways['received']:,.0f} received"),
        ("server", f"{report.server_ms:.1f} ms"),
        ("memory", f"{report.peak_rss_mb:.0f} MB at the peak"),
    ]
    Console().print(lines(rows))
