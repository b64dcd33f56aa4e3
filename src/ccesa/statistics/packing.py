"""Tallies as words and back: exactly, or with noise that hides any one record. docs/statistics.md proves both.

Without noise each number is one or more digits, each in a 64-bit word. With noise all quantities have equal shares of
it: a record moves the centre of one number of each quantity by at most ``share`` fine steps.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isqrt
from typing import TypeVar

import numpy as np

from ccesa import words
from ccesa.errors import ConfigError, VectorError
from ccesa.parts import check_integer, check_type
from ccesa.privacy.mechanism import Mechanism
from ccesa.statistics.schema import Number, Quantity, Schema
from ccesa.statistics.tally import Sums, Tally
from ccesa.values.fields import WORD_BITS, Digits, Fields, Row
from ccesa.words import Vector

#: The most sites in a sum.
MAX_SITES = 2**20
_FIELDS = Fields(WORD_BITS, MAX_SITES)


def check_sites(sites: int) -> None:
    """Refuse a number of sites that no sum has."""
    check_integer("sites", sites)
    if not 1 <= sites <= MAX_SITES:
        raise ConfigError(f"statistics are of 1..{MAX_SITES} sites, not {sites}")


def exact_length(schema: Schema) -> int:
    """Return the number of words of a vector without noise."""
    return sum(len(schema.cells) * one.width * len(_digits(schema, one).places) for one in schema.quantities)


def pack_exact(tally: Tally) -> Vector:
    """Return the words of one site's numbers."""
    schema, sums = tally.schema, tally.sums
    rows = [_digits(schema, one).encode(sums[one.key]) for one in schema.quantities]
    return _FIELDS.pack(np.concatenate(rows))


def unpack_exact(schema: Schema, total: Vector, sites: int) -> Sums:
    """Return the sums of all numbers; raise VectorError if this number of sites cannot have them."""
    row, sums, at = _FIELDS.unpack(total, schema.length), Sums(), 0
    for quantity in schema.quantities:
        digits = _digits(schema, quantity)
        count = len(schema.cells) * quantity.width * len(digits.places)
        sums[quantity.key] = found = digits.decode(row[at : at + count])
        at += count
        if max(found) > sites * digits.largest:
            raise VectorError(
                f"the sum exceeds that of {sites} site(s) with up to {schema.max_records} records each; is it "
                "their sum?"
            )
    return sums


def _digits(schema: Schema, quantity: Quantity) -> Digits:
    return Digits(fields=_FIELDS, largest=schema.max_records * quantity.largest)


# With noise


T = TypeVar("T", int, float)
NoisySums = dict[tuple[str, str], list[float]]

#: More than the distance of any draw from its centre.
_FARTHEST = 2**20


@dataclass(frozen=True)
class Scale:
    """Turns numbers into centres of noise, and draws into numbers."""

    schema: Schema
    mechanism: Mechanism

    @cached_property
    def share(self) -> int:
        """The most fine steps by which a record moves the centre of any quantity."""
        return isqrt(self.mechanism.bound**2 // len(self.schema.quantities))

    def check(self, sites: int) -> None:
        """Refuse noise of another kind or size, and sums that could overflow."""
        mechanism, schema = self.mechanism, self.schema
        check_sites(sites)
        check_type("mechanism", mechanism, Mechanism)
        due = {"unit": schema.privacy_unit, "dimension": schema.dimension, "norm": schema.norm, "field_bits": WORD_BITS}
        for name, expected in due.items():
            if getattr(mechanism, name) != expected:
                raise ConfigError(f"noise for this schema needs {name} = {expected}, not {getattr(mechanism, name)}")
        if self.share < 1:
            raise ConfigError("a record would have less than one step of the fine grid in each quantity")
        most = (schema.max_records * self.share >> mechanism.grid_bits) + _FARTHEST
        if sites * most >= 2 ** (WORD_BITS - 1):
            raise ConfigError(f"sums of {sites} sites could overflow: take a smaller max_records")

    def centre(self, quantity: Quantity, number: int) -> int:
        """Return a centred number in fine steps, rounded. A change by ``largest`` is a change by one share."""
        return (2 * number * self.share + quantity.largest) // (2 * quantity.largest)

    def unit(self, quantity: Quantity) -> float:
        """Return one integer of a draw in units of the number."""
        return quantity.largest * 2.0**self.mechanism.grid_bits / self.share

    def noise(self, quantity: Quantity, sites: int) -> float:
        """Return the standard deviation of a sum over this number of sites, in units of the number."""
        return math.sqrt(sites) * self.mechanism.deviation * self.unit(quantity)


def pack_noisy(tally: Tally, mechanism: Mechanism, random: Callable[[int], bytes]) -> Vector:
    """Return the words of one site's numbers, each a draw around its centre."""
    from ccesa.privacy.quantizer import Noise  # only sites need the code that draws noise

    noise = Noise(mechanism.variance, mechanism.grid_bits)
    return mechanism.fields.pack(noise.sample(centres(tally, mechanism), random))


def centres(tally: Tally, mechanism: Mechanism) -> Row:
    """Return the centres of the noise, in fine steps."""
    scale, sums = Scale(tally.schema, mechanism), _centred(tally.schema, tally.sums)
    row = [scale.centre(one, number) for one in tally.schema.quantities for number in sums[one.key]]
    return np.array(row, np.int64)


def unpack_noisy(schema: Schema, total: Vector, mechanism: Mechanism) -> NoisySums:
    """Return the sums of all numbers, with their noise."""
    words.check(total, schema.length, WORD_BITS)
    row, _ = mechanism.fields.split(total)
    scale, sums, at = Scale(schema, mechanism), NoisySums(), 0
    for one in schema.quantities:
        count = len(schema.cells) * one.width
        sums[one.key] = (row[at : at + count] * np.float64(scale.unit(one))).tolist()
        at += count
    return _uncentred(schema, sums)


def _centred(schema: Schema, sums: Sums) -> Sums:
    """Return sums of 2 u - R and of (2 u - R)^2 in place of those of u and u^2, for u from 0 to R.

    A record then adds between -R and R, and between 0 and R^2: at most a half and a quarter of 2 u and 4 u^2.
    """
    centred = dict(sums)
    for column in schema.numbers:
        most = column.range
        triples = _moments(sums, column)
        centred[column.name, "sum"] = [2 * s - n * most for n, s, _ in triples]
        centred[column.name, "square"] = [4 * q - 4 * most * s + n * most**2 for n, s, q in triples]
    return centred


def _uncentred(schema: Schema, sums: NoisySums) -> NoisySums:
    """Return the sums that ``_centred`` turned into these, but for the noise."""
    plain = dict(sums)
    for column in schema.numbers:
        most = column.range
        triples = [(n, (s + n * most) / 2, q) for n, s, q in _moments(sums, column)]
        plain[column.name, "sum"] = [s for _, s, _ in triples]
        plain[column.name, "square"] = [(q + 4 * most * s - n * most**2) / 4 for n, s, q in triples]
    return plain


def _moments(sums: Mapping[tuple[str, str], list[T]], column: Number) -> list[tuple[T, T, T]]:
    """Return count, sum and sum of squares in each group; the count in place of sums that nobody asked for."""
    present = sums[column.name, "present"]
    return list(zip(present, *(sums.get((column.name, what), present) for what in ("sum", "square")), strict=True))
