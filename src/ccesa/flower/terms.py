"""What server and nodes agree on beside the round's configuration: how a reply becomes one vector.

A reply's arrays travel as differences to the model that was sent, its metrics in a fixed number of slots, its
number of examples as the weight, and under the same masks what had to be cut off: whether a node's values fit
the bounds that the server chose is as secret as the values. The names of metrics are no secret.
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

#: The largest metric, if nobody says otherwise.
METRIC_CLIP = 1e6
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
    #: Metrics that are not there, because some node's was no finite number or beyond ``metric_clip``.
    unusable: list[str]
    #: Nodes with more weight than ``max_weight``; they count as that.
    capped: int


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
        """Elements of the vector: arrays, weight, metrics, and a count for each metric and the weight."""
        return self._quantizer(model).length + self._metric_elements + self.slots + 1

    def task(self, content: RecordDict) -> bytes:
        """Digest of what the nodes are asked to work on: it enters the round's context.

        The settings for training are part of it. A server could otherwise switch off the training of all
        nodes but one, and the sum would be that one's change.
        """
        return labels.digest(_TASK, self.encode(), *_content_parts(content))

    def pack(self, model: Arrays, reply: Arrays, metrics: Metrics, weight: float) -> tuple[Vector, int]:
        """One node's vector, and how many values of its arrays were clipped."""
        arrays = _differences(model, reply) if self.kind == "train" else {}
        units = self._units(weight)
        quantized = self._quantizer(model).encode(arrays, units / WEIGHT_UNITS * self.max_weight)
        values = slots.flatten(metrics)
        fits = [math.isfinite(value) and abs(value) <= self.metric_clip for value in values]
        kept = [value if fit else 0.0 for value, fit in zip(values, fits, strict=True)]
        numbers = slots.encode(kept, self.slots, units, self.metric_clip, self.clients, self.bits)
        counts = np.zeros(self.slots + 1, numbers.dtype)
        counts[: len(fits)] = np.logical_not(fits)
        counts[-1] = weight > self.max_weight
        return np.concatenate([quantized.vector, numbers, counts]), quantized.clipped

    def unpack(self, model: Arrays, total: Vector, names: list[str]) -> Average:
        """The mean from the sum over the survivors."""
        quantizer = self._quantizer(model)
        mean = quantizer.decode(total[: quantizer.length])
        units = round(mean.weight / self.max_weight * WEIGHT_UNITS)
        digits, counts = np.split(total[quantizer.length :], [self._metric_elements])
        numbers = slots.decode(digits, units, self.metric_clip, self.clients, self.bits)
        metrics = slots.restore(names, numbers)
        unusable = [name for name, row in slots.restore(names, counts).items() if np.any(row)]
        found = mean.arrays if isinstance(mean.arrays, Mapping) else {}
        return Average(
            arrays={name: _moved(value, found[name]) for name, value in model.items() if name in found},
            metrics={name: value for name, value in metrics.items() if name not in unusable},
            unusable=unusable,
            capped=int(counts[-1]),
            weight=mean.weight,
            error=max(self._error(quantizer, self.clip, units), self._metric_error(units)),
            counter_error=self._error(quantizer, COUNTER_CLIP, units) if self.counters else 0.0,
        )

    @property
    def _metric_elements(self) -> int:
        return self.slots * slots.digits(self.clients, self.bits)

    def _units(self, weight: float) -> int:
        """More than ``max_weight`` counts as that. Whoever has anything counts: a server that chooses a huge
        bound, for which all but the largest weight round to nothing, does not single that one out."""
        units = round(min(weight, self.max_weight) / self.max_weight * WEIGHT_UNITS)
        return max(units, 1) if weight > 0 else 0

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
    found: list[ArrayRecord] = [one for one in content.values() if isinstance(one, ArrayRecord)]
    if len(found) > 1:
        raise ConfigError(f"a message with {len(found)} ArrayRecords; secure aggregation takes one")
    arrays = {name: array.numpy() for record in found for name, array in record.items()}
    for name, value in arrays.items():
        if value.dtype.kind not in "fiub":
            raise ConfigError(f"array {name!r} has type {value.dtype}; secure aggregation takes real numbers")
    return arrays


def counters_of(model: Arrays) -> set[str]:
    return {name for name, value in model.items() if value.dtype.kind != "f"}


def _differences(model: Arrays, reply: Arrays) -> Arrays:
    """What training added to the model."""
    if set(reply) != set(model):
        raise VectorError(f"the reply has arrays {list(reply)}, the model has {list(model)}")
    for name, value in reply.items():
        if value.shape != model[name].shape:
            raise VectorError(f"array {name!r} has shape {value.shape}, the model's has {model[name].shape}")
    return {name: np.asarray(reply[name], np.float64) - np.asarray(model[name], np.float64) for name in model}


def _moved(value: NDArray[Any], difference: NDArray[np.float64]) -> NDArray[Any]:
    """The model's array plus the mean difference, in its own type; means of whole numbers are none."""
    moved = np.asarray(value, np.float64) + difference
    return moved.astype(value.dtype) if value.dtype.kind == "f" else moved


def _content_parts(content: RecordDict) -> list[bytes]:
    """Every record with its name, in an order that does not depend on how it travelled."""
    parts: list[bytes] = []
    for name, record in sorted(content.items()):
        parts += [name.encode(), type(record).__name__.encode()]
        if isinstance(record, ArrayRecord):
            parts += [part for key, array in record.items() for part in _array_parts(key, array.numpy())]
        else:
            parts.append(msgspec.msgpack.encode(sorted(record.items())))
    return parts


def _array_parts(name: str, value: NDArray[Any]) -> tuple[bytes, bytes]:
    content = np.ascontiguousarray(value)
    head = f"{name}\0{content.dtype.str}\0{value.shape}".encode()
    return head, hashlib.sha256(content.tobytes()).digest()
