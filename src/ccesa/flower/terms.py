"""What server and nodes agree on beside the round's configuration: how a reply becomes one vector.

A reply's arrays travel as differences to the model that was sent, its metrics in a fixed number of slots, its
number of examples as the weight. Under the same masks go the names of its metrics and records, what had to be
cut off, and whether there was anything to send at all: that a node's values fit the bounds that the server
chose, or that its training failed, is as secret as the values.
"""

import itertools
import math
from collections.abc import Mapping

import msgspec
import numpy as np
from flwr.app import RecordDict

from ccesa import labels, ring, wire
from ccesa.errors import ConfigError, VectorError
from ccesa.flower import names, slots
from ccesa.flower.models import Arrays, array_parts, content_parts, differences, moved
from ccesa.flower.slots import Metrics
from ccesa.quantize import WEIGHT_UNITS, Quantizer
from ccesa.ring import Vector

#: The largest metric, if nobody says otherwise.
METRIC_CLIP = 1e6
#: Differences of counters (in batch norm layers) are larger than those of weights.
COUNTER_CLIP = float(2**14)
#: What an app calls its ArrayRecord and its MetricRecord, where nodes do not agree on other names.
RECORDS = ("arrays", "metrics")
_ARITHMETIC = 8 * float(np.finfo(np.float64).eps)
_TASK, _SUBJECT = b"ccesa-flower-2 task", b"ccesa-flower-2 subject"
_MAX_BYTES = 1 << 20
#: Bytes for the names of both records; for those of the metrics, and for each of their slots.
_RECORD_ROOM, _METRIC_ROOM, _SLOT_ROOM = 96, 8, 24


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What the app of one node replied, as far as it goes into the sum."""

    arrays: Arrays
    metrics: Metrics
    weight: float
    #: What it calls its arrays and its metrics.
    records: tuple[str, str] = RECORDS


class Average(msgspec.Struct, frozen=True, kw_only=True):
    """The weighted mean over the survivors that contributed, and how exact it is."""

    arrays: Arrays
    metrics: Metrics
    weight: float
    #: How far any metric, and any value of an array that is no counter, can be off through rounding, if
    #: nothing was clipped, before an array is cast back to its own type.
    error: float
    #: How far any value of a counter can be off, which is more; 0 if there are none.
    counter_error: float
    #: Metrics that are not there, because some node's was no finite number or beyond ``metric_clip``.
    unusable: list[str]
    #: Nodes with more weight than ``max_weight``; they count as that.
    capped: int
    #: Survivors that contributed nothing: no examples, or no reply that could be used.
    nothing: int
    #: Whether all nodes have metrics of the same names. If not, there are no metrics.
    alike: bool
    #: What the apps call their arrays and their metrics.
    records: tuple[str, str]

    @property
    def bound(self) -> float:
        """How far any value at all can be off."""
        return max(self.error, self.counter_error)


class Terms(msgspec.Struct, frozen=True, kw_only=True, tag="ccesa-flower-2", forbid_unknown_fields=True):
    """Settings of ``SecureGrid`` that a node has to know."""

    #: In full: an app can have a function for ``train.probe`` beside the one for ``train``.
    message_type: str
    clients: int
    clip: float
    metric_clip: float
    bits: int
    max_weight: float
    weighted_by: str
    slots: int
    #: The slots by name, see ``slots``; None: a node fills them with what it has, and the names travel too.
    metrics: list[str] | None = None
    #: Names of arrays that were integers once; their mean is none, and strategies send it on as floats.
    counters: list[str] = []

    def __post_init__(self) -> None:
        check_message_type(self.message_type)
        if self.clients < 1 or self.slots < 0:
            raise ConfigError(f"terms for {self.clients} clients and {self.slots} metrics")
        if self.metrics is not None and not (
            len(self.metrics) == self.slots and slots.is_schema(self.metrics)
        ):
            raise ConfigError(f"{len(self.metrics)} names that are no names of {self.slots} slots")
        for name in ("clip", "metric_clip"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} must be a positive number, not {getattr(self, name)!r}")

    @property
    def kind(self) -> str:
        """``train`` or ``evaluate``."""
        return self.message_type.split(".")[0]

    @property
    def name_room(self) -> int:
        """Bytes for the names of metrics; none where the terms have them."""
        return _METRIC_ROOM + _SLOT_ROOM * self.slots if self.metrics is None else 0

    def encode(self) -> bytes:
        return wire.encode(self)

    @staticmethod
    def decode(data: bytes) -> "Terms":
        return wire.decode(_DECODER, data, _MAX_BYTES, "terms")

    def length(self, model: Arrays) -> int:
        """Elements of the vector: arrays and weight, then what ``_sizes`` says."""
        return self._quantizer(model).length + sum(self._sizes)

    def task(self, content: RecordDict) -> bytes:
        """Digest of what the nodes are asked to work on: it enters the round's context.

        The settings for training are part of it. A server could otherwise switch off the training of all
        nodes but one, and the sum would be that one's change. So is the message's full type, for the same
        reason: it says which function of the app is called.
        """
        return labels.digest(_TASK, self.encode(), *content_parts(content))

    def subject(self, content: RecordDict) -> bytes:
        """Digest of what a node remembers to have contributed to: the model, and what was done with it.

        Nothing else is in it, so that no setting, bound or number of a round makes another subject of the
        same model.
        """
        return labels.digest(_SUBJECT, self.message_type.encode(), *array_parts(content))

    def pack(self, model: Arrays, said: Said) -> tuple[Vector, int]:
        """One node's vector, and how many values of its arrays were clipped.

        Raises VectorError where the reply cannot be used; the node sends ``nothing`` then.
        """
        arrays = differences(model, said.arrays) if self.kind == "train" else {}
        units = self._units(said.weight)
        quantized = self._quantizer(model).encode(arrays, units / WEIGHT_UNITS * self.max_weight)
        named = slots.schema(said.metrics) if self.metrics is None else self.metrics
        values = slots.pick(named, said.metrics)
        fits = [math.isfinite(value) and abs(value) <= self.metric_clip for value in values]
        kept = [value if fit else 0.0 for value, fit in zip(values, fits, strict=True)]
        numbers = slots.encode(kept, self.slots, units, self.metric_clip, self.clients, self.bits)
        counts = np.zeros(self.slots + 2, numbers.dtype)
        counts[: len(fits)] = np.logical_not(fits)
        counts[-2] = said.weight > self.max_weight
        return np.concatenate(
            [quantized.vector, numbers, self._records_named(said), self._metrics_named(named), counts]
        ), quantized.clipped

    def nothing(self, model: Arrays) -> Vector:
        """The vector of a node that has nothing to send, as long as all others: zeros, and one in a count.

        It has no weight either. One unit of weight for a change of zero would hide nothing, since the number
        of such nodes is in the sum, and would move the mean.
        """
        vector = ring.zeros(self.length(model), self.bits)
        vector[-1] = 1
        return vector

    def unpack(self, model: Arrays, total: Vector, survivors: int) -> Average:
        """The mean from the sum over so many survivors."""
        quantizer = self._quantizer(model)
        ends = list(itertools.accumulate([quantizer.length, *self._sizes[:-1]]))
        head, digits, records, metrics, counts = np.split(total, ends)
        nothing = int(counts[-1])
        if nothing >= survivors:
            raise VectorError(
                f"{nothing} of {survivors} nodes contributed nothing, so there is no mean; their logs say why"
            )
        mean = quantizer.decode(head)
        units = round(mean.weight / self.max_weight * WEIGHT_UNITS)
        numbers = slots.decode(digits, units, self.metric_clip, self.clients, self.bits)
        named = self._metric_names(metrics, survivors - nothing)
        found = mean.arrays if isinstance(mean.arrays, Mapping) else {}
        unusable = [name for name, row in slots.restore(named or [], counts).items() if np.any(row)]
        return Average(
            arrays={name: moved(value, found[name]) for name, value in model.items() if name in found},
            metrics={
                name: value
                for name, value in slots.restore(named or [], numbers).items()
                if name not in unusable
            },
            unusable=unusable,
            capped=int(counts[-2]),
            nothing=nothing,
            alike=named is not None,
            records=self._record_names(records, survivors - nothing),
            weight=mean.weight,
            error=max(self._error(quantizer, self.clip, units), self._metric_error(units)),
            counter_error=self._error(quantizer, COUNTER_CLIP, units) if self.counters else 0.0,
        )

    @property
    def _sizes(self) -> tuple[int, int, int, int]:
        """Elements of the metrics, of the names of records and of metrics, and of the counts.

        There is a count for each slot, one for weights above the bound, and one for nodes with nothing to
        send.
        """
        return (
            self.slots * slots.digits(self.clients, self.bits),
            names.elements(_RECORD_ROOM, self.clients, self.bits),
            names.elements(self.name_room, self.clients, self.bits) if self.metrics is None else 0,
            self.slots + 2,
        )

    def _records_named(self, said: Said) -> Vector:
        called = list(said.records)
        if not names.fit(called, _RECORD_ROOM):
            called = list(RECORDS)
        return names.encode(called, _RECORD_ROOM, self.clients, self.bits)

    def _metrics_named(self, named: list[str]) -> Vector:
        if self.metrics is not None:
            return ring.zeros(0, self.bits)
        return names.encode(named, self.name_room, self.clients, self.bits)

    def _record_names(self, total: Vector, times: int) -> tuple[str, str]:
        found = names.decode(total, times, self.clients, self.bits)
        return (found[0], found[1]) if found is not None and len(set(found)) == len(found) == 2 else RECORDS

    def _metric_names(self, total: Vector, times: int) -> list[str] | None:
        """The names of the slots in use; None if they are not the same on all nodes."""
        if self.metrics is not None:
            return self.metrics
        found = names.decode(total, times, self.clients, self.bits)
        return found if found is not None and slots.is_schema(found) and len(found) <= self.slots else None

    def _units(self, weight: float) -> int:
        """More than ``max_weight`` counts as that. Whoever has anything counts: a server that chooses a huge
        bound, for which all but the largest weight round to nothing, does not single that one out."""
        if not 0 < weight < math.inf:
            raise VectorError(
                f"{self.weighted_by!r} is {weight!r}, and a reply is weighted by a number above 0"
            )
        return max(round(min(weight, self.max_weight) / self.max_weight * WEIGHT_UNITS), 1)

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


def check_message_type(message_type: str) -> None:
    if message_type.split(".")[0] not in ("train", "evaluate"):
        raise ConfigError(f"secure aggregation has no messages of type {message_type!r}")
