"""``ccesa simulate`` runs one round in memory, and shows its result and its costs."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, cast

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from typer import Option

from ccesa import simulate as simulation
from ccesa.agreement.config import RoundConfig
from ccesa.cli import LOST, WENT_WRONG, options
from ccesa.cli.output import table
from ccesa.crypto.keys import needs_accept
from ccesa.errors import ConfigError, RoundFailed
from ccesa.graphs import BEST, KINDS, Graph, kind_named
from ccesa.graphs.thresholds import Fixed
from ccesa.guards import ASSISTED, CURIOUS, guard_named
from ccesa.plan import AssistedPlan, Plan, charters
from ccesa.plan.helpers import USUAL_HELPERS
from ccesa.simulate import Independent, StepProbabilities


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """A family of graphs and its parameters."""

    graph: options.GraphName = BEST
    p: Annotated[float | None, Option(help="Edge probability (erdos-renyi). By default it is planned.")] = None
    degree: options.Degree = None
    mask_p: Annotated[float | None, Option(help="Edge probability of mask edges (erdos-renyi, complete).")] = None
    mask_degree: Annotated[int | None, Option(help="Neighbours to mask with, even (harary, complete).")] = None

    def make(self) -> Graph | None:
        """Return the graph of these parameters; None without any, for the planner to choose."""
        name = self.graph
        kind_named(name)
        given = {option: value for option, value in vars(self).items() if value is not None}
        del given["graph"]
        if name == BEST:
            name = next((kind for kind in KINDS if set(_required(kind)) & set(given)), BEST)
        fitting = [] if name == BEST else [*KINDS[name].__struct_fields__]
        for option in given:
            if option not in fitting:
                takes = " and ".join(map(_option, fitting)) or "no such option: name a graph"
                raise ConfigError(f"{_option(option)} does not go with --graph {name}; it takes {takes}")
        if not given:
            return None
        for option in _required(name):
            if option not in given:
                raise ConfigError(f"for the masks of a {name} graph also give {_option(option)}")
        return cast(Graph, KINDS[name](**given))


def _required(name: str) -> list[str]:
    """Return the parameters that graphs of this name need."""
    return [field.name for field in msgspec.structs.fields(KINDS[name]) if field.required]


def _option(parameter: str) -> str:
    return f"--{parameter.replace('_', '-')}"


@options.group_options
def simulate(
    *,
    clients: options.Clients = 100,
    length: options.Length = 10_000,
    bits: options.Bits = 32,
    dropouts: options.DropoutOptions,
    graphs: GraphOptions,
    threshold: Annotated[int | None, Option(help="The paper's t, for all (majority of neighbours).")] = None,
    guard: options.GuardName = CURIOUS.name,
    helpers: Annotated[int | None, Option(help=f"Number of helpers (assisted): {USUAL_HELPERS}.")] = None,
    generator: options.GeneratorName = "aes128-ctr",
    post_quantum: options.PostQuantum = False,
    accept: options.Accept = False,
    noise: options.NoiseOptions,
    seed: Annotated[int | None, Option(min=0, help="Repeats inputs and dropouts, never keys or noise.")] = None,
    threads: options.Threads = 0,
    as_json: options.Json = False,
) -> None:
    """Run one round in memory and show the result, times and bytes.

    Times are processor time in milliseconds, means over the clients that took the step. Bytes are those of a
    client that stays to the end. With --guard assisted there are those of a helper, too. Rounds have the step
    accept with --accept and with --post-quantum. The exit status is 0 if the sum is the plain sum, 1 if it is
    not, and 3 if the round was lost and has no sum.

    With --epsilon, --delta, --rounds and --norm graph and noise are planned together, --length counts
    parameters, and clients have made-up models with noise. The output shows how much noise the sum has. The
    round is one of --rounds; no ledger is kept.
    """
    privacy, graph, agreement = noise.privacy(), graphs.make(), options.agreement(post_quantum)
    if privacy is not None and (graph is not None or threshold is not None):
        raise ConfigError("with noise graph and threshold are planned: leave out their options")
    accept, mechanism = accept or needs_accept(agreement), None
    agreed: dict[str, Any] = {"graph": graph, "bits": bits}
    asked: dict[str, Any] = {"length": length, "privacy": privacy, "agreement": agreement}
    if not guard_named(guard).has_graph:
        if (graph, graphs.graph, threshold, accept and not post_quantum) != (None, BEST, None, False):
            raise ConfigError(f"guard {guard} has no graph: leave out the options of graphs, --threshold and --accept")
        helped = _plan_helpers(clients, dropouts, USUAL_HELPERS if helpers is None else helpers, **asked)
        agreed, accept, mechanism = simulation.agree_helpers(helped, bits), False, helped.mechanism
    elif helpers is not None:
        raise ConfigError(f"--helpers goes with --guard {ASSISTED.name}: guard {guard} has no helpers")
    elif graph is None:
        planned = _plan(clients, dropouts, graph=graphs.graph, guard=guard, accept=accept, **asked)
        agreed, accept, mechanism = _agree(planned, bits), planned.accept, planned.mechanism
    agreed |= {"generator": generator, "agreement": agreement}
    if threshold is not None:
        agreed["threshold"] = Fixed(t=threshold)
    length = length if mechanism is None else mechanism.length
    federation = simulation.federate(clients, **agreed) if guard_named(guard).chartered else None
    make_config = partial(RoundConfig, clients=clients, **agreed) if federation is None else federation.charter.config
    config = make_config(length=length, accept=accept)
    seed = simulation.simulation.draw_seed() if seed is None else seed
    vectors = None if mechanism is None else simulation.NoisyVectors(mechanism, config, seed)
    each = dropouts.per_step
    dropout = Independent(dropouts.fraction or 0.0) if each is None else StepProbabilities(each)
    with _progress() as progress:
        report = simulation.simulate(
            config, vectors, dropout=dropout, seed=seed, threads=threads, federation=federation, progress=progress
        )
    figures = None if vectors is None else _noise_figures(vectors, report)
    if as_json:
        typer.echo(json.dumps({**report.as_json(), "noise": figures}))
    else:
        Console().print(table(_in_words(report, figures)))
    if isinstance(report.result, RoundFailed):
        raise typer.Exit(LOST)
    if not report.exact:
        raise typer.Exit(WENT_WRONG)


def _plan(clients: int, dropouts: options.DropoutOptions, **asked: Any) -> Plan:
    """Return the planner's choice, and print its notes."""
    planned = simulation.usual_plan(clients, dropouts.fraction, dropout_per_step=dropouts.per_step, **asked)
    _print_notes(planned)
    return planned


def _plan_helpers(clients: int, dropouts: options.DropoutOptions, helpers: int, **asked: Any) -> AssistedPlan:
    """Return the plan with this number of helpers. Members leave in step mask or not at all."""
    each = dropouts.per_step
    leaving = each.get("mask", 0.0) if isinstance(each, dict) else each
    dropout = dropouts.fraction if leaving is None else leaving
    planned = simulation.usual_helpers(clients, dropout or 0.0, helpers=helpers, **asked)
    _print_notes(planned)
    return planned


def _print_notes(planned: Plan | AssistedPlan) -> None:
    for note in planned.notes:
        # Notes name options of the planner, not all of which are here.
        Console(stderr=True).print(f"note  ccesa plan says: {note}", soft_wrap=True)


def _agree(planned: Plan, bits: int) -> dict[str, Any]:
    """Return the fields of a configuration or a charter for this plan. Noise decides about the bits of words."""
    noise, chartered = planned.mechanism, guard_named(planned.guard).chartered
    agreed: dict[str, Any] = {"graph": planned.graph, "threshold": planned.threshold}
    agreed["bits"] = bits if noise is None else planned.bits
    if chartered or noise is not None:
        agreed["min_survivors"] = planned.min_survivors
    if chartered:
        agreed |= {"least_roster": planned.least_roster, "certificate": charters.state(planned)}
        agreed["privacy"] = noise or msgspec.UNSET
    return agreed


def _noise_figures(vectors: simulation.NoisyVectors, report: simulation.SimulatedRound) -> dict[str, Any]:
    """Return figures of the noise in the sum, if there is a sum: standard deviations of a coordinate."""
    noise, found = vectors.mechanism, report.result
    names = ("delta", "rounds", "against", "honest", "field_bits", "curator")
    return {
        "epsilon": noise.certify(),
        **{name: getattr(noise, name) for name in names},
        "expected": None if isinstance(found, RoundFailed) else noise.noise(report.survivors),
        "measured": None if isinstance(found, RoundFailed) else vectors.measure(found),
    }


def _noise_in_words(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    server = {"follows": "that follows the protocol", "lies": "that lies"}[found["against"]]
    yield (
        "privacy",
        f"epsilon = {found['epsilon']:.3g} at delta = {found['delta']:g} over {found['rounds']:,} round(s) like "
        f"this one, against a server {server}; no ledger is kept",
    )
    if found["measured"] is not None:
        yield (
            "noise",
            f"{found['measured']:.3g} in a parameter of the sum, {found['expected']:.3g} expected (standard "
            f"deviations), {found['measured'] / found['curator']:.3f} times a trusted curator's; "
            f"{found['honest']:,} honest clients are counted on",
        )


@contextmanager
def _progress() -> Iterator[simulation.simulation.Progress]:
    """Show a bar for each step, on standard error and only in a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:>10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def advance(step: str, done: int, of: int) -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=of)
            bars.update(tasks[step], completed=done)

        yield advance


def _in_words(report: simulation.SimulatedRound, noise: dict[str, Any] | None) -> Iterator[tuple[str, str]]:
    exact = "equal to the plain sum" if report.exact else "[red bold]NOT the plain sum[/red bold]"
    lost = isinstance(report.result, RoundFailed)
    yield "outcome", f"[red]{report.outcome}[/red]  {report.result}" if lost else f"[green]aggregate[/green]  {exact}"
    if noise is not None:
        yield from _noise_in_words(noise)
    yield "clients", f"{report.clients}, {report.survivors} in the sum"
    if not report.helpers:
        yield "neighbours", f"{report.degree_mean:.1f} hold shares, {report.mask_degree_mean:.1f} share a mask (means)"
    steps = ", ".join(f"{name} {ms:.2f}" for name, ms in report.client_ms.items())
    yield "client", f"{sum(report.client_ms.values()):.2f} ms ({steps})"
    yield "", f"{report.client_bytes['sent']:,.0f} bytes sent, {report.client_bytes['received']:,.0f} received"
    if report.helpers:
        answers = ", ".join(f"{name} {ms:.2f}" for name, ms in report.helper_ms.items())
        yield "helper", f"one of {report.helpers}: {sum(report.helper_ms.values()):.2f} ms ({answers})"
        yield "", f"{report.helper_bytes['sent']:,.0f} bytes sent, {report.helper_bytes['received']:,.0f} received"
    yield "server", f"{report.server_ms:.1f} ms"
    yield "memory", f"{report.peak_rss_mb:.0f} MB at the peak"
