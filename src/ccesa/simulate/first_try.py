"""``ccesa.aggregate``: models in, their weighted mean out, through a real round in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ccesa.config import Graph, Majority, RoundConfig, Threshold
from ccesa.errors import ConfigError, RoundFailed, VectorError
from ccesa.plan.planner import Plan, plan_or_complete
from ccesa.quantize import Arrays, Layout, Quantizer
from ccesa.simulate.dropout import Dropout, Independent
from ccesa.simulate.simulation import Report, simulate

#: Rounds are planned for at least this much, so that a round with one dropout is not lost.
LEAST_DROPOUT = 0.05
#: And for this much where a dropout model does not say.
USUAL_DROPOUT = 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class FirstTry:
    """The weighted mean over the survivors, in the form of the models."""

    mean: Arrays = field(repr=False)
    survivors: tuple[int, ...]
    weight: float
    #: Values that were clipped, over all clients.
    clipped: int
    report: Report = field(repr=False)


def usual_plan(clients: int, dropout: float, graph: str = "best", guard: str = "curious") -> Plan:
    """What the planner chooses where the user chooses nothing."""
    return plan_or_complete(clients, max(dropout, LEAST_DROPOUT), graph=graph, guard=guard)


def _check(models: Sequence[Arrays], weights: Sequence[float] | None, seed: int | None) -> None:
    if weights is not None and len(weights) != len(models):
        raise VectorError(f"{len(weights)} weights for {len(models)} models")
    if seed is not None and seed < 0:
        raise ConfigError(f"seed must not be negative, it is {seed}")
    if len(models) == 0:
        raise ConfigError("a round needs at least 3 clients, not 0")


def _quantizer(
    models: Sequence[Arrays], weights: Sequence[float], clip: float | None, bits: int
) -> Quantizer:
    """Wide enough for all models, where nothing else was agreed on."""
    layout = Layout.of(models[0])
    if clip is None:
        clip = max(float(np.abs(layout.flatten(model)).max(initial=0.0)) for model in models) or 1.0
    heaviest = max(weights) or 1.0
    return Quantizer(layout=layout, clients=len(models), clip=clip, bits=bits, max_weight=heaviest)


def aggregate(
    models: Sequence[Arrays],
    *,
    weights: Sequence[float] | None = None,
    dropout: float | Dropout = 0.0,
    clip: float | None = None,
    bits: int = 32,
    graph: Graph | None = None,
    threshold: Threshold | None = None,
    seed: int | None = None,
    threads: int = 1,
) -> FirstTry:
    """The weighted mean of the models, computed by a secure aggregation round in this process.

    ``models[i]`` is client i's list or dict of arrays. ``clip`` defaults to the largest value there is:
    fine for a first try, where all models are at hand; in a federation it is agreed on beforehand.
    """
    _check(models, weights, seed)
    weights = [1.0] * len(models) if weights is None else weights
    quantizer = _quantizer(models, weights, clip, bits)
    model = dropout if hasattr(dropout, "draw") else Independent(float(dropout))
    planned = usual_plan(len(models), model.total if isinstance(model, Independent) else USUAL_DROPOUT)
    config = RoundConfig(
        clients=len(models),
        length=quantizer.length,
        bits=bits,  # type: ignore[arg-type]  # checked by the configuration itself
        graph=graph or planned.graph,
        threshold=threshold or (Majority() if graph else planned.threshold),
    )
    rounding = np.random.default_rng(seed).integers(2**63, size=len(models))
    encoded = [
        quantizer.encode(arrays, weights[i], np.random.default_rng(rounding[i]))
        for i, arrays in enumerate(models)
    ]
    report = simulate(config, lambda i: encoded[i].vector, dropout=model, seed=seed, threads=threads)
    if isinstance(report.result, RoundFailed):
        raise report.result
    mean = quantizer.decode(report.result.vector)
    return FirstTry(
        mean=mean.arrays,
        survivors=report.result.survivors,
        weight=mean.weight,
        clipped=sum(one.clipped for one in encoded),
        report=report,
    )
