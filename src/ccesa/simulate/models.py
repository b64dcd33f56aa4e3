"""``ccesa.aggregate``: models in, their weighted mean out, through a real round in memory."""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Generic, TypedDict, TypeVar, Unpack, cast, overload

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
from ccesa.protocol.server import Aggregate
from ccesa.simulate.simulation import Dropout, Independent, SimulatedRound, simulate
from ccesa.values.fields import WORD_BITS, Arrays, Layout
from ccesa.values.quantize import Clip, Model, Quantized, Quantizer, T
from ccesa.words import Vector


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AggregatedModels(Generic[Model]):
    """The weighted mean over the survivors, in the form of the models, and how it came about.

    Attributes:
        mean: A dict or a list, as the first model.
        survivors: Clients in the mean, ascending.
        weight: The sum of their weights.
        clipped_by: How many values each client had to cut to the bound, whether it is in the mean or not;
            with noise 1 for a model that was longer than the norm.
        values: How many values all clients have together.
        report: The round and its costs.
        mechanism: The noise in the mean, if it has any.
    """

    mean: Model
    survivors: tuple[int, ...]
    weight: float
    clipped_by: tuple[int, ...]
    values: int
    report: SimulatedRound
    mechanism: Mechanism | None = None

    @property
    def clipped(self) -> int:
        """How many values were clipped, over all clients; with noise, how many models."""
        return sum(self.clipped_by)

    @property
    def noise(self) -> float:
        """The standard deviation of the noise in each coordinate of the mean."""
        many = len(self.survivors)
        return 0.0 if self.mechanism is None else self.mechanism.noise(many) / many

    @property
    def epsilon(self) -> float | None:
        """The epsilon that all planned rounds keep together, rounded up; None without noise."""
        return None if self.mechanism is None else self.mechanism.certify()

    def __repr__(self) -> str:
        inside = f"{len(self.survivors)} of {self.report.clients} clients in the mean"
        if self.mechanism is None:
            rest = f"weight {self.weight:g}, {self.clipped} of {self.values} values clipped"
        else:
            rest = (
                f"noise of {self.noise:.3g} in each coordinate, epsilon {self.epsilon:.3g} over "
                f"{self.mechanism.rounds} round(s), {self.clipped} models clipped"
            )
        return f"AggregatedModels({inside}, {rest})"


#: Made-up models are a little shorter than the norm, so that rounding cuts none of them.
_LENGTH = 0.9


def _refuse_beside_noise(**others: object) -> None:
    """Refuse options that do not go with noise."""
    for name, value in others.items():
        if value is not None:
            raise ConfigError(
                f"{name} does not go with privacy: every client counts one, models are clipped to "
                "privacy.norm, and graph, threshold and fields are planned with the noise"
            )


class NoisyVectors:
    """Vectors with noise for ``simulate``, of made-up models with almost the full norm.

    A client's vector is the same whenever it is asked for. Its model follows from the seed, its noise from a
    key that is drawn once and lives as long as this object: real clients keep none.

    Args:
        mechanism: The noise.
        config: The round.
        seed: Fixes the models, never the noise.

    Raises:
        ConfigError: The round's vectors are not those of this noise.
    """

    def __init__(self, mechanism: Mechanism, config: RoundConfig, seed: int) -> None:
        if (config.length, config.bits) != (mechanism.length, WORD_BITS):
            raise ConfigError(
                f"vectors of {config.length} words of {config.bits} bits, and noise that is made for "
                f"{mechanism.length} of {WORD_BITS}"
            )
        self.mechanism, self.context, self.seed = mechanism, config.context, seed
        self._quantizer: NoisyQuantizer[list[NDArray[Any]]] = NoisyQuantizer.for_model(
            [np.zeros(mechanism.dimension)], mechanism
        )
        self._keys = [os.urandom(16) for _ in range(config.clients)]

    def __call__(self, client: int) -> Vector:
        """Return a client's vector."""
        return self._quantizer.encode([self.model(client)], self.context, lambda _: self._keys[client]).vector

    def model(self, client: int) -> NDArray[np.float64]:
        """Return a client's model."""
        drawn = np.random.default_rng([self.seed, 1, client]).normal(size=self.mechanism.dimension)
        drawn *= _LENGTH * self.mechanism.norm / np.linalg.norm(drawn)
        return drawn

    def measure(self, found: Aggregate) -> float:
        """Return the standard deviation of the noise in a sum, over its coordinates.

        Args:
            found: The sum of vectors that were made here.
        """
        many = len(found.survivors)
        (mean,) = self._quantizer.decode(found.vector, many, self.context).arrays
        return float(np.sqrt(np.mean((many * mean - sum(map(self.model, found.survivors))) ** 2)))


Done = TypeVar("Done")
#: Rounds are planned for at least this much, so that a round with one dropout is not lost.
MINIMUM_DROPOUT = 0.05
#: The plan's dropout for other dropout models.
USUAL_DROPOUT = 0.1


class Options(TypedDict, total=False):
    """The options of ``aggregate``."""

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
def aggregate(models: Iterable[NDArray[Any]], **options: Unpack[Options]) -> AggregatedModels[NDArray[Any]]: ...
@overload
def aggregate(
    models: Iterable[Mapping[str, NDArray[Any]]], **options: Unpack[Options]
) -> AggregatedModels[dict[str, NDArray[Any]]]: ...
@overload
def aggregate(
    models: Iterable[Sequence[NDArray[Any]]], **options: Unpack[Options]
) -> AggregatedModels[list[NDArray[Any]]]: ...
@overload
def aggregate(models: Iterable[Mapping[str, T]], **options: Unpack[Options]) -> AggregatedModels[dict[str, T]]: ...
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
        weights: The weight of each model, 0 or greater; all the same by default.
        dropout: The probability that a client drops out of the round, or a dropout model.
        clip: The bound on the absolute value of every element, or one per array. By default the largest value
            of each array; a federation agrees on bounds beforehand.
        bits: Bits of one client's value, 2 to 53. By default each has 32 bits on the wire, enough for the
            sum over all clients.
        precision: In place of ``bits``: the maximum error of a value of an unweighted mean.
        privacy: Asks for noise in the mean, against a server that follows the protocol. Every client counts
            one and is clipped to ``privacy.norm``; ``weights``, ``clip``, ``bits``, ``precision``, ``graph``
            and ``threshold`` do not go with it. The round is one of ``privacy.rounds``: count them yourself,
            there is no ledger here.
        graph: The assignment graph; planned for the dropout by default.
        threshold: How many holders open a secret; planned with the graph, or ``Majority`` beside a graph.
        seed: Repeats dropouts and rounding; keys and noise are always random.
        threads: The maximum of threads that the round uses; 0: as many as help.

    Returns:
        The mean in the form of the first model, its survivors, how much was clipped, and its noise.

    Raises:
        VectorError: Models or weights do not fit together.
        ConfigError: Other options are wrong.
        RoundFailed: Too many clients drop out for a sum.
    """
    given, chance = _listed("models", models), _dropout_model(dropout)
    are_arrays = all(hasattr(one, "shape") for one in given)
    models = [[one] for one in given] if are_arrays else given
    if privacy is not None:
        others = {"clip": clip, "bits": bits, "precision": precision, "graph": graph, "threshold": threshold}
        _refuse_beside_noise(weights=weights, **others)
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
    played = _play(config, encoded, dropout=chance, seed=seed, threads=threads)
    mean = quantizer.decode(played["report"].result.vector)
    values = len(models) * quantizer.layout.size
    found = mean.arrays[0] if are_arrays else mean.arrays
    return AggregatedModels(mean=found, weight=mean.weight, values=values, **played)


def _with_noise(
    models: Sequence[Arrays], privacy: DifferentialPrivacy, dropout: Dropout, *, seed: int | None, threads: int
) -> AggregatedModels[Any]:
    check_type("privacy", privacy, DifferentialPrivacy)
    _check(models, [1.0] * len(models), seed)
    layout = Layout.of(models[0])
    planned = usual_plan(len(models), _expected(dropout), length=layout.size, privacy=privacy)
    config, mechanism = planned.config(), cast(Mechanism, planned.mechanism)
    quantizer: NoisyQuantizer[Any] = NoisyQuantizer(layout=layout, mechanism=mechanism)
    encoded = [_of_client(client, quantizer.encode, model, config.context) for client, model in enumerate(models)]
    played = _play(config, encoded, dropout=dropout, seed=seed, threads=threads)
    found = played["report"].result
    mean = quantizer.decode(found.vector, len(found.survivors), config.context)
    values = len(models) * layout.size
    return AggregatedModels(mean=mean.arrays, weight=mean.weight, values=values, mechanism=mechanism, **played)


def _play(config: RoundConfig, encoded: Sequence[Quantized], **options: Any) -> dict[str, Any]:
    """Run the round, and return the part of its result that does not depend on the encoding."""
    report = simulate(config, lambda client: encoded[client].vector, **options)
    if isinstance(report.result, RoundFailed):
        raise report.result
    return {"report": report, "survivors": report.result.survivors, "clipped_by": tuple(one.clipped for one in encoded)}


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
    """Plan a round from its dropout, its steps and its noise; all else is the planner's choice."""
    asked: dict[str, Any] = {
        "clients": clients,
        "dropout": None if dropout is None else max(dropout, MINIMUM_DROPOUT),
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
        raise ConfigError(f"seed must be 0 or greater, not {seed}")
    if len(models) == 0:
        raise ConfigError("a round needs at least 3 clients, not 0")


def _quantizer(models: Sequence[Arrays], weights: Sequence[float], clip: Clip | None, **wanted: Any) -> Quantizer[Any]:
    """Make a quantizer that is wide enough for all models, unless a clip is given."""
    layout = Layout.of(models[0])
    largest = np.zeros(layout.size)
    for client, model in enumerate(models):
        np.maximum(largest, np.abs(_of_client(client, layout.flatten, model)), out=largest)
    bound = _clip(layout, largest) if clip is None else clip
    heaviest = max(weights) or 1.0
    return Quantizer.for_model(models[0], clients=len(models), clip=bound, max_weight=heaviest, **wanted)


def _of_client(client: int, work: Callable[..., Done], *arguments: Any) -> Done:
    """Call this with a client's model; an error names the client."""
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
        raise ConfigError(f"dropout must be a number or a dropout model, not {dropout!r}")
    return Independent(float(dropout))


def _expected(dropout: Dropout) -> float:
    return dropout.total if isinstance(dropout, Independent) else USUAL_DROPOUT


def _config(
    quantizer: Quantizer[Any], dropout: Dropout, graph: Graph | None, threshold: Threshold | None
) -> RoundConfig:
    """Make the configuration; without a graph the planner chooses it."""
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
