"""What server and nodes agree on beside the round's configuration: how a reply becomes one vector.

A reply's arrays travel as differences to the model that was sent, its metrics in a fixed number of slots, its
number of examples as the weight. The names of metrics are no secret; their values are.
"""

import hashlib
import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
import numpy as np
from flwr.app import ArrayRecord, RecordDict
from numpy.typing import NDArray

from ccesa import labels, wire
from ccesa.errors import ConfigError, VectorError
from ccesa.flower import slots
from ccesa.flower.slots import Metrics
from ccesa.quantize import WEIGHT_UNITS, Quantizer
from ccesa.ring import Vector

Arrays = dict[str, NDArray[Any]]

#: Differences of counters (in batch norm layers) are larger than those of weights.
COUNTER_CLIP = float(2**14)
_ARITHMETIC = 8 * float(np.finfo(np.float64).eps)
_TASK = b"ccesa-flower-1 task"
_MAX_BYTES = 1 << 20


class Average(msgspec.Struct, frozen=True, kw_only=True):
    """The weighted mean over the survivors, and how exact it is."""

    arrays: Arrays
    metrics: Metrics
    weight: float
    #: How far any value can be off through rounding, if nothing was clipped, before an array is cast back to
    #: its own type.
    error: float
    #: The same for counters, which is more; 0 if there are none.
    counter_error: float


class Terms(msgspec.Struct, frozen=True, kw_only=True, tag="ccesa-flower-1", forbid_unknown_fields=True):
    """Settings of ``SecureGrid`` that a node has to know."""

    kind: Literal["train", "evaluate"]
    clients: int
    clip: float
    metric_clip: float
    bits: int
    max_weight: float
    weighted_by: str
    slots: int
    #: Names of arrays that were integers once; their mean is none, and strategies send it on as floats.
    counters: list[str] = []

    def __post_init__(self) -> None:
        if self.clients < 1 or self.slots < 0:
            raise ConfigError(f"terms for {self.clients} clients and {self.slots} metrics")
        for name in ("clip", "metric_clip"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must be a positive number, not {getattr(self, name)!r}")

    def encode(self) -> bytes:
        return wire.encode(self)

    @staticmethod
    def decode(data: bytes) -> "Terms":
        return wire.decode(_DECODER, data, _MAX_BYTES, "terms")

    def length(self, model: Arrays) -> int:
        """Elements of the vector: arrays, weight, metrics."""
        return self._quantizer(model).length + self.slots * slots.digits(self.clients, self.bits)

    def task(self, model: Arrays) -> bytes:
        """Digest of what the nodes are asked to work on: it enters the round's context."""
        return labels.digest(_TASK, self.encode(), *_model_parts(model))

    def pack(self, model: Arrays, reply: Arrays, metrics: Metrics, weight: float) -> tuple[Vector, int]:
        """One node's vector, and how many values were clipped."""
        arrays = _differences(model, reply) if self.kind == "train" else {}
        quantized = self._quantizer(model).encode(arrays, weight)
        units = round(weight / self.max_weight * WEIGHT_UNITS)
        numbers = slots.encode(
            slots.flatten(metrics), self.slots, units, self.metric_clip, self.clients, self.bits
        )
        return np.concatenate([quantized.vector, numbers]), quantized.clipped

    def unpack(self, model: Arrays, total: Vector, names: list[str]) -> Average:
        """The mean from the sum over the survivors."""
        quantizer = self._quantizer(model)
        mean = quantizer.decode(total[: quantizer.length])
        units = round(mean.weight / self.max_weight * WEIGHT_UNITS)
        numbers = slots.decode(total[quantizer.length :], units, self.metric_clip, self.clients, self.bits)
        found = mean.arrays if isinstance(mean.arrays, Mapping) else {}
        return Average(
            arrays={name: _moved(value, found[name]) for name, value in model.items() if name in found},
            metrics=slots.restore(names, numbers),
            weight=mean.weight,
            error=max(self._error(quantizer, self.clip, units), self._metric_error(units)),
            counter_error=self._error(quantizer, COUNTER_CLIP, units) if self.counters else 0.0,
        )

    def _quantizer(self, model: Arrays) -> Quantizer:
        """For replies to this model. An evaluation has no arrays."""
        sent = model if self.kind == "train" else {}
        return Quantizer.for_model(
            {name: np.broadcast_to(np.float64(0), value.shape) for name, value in sent.items()},
            clients=self.clients,
            clip={name: COUNTER_CLIP if name in self.counters else self.clip for name in sent},
            bits=self.bits,
            max_weight=self.max_weight,
        )

    def _error(self, quantizer: Quantizer, clip: float, units: int) -> float:
        """Every client rounds a value once, by less than one level."""
        if self.kind == "evaluate":
            return 0.0
        return clip * (self.clients * WEIGHT_UNITS / (quantizer.levels * units) + _ARITHMETIC)

    def _metric_error(self, units: int) -> float:
        """Every client rounds a metric once, to the nearest."""
        return self.metric_clip * (self.clients / (2 * slots.SCALE * units) + _ARITHMETIC)


_DECODER = msgspec.msgpack.Decoder(Terms)


def model_of(content: RecordDict) -> Arrays:
    """The arrays of a train or evaluate message; there is at most one ArrayRecord."""
    records: list[ArrayRecord] = list(content.array_records.values())
    if len(records) > 1:
        raise ConfigError(f"a message with {len(records)} ArrayRecords; secure aggregation takes one")
    return {name: array.numpy() for record in records for name, array in record.items()}


def counters_of(model: Arrays) -> set[str]:
    return {name for name, value in model.items() if value.dtype.kind != "f"}


def _differences(model: Arrays, reply: Arrays) -> Arrays:
    """What training added to the model."""
    if list(reply) != list(model):
        raise VectorError(f"the reply has arrays {list(reply)}, the model has {list(model)}")
    for name, value in reply.items():
        if value.shape != model[name].shape:
            raise VectorError(f"array {name!r} has shape {value.shape}, the model's has {model[name].shape}")
    return {name: np.asarray(reply[name], np.float64) - np.asarray(model[name], np.float64) for name in model}


def _moved(value: NDArray[Any], difference: NDArray[np.float64]) -> NDArray[Any]:
    """The model's array plus the mean difference, in its own type; means of whole numbers are none."""
    moved = np.asarray(value, np.float64) + difference
    return moved.astype(value.dtype) if value.dtype.kind == "f" else moved


def _model_parts(model: Arrays) -> list[bytes]:
    parts: list[bytes] = []
    for name, value in model.items():
        content = np.ascontiguousarray(value)
        head = f"{name}\0{content.dtype.str}\0{content.shape}".encode()
        parts += [head, hashlib.sha256(content.tobytes()).digest()]
    return parts
