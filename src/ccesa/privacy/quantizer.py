"""``NoisyQuantizer``: a model becomes a vector of words with noise in it, and a sum becomes the mean.

A client clips its vector to the norm, rotates it, rounds it to the fine grid, checks the norm there in whole numbers,
and draws an integer around every value. No float decides how far a client can change the sum, or how noise falls.

The rotation (docs/protocol.md, 15.2) spreads large coordinates over all coordinates, so that fields can be narrow.
Privacy does not rest on it.

A draw of the discrete Gaussian (15.4) finds its place among the thresholds of a ``table`` by comparing integers. Its
time depends on the random bits, so an attacker that can measure single draws on the client's machine learns about the
noise.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from ccesa import compiled, labels, words
from ccesa.crypto.masks import mask_words
from ccesa.crypto.shamir import Randomness
from ccesa.errors import ConfigError, VectorError
from ccesa.parts import check_type, whole_number
from ccesa.privacy.mechanism import Mechanism, rotated_size
from ccesa.privacy.table import Tables, tables
from ccesa.values.fields import WORD_BITS, Arrays, Layout, Row
from ccesa.values.quantize import Mean, Model, Quantized
from ccesa.words import Vector

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

_GENERATOR = "aes128-ctr"


# Rotation


def rotate(values: Floats, context: bytes) -> Floats:
    """Return the rotated vector, of the same norm but for rounding, with signs from the context of the round."""
    rotated = values.copy()
    for part, signs in _passes(rotated, context):
        part *= signs
        _transform(part)
    return rotated


def unrotate(values: Floats, context: bytes) -> Floats:
    """Return the vector that ``rotate`` turned into this one, or the sum of such vectors."""
    restored = values.copy()
    for part, signs in reversed(list(_passes(restored, context))):
        _transform(part)
        part *= signs
    return restored


def _passes(values: Floats, context: bytes) -> Iterator[tuple[Floats, NDArray[np.int8]]]:
    """Yield the parts that are rotated, in their order, with their signs."""
    many = rotated_size(values.size)
    starts = (0,) if many == values.size else (0, values.size - many)
    key = labels.digest(labels.ROTATION, context)[:16]
    stream = mask_words(_GENERATOR, key, 0, -(-many * len(starts) // 8), 8)
    signs = 1 - 2 * np.unpackbits(stream, bitorder="little").astype(np.int8)
    for place, start in enumerate(starts):
        yield values[start : start + many], signs[place * many : (place + 1) * many]


def _transform(values: Floats) -> None:
    """Replace 2^k numbers by their orthonormal Walsh-Hadamard transform, with the same additions on every machine."""
    native = compiled.module()
    if native:
        native.walsh(values)
    else:
        values[:] = _transformed(values)


def _transformed(values: Floats) -> Floats:
    """Return the transform: numbers are scaled, then paired at the distances 1, 2, 4, ...

    They are scaled first, so that no intermediate result exceeds the norm. Each step writes sums and differences of
    neighbours into the two halves of the result. That rotates the bits of each place by one, so pairs of the next
    distance become neighbours, and after the last step every number is at its own place.
    """
    half, spare = values.size // 2, np.empty_like(values)
    values = values * (1 / math.sqrt(values.size))
    for _ in range(half.bit_length()):
        left, right = values[::2], values[1::2]
        np.add(left, right, out=spare[:half])
        np.subtract(left, right, out=spare[half:])
        values, spare = spare, values
    return values


# Noise


#: Draws that are made at a time, so that their data stay in cache.
CHUNK = 2**15
#: Fine values lie within these bounds, so that no draw can wrap.
MAX_FINE = 2**62
#: The number of bits of u that index the guide.
GUIDE_BITS = 8


class Noise:
    """Draws integers around numbers of the fine grid, from the tables of a variance and a grid."""

    def __init__(self, variance: int, grid_bits: int) -> None:
        self.tables = tables(variance, grid_bits)
        self._inversion = _inversion(self.tables)

    def sample(self, fine: Row, random: Randomness = os.urandom) -> Row:
        """Return an independent draw for each number of the fine grid, in units of the coarse grid.

        ``random`` gives the 16 bytes of a key, which nobody keeps. Draw j takes block j of the keystream: the high word
        first, each little-endian.
        """
        if not isinstance(fine, np.ndarray) or fine.dtype != np.int64 or fine.ndim != 1:
            raise VectorError("expected a vector of int64: numbers in steps of the fine grid")
        if fine.size and not -MAX_FINE <= int(fine.min()) <= int(fine.max()) <= MAX_FINE:
            raise VectorError("numbers of the fine grid must lie between -2^62 and 2^62")
        key, drawn = random(16), np.empty(fine.size, np.int64)
        for first in range(0, fine.size, CHUNK):
            centres = fine[first : first + CHUNK]
            words = mask_words(_GENERATOR, key, 2 * first, 2 * centres.size, WORD_BITS)
            self._inversion.draw(centres, words.reshape(-1, 2), drawn[first : first + CHUNK])
        return drawn


def around_zero(mechanism: Mechanism, random: Randomness = os.urandom) -> Vector:
    """Return the vector of a client without a contribution, which is noise alone."""
    noise = Noise(mechanism.variance, mechanism.grid_bits)
    return mechanism.fields.pack(noise.sample(np.zeros(mechanism.dimension, np.int64), random))


class Inversion:
    """Finds draws among the thresholds of a table, by the first bits of u and then by bisection.

    The guide has a row for each phase. Its entry for some first bits is twice the smallest draw of a u with these bits,
    plus one if there are larger draws, which are at most that of the next entry.
    """

    def __init__(self, made: Tables, guide_bits: int = GUIDE_BITS) -> None:
        self._tables = made
        self._shift, self._stride = made.word_bits - guide_bits, 2**guide_bits + 1
        phase = np.repeat(np.arange(made.first.size), np.diff(made.starts))
        passed = (made.high >> self._shift).astype(np.int64) + 1  # from this entry on the threshold counts
        counts = np.bincount(phase * self._stride + passed, minlength=made.first.size * self._stride)
        least = counts.reshape(-1, self._stride).cumsum(axis=1) + made.first[:, np.newaxis]
        more = np.diff(least, append=least[:, -1:]) > 0
        self._guide = (2 * least + more).astype(np.int32).ravel()
        self._origin = made.starts[:-1] - made.first

    def draw(self, fine: Row, words: Words, drawn: Row) -> None:
        """Write the draw of each number. The rows of ``words`` are u, the high word first."""
        native, made = compiled.module(), self._tables
        if not native:
            drawn[:] = self._drawn(fine, words[:, 0], words[:, 1])
            return
        numbers = np.ascontiguousarray(fine), np.ascontiguousarray(words), drawn
        native.draw_noise(*numbers, made.grid_bits, self._shift, self._guide, self._origin, made.high, made.low)

    def _drawn(self, fine: Row, high: Words, low: Words) -> Row:
        coarse, phase = fine >> self._tables.grid_bits, fine & (2**self._tables.grid_bits - 1)
        place = phase * self._stride + (high >> self._shift).view(np.int64)
        least = self._guide.take(place)
        drawn = coarse + (least >> 1)
        left = np.flatnonzero(least & 1)
        origin, place = self._origin[phase[left]], place[left]
        start, end = (origin + (self._guide[entry] >> 1) for entry in (place, place + 1))
        drawn[left] = coarse[left] + self._bisect(start, end, high[left], low[left]) - origin
        return drawn

    def _bisect(self, start: Row, end: Row, high: Words, low: Words) -> Row:
        """Return the first place from start to end whose threshold exceeds u, or else the end."""
        left = np.arange(start.size)
        while left.size:
            middle = (start[left] + end[left]) >> 1
            found = self._tables.high[middle]
            passed = found < high[left]
            same = np.flatnonzero(found == high[left])
            passed[same] = self._tables.low[middle[same]] <= low[left[same]]
            start[left[passed]] = middle[passed] + 1
            end[left[~passed]] = middle[~passed]
            left = left[start[left] < end[left]]
        return start


_inversion = lru_cache(maxsize=4)(Inversion)


# The quantizer


#: How often a vector that is too long on the fine grid is made shorter, before it is set to zero.
_TRIES = 4


@dataclass(frozen=True, kw_only=True)
class NoisyQuantizer(Generic[Model]):
    """Turns the models of all clients of a round into vectors with noise. Agree on it before the round.

    Every client has the weight 1. Anything else that is released, such as metrics, has to be among the arrays, under
    the same norm.

    Attributes:
        layout: Names, shapes and types of the arrays; ``for_model`` reads them off a model.
        mechanism: The noise, from a charter or a plan.

    Raises:
        ConfigError: The model has another number of parameters than the mechanism, or the noise is for records.
    """

    layout: Layout
    mechanism: Mechanism

    def __post_init__(self) -> None:
        check_type("mechanism", self.mechanism, Mechanism, "; plan(..., privacy=...).mechanism is one")
        if self.layout.size != self.mechanism.dimension:
            raise ConfigError(
                f"the model has {self.layout.size} parameters, but the noise is made for {self.mechanism.dimension}: "
                "plan for this model"
            )
        if self.mechanism.unit:
            raise ConfigError(f"this noise hides a {self.mechanism.unit}, not a client's whole model")

    @classmethod
    def for_model(cls, arrays: Arrays, mechanism: Mechanism) -> "NoisyQuantizer[Any]":
        """Return a quantizer for models that look like this one.

        Args:
            arrays: A list or dict of arrays or tensors; only names, shapes and types matter.
            mechanism: The noise.

        Raises:
            VectorError: An array does not consist of real numbers.
            ConfigError: The model has another number of parameters than the mechanism.
        """
        return cls(layout=Layout.of(arrays), mechanism=mechanism)

    @property
    def length(self) -> int:
        """Words of the vector, of 64 bits each."""
        return self.mechanism.length

    def encode(self, arrays: Arrays, context: bytes, random: Randomness = os.urandom) -> Quantized:
        """Return a client's vector of ``length`` words with fresh noise; ``clipped`` is 1 if the model was too long.

        Args:
            arrays: The client's model, with the names and shapes of the layout.
            context: ``RoundConfig.context`` of its round.
            random: Returns a number of random bytes. Only tests give their own.

        Raises:
            VectorError: Other names or shapes, NaN or infinity.
        """
        fine, clipped = self._on_grid(self.layout.flatten(arrays), context)
        drawn = self._noise.sample(fine, random)
        return Quantized(vector=self.mechanism.fields.pack(drawn), clipped=int(clipped))

    def decode(self, total: Vector, survivors: int, context: bytes) -> Mean[Model]:
        """Return the mean over the survivors, in the form of the model; its weight is their number.

        Args:
            total: The sum of the survivors' vectors, ``length`` words.
            survivors: The number of survivors.
            context: ``RoundConfig.context`` of the round.

        Raises:
            VectorError: Another length or type, or no survivors.
        """
        words.check(total, self.length, WORD_BITS)
        if whole_number("survivors", survivors) < 1:
            raise VectorError("cannot average: no survivors")
        sums, _ = self.mechanism.fields.split(total)
        steps: Floats = sums[: self.mechanism.dimension] * np.float64(self.mechanism.step / survivors)
        return Mean(arrays=self.layout.restore(unrotate(steps, context)), weight=float(survivors))

    def _on_grid(self, flat: Floats, context: bytes) -> tuple[Row, bool]:
        """Return the rotated vector on the fine grid, of norm ``bound`` at most, and whether it was clipped."""
        mechanism = self.mechanism
        largest = float(max(flat.max(), -flat.min()))
        if largest == 0:
            return np.zeros(flat.size, np.int64), False
        flat /= largest  # otherwise squares of large and small floats overflow and underflow
        length = float(np.linalg.norm(flat))
        longest = math.sqrt(max(mechanism.bound**2 - mechanism.dimension / 12, 0.0))  # rounding adds about d / 12
        wanted, allowed = largest * (mechanism.bound / mechanism.norm), longest / length
        flat *= min(wanted, allowed)
        return self._shortened(rotate(flat, context)), wanted > allowed

    def _shortened(self, rotated: Floats) -> Row:
        """Return the nearest point of the fine grid, or that of a shorter vector, or zero, if it is too long."""
        most = self.mechanism.bound**2
        fine = np.empty(rotated.size, np.int64)
        for _ in range(_TRIES):
            np.rint(rotated, out=fine, casting="unsafe")
            if (found := square(fine)) <= most:
                return fine
            rotated *= most / found * (1 - 1 / self.mechanism.bound)  # a step shorter than necessary
        return np.zeros_like(fine)

    @cached_property
    def _noise(self) -> Noise:
        return Noise(self.mechanism.variance, self.mechanism.grid_bits)


def square(row: Row) -> int:
    """Return the exact square of the norm of whole numbers below 2^31."""
    largest = max(int(row.max(initial=1)), -int(row.min(initial=0)))
    many = (2**63 - 1) // largest**2  # the sum of this number of squares is below 2^63
    return sum(int(np.dot(some, some)) for some in (row[at : at + many] for at in range(0, row.size, many)))
