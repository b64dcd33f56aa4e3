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

_Threshold = Annotated[
    int | None, options.described("The paper's t, the same for all; by default the majority of each neighbourhood.")
]
_Seed = Annotated[int | None, typer.Option(min=0, help="Fixes inputs and dropouts, never keys or noise.")]


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """A family of graphs and its parameters."""

    graph: options.GraphName = BEST
    p: Annotated[float | None, typer.Option(help="Edge probability (erdos-renyi); planned by default.")] = None
    degree: options.Degree = None
    mask_p: Annotated[
        float | None, typer.Option(help="Edge probability of the mask subgraph (erdos-renyi, complete).")
    ] = None
    mask_degree: Annotated[int | None, typer.Option(help="Neighbours to mask with, even (harary, complete).")] = None

    @property
    def described(self) -> Graph | None:
        """Return the graph that the options describe; None where they leave it to the planner."""
        name = self.graph
        kind_named(name)
        given = {option: value for option, value in vars(self).items() if value is not None}
        del given["graph"]
        if name == BEST:
            name = next((kind for kind in KINDS if set(_required(kind)) & set(given)), BEST)
        fitting = [] if name == BEST else [*KINDS[name].__struct_fields__]
        for option in given:
            if option not in fitting:
                takes = " and ".join(map(_option, fitting)) or "none of them: name a graph"
                raise ConfigError(f"{_option(option)} does not go with --graph {name}; it takes {takes}")
        if not given:
            return None
        for option in _required(name):
            if option not in given:
                raise ConfigError(f"for the masks of a {name} graph also give {_option(option)}")
        return cast(Graph, KINDS[name](**given))


def _required(name: str) -> list[str]:
    """Return the parameters without which there is no graph of this name."""
    return [field.name for field in msgspec.structs.fields(KINDS[name]) if field.required]


def _option(parameter: str) -> str:
    return f"--{parameter.replace('_', '-')}"


@options.grouped
def simulate(
    *,
    clients: options.Clients = 100,
    length: options.Length = 10_000,
    bits: options.Bits = 32,
    dropouts: options.DropoutOptions,
    graphs: GraphOptions,
    threshold: _Threshold = None,
    guard: options.GuardName = CURIOUS.name,
    generator: options.GeneratorName = "aes128-ctr",
    post_quantum: options.PostQuantum = False,
    accept: options.Accept = False,
    noise: options.NoiseOptions,
    seed: _Seed = None,
    threads: options.Threads = 0,
    as_json: options.Json = False,
) -> None:
    """Run one round in memory and show the result, times and bytes.

    Times are processor time in milliseconds, means over the clients that took the step. Bytes are those of a
    client that stays to the end. Rounds have the step accept with --accept and with --post-quantum. The exit
    status is 0 if the sum is the plain sum, 1 if it is not, and 3 if the round was lost and there is no sum.

    With --epsilon, --delta, --rounds and --norm graph and noise are planned together, --length counts
    parameters, and clients have made-up models with noise. The output shows how much noise the sum has. The
    round is one of --rounds; no ledger is kept.
    """
    privacy, graph = noise.privacy(), graphs.described
    if privacy is not None and (graph is not None or threshold is not None):
        raise ConfigError("with noise graph and threshold are planned: leave out their options")
    agreement = options.agreement(post_quantum)
    accept, planned = accept or needs_accept(agreement), None
    agreed: dict[str, Any] = {"graph": graph, "bits": bits}
    if graph is None:
        steps: dict[str, Any] = {"guard": guard, "agreement": agreement, "accept": accept}
        planned = _planned(clients, dropouts, graph=graphs.graph, length=length, privacy=privacy, **steps)
        agreed, accept = _agreed(planned, bits), planned.accept
    agreed |= {"generator": generator, "agreement": agreement}
    if threshold is not None:
        agreed["threshold"] = Fixed(t=threshold)
    mechanism = planned.mechanism if planned else None
    length = mechanism.length if mechanism else length
    config, federation = _configured(guard_named(guard), clients, agreed, length=length, accept=accept)
    seed = int(np.random.default_rng().integers(2**63)) if seed is None else seed
    vectors = None if mechanism is None else simulation.NoisyVectors(mechanism, config, seed)
    with _progress() as progress:
        report = simulation.simulate(
            config,
            vectors,
            dropout=_dropouts(dropouts),
            seed=seed,
            threads=threads,
            federation=federation,
            progress=progress,
        )
    _print(report, None if vectors is None else _Noise.of(vectors, report), as_json)


def _configured(
    guard: Guard, clients: int, agreed: dict[str, Any], **left: Any
) -> tuple[RoundConfig, simulation.Enrolment | None]:
    if not guard.chartered:
        return RoundConfig(clients=clients, **agreed, **left), None
    federation = simulation.federate(clients, **agreed)
    return federation.charter.config(**left), federation


@dataclass(frozen=True)
class _Noise:
    """The noise in the sum, if there is a sum: standard deviations of a coordinate."""

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
            epsilon=made.certify(),
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


def _dropouts(asked: options.DropoutOptions) -> simulation.Dropout:
    if asked.per_step is not None:
        return simulation.StepProbabilities(asked.per_step)
    return simulation.Independent(asked.fraction or 0.0)


def _planned(clients: int, dropouts: options.DropoutOptions, **asked: Any) -> Plan:
    """Return what the planner chooses, and print its notes."""
    planned = simulation.usual_plan(clients, dropouts.fraction, dropout_per_step=dropouts.per_step, **asked)
    for note in planned.notes:
        # Notes name options of the planner, not all of which are here.
        Console(stderr=True).print(f"note  ccesa plan says: {note}", soft_wrap=True)
    return planned


def _agreed(planned: Plan, bits: int) -> dict[str, Any]:
    """Return a plan as configurations and charters take it; one with noise sets the bits of words."""
    noise = planned.mechanism
    agreed: dict[str, Any] = {"graph": planned.graph, "threshold": planned.threshold}
    agreed["bits"] = bits if noise is None else planned.bits
    chartered = guard_named(planned.guard).chartered
    if chartered or noise is not None:
        agreed["min_survivors"] = planned.least_survivors
    if chartered:
        agreed |= {"least_roster": planned.least_roster, "certificate": charters.state(planned)}
        agreed["privacy"] = noise or msgspec.UNSET
    return agreed


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
