"""``ccesa.aggregate``: models in, their weighted mean out, through a real round in memory."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Generic, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from ccesa.config import RoundConfig
from ccesa.crypto.agreements import DEFAULT
from ccesa.errors import ConfigError, RoundFailed, VectorError
from ccesa.fields import WORD_BITS
from ccesa.graphs import BEST, Graph
from ccesa.guards import CURIOUS
from ccesa.layout import Arrays, Layout
from ccesa.parts import whole_number
from ccesa.plan.planner import plan_or_complete
from ccesa.plan.result import Plan
from ccesa.quantize import Clip, Model, Quantizer, T
from ccesa.simulate.dropout import Dropout, Independent
from ccesa.simulate.simulation import Report, simulate
from ccesa.thresholds import Majority, Threshold

#: Rounds are planned for at least this much, so that a round with one dropout is not lost.
LEAST_DROPOUT = 0.05
#: And for this much where a dropout model does not say.
USUAL_DROPOUT = 0.1


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AggregatedModels(Generic[Model]):
    """The weighted mean over the survivors, in the form of the models, and what came with it.

    Attributes:
        mean: A dict or a list, as the first model.
        survivors: Clients in the mean, ascending.
        weight: The sum of their weights.
        clipped_by: How many values each client had to cut to the bound, whether it is in the mean or not.
        values: How many values all clients have together.
        report: What the round was like and what it cost.
    """

    mean: Model
    survivors: tuple[int, ...]
    weight: float
    clipped_by: tuple[int, ...]
    values: int
    report: Report

    @property
    def clipped(self) -> int:
        """How many values were clipped, over all clients."""
        return sum(self.clipped_by)

    def __repr__(self) -> str:
        return (
            f"AggregatedModels({len(self.survivors)} of {self.report.clients} clients in the mean, "
            f"weight {self.weight:g}, {self.clipped} of {self.values} values clipped)"
        )


class Options(TypedDict, total=False):
    """What ``aggregate`` takes besides the models."""

    weights: Iterable[float] | None
    dropout: float | Dropout
    clip: Clip | None
    bits: int | None
    precision: float | None
    graph: Graph | None
    threshold: Threshold | None
    seed: int | None
    threads: int


@overload
def aggregate(
    models: Iterable[Mapping[str, NDArray[Any]]], **options: Unpack[Options]
) -> AggregatedModels[dict[str, NDArray[Any]]]: ...
@overload
def aggregate(
    models: Iterable[Sequence[NDArray[Any]]], **options: Unpack[Options]
) -> AggregatedModels[list[NDArray[Any]]]: ...
@overload
def aggregate(
    models: Iterable[Mapping[str, T]], **options: Unpack[Options]
) -> AggregatedModels[dict[str, T]]: ...
@overload
def aggregate(models: Iterable[Sequence[T]], **options: Unpack[Options]) -> AggregatedModels[list[T]]: ...
def aggregate(
    models: Iterable[Arrays],
    *,
    weights: Iterable[float] | None = None,
    dropout: float | Dropout = 0.0,
    clip: Clip | None = None,
    bits: int | None = None,
    precision: float | None = None,
    graph: Graph | None = None,
    threshold: Threshold | None = None,
    seed: int | None = None,
    threads: int = 1,
) -> AggregatedModels[Any]:
    """Compute the weighted mean of the models by a secure aggregation round in this process.

    Args:
        models: One per client, at least 3: lists or dicts of arrays or tensors, such as a ``state_dict``.
        weights: How much each counts, from 0 on; all the same by default.
        dropout: The probability that a client drops out of the round, or a model of who does.
        clip: The bound on the absolute value of every element, or one per array. By default the largest of
            each array: fine where all models are at hand; in a federation it is agreed on beforehand.
        bits: Bits of one client's value, 2 to 53. By default each has 32 bits on the wire, enough for the
            sum over all clients.
        precision: In place of ``bits``: how far a value of an unweighted mean may be off.
        graph: Who holds shares of whom; planned for the dropout by default.
        threshold: How many holders open a secret; planned with the graph, or ``Majority`` beside a graph.
        seed: Repeats dropouts and rounding; keys are always random.
        threads: How many threads the round may use.

    Returns:
        The mean in the form of the first model, who is in it, and what was clipped.

    Raises:
        VectorError: Models or weights that do not fit together.
        ConfigError: Other options that cannot be.
        RoundFailed: Too many drop out for a sum.
    """
    models = _listed("models", models)
    weights = [1.0] * len(models) if weights is None else _listed("weights", weights)
    _check(models, weights, seed)
    quantizer = _quantizer(models, weights, clip, bits=bits, precision=precision)
    chance = _dropout_model(dropout)
    config = _config(quantizer, chance, graph, threshold)
    rounding = np.random.default_rng(seed).integers(2**63, size=len(models))
    encoded = [
        quantizer.encode(model, weight, np.random.default_rng(own))
        for model, weight, own in zip(models, weights, rounding, strict=True)
    ]
    report = simulate(config, lambda i: encoded[i].vector, dropout=chance, seed=seed, threads=threads)
    if isinstance(report.result, RoundFailed):
        raise report.result
    mean = quantizer.decode(report.result.vector)
    return AggregatedModels(
        mean=mean.arrays,
        survivors=report.result.survivors,
        weight=mean.weight,
        clipped_by=tuple(one.clipped for one in encoded),
        values=len(models) * quantizer.layout.size,
        report=report,
    )


def usual_plan(
    clients: int,
    dropout: float | None = None,
    graph: str = BEST,
    guard: str = CURIOUS.name,
    dropout_per_step: float | Mapping[str, float] | None = None,
    agreement: str = DEFAULT,
    accept: bool = False,
) -> Plan:
    """Plan a round where the user chooses nothing but who drops out, and which steps it has."""
    total = None if dropout is None else max(dropout, LEAST_DROPOUT)
    return plan_or_complete(
        clients,
        total,
        graph=graph,
        guard=guard,
        dropout_per_step=dropout_per_step,
        agreement=agreement,
        accept=accept,
    )


def _listed(name: str, given: Iterable[Any]) -> list[Any]:
    if isinstance(given, Mapping | str) or not isinstance(given, Iterable):
        raise VectorError(f"{name} must be a list with one entry per client, not {type(given).__name__}")
    return list(given)


def _check(models: Sequence[Arrays], weights: Sequence[float], seed: int | None) -> None:
    if len(weights) != len(models):
        raise VectorError(f"{len(weights)} weights for {len(models)} models")
    for client, weight in enumerate(weights):
        if not isinstance(weight, Real) or not 0 <= weight < math.inf:
            raise VectorError(f"client {client}: a weight is a number from 0 on, not {weight!r}")
    if seed is not None and whole_number("seed", seed) < 0:
        raise ConfigError(f"seed must not be negative, it is {seed}")
    if len(models) == 0:
        raise ConfigError("a round needs at least 3 clients, not 0")


def _quantizer(
    models: Sequence[Arrays], weights: Sequence[float], clip: Clip | None, **wanted: Any
) -> Quantizer[Any]:
    """Make a quantizer that is wide enough for all models, where nothing else was agreed on."""
    layout = Layout.of(models[0])
    largest = np.zeros(layout.size)
    for client, model in enumerate(models):
        try:
            np.maximum(largest, np.abs(layout.flatten(model)), out=largest)
        except VectorError as error:
            raise VectorError(f"client {client}: {error}") from error
    bound = _clip(layout, largest) if clip is None else clip
    heaviest = max(weights) or 1.0
    return Quantizer.for_model(models[0], clients=len(models), clip=bound, max_weight=heaviest, **wanted)


def _clip(layout: Layout, largest: NDArray[np.float64]) -> Clip:
    """Return the largest value of each array: one bound for all would round small arrays to nothing."""
    if not layout.sizes:
        return 1.0
    rows = np.split(largest, np.cumsum(layout.sizes)[:-1])
    bounds = [float(row.max(initial=0.0)) or 1.0 for row in rows]
    return bounds if layout.names is None else dict(zip(layout.names, bounds, strict=True))


def _dropout_model(dropout: float | Dropout) -> Dropout:
    if isinstance(dropout, Dropout):
        return dropout
    if not isinstance(dropout, Real):
        raise ConfigError(f"dropout is a number or a dropout model, not {dropout!r}")
    return Independent(float(dropout))


def _config(
    quantizer: Quantizer[Any], dropout: Dropout, graph: Graph | None, threshold: Threshold | None
) -> RoundConfig:
    """Configure what the caller chose; where no graph was chosen, what the planner chooses."""
    rule: Threshold = Majority()
    if graph is None:
        expected = dropout.total if isinstance(dropout, Independent) else USUAL_DROPOUT
        planned = usual_plan(quantizer.clients, expected)
        graph, rule = planned.graph, planned.threshold
    return RoundConfig(
        clients=quantizer.clients,
        length=quantizer.length,
        bits=WORD_BITS,
        graph=graph,
        threshold=rule if threshold is None else threshold,
    )
