"""``ccesa.aggregate``: models in, their weighted mean out, through a real round in memory."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, TypedDict, TypeVar, Unpack, cast, overload

import numpy as np
from numpy.typing import NDArray

from ccesa.agreement.config import RoundConfig
from ccesa.crypto.keys import DEFAULT
from ccesa.errors import ConfigError, RoundFailed, VectorError
from ccesa.graphs import BEST, Graph
from ccesa.graphs.thresholds import Majority, Threshold
from ccesa.guards import CURIOUS
from ccesa.parts import check_type, whole_number
from ccesa.plan.planner import plan, plan_or_complete
from ccesa.plan.result import Plan
from ccesa.privacy import DifferentialPrivacy, Mechanism, NoisyQuantizer
from ccesa.simulate.dropout import Dropout, Independent
from ccesa.simulate.noisy import check_alone
from ccesa.simulate.result import AggregatedModels
from ccesa.simulate.simulation import simulate
from ccesa.values.fields import WORD_BITS, Arrays, Layout
from ccesa.values.quantize import Clip, Quantized, Quantizer, T

Done = TypeVar("Done")
#: Rounds are planned for at least this much, so that a round with one dropout is not lost.
LEAST_DROPOUT = 0.05
#: And for this much where a dropout model does not say.
USUAL_DROPOUT = 0.1


class Options(TypedDict, total=False):
    """What ``aggregate`` takes besides the models."""

    weights: Iterable[float] | None
    dropout: float | Dropout
    clip: Clip | None
    bits: int | None
    precision: float | None
    privacy: DifferentialPrivacy | None
    graph: Graph | None
    threshold: Threshold | None
    seed: int | None
    threads: int


@overload
def aggregate(
    models: Iterable[NDArray[Any]], **options: Unpack[Options]
) -> AggregatedModels[NDArray[Any]]: ...
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
    models: Iterable[Any],
    *,
    weights: Iterable[float] | None = None,
    dropout: float | Dropout = 0.0,
    clip: Clip | None = None,
    bits: int | None = None,
    precision: float | None = None,
    privacy: DifferentialPrivacy | None = None,
    graph: Graph | None = None,
    threshold: Threshold | None = None,
    seed: int | None = None,
    threads: int = 0,
) -> AggregatedModels[Any]:
    """Compute the weighted mean of the models by a secure aggregation round in this process.

    Args:
        models: One per client, at least 3: lists or dicts of arrays or tensors, such as a ``state_dict``, or
            one array each.
        weights: How much each counts, from 0 on; all the same by default.
        dropout: The probability that a client drops out of the round, or a model of who does.
        clip: The bound on the absolute value of every element, or one per array. By default the largest of
            each array: fine where all models are at hand; in a federation it is agreed on beforehand.
        bits: Bits of one client's value, 2 to 53. By default each has 32 bits on the wire, enough for the
            sum over all clients.
        precision: In place of ``bits``: how far a value of an unweighted mean may be off.
        privacy: Asks for noise in the mean, against a server that follows the protocol. Every client counts
            one and is clipped to ``privacy.norm``; ``weights``, ``clip``, ``bits``, ``precision``, ``graph``
            and ``threshold`` do not go with it. The round is one of ``privacy.rounds``: count them, there is
            no ledger here.
        graph: Who holds shares of whom; planned for the dropout by default.
        threshold: How many holders open a secret; planned with the graph, or ``Majority`` beside a graph.
        seed: Repeats dropouts and rounding; keys and noise are always random.
        threads: The most threads that the round uses; 0 stands for as many as help.

    Returns:
        The mean in the form of the first model, who is in it, what was clipped, and what noise is in it.

    Raises:
        VectorError: Models or weights that do not fit together.
        ConfigError: Other options that cannot be.
        RoundFailed: Too many drop out for a sum.
    """
    given, chance = _listed("models", models), _dropout_model(dropout)
    are_arrays = all(hasattr(one, "shape") for one in given)
    models = [[one] for one in given] if are_arrays else given
    if privacy is not None:
        others = {"clip": clip, "bits": bits, "precision": precision, "graph": graph, "threshold": threshold}
        check_alone(weights=weights, **others)
        noisy = _with_noise(models, privacy, chance, seed=seed, threads=threads)
        return replace(noisy, mean=noisy.mean[0]) if are_arrays else noisy
    weights = [1.0] * len(models) if weights is None else _listed("weights", weights)
    _check(models, weights, seed)
    quantizer = _quantizer(models, weights, clip, bits=bits, precision=precision)
    config = _config(quantizer, chance, graph, threshold)
    rounding = np.random.default_rng(seed).integers(2**63, size=len(models))
    encoded = [
        quantizer.encode(model, weight, np.random.default_rng(own))
        for model, weight, own in zip(models, weights, rounding, strict=True)
    ]
    played = _played(config, encoded, dropout=chance, seed=seed, threads=threads)
    mean = quantizer.decode(played["report"].result.vector)
    values = len(models) * quantizer.layout.size
    found = mean.arrays[0] if are_arrays else mean.arrays
    return AggregatedModels(mean=found, weight=mean.weight, values=values, **played)


def _with_noise(
    models: Sequence[Arrays],
    privacy: DifferentialPrivacy,
    dropout: Dropout,
    *,
    seed: int | None,
    threads: int,
) -> AggregatedModels[Any]:
    check_type("privacy", privacy, DifferentialPrivacy)
    _check(models, [1.0] * len(models), seed)
    layout = Layout.of(models[0])
    planned = usual_plan(len(models), _expected(dropout), length=layout.size, privacy=privacy)
    config, mechanism = planned.config(), cast(Mechanism, planned.mechanism)
    quantizer: NoisyQuantizer[Any] = NoisyQuantizer(layout=layout, mechanism=mechanism)
    encoded = [
        _of_client(client, quantizer.encode, model, config.context) for client, model in enumerate(models)
    ]
    played = _played(config, encoded, dropout=dropout, seed=seed, threads=threads)
    found = played["report"].result
    mean = quantizer.decode(found.vector, len(found.survivors), config.context)
    values = len(models) * layout.size
    return AggregatedModels(
        mean=mean.arrays, weight=mean.weight, values=values, mechanism=mechanism, **played
    )


def _played(config: RoundConfig, encoded: Sequence[Quantized], **options: Any) -> dict[str, Any]:
    """Run the round, and return what of its result does not depend on how models were encoded."""
    report = simulate(config, lambda client: encoded[client].vector, **options)
    if isinstance(report.result, RoundFailed):
        raise report.result
    return {
        "report": report,
        "survivors": report.result.survivors,
        "clipped_by": tuple(one.clipped for one in encoded),
    }


def usual_plan(
    clients: int,
    dropout: float | None = None,
    graph: str = BEST,
    guard: str = CURIOUS.name,
    dropout_per_step: float | Mapping[str, float] | None = None,
    agreement: str = DEFAULT,
    accept: bool = False,
    length: int = 1,
    privacy: DifferentialPrivacy | None = None,
) -> Plan:
    """Plan a round where the user chooses nothing but who drops out, which steps it has, and its noise."""
    asked: dict[str, Any] = {
        "clients": clients,
        "dropout": None if dropout is None else max(dropout, LEAST_DROPOUT),
        "graph": graph,
        "guard": guard,
        "dropout_per_step": dropout_per_step,
        "agreement": agreement,
        "accept": accept,
    }
    if privacy is not None:
        return plan(**asked, length=length, privacy=privacy)
    return plan_or_complete(**asked)


def _listed(name: str, given: Iterable[Any]) -> list[Any]:
    if isinstance(given, Mapping | str) or not isinstance(given, Iterable):
        raise VectorError(f"{name} must be a list with one entry per client, not {type(given).__name__}")
    return list(given)


def _check(models: Sequence[Arrays], weights: Sequence[float], seed: int | None) -> None:
    if len(weights) != len(models):
        raise VectorError(f"{len(weights)} weights for {len(models)} models")
    for client, weight in enumerate(weights):
        if not isinstance(weight, Real) or not 0 <= weight < math.inf:
            raise VectorError(f"client {client}: a weight must be 0 or greater, not {weight!r}")
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
        np.maximum(largest, np.abs(_of_client(client, layout.flatten, model)), out=largest)
    bound = _clip(layout, largest) if clip is None else clip
    heaviest = max(weights) or 1.0
    return Quantizer.for_model(models[0], clients=len(models), clip=bound, max_weight=heaviest, **wanted)


def _of_client(client: int, work: Callable[..., Done], *arguments: Any) -> Done:
    """Do this with a client's model; what is wrong with it is said with its number."""
    try:
        return work(*arguments)
    except VectorError as error:
        raise VectorError(f"client {client}: {error}") from error


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


def _expected(dropout: Dropout) -> float:
    return dropout.total if isinstance(dropout, Independent) else USUAL_DROPOUT


def _config(
    quantizer: Quantizer[Any], dropout: Dropout, graph: Graph | None, threshold: Threshold | None
) -> RoundConfig:
    """Configure what the caller chose; where no graph was chosen, what the planner chooses."""
    rule: Threshold = Majority()
    if graph is None:
        planned = usual_plan(quantizer.clients, _expected(dropout))
        graph, rule = planned.graph, planned.threshold
    return RoundConfig(
        clients=quantizer.clients,
        length=quantizer.length,
        bits=WORD_BITS,
        graph=graph,
        threshold=rule if threshold is None else threshold,
    )
