"""Packing turns the replies of nodes into vectors, and the sum of these into one reply.

Without noise a reply's arrays travel as differences to the model that was sent, its metrics in a fixed number
of slots, and its number of examples as the weight. The names of its metrics and records travel under the same
masks, and so does what was cut off, and whether there was anything to send: all this is as secret as the values.

With noise training releases the change of all arrays of real numbers, as one vector that is clipped to the
norm. An evaluation releases the agreed metrics, each within its bound, as the first numbers of such a vector.
Every node counts one, and arrays of whole numbers stay as they were sent. A node that has nothing to send adds
noise like all others, so nobody sees how many of them there are.
"""

import itertools
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ccesa import labels
from ccesa.errors import ConfigError, VectorError
from ccesa.flower.both import terms
from ccesa.flower.both.terms import COUNTER_CLIP, SCALE, Arrays, Metrics, ReplyTerms, differences, move, real_numbers
from ccesa.privacy.mechanism import Mechanism
from ccesa.privacy.quantizer import NoisyQuantizer, around_zero
from ccesa.values.fields import ARITHMETIC_ERROR, Digits, Fields, Row
from ccesa.values.quantize import WEIGHT_UNITS, Quantizer
from ccesa.words import Vector

_LENGTH_BYTES, _DIGEST_BYTES = 2, 16
_HEAD = _LENGTH_BYTES + _DIGEST_BYTES
_DECODER = msgspec.msgpack.Decoder(list[str])


@dataclass(frozen=True, kw_only=True)
class HiddenNames:
    """Writes names of at most ``room`` bytes into fields whose sum over all clients stays in range.

    Names can depend on data, like values. Every node adds its names, a few bits in each field. If all have the
    same names, each field of the sum is one node's times their number, and the names come back. Otherwise the
    server learns only that some differ.
    """

    room: int
    fields: Fields

    @cached_property
    def _width(self) -> int:
        """Bits of names in each field."""
        return (self.fields.most + 1).bit_length() - 1

    @property
    def count(self) -> int:
        """The number of fields, which does not depend on the names."""
        return -(-8 * (_HEAD + self.room) // self._width)

    def has_room(self, names: list[str]) -> bool:
        return len(msgspec.msgpack.encode(names)) <= self.room

    def encode(self, names: list[str]) -> Row:
        text = msgspec.msgpack.encode(names)
        if len(text) > min(self.room, 256**_LENGTH_BYTES - 1):
            raise VectorError(f"names of {len(text)} bytes do not fit in {self.room}")
        data = len(text).to_bytes(_LENGTH_BYTES, "little") + _digest(text) + text
        row = np.zeros(self.count * self._width, np.uint8)
        row[: 8 * len(data)] = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        places = 1 << np.arange(self._width)
        return np.asarray(row.reshape(self.count, -1).astype(np.int64) @ places)

    def decode(self, sums: Row, times: int) -> list[str] | None:
        """Return the names from the sum over ``times`` clients; None if they differ."""
        row, rest = np.divmod(sums, times)
        if rest.any() or (row >> self._width).any():
            return None
        bits = (row[:, None] >> np.arange(self._width)) & 1
        data = np.packbits(bits.astype(np.uint8).ravel(), bitorder="little").tobytes()
        text = data[_HEAD : _HEAD + int.from_bytes(data[:_LENGTH_BYTES], "little")]
        if _digest(text) != data[_LENGTH_BYTES:_HEAD]:
            return None
        try:
            return _DECODER.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None  # the nodes agreed on nonsense


def _digest(text: bytes) -> bytes:
    return labels.digest(labels.FLOWER_NAMES, text)[:_DIGEST_BYTES]


#: The names of an ArrayRecord and a MetricRecord, if nodes do not agree on other names.
RECORDS = ("arrays", "metrics")


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an app's reply that goes into the sum."""

    arrays: Arrays
    metrics: Metrics
    weight: float
    #: The names of its arrays and its metrics.
    records: tuple[str, str] = RECORDS


class MeanReply(msgspec.Struct, frozen=True, kw_only=True):
    """The weighted mean over the survivors that contributed, and how exact or noisy it is."""

    arrays: Arrays
    metrics: Metrics
    #: With noise, the number of survivors.
    weight: float
    #: The standard deviation of the noise in every parameter, or in every metric of an evaluation; None
    #: without noise. With noise none of the fields below is released.
    noise: float | None = None
    #: The names of the apps' arrays and metrics.
    records: tuple[str, str] = RECORDS
    #: How far rounding can move a metric, or a value of an array that is not a counter, before the array is
    #: cast back to its own type. Clipping is not counted.
    error: float = 0.0
    #: How far rounding can move a value of a counter; 0 without counters.
    counter_error: float = 0.0
    #: Metrics that are left out, because on some node they are not finite, or beyond ``metric_clip``.
    unusable: list[str] = []
    #: Metrics of the terms that no node has as such a number: an evaluation has others than training.
    absent: list[str] = []
    #: Nodes that had to cut values down to the bound of their array, and how many values that were in all.
    clipped: int = 0
    clipped_values: int = 0
    #: Nodes with more weight than ``max_weight``; they count as that.
    capped: int = 0
    #: Survivors that contributed nothing: no reply, or none that could be used.
    nothing: int = 0
    #: Whether all nodes have metrics of the same names. If not, there are no metrics.
    alike: bool = True

    @property
    def bound(self) -> float | None:
        """How far rounding can move any value; None with noise, which has no bound."""
        return max(self.error, self.counter_error) if self.noise is None else None


#: Bytes for the names of both records; for those of the metrics, and for each of their slots.
_RECORD_ROOM, _METRIC_ROOM, _SLOT_ROOM = 96, 8, 24


@dataclass(frozen=True)
class Packing:
    """Turns replies to one model into vectors, and the sum of these into the mean reply."""

    terms: ReplyTerms
    model: Arrays = field(repr=False)

    @property
    def length(self) -> int:
        """Words of a vector."""
        return self.terms.fields.length(sum(self._sizes))

    def pack(self, reply: Reply) -> tuple[Vector, int]:
        """Return one node's vector, and how many values were clipped; VectorError if the reply cannot be used."""
        units, clip = self._units(reply.weight), self.terms.metric_clip
        arrays = differences(self.model, reply.arrays) if self.terms.kind == "train" else {}
        changes, clipped = self._quantizer.row(arrays, self._quantizer.weight(units))
        slots = terms.slots_of(reply.metrics) if self.terms.metrics is None else self.terms.metrics
        values = terms.pick_metrics(slots, reply.metrics)
        values += [0.0] * (self.terms.metric_slots - len(values))
        lacking = [not abs(value) <= clip for value in values]  # NaN is
        usable = [0.0 if lacks else value for value, lacks in zip(values, lacking, strict=True)]
        records = list(reply.records)
        parts = [
            changes,
            terms.encode_metrics(usable, units, clip, self._digits),
            self._record_names.encode(records if self._record_names.has_room(records) else list(RECORDS)),
            *(() if self.metric_names is None else [self.metric_names.encode(slots)]),
            self._clipped.encode([clipped]),
            self._counts.encode([*lacking, clipped > 0, reply.weight > self.terms.max_weight, False]),
        ]
        return self.terms.fields.pack(np.concatenate(parts)), clipped

    def nothing(self) -> Vector:
        """Return the vector of a node that has nothing to send: zeros, and one in a count.

        Weight for a change of zero would move the mean. It would hide nothing: the sum counts such nodes.
        """
        row = np.zeros(sum(self._sizes), np.int64)
        row[-1] = 1
        return self.terms.fields.pack(row)

    def unpack(self, total: Vector, survivors: int) -> MeanReply:
        """Return the mean from the sum over the survivors; VectorError if none of them contributed."""
        ends = list(itertools.accumulate(self._sizes[:-1]))
        sums = self.terms.fields.unpack(total, sum(self._sizes))
        head, numbers, record_names, metric_names, cut, counted = np.split(sums, ends)
        *lacking, clipped, capped, nothing = self._counts.decode(counted)
        if nothing >= survivors:
            raise VectorError(f"no mean: {nothing} of {survivors} nodes contributed nothing; see their logs")
        times, mean = survivors - nothing, self._quantizer.mean(head)
        units, slots = self._quantizer.units(mean.weight), self._slots(metric_names, times)
        values = terms.decode_metrics(numbers, units, self.terms.metric_clip, self._digits)
        metrics = terms.restore_metrics(slots or [], values)
        lacks = terms.restore_metrics(slots or [], np.array(lacking))
        left_out = [name for name in metrics if np.any(lacks[name])]
        absent = [name for name in left_out if self.terms.metrics and np.all(np.equal(lacks[name], times))]
        names = self._record_names.decode(record_names, times) or []
        # Every client rounds a metric once, to the nearest.
        metric_error = self.terms.metric_clip * (self.terms.clients / (2 * SCALE * units) + ARITHMETIC_ERROR)
        return MeanReply(
            arrays={name: move(self.model[name], change) for name, change in mean.arrays.items()},
            metrics={name: value for name, value in metrics.items() if name not in left_out},
            unusable=[name for name in left_out if name not in absent],
            absent=absent,
            clipped=clipped,
            clipped_values=self._clipped.decode(cut)[0],
            capped=capped,
            nothing=nothing,
            alike=slots is not None,
            records=(names[0], names[1]) if len(set(names)) == len(names) == 2 else RECORDS,
            weight=mean.weight,
            error=max(self._error(self.terms.clip, units), metric_error),
            counter_error=self._error(COUNTER_CLIP, units) if self.model.keys() & self.terms.counters else 0.0,
        )

    @cached_property
    def metric_names(self) -> HiddenNames | None:
        """Room for the names of metrics; None if the terms have them."""
        room = _METRIC_ROOM + _SLOT_ROOM * self.terms.metric_slots
        return HiddenNames(room=room, fields=self.terms.fields) if self.terms.metrics is None else None

    @cached_property
    def _record_names(self) -> HiddenNames:
        return HiddenNames(room=_RECORD_ROOM, fields=self.terms.fields)

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        """Fields of arrays and weight, metrics, names of records and of metrics, clipped values, counts.

        There is a count for each slot, and for nodes that clipped, have too much weight, or have nothing.
        """
        return (
            self._quantizer.count,
            self.terms.metric_slots * len(self._digits.places),
            self._record_names.count,
            0 if self.metric_names is None else self.metric_names.count,
            len(self._clipped.places),
            self.terms.metric_slots + 3,
        )

    @cached_property
    def _digits(self) -> Digits:
        return terms.metric_digits(self.terms.fields)

    @cached_property
    def _clipped(self) -> Digits:
        """How many values of its arrays a node had to cut."""
        return Digits(fields=self.terms.fields, largest=self._quantizer.layout.size)

    @cached_property
    def _counts(self) -> Digits:
        """Yes or no for each node; the sum is the number of nodes with yes."""
        return Digits(fields=self.terms.fields, largest=1)

    @cached_property
    def _quantizer(self) -> Quantizer[dict[str, NDArray[Any]]]:
        """The quantizer of replies to this model. An evaluation has no arrays."""
        sent = self.model if self.terms.kind == "train" else {}
        return Quantizer.for_model(
            {name: np.broadcast_to(np.float64(0), value.shape) for name, value in sent.items()},
            clients=self.terms.clients,
            clip={name: COUNTER_CLIP if name in self.terms.counters else self.terms.clip for name in sent},
            field_bits=self.terms.field_bits,
            max_weight=self.terms.max_weight,
        )

    def _slots(self, sums: Row, times: int) -> list[str] | None:
        """Return the slots in use; None if they are not the same on all nodes."""
        if self.metric_names is None:
            return self.terms.metrics
        slots = self.metric_names.decode(sums, times)
        fits = slots is not None and terms.are_slots(slots) and len(slots) <= self.terms.metric_slots
        return slots if fits else None

    def _units(self, weight: float) -> int:
        """Return the units of a weight: at least one, and at most those of ``max_weight``.

        So no node is alone in the sum, even if the weights of all others are 0 or round to nothing.
        """
        if not 0 <= weight < math.inf:
            raise VectorError(f"{self.terms.weighted_by!r} weights the reply and must be 0 or greater, not {weight!r}")
        return max(self._quantizer.units(min(weight, self.terms.max_weight)), 1)

    def _error(self, clip: float, units: int) -> float:
        """Bound the error of a mean: every client rounds a value once, by less than one level."""
        if self.terms.kind == "evaluate":
            return 0.0
        step = self.terms.clients * WEIGHT_UNITS / (self._quantizer.levels * units)
        return clip * (step + ARITHMETIC_ERROR)


_METRICS = "metrics"


@dataclass(frozen=True)
class NoisyPacking:
    """Turns replies to one model into vectors with noise, and the sum of these into the mean reply."""

    terms: ReplyTerms
    mechanism: Mechanism
    model: Arrays = field(repr=False)
    #: The context of the round: the vectors of each round are rotated in another way.
    context: bytes

    @property
    def length(self) -> int:
        """Words of a vector."""
        return self._quantizer.length

    def pack(self, reply: Reply) -> tuple[Vector, int]:
        """Return one node's noisy vector, and 1 if it was clipped; VectorError if the reply cannot be used."""
        made = self._quantizer.encode(self._release(reply), self.context)
        return made.vector, made.clipped

    def nothing(self) -> Vector:
        """Return the vector of a node that has nothing to send: noise around zero."""
        return around_zero(self.mechanism)

    def unpack(self, total: Vector, survivors: int) -> MeanReply:
        """Return the mean from the sum over the survivors."""
        mean = self._quantizer.decode(total, survivors, self.context)
        noise = self.mechanism.noise(survivors) / survivors
        if self.terms.kind == "evaluate":
            slots = self.terms.metrics or []
            metrics = terms.restore_metrics(slots, mean.arrays[_METRICS][: len(slots)] / self._scale)
            return MeanReply(arrays={}, metrics=metrics, weight=mean.weight, noise=noise / self._scale)
        arrays = {
            name: move(value, mean.arrays[name]) if name in self._shapes else value
            for name, value in self.model.items()
        }
        return MeanReply(arrays=arrays, metrics={}, weight=mean.weight, noise=noise)

    def _release(self, reply: Reply) -> dict[str, NDArray[np.float64]]:
        """Return the part of a reply that is released, in the form of the quantizer's layout."""
        if self.terms.kind == "train":
            sent = {name: self.model[name] for name in self._shapes}
            return differences(sent, {name: reply.arrays[name] for name in reply.arrays.keys() & sent})
        values = np.array(terms.pick_metrics(self.terms.metrics or [], reply.metrics))
        row, bound = np.zeros(self._shapes[_METRICS]), self.terms.metric_clip
        row[: values.size] = np.clip(np.where(np.isfinite(values), values, 0.0), -bound, bound) * self._scale
        return {_METRICS: row}

    @cached_property
    def _scale(self) -> float:
        """The part of the norm for one unit of a metric: all metrics at their bounds have the whole norm."""
        return self.mechanism.norm / (self.terms.metric_clip * math.sqrt(self.terms.metric_slots))

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Arrays that are released; one row has the metrics, and zeros if there are fewer of them."""
        if self.terms.kind == "train":
            released = real_numbers(self.model, self.terms.counters)
            return {name: value.shape for name, value in released.items()}
        slots, room = self.terms.metrics or [], self.mechanism.dimension
        if not 1 <= len(slots) <= room or any(slot[:1] != "=" for slot in slots):
            raise ConfigError(f"an evaluation with noise releases 1 to {room} named numbers, not {len(slots)} metrics")
        return {_METRICS: (room,)}

    @cached_property
    def _quantizer(self) -> NoisyQuantizer[dict[str, NDArray[Any]]]:
        """The quantizer; ConfigError if the noise is made for another number of parameters."""
        zero = np.float64(0)
        arrays = {name: np.broadcast_to(zero, shape) for name, shape in self._shapes.items()}
        return NoisyQuantizer.for_model(arrays, self.mechanism)


AnyPacking = Packing | NoisyPacking


def packing_for(agreed: ReplyTerms, model: Arrays, context: bytes = b"") -> AnyPacking:
    """Return the packing for replies to this model. With noise only ``length`` works without a context."""
    if agreed.mechanism is None:
        return Packing(agreed, model)
    return NoisyPacking(agreed, agreed.mechanism, model, context)
