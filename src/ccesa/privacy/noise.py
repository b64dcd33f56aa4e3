"""Exact noise: one draw of the discrete Gaussian for each number of the fine grid, centred there.

A draw takes 16 bytes of an AES-128-CTR keystream whose key is fresh in every call, and finds its place among
the thresholds of a table (see ``table``). Integers are compared, nothing else: no float decides a draw. The
keystream stands for uniform bits, as it does in masks. How long a draw takes depends on it: whoever can
measure single draws on the client's machine is not kept out.
"""

import os
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ccesa import compiled
from ccesa.crypto.masks import mask_words
from ccesa.errors import VectorError
from ccesa.privacy.mechanism import Mechanism
from ccesa.privacy.table import WORD_BITS, Tables, tables
from ccesa.words import Vector

Words = NDArray[np.uint64]
Numbers = NDArray[np.int64]

#: Draws that are made before moving on: what they need stays in cache.
CHUNK = 2**15
#: Fine values lie within these bounds, so that no draw can wrap.
MOST_FINE = 2**62
#: So many bits of u lead through the guide.
GUIDE_BITS = 8

_GENERATOR = "aes128-ctr"


class Noise:
    """Draws integers around numbers of the fine grid, from tables that everybody has.

    Args:
        variance: Of each draw, in units of 1/256.
        grid_bits: The fine grid has the step 2^-grid_bits.

    Raises:
        ConfigError: A number is out of range, or the tables would be too large.
    """

    def __init__(self, variance: int, grid_bits: int) -> None:
        self.tables = tables(variance, grid_bits)
        self._inversion = _inversion(self.tables)

    def sample(self, fine: Numbers, random: Callable[[int], bytes] = os.urandom) -> Numbers:
        """Return a draw for each number, independent of all others, in units of the coarse grid.

        Draw j takes block j of the keystream: the high word first, each little-endian.

        Args:
            fine: Centres in steps of the fine grid, a vector of int64 between -2^62 and 2^62.
            random: Asked once for the 16 bytes of the key, which nobody keeps.

        Raises:
            VectorError: The centres are not a vector of int64, or out of range.
        """
        _check(fine)
        key, drawn = random(16), np.empty(fine.size, np.int64)
        for first in range(0, fine.size, CHUNK):
            centres = fine[first : first + CHUNK]
            words = mask_words(_GENERATOR, key, 2 * first, 2 * centres.size, WORD_BITS)
            self._inversion.draw(centres, words.reshape(-1, 2), drawn[first : first + CHUNK])
        return drawn


def around_zero(mechanism: Mechanism, random: Callable[[int], bytes] = os.urandom) -> Vector:
    """Return the vector of a client that has nothing to send: with noise, and nothing else.

    Args:
        mechanism: The noise.
        random: Asked once for 16 bytes.
    """
    noise = Noise(mechanism.variance, mechanism.grid_bits)
    return mechanism.fields.pack(noise.sample(np.zeros(mechanism.dimension, np.int64), random))


def _check(fine: Numbers) -> None:
    if not isinstance(fine, np.ndarray) or fine.dtype != np.int64 or fine.ndim != 1:
        raise VectorError("expected a vector of int64: numbers in steps of the fine grid")
    if fine.size and not -MOST_FINE <= int(fine.min()) <= int(fine.max()) <= MOST_FINE:
        raise VectorError("numbers of the fine grid must lie between -2^62 and 2^62")


class Inversion:
    """Finds draws among the thresholds of a table, by the first bits of u and then by bisection.

    The guide has a row for each phase, indexed by these bits: twice the least that a u beginning with them
    draws, plus one where it may draw more, at most what the next entry says.
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

    def draw(self, fine: Numbers, words: Words, drawn: Numbers) -> None:
        """Write the draw of each number; u has a row of two words, the high one first."""
        native, made = compiled.module(), self._tables
        if not native:
            drawn[:] = self._drawn(fine, words[:, 0], words[:, 1])
            return
        numbers = np.ascontiguousarray(fine), np.ascontiguousarray(words), drawn
        native.draw_noise(
            *numbers, made.grid_bits, self._shift, self._guide, self._origin, made.high, made.low
        )

    def _drawn(self, fine: Numbers, high: Words, low: Words) -> Numbers:
        coarse, phase = fine >> self._tables.grid_bits, fine & (2**self._tables.grid_bits - 1)
        place = phase * self._stride + (high >> self._shift).view(np.int64)
        least = self._guide.take(place)
        drawn = coarse + (least >> 1)
        left = np.flatnonzero(least & 1)
        origin, place = self._origin[phase[left]], place[left]
        start, end = (origin + (self._guide[entry] >> 1) for entry in (place, place + 1))
        drawn[left] = coarse[left] + self._bisect(start, end, high[left], low[left]) - origin
        return drawn

    def _bisect(self, start: Numbers, end: Numbers, high: Words, low: Words) -> Numbers:
        """Return the first place from start on, before end, whose threshold is above u, or else the end."""
        left = np.arange(start.size)
        while left.size:
            middle = (start[left] + end[left]) >> 1
            passed = self._at_most(middle, high[left], low[left])
            start[left[passed]] = middle[passed] + 1
            end[left[~passed]] = middle[~passed]
            left = left[start[left] < end[left]]
        return start

    def _at_most(self, place: Numbers, high: Words, low: Words) -> NDArray[np.bool_]:
        """Tell which thresholds are at most u."""
        found = self._tables.high[place]
        passed, same = found < high, np.flatnonzero(found == high)
        passed[same] = self._tables.low[place[same]] <= low[same]
        return passed


@lru_cache(maxsize=4)
def _inversion(made: Tables) -> Inversion:
    return Inversion(made)
