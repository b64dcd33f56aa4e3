"""Replies of nodes as vectors, and their sum as one reply: what goes into a round, and what comes out of it.

A reply's arrays travel as differences to the model that was sent, its metrics in a fixed number of slots, its
number of examples as the weight. Under the same masks go the names of its metrics and records, what had to be
cut off, and whether there was anything to send at all: that a node's values fit the bounds that the server
chose, or that its training failed, is as secret as the values.
"""

import itertools
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ccesa.errors import VectorError
from ccesa.flower.both import metrics
from ccesa.flower.both.hidden_names import HiddenNames
from ccesa.flower.both.metrics import Metrics
from ccesa.flower.both.model import Arrays, differences, moved
from ccesa.flower.both.terms import COUNTER_CLIP, Terms
from ccesa.values.fields import ARITHMETIC_ERROR, Digits, Row
from ccesa.values.quantize import WEIGHT_UNITS, Quantizer
from ccesa.words import Vector

#: What an app calls its ArrayRecord and its MetricRecord, where nodes do not agree on other names.
RECORDS = ("arrays", "metrics")
#: Bytes for the names of both records; for those of the metrics, and for each of their slots.
_RECORD_ROOM, _METRIC_ROOM, _SLOT_ROOM = 96, 8, 24


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What the app of one node replied, as far as it goes into the sum."""

    arrays: Arrays
    metrics: Metrics
    weight: float
    #: What it calls its arrays and its metrics.
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
    #: What the apps call their arrays and their metrics.
    records: tuple[str, str]

    @property
    def bound(self) -> float:
        """How far any value at all can be off."""
        return max(self.error, self.counter_error)


@dataclass(frozen=True)
class Packing:
    """Turns replies to one model into vectors, and the sum of these into the mean reply."""

    terms: Terms
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

        Raises VectorError where the reply cannot be used; the node sends ``nothing`` then.
        """
        terms = self.terms
        arrays = differences(self.model, reply.arrays) if terms.kind == "train" else {}
        units = self._units(reply.weight)
        changes, clipped = self._quantizer.row(arrays, self._quantizer.weight(units))
        slots = metrics.slots_of(reply.metrics) if terms.metrics is None else terms.metrics
        values = metrics.pick(slots, reply.metrics)
        fits = [math.isfinite(value) and abs(value) <= terms.metric_clip for value in values]
        kept = [value if fit else 0.0 for value, fit in zip(values, fits, strict=True)]
        kept += [0.0] * (terms.metric_slots - len(kept))
        numbers = metrics.encode(kept, units, terms.metric_clip, self._digits)
        lacking = [not fit for fit in fits] + [False] * (terms.metric_slots - len(fits))
        cut = self._clipped.encode([clipped])
        counts = self._counts.encode([*lacking, clipped > 0, reply.weight > terms.max_weight, False])
        records = list(reply.records)
        names = [self._record_names.encode(records if self._record_names.fit(records) else list(RECORDS))]
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
                f"{nothing} of {survivors} nodes contributed nothing, so there is no mean; their logs say why"
            )
        times = survivors - nothing
        mean = self._quantizer.mean(head)
        units = self._quantizer.units(mean.weight)
        slots = self._slots(metric_names, times)
        lacking = {
            name: np.array(row) for name, row in metrics.restore(slots or [], np.array(lacking_in)).items()
        }
        left_out = [name for name, row in lacking.items() if row.any()]
        absent = [name for name in left_out if self.terms.metrics and np.all(lacking[name] == times)]
        means = metrics.decode(numbers, units, self.terms.metric_clip, self._digits)
        return MeanReply(
            arrays={name: moved(self.model[name], change) for name, change in mean.arrays.items()},
            metrics={
                name: value
                for name, value in metrics.restore(slots or [], means).items()
                if name not in left_out
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
            counter_error=self._error(COUNTER_CLIP, units)
            if self.model.keys() & self.terms.counters
            else 0.0,
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
        return metrics.digits(self.terms.fields)

    @cached_property
    def _clipped(self) -> Digits:
        """How many values of its arrays a node had to cut."""
        return Digits(fields=self.terms.fields, largest=self._quantizer.layout.size)

    @cached_property
    def _counts(self) -> Digits:
        """What is true of a node or not; the sum says of how many."""
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
        found = self._record_names.decode(sums, times)
        return (found[0], found[1]) if found is not None and len(set(found)) == len(found) == 2 else RECORDS

    def _slots(self, sums: Row, times: int) -> list[str] | None:
        """Return the slots in use; None if they are not the same on all nodes."""
        if self.metric_names is None:
            return self.terms.metrics
        found = self.metric_names.decode(sums, times)
        fits = found is not None and metrics.are_slots(found) and len(found) <= self.terms.metric_slots
        return found if fits else None

    def _units(self, weight: float) -> int:
        """Return the units of a weight, at least one, and at most those of ``max_weight``.

        So neither a bound for which all but the largest weight round to nothing, nor nodes without examples,
        leave a single node in the sum.
        """
        if not 0 <= weight < math.inf:
            raise VectorError(
                f"{self.terms.weighted_by!r} is {weight!r}, and a reply is weighted by a number from 0 on"
            )
        return max(self._quantizer.units(min(weight, self.terms.max_weight)), 1)

    def _error(self, clip: float, units: int) -> float:
        """Bound the error of a mean: every client rounds a value once, by less than one level."""
        if self.terms.kind == "evaluate":
            return 0.0
        step = self.terms.clients * WEIGHT_UNITS / (self._quantizer.levels * units)
        return clip * (step + ARITHMETIC_ERROR)

    def _metric_error(self, units: int) -> float:
        """Bound the error of a metric: every client rounds it once, to the nearest."""
        return self.terms.metric_clip * (self.terms.clients / (2 * metrics.SCALE * units) + ARITHMETIC_ERROR)
