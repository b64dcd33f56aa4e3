"""Replies of nodes as vectors, and their sum as one reply: what goes into a round, and what comes out of it.

Without noise a reply's arrays travel as differences to the model that was sent, its metrics in a fixed number
of slots, and its number of examples as the weight. Under the same masks go the names of its metrics and
records, what had to be cut off, and whether there was anything to send at all: that a node's values fit the
bounds that the server chose, or that its training failed, is as secret as the values.

With noise training releases the change of all arrays of real numbers, as one vector that is clipped to the
norm. An evaluation releases the metrics that were agreed on, each within its bound, as the first numbers of
such a vector. Nothing else is released: every node counts one, arrays of whole numbers stay as they were
sent, and a node that has nothing to send adds noise like all others, so nobody sees how many of them there
are.
"""

import itertools
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ccesa import labels
from ccesa.errors import ConfigError, VectorError
from ccesa.flower.both.terms import (
    COUNTER_CLIP,
    SCALE,
    Arrays,
    Metrics,
    ReplyTerms,
    are_slots,
    decode_metrics,
    differences,
    encode_metrics,
    metric_digits,
    move,
    pick_metrics,
    real_numbers,
    restore_metrics,
    slots_of,
)
from ccesa.privacy.mechanism import Mechanism
from ccesa.privacy.quantizer import NoisyQuantizer
from ccesa.values.fields import ARITHMETIC_ERROR, Digits, Fields, Row
from ccesa.values.quantize import WEIGHT_UNITS, Quantizer
from ccesa.words import Vector

# Names. Those of records and metrics can depend on data, like their values, so they travel under the masks.


_LENGTH_BYTES, _DIGEST_BYTES = 2, 16
_HEAD = _LENGTH_BYTES + _DIGEST_BYTES
_DECODER = msgspec.msgpack.Decoder(list[str])


@dataclass(frozen=True, kw_only=True)
class HiddenNames:
    """Writes names of at most ``room`` bytes into fields whose sum over all clients stays in range.

    Every node adds its names, a few bits in each field. If all have the same names, each field of the sum is
    one node's times their number, and the names come back. If not, the server learns that some differ, not
    whose.
    """

    room: int
    fields: Fields

    @cached_property
    def _width(self) -> int:
        """Bits of names in each field."""
        return (self.fields.most + 1).bit_length() - 1

    @property
    def count(self) -> int:
        """Fields that the names take, whatever they are."""
        return -(-8 * (_HEAD + self.room) // self._width)

    def has_room(self, names: list[str]) -> bool:
        """Return whether there is room for these names."""
        return len(msgspec.msgpack.encode(names)) <= self.room

    def encode(self, names: list[str]) -> Row:
        """Return the numbers of one client."""
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
        return _read(np.packbits(bits.astype(np.uint8).ravel(), bitorder="little").tobytes())


def _read(data: bytes) -> list[str] | None:
    text = data[_HEAD : _HEAD + int.from_bytes(data[:_LENGTH_BYTES], "little")]
    if _digest(text) != data[_LENGTH_BYTES:_HEAD]:
        return None
    try:
        return _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # the nodes agreed on nonsense


def _digest(text: bytes) -> bytes:
    return labels.digest(labels.FLOWER_NAMES, text)[:_DIGEST_BYTES]


# Without noise


#: The names of an ArrayRecord and a MetricRecord, if nodes do not agree on other names.
RECORDS = ("arrays", "metrics")
#: Bytes for the names of both records; for those of the metrics, and for each of their slots.
_RECORD_ROOM, _METRIC_ROOM, _SLOT_ROOM = 96, 8, 24


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an app's reply that goes into the sum."""

    arrays: Arrays
    metrics: Metrics
    weight: float
    #: The names of its arrays and its metrics.
    records: tuple[str, str] = RECORDS


class MeanReply(msgspec.Struct, frozen=True, kw_only=True):
    """The weighted mean over the survivors that contributed, and how exact it is."""

    arrays: Arrays
    metrics: Metrics
    weight: float
    #: How far any metric, and any value of an array that is not a counter, can be off through rounding, if
    #: nothing was clipped, before an array is cast back to its own type.
    error: float
    #: How far any value of a counter can be off, which is more; 0 if there are none.
    counter_error: float
    #: Metrics that are not there, because some node's was not a finite number or beyond ``metric_clip``.
    unusable: list[str]
    #: Metrics of the terms that no node has as such a number: an evaluation has others than training.
    absent: list[str]
    #: Nodes that had to cut values down to the bound of their array, and how many values that were in all.
    clipped: int
    clipped_values: int
    #: Nodes with more weight than ``max_weight``; they count as that.
    capped: int
    #: Survivors that contributed nothing: no reply, or none that could be used.
    nothing: int
    #: Whether all nodes have metrics of the same names. If not, there are no metrics.
    alike: bool
    #: The names of the apps' arrays and metrics.
    records: tuple[str, str]

    noise: None = None

    @property
    def bound(self) -> float:
        """How far any value at all can be off."""
        return max(self.error, self.counter_error)


@dataclass(frozen=True)
class Packing:
    """Turns replies to one model into vectors, and the sum of these into the mean reply."""

    terms: ReplyTerms
    model: Arrays = field(repr=False)

    @property
    def length(self) -> int:
        """Words of a vector."""
        return self.terms.fields.length(sum(self._sizes))

    def for_round(self, context: bytes) -> "Packing":
        """Return the packing of one round: without noise it is the same for all of them."""
        return self

    def pack(self, reply: Reply) -> tuple[Vector, int]:
        """Return one node's vector, and how many values of its arrays were clipped.

        Raises VectorError if the reply cannot be used; the node sends ``nothing`` then.
        """
        terms = self.terms
        arrays = differences(self.model, reply.arrays) if terms.kind == "train" else {}
        units = self._units(reply.weight)
        changes, clipped = self._quantizer.row(arrays, self._quantizer.weight(units))
        slots = slots_of(reply.metrics) if terms.metrics is None else terms.metrics
        values = pick_metrics(slots, reply.metrics)
        fits = [math.isfinite(value) and abs(value) <= terms.metric_clip for value in values]
        kept = [value if fit else 0.0 for value, fit in zip(values, fits, strict=True)]
        kept += [0.0] * (terms.metric_slots - len(kept))
        numbers = encode_metrics(kept, units, terms.metric_clip, self._digits)
        lacking = [not fit for fit in fits] + [False] * (terms.metric_slots - len(fits))
        cut = self._clipped.encode([clipped])
        counts = self._counts.encode([*lacking, clipped > 0, reply.weight > terms.max_weight, False])
        records = list(reply.records)
        names = [self._record_names.encode(records if self._record_names.has_room(records) else list(RECORDS))]
        if self.metric_names is not None:
            names.append(self.metric_names.encode(slots))
        return terms.fields.pack(np.concatenate([changes, numbers, *names, cut, counts])), clipped

    def nothing(self) -> Vector:
        """Return the vector of a node that has nothing to send: zeros, and one in a count.

        It has no weight either. One unit of weight for a change of zero would hide nothing, since the number
        of such nodes is in the sum, and would move the mean.
        """
        row = np.zeros(sum(self._sizes), np.int64)
        row[-1] = 1
        return self.terms.fields.pack(row)

    def unpack(self, total: Vector, survivors: int) -> MeanReply:
        """Return the mean from the sum over so many survivors; VectorError where there is none."""
        ends = list(itertools.accumulate(self._sizes[:-1]))
        sums = self.terms.fields.unpack(total, sum(self._sizes))
        head, numbers, record_names, metric_names, cut, counted = np.split(sums, ends)
        *lacking_in, clipped, capped, nothing = self._counts.decode(counted)
        if nothing >= survivors:
            raise VectorError(
                f"{nothing} of {survivors} nodes contributed nothing, so there is no mean; read their logs"
            )
        times = survivors - nothing
        mean = self._quantizer.mean(head)
        units = self._quantizer.units(mean.weight)
        slots = self._slots(metric_names, times)
        lacking = {name: np.array(row) for name, row in restore_metrics(slots or [], np.array(lacking_in)).items()}
        left_out = [name for name, row in lacking.items() if row.any()]
        absent = [name for name in left_out if self.terms.metrics and np.all(lacking[name] == times)]
        means = decode_metrics(numbers, units, self.terms.metric_clip, self._digits)
        return MeanReply(
            arrays={name: move(self.model[name], change) for name, change in mean.arrays.items()},
            metrics={
                name: value for name, value in restore_metrics(slots or [], means).items() if name not in left_out
            },
            unusable=[name for name in left_out if name not in absent],
            absent=absent,
            clipped=clipped,
            clipped_values=self._clipped.decode(cut)[0],
            capped=capped,
            nothing=nothing,
            alike=slots is not None,
            records=self._records(record_names, times),
            weight=mean.weight,
            error=max(self._error(self.terms.clip, units), self._metric_error(units)),
            counter_error=self._error(COUNTER_CLIP, units) if self.model.keys() & self.terms.counters else 0.0,
        )

    @cached_property
    def metric_names(self) -> HiddenNames | None:
        """Room for the names of metrics; None where the terms have them."""
        if self.terms.metrics is not None:
            return None
        return self._names(_METRIC_ROOM + _SLOT_ROOM * self.terms.metric_slots)

    @cached_property
    def _record_names(self) -> HiddenNames:
        return self._names(_RECORD_ROOM)

    def _names(self, room: int) -> HiddenNames:
        return HiddenNames(room=room, fields=self.terms.fields)

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        """Fields of arrays and weight, metrics, names of records and of metrics, clipped values, counts.

        There is a count for each slot, and one each for nodes that clipped values, with a weight above the
        bound, and with nothing to send.
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
        return metric_digits(self.terms.fields)

    @cached_property
    def _clipped(self) -> Digits:
        """How many values of its arrays a node had to cut."""
        return Digits(fields=self.terms.fields, largest=self._quantizer.layout.size)

    @cached_property
    def _counts(self) -> Digits:
        """Yes or no for each node; the sum says how many nodes said yes."""
        return Digits(fields=self.terms.fields, largest=1)

    @cached_property
    def _quantizer(self) -> Quantizer[dict[str, NDArray[Any]]]:
        """Make the quantizer of replies to this model. An evaluation has no arrays."""
        sent, terms = self.model if self.terms.kind == "train" else {}, self.terms
        return Quantizer.for_model(
            {name: np.broadcast_to(np.float64(0), value.shape) for name, value in sent.items()},
            clients=terms.clients,
            clip={name: COUNTER_CLIP if name in terms.counters else terms.clip for name in sent},
            field_bits=terms.field_bits,
            max_weight=terms.max_weight,
        )

    def _records(self, sums: Row, times: int) -> tuple[str, str]:
        names = self._record_names.decode(sums, times) or []
        return (names[0], names[1]) if len(set(names)) == len(names) == 2 else RECORDS

    def _slots(self, sums: Row, times: int) -> list[str] | None:
        """Return the slots in use; None if they are not the same on all nodes."""
        if self.metric_names is None:
            return self.terms.metrics
        slots = self.metric_names.decode(sums, times)
        fits = slots is not None and are_slots(slots) and len(slots) <= self.terms.metric_slots
        return slots if fits else None

    def _units(self, weight: float) -> int:
        """Return the units of a weight, at least one, and at most those of ``max_weight``.

        So neither a bound for which all but the largest weight round to nothing, nor nodes without examples,
        leave a single node in the sum.
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

    def _metric_error(self, units: int) -> float:
        """Bound the error of a metric: every client rounds it once, to the nearest."""
        return self.terms.metric_clip * (self.terms.clients / (2 * SCALE * units) + ARITHMETIC_ERROR)


# With noise


_METRICS = "metrics"


class NoisyMean(msgspec.Struct, frozen=True, kw_only=True):
    """The mean over all survivors, with the noise of each survivor in it."""

    arrays: Arrays
    metrics: Metrics
    #: The number of survivors.
    weight: float
    #: The standard deviation of the noise in every parameter, or in every metric of an evaluation.
    noise: float
    #: Names of records on the nodes are not released.
    records: tuple[str, str] = RECORDS
    #: Not released.
    nothing: int = 0
    #: Noise has no bound.
    bound: None = None


@dataclass(frozen=True)
class NoisyPacking:
    """Turns replies to one model into vectors with noise, and the sum of these into the mean reply."""

    terms: ReplyTerms
    mechanism: Mechanism
    model: Arrays = field(repr=False)
    #: Of the round; without it there is a length, and no vector.
    context: bytes = b""

    @property
    def length(self) -> int:
        """Words of a vector."""
        return self._quantizer.length

    def for_round(self, context: bytes) -> "NoisyPacking":
        """Return the packing of one round; vectors of different rounds are rotated in different ways."""
        return replace(self, context=context)

    def pack(self, reply: Reply) -> tuple[Vector, int]:
        """Return one node's vector with fresh noise, and 1 if the reply was longer than the norm.

        Raises VectorError if the reply cannot be used; the node sends ``nothing`` then.
        """
        made = self._quantizer.encode(self._released(reply), self.context)
        return made.vector, made.clipped

    def nothing(self) -> Vector:
        """Return the vector of a node that has nothing to send: noise around zero."""
        zeros = {name: np.zeros(shape) for name, shape in self._shapes.items()}
        return self._quantizer.encode(zeros, self.context).vector

    def unpack(self, total: Vector, survivors: int) -> NoisyMean:
        """Return the mean from the sum over so many survivors."""
        mean = self._quantizer.decode(total, survivors, self.context)
        noise = self.mechanism.noise(survivors) / survivors
        if self.terms.kind == "evaluate":
            slots = self.terms.metrics or []
            values = mean.arrays[_METRICS][: len(slots)] / self._scale
            metrics = restore_metrics(slots, values)
            return NoisyMean(arrays={}, metrics=metrics, weight=mean.weight, noise=noise / self._scale)
        arrays = {
            name: move(value, mean.arrays[name]) if name in self._shapes else value
            for name, value in self.model.items()
        }
        return NoisyMean(arrays=arrays, metrics={}, weight=mean.weight, noise=noise)

    def _released(self, reply: Reply) -> dict[str, NDArray[np.float64]]:
        """Return the part of a reply that is released, in the form of the quantizer's layout."""
        if self.terms.kind == "train":
            sent = {name: self.model[name] for name in self._shapes}
            return differences(sent, {name: reply.arrays[name] for name in reply.arrays.keys() & sent})
        values = np.array(pick_metrics(self.terms.metrics or [], reply.metrics))
        row, most = np.zeros(self._shapes[_METRICS]), self.terms.metric_clip
        row[: values.size] = np.clip(np.where(np.isfinite(values), values, 0.0), -most, most) * self._scale
        return {_METRICS: row}

    @cached_property
    def _scale(self) -> float:
        """How much of the norm one unit of a metric takes: all metrics at their bounds take all of it."""
        return self.mechanism.norm / (self.terms.metric_clip * math.sqrt(self.terms.metric_slots))

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Arrays that are released; one row has the metrics, and zeros where there are fewer of them."""
        if self.terms.kind == "train":
            released = real_numbers(self.model, self.terms.counters)
            return {name: value.shape for name, value in released.items()}
        slots, most = self.terms.metrics or [], self.mechanism.dimension
        if not 1 <= len(slots) <= most or any(slot[:1] != "=" for slot in slots):
            raise ConfigError(f"an evaluation with noise releases 1 to {most} named numbers, not {len(slots)} metrics")
        return {_METRICS: (most,)}

    @cached_property
    def _quantizer(self) -> NoisyQuantizer[dict[str, NDArray[Any]]]:
        """Make the quantizer; ConfigError if the noise is made for another number of parameters."""
        zero = np.float64(0)
        arrays = {name: np.broadcast_to(zero, shape) for name, shape in self._shapes.items()}
        return NoisyQuantizer.for_model(arrays, self.mechanism)


AnyPacking = Packing | NoisyPacking
AnyMean = MeanReply | NoisyMean


def packing_for(terms: ReplyTerms, model: Arrays) -> AnyPacking:
    """Return the packing for replies to this model: with noise, if the terms have it."""
    return Packing(terms, model) if terms.mechanism is None else NoisyPacking(terms, terms.mechanism, model)
