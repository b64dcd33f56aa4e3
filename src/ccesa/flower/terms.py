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

from ccesa import labels, wire, words
from ccesa.charter import Charter, Learning
from ccesa.errors import ConfigError, VectorError, quoted
from ccesa.flower import names, slots
from ccesa.flower.average import RECORDS, Average, Said
from ccesa.flower.models import Arrays, array_parts, content_parts, differences, moved
from ccesa.quantize import WEIGHT_UNITS, Quantizer
from ccesa.words import Vector

#: The largest metric, if nobody says otherwise.
METRIC_CLIP = 1e6
#: Differences of counters (in batch norm layers) are larger than those of weights.
COUNTER_CLIP = float(2**14)
_ARITHMETIC = 8 * float(np.finfo(np.float64).eps)
_TASK, _SUBJECT = b"ccesa-flower-2 task", b"ccesa-flower-2 subject"
_MAX_BYTES = 1 << 20
#: Bytes for the names of both records; for those of the metrics, and for each of their slots.
_RECORD_ROOM, _METRIC_ROOM, _SLOT_ROOM = 96, 8, 24


class Terms(msgspec.Struct, frozen=True, kw_only=True, tag="ccesa-flower-2", forbid_unknown_fields=True):
    """How replies to one type of message become vectors.

    Under ``curious`` they are settings of ``SecureGrid`` and travel with every request, and a node has limits
    for them. Under a charter server and nodes derive them, each from its own copy, and nothing travels.
    """

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

    @classmethod
    def under(cls, charter: Charter, message_type: str) -> "Terms":
        """What this charter gives for messages of this type."""
        agreed = learning_of(charter)
        if message_type not in agreed.message_types:
            raise ConfigError(
                f"a message of type {quoted(message_type)}, the charter has {list(agreed.message_types)}"
            )
        metrics = slots.schema(dict.fromkeys({*agreed.metrics} - {agreed.weighted_by}, 0.0))
        return cls(
            message_type=message_type,
            clients=len(charter.members),
            clip=agreed.clip,
            metric_clip=agreed.metric_clip,
            bits=charter.bits,
            max_weight=power_of_two(agreed.max_weight),
            weighted_by=agreed.weighted_by,
            slots=len(metrics),
            metrics=metrics,
            counters=sorted(agreed.counters),
        )

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
        vector = words.zeros(self.length(model), self.bits)
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
        lacking = {name: np.array(row) for name, row in slots.restore(named or [], counts).items()}
        left_out = [name for name, row in lacking.items() if row.any()]
        absent = [name for name in left_out if self.metrics and np.all(lacking[name] == survivors - nothing)]
        return Average(
            arrays={name: moved(value, found[name]) for name, value in model.items() if name in found},
            metrics={
                name: value
                for name, value in slots.restore(named or [], numbers).items()
                if name not in left_out
            },
            unusable=[name for name in left_out if name not in absent],
            absent=absent,
            capped=int(counts[-2]),
            nothing=nothing,
            alike=named is not None,
            records=self._record_names(records, survivors - nothing),
            weight=mean.weight,
            error=max(self._error(quantizer, self.clip, units), self._metric_error(units)),
            counter_error=self._error(quantizer, COUNTER_CLIP, units)
            if model.keys() & self.counters
            else 0.0,
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
            return words.zeros(0, self.bits)
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
        """More than ``max_weight`` counts as that, and nobody counts for less than one unit: neither a bound
        for which all but the largest weight round to nothing, nor nodes without examples, leave a single
        node in the sum."""
        if not 0 <= weight < math.inf:
            raise VectorError(
                f"{self.weighted_by!r} is {weight!r}, and a reply is weighted by a number from 0 on"
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


def learning_of(charter: Charter) -> Learning:
    if charter.learning is None:
        raise ConfigError(
            f"the charter with serial {charter.serial} has no [learning] table, and says nothing about "
            "messages, weights and bounds: plan one with `ccesa plan --charter … --learning`"
        )
    return charter.learning


def power_of_two(max_weight: float) -> float:
    """Rounded up: then whole numbers of examples, up to 2^24 of them, travel as they are."""
    if not 0 < max_weight <= 2.0**1000:
        raise ConfigError(f"max_weight must be a positive number of at most 2^1000, not {max_weight!r}")
    return 2.0 ** math.ceil(math.log2(max_weight))


def check_message_type(message_type: str) -> None:
    if message_type.split(".")[0] not in ("train", "evaluate"):
        raise ConfigError(f"secure aggregation has no messages of type {message_type!r}")
