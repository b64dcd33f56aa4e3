"""Replies of nodes as vectors with noise: what a sum tells about one node is bounded, whatever it replied.

Training releases the change of all arrays of real numbers, as one vector that is clipped to the norm. An
evaluation releases the metrics that were agreed on, each within its bound, as the first numbers of such a
vector. Nothing else is in it: every node counts one, arrays of whole numbers stay as they were sent, and a
node that has nothing to send adds noise like all others, so nobody sees how many of them there are.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ccesa.errors import ConfigError
from ccesa.flower.both import metrics
from ccesa.flower.both.metrics import Metrics
from ccesa.flower.both.model import Arrays, differences, moved, real_numbers
from ccesa.flower.both.packing import RECORDS, MeanReply, Packing, Reply
from ccesa.flower.both.terms import Terms
from ccesa.privacy.mechanism import Mechanism
from ccesa.privacy.quantizer import NoisyQuantizer
from ccesa.words import Vector

_METRICS = "metrics"


class NoisyMean(msgspec.Struct, frozen=True, kw_only=True):
    """The mean over all survivors, with the noise of each of them in it."""

    arrays: Arrays
    metrics: Metrics
    #: How many they are.
    weight: float
    #: The standard deviation of the noise in every parameter, or in every metric of an evaluation.
    noise: float
    #: What records are called; their names on the nodes are not released.
    records: tuple[str, str] = RECORDS
    #: How many had nothing to contribute is not released.
    nothing: int = 0
    #: Nothing bounds what noise does.
    bound: None = None


@dataclass(frozen=True)
class NoisyPacking:
    """Turns replies to one model into vectors with noise, and the sum of these into the mean reply."""

    terms: Terms
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

        Raises VectorError where the reply cannot be used; the node sends ``nothing`` then.
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
            found = metrics.restore(slots, values)
            return NoisyMean(arrays={}, metrics=found, weight=mean.weight, noise=noise / self._scale)
        arrays = {
            name: moved(value, mean.arrays[name]) if name in self._shapes else value
            for name, value in self.model.items()
        }
        return NoisyMean(arrays=arrays, metrics={}, weight=mean.weight, noise=noise)

    def _released(self, reply: Reply) -> dict[str, NDArray[np.float64]]:
        """Return what may tell of this node, in the form of the quantizer's layout."""
        if self.terms.kind == "train":
            sent = {name: self.model[name] for name in self._shapes}
            return differences(sent, {name: reply.arrays[name] for name in reply.arrays.keys() & sent})
        values = np.array(metrics.pick(self.terms.metrics or [], reply.metrics))
        row, most = np.zeros(self._shapes[_METRICS]), self.terms.metric_clip
        row[: values.size] = np.clip(np.where(np.isfinite(values), values, 0.0), -most, most) * self._scale
        return {_METRICS: row}

    @cached_property
    def _scale(self) -> float:
        """So much of the norm one unit of a metric takes: all of them at their bounds take all of it."""
        return self.mechanism.norm / (self.terms.metric_clip * math.sqrt(self.terms.metric_slots))

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """Arrays that are released; one row has the metrics, and zeros where there are fewer of them."""
        if self.terms.kind == "train":
            released = real_numbers(self.model, self.terms.counters)
            return {name: value.shape for name, value in released.items()}
        slots, most = self.terms.metrics or [], self.mechanism.dimension
        if not 1 <= len(slots) <= most or any(slot[:1] != "=" for slot in slots):
            raise ConfigError(
                f"an evaluation with noise releases 1 to {most} metrics, numbers that are named first, not "
                f"{len(slots)}"
            )
        return {_METRICS: (most,)}

    @cached_property
    def _quantizer(self) -> NoisyQuantizer[dict[str, NDArray[Any]]]:
        """Make the quantizer; ConfigError where the noise is made for another number of parameters."""
        zero = np.float64(0)
        arrays = {name: np.broadcast_to(zero, shape) for name, shape in self._shapes.items()}
        return NoisyQuantizer.for_model(arrays, self.mechanism)


AnyPacking = Packing | NoisyPacking
AnyMean = MeanReply | NoisyMean


def packing_for(terms: Terms, model: Arrays) -> AnyPacking:
    """Return what turns replies to this model into vectors: with noise, where the terms have it."""
    return Packing(terms, model) if terms.mechanism is None else NoisyPacking(terms, terms.mechanism, model)
