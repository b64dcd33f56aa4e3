"""``ccesa.aggregate`` computes the weighted mean of models through a real round in memory."""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Generic, TypedDict, TypeVar, Unpack, cast, overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from ccesa.agreement.config import RoundConfig
from ccesa.errors import ConfigError, RoundFailed, VectorError
from ccesa.graphs import Graph
from ccesa.graphs.thresholds import Majority, Threshold
from ccesa.parts import check_type, whole_number
from ccesa.plan.helpers import AssistedPlan, plan_helpers
from ccesa.plan.planner import plan, plan_or_complete
from ccesa.plan.result import Plan
from ccesa.privacy import DifferentialPrivacy, Mechanism, NoisyQuantizer
from ccesa.protocol.server import Aggregate
from ccesa.simulate.enrolment import Enrolment, federate
from ccesa.simulate.simulation import Dropout, Independent, SimulatedRound, simulate
from ccesa.values.fields import WORD_BITS, Arrays, Layout
from ccesa.values.quantize import Clip, Model, Quantized, Quantizer, T
from ccesa.words import Vector


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AggregatedModels(Generic[Model]):
    """The weighted mean over the survivors, in the form of the models, and its round.

    Attributes:
        mean: A dict or a list, as the first model.
        survivors: Clients in the mean, ascending.
        weight: The sum of their weights.
        clipped_by: For each client, in the mean or not, how many values were cut to the bound; with noise 1
            if the model was longer than the norm.
        values: The number of values of all clients together.
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
        """The number of clipped values of all clients; with noise, of clipped models."""
        return sum(self.clipped_by)

    @property
    def noise(self) -> float:
        """The standard deviation of the noise in each coordinate of the mean."""
        return 0.0 if self.mechanism is None else self.mechanism.noise(len(self.survivors)) / len(self.survivors)

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


class NoisyVectors:
    """Vectors with noise for ``simulate``, of made-up models with almost the full norm.

    Each call for a client returns the same vector. Its model follows from the seed. Its noise follows from a
    key that lives as long as this object; real clients keep no such key.
    """

    def __init__(self, mechanism: Mechanism, config: RoundConfig, seed: int) -> None:
        if (config.length, config.bits) != (mechanism.length, WORD_BITS):
            raise ConfigError(
                f"the noise is made for {mechanism.length} words of {WORD_BITS} bits, not for {config.length} words of "
                f"{config.bits} bits"
            )
        self.mechanism, self.context, self.seed = mechanism, config.context, seed
        self._quantizer: NoisyQuantizer[list[NDArray[Any]]] = NoisyQuantizer.for_model(
            [np.zeros(mechanism.dimension)], mechanism
        )
        self._keys = [os.urandom(16) for _ in range(config.clients)]

    def __call__(self, client: int) -> Vector:
        return self._quantizer.encode([self.model(client)], self.context, lambda _: self._keys[client]).vector

    def model(self, client: int) -> NDArray[np.float64]:
        drawn = np.random.default_rng([self.seed, 1, client]).normal(size=self.mechanism.dimension)
        drawn *= _LENGTH * self.mechanism.norm / np.linalg.norm(drawn)
        return drawn

    def measure(self, found: Aggregate) -> float:
        """Return the standard deviation of the noise in a sum of these vectors, over its coordinates."""
        many = len(found.survivors)
        (mean,) = self._quantizer.decode(found.vector, many, self.context).arrays
        return float(np.sqrt(np.mean((many * mean - sum(map(self.model, found.survivors))) ** 2)))


Done = TypeVar("Done")
#: The minimum dropout that rounds are planned for, so that a round with one dropout is not lost.
MINIMUM_DROPOUT = 0.05
#: The dropout that rounds are planned for if nothing else is known.
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
    helpers: int | None
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
    helpers: int | None = None,
    seed: int | None = None,
    threads: int = 0,
) -> AggregatedModels[Any]:
    """Compute the weighted mean of the models by a secure aggregation round in this process.

    Args:
        models: One per client, at least 3: lists or dicts of arrays or tensors, such as a ``state_dict``, or
            one array each.
        weights: The weight of each model, 0 or greater; all the same by default.
        dropout: The probability that a client drops out of the round, or a dropout model.
        clip: The bound on the absolute value of every element, or one per array; by default the largest value
            of each array. A federation agrees on bounds beforehand.
        bits: Bits of one client's value, 2 to 53. By default each has 32 bits on the wire, enough for the
            sum over all clients.
        precision: In place of ``bits``: the maximum error of a value of an unweighted mean.
        privacy: Asks for noise in the mean, against a server that follows the protocol; with ``helpers`` also
            against one that lies. Every client counts one and is clipped to ``privacy.norm``; ``weights``,
            ``clip``, ``bits``, ``precision``, ``graph`` and ``threshold`` do not go with it. The round is one of
            ``privacy.rounds``: count them yourself, there is no ledger here.
        graph: The assignment graph; planned for the dropout by default.
        threshold: How many holders open a secret; planned with the graph, or ``Majority`` beside a graph.
        helpers: In place of a graph: the number of helpers, 2 to 16, with whom clients mask. Clients then send
            once.
        seed: Repeats dropouts and rounding. Keys and noise are always new.
        threads: The maximum of threads that the round uses; 0: as many as help.

    Returns:
        The mean in the form of the first model, its survivors, how much was clipped, and its noise.

    Raises:
        VectorError: Models or weights do not fit together.
        ConfigError: Other options are wrong.
        RoundFailed: Too many clients drop out for a sum.
    """
    given, chance = _as_list("models", models), dropout if isinstance(dropout, Dropout) else Independent(dropout)
    are_arrays = all(hasattr(one, "shape") for one in given)
    models = [[one] for one in given] if are_arrays else given
    if helpers is not None and (graph, threshold) != (None, None):
        raise ConfigError("helpers take the place of a graph: leave out graph and threshold")
    federation: Enrolment | None = None
    quantizer: Quantizer[Any] | NoisyQuantizer[Any]
    if privacy is not None:
        others = {"clip": clip, "bits": bits, "precision": precision, "graph": graph, "threshold": threshold}
        for name, value in {"weights": weights, **others}.items():
            if value is not None:
                raise ConfigError(f"{name} does not go with privacy: every client counts one, and the rest is planned")
        _check(models, [1.0] * len(models), seed)
        check_type("privacy", privacy, DifferentialPrivacy)
        layout = Layout.of(models[0])
        if helpers is None:
            planned = usual_plan(len(models), _expected(chance), length=layout.size, privacy=privacy)
            config, mechanism = planned.config(), planned.mechanism
        else:
            asked = {"helpers": helpers, "length": layout.size, "privacy": privacy}
            config, federation = _config_with_helpers(len(models), chance, **asked)
            mechanism = federation.charter.mechanism
        quantizer = NoisyQuantizer(layout=layout, mechanism=cast(Mechanism, mechanism))
        encoded = [_of_client(client, quantizer.encode, model, config.context) for client, model in enumerate(models)]
    else:
        weights = [1.0] * len(models) if weights is None else _as_list("weights", weights)
        _check(models, weights, seed)
        quantizer = _quantizer(models, weights, clip, bits=bits, precision=precision)
        if helpers is None:
            config = _config(quantizer, chance, graph, threshold)
        else:
            asked = {"helpers": helpers, "length": quantizer.length}
            config, federation = _config_with_helpers(len(models), chance, **asked)
        rounding = np.random.default_rng(seed).integers(2**63, size=len(models))
        encoded = [
            quantizer.encode(model, weight, np.random.default_rng(own))
            for model, weight, own in zip(models, weights, rounding, strict=True)
        ]
    found = _play(config, encoded, quantizer, dropout=chance, seed=seed, threads=threads, federation=federation)
    return replace(found, mean=found.mean[0]) if are_arrays else found


def _play(
    config: RoundConfig, encoded: Sequence[Quantized], quantizer: Quantizer[Any] | NoisyQuantizer[Any], **options: Any
) -> AggregatedModels[Any]:
    """Run the round and decode its sum, or raise RoundFailed."""
    report = simulate(config, lambda client: encoded[client].vector, **options)
    found, mechanism = report.result, None
    if isinstance(found, RoundFailed):
        raise found
    if isinstance(quantizer, NoisyQuantizer):
        mechanism = quantizer.mechanism
        mean = quantizer.decode(found.vector, len(found.survivors), config.context)
    else:
        mean = quantizer.decode(found.vector)
    return AggregatedModels(
        mean=mean.arrays,
        survivors=found.survivors,
        weight=mean.weight,
        clipped_by=tuple(one.clipped for one in encoded),
        values=len(encoded) * quantizer.layout.size,
        report=report,
        mechanism=mechanism,
    )


def usual_plan(
    clients: int,
    dropout: float | None = None,
    *,
    length: int = 1,
    privacy: DifferentialPrivacy | None = None,
    **asked: Any,
) -> Plan:
    """Plan a round for a dropout of 0.05 or more; ``asked`` are other arguments of ``plan``.

    Without noise reliability gives way, and the length does not matter.
    """
    dropout = None if dropout is None else max(dropout, MINIMUM_DROPOUT)
    if privacy is not None:
        return plan(clients, dropout, length=length, privacy=privacy, **asked)
    return plan_or_complete(clients, dropout, **asked)


def usual_helpers(clients: int, dropout: float, **asked: Any) -> AssistedPlan:
    """Plan a round with helpers for a dropout of 0.05 or more; ``asked`` are other arguments of ``plan_helpers``."""
    return plan_helpers(clients, max(dropout, MINIMUM_DROPOUT), **asked)


def agree_helpers(planned: AssistedPlan, bits: int) -> dict[str, Any]:
    """Return the arguments of ``federate`` for a plan with helpers. Noise decides about the bits of words."""
    return {
        "helpers": planned.helpers,
        "colluders": planned.colluders,
        "min_survivors": planned.min_survivors,
        "bits": bits if planned.mechanism is None else planned.bits,
        "privacy": planned.mechanism or msgspec.UNSET,
    }


def _as_list(name: str, given: Iterable[Any]) -> list[Any]:
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
    """Return a quantizer for all models, with their largest values as bounds unless ``clip`` is given."""
    layout = Layout.of(models[0])
    largest = np.zeros(layout.size)
    for client, model in enumerate(models):
        np.maximum(largest, np.abs(_of_client(client, layout.flatten, model)), out=largest)
    if clip is None:  # one bound for all arrays would round small ones to nothing
        rows = np.split(largest, np.cumsum(layout.sizes)[:-1]) if layout.sizes else []
        bounds = [float(row.max(initial=0.0)) or 1.0 for row in rows]
        clip = bounds if layout.names is None else dict(zip(layout.names, bounds, strict=True))
    return Quantizer.for_model(models[0], clients=len(models), clip=clip, max_weight=max(weights) or 1.0, **wanted)


def _of_client(client: int, work: Callable[..., Done], *arguments: Any) -> Done:
    """Call ``work`` for a client; an error names the client."""
    try:
        return work(*arguments)
    except VectorError as error:
        raise VectorError(f"client {client}: {error}") from error


def _expected(dropout: Dropout) -> float:
    return dropout.total if isinstance(dropout, Independent) else USUAL_DROPOUT


def _config(
    quantizer: Quantizer[Any], dropout: Dropout, graph: Graph | None, threshold: Threshold | None
) -> RoundConfig:
    """Return the configuration; without a graph the planner chooses one."""
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


def _config_with_helpers(clients: int, dropout: Dropout, **asked: Any) -> tuple[RoundConfig, Enrolment]:
    """Return the configuration of a round with new helpers, and the federation. As along a graph, nobody colludes."""
    planned = usual_helpers(clients, _expected(dropout), colluders=0, **asked)
    federation = federate(clients, **agree_helpers(planned, WORD_BITS))
    return federation.charter.config(length=planned.length), federation
