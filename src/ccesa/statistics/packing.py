"""Tallies as words and back: exactly, or with noise around them, which hides any one record.

Exactly, each number is one or more digits, a 64-bit word each. With up to 2^20 sites a digit is below 2^43,
so sums of digits stay within a word, whatever they are of.

With noise, every quantity has the same share of it: a record moves the centre of each by at most ``share``
fine steps, in one of its numbers, and all of them together by at most the mechanism's ``bound`` in L2 norm.
docs/statistics.md proves it.
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
MOST_SITES = 2**20
_FIELDS = Fields(WORD_BITS, MOST_SITES)


def check_sites(sites: int) -> None:
    """Refuse a number of sites that no sum has."""
    check_integer("sites", sites)
    if not 1 <= sites <= MOST_SITES:
        raise ConfigError(f"statistics are of 1..{MOST_SITES} sites, not {sites}")


def length_of(schema: Schema) -> int:
    """Return how many words a vector has."""
    return sum(len(schema.cells) * one.width * len(_digits(schema, one).places) for one in schema.quantities)


def pack_exact(tally: Tally) -> Vector:
    """Return the words of one site's numbers."""
    schema, sums = tally.schema, tally.sums
    rows = [_digits(schema, one).encode(sums[one.key]) for one in schema.quantities]
    return _FIELDS.pack(np.concatenate(rows))


def unpack_exact(schema: Schema, total: Vector, sites: int) -> Sums:
    """Return the sums of all numbers; VectorError where so many sites cannot have them."""
    row, sums, at = _FIELDS.unpack(total, schema.length), Sums(), 0
    for quantity in schema.quantities:
        digits = _digits(schema, quantity)
        count = len(schema.cells) * quantity.width * len(digits.places)
        sums[quantity.key] = found = digits.decode(row[at : at + count])
        at += count
        if max(found) > sites * digits.largest:
            raise VectorError(
                f"more in the sum than {sites} sites with up to {schema.max_records} records each can have; "
                "is it their sum?"
            )
    return sums


def _digits(schema: Schema, quantity: Quantity) -> Digits:
    return Digits(fields=_FIELDS, largest=schema.max_records * quantity.largest)


# With noise


T = TypeVar("T", int, float)
NoisySums = dict[tuple[str, str], list[float]]

#: More than any draw is away from its centre.
_FARTHEST = 2**20


@dataclass(frozen=True)
class Scale:
    """How numbers become centres of noise, and draws numbers.

    Attributes:
        schema: What was agreed on.
        mechanism: The noise.
    """

    schema: Schema
    mechanism: Mechanism

    @cached_property
    def share(self) -> int:
        """By how many fine steps a record moves the centre of any quantity at most."""
        return isqrt(self.mechanism.bound**2 // len(self.schema.quantities))

    def check(self, sites: int) -> None:
        """Refuse noise of another kind or size, and sums that could overflow."""
        mechanism, schema = self.mechanism, self.schema
        check_sites(sites)
        check_type("mechanism", mechanism, Mechanism)
        for name, found, expected in (
            ("unit", mechanism.unit, schema.privacy_unit),
            ("dimension", mechanism.dimension, schema.dimension),
            ("norm", mechanism.norm, schema.norm),
            ("field_bits", mechanism.field_bits, WORD_BITS),
        ):
            if found != expected:
                raise ConfigError(f"noise for this schema has {name} = {expected}, not {found}")
        if self.share < 1:
            raise ConfigError("a record would have less than one step of the fine grid in each quantity")
        most = (schema.max_records * self.share >> mechanism.grid_bits) + _FARTHEST
        if sites * most >= 2 ** (WORD_BITS - 1):
            raise ConfigError(f"sums of {sites} sites could overflow: take a smaller max_records")

    def centre(self, quantity: Quantity, number: int) -> int:
        """Return a centred number in fine steps, rounded; moving it by ``largest`` moves that by a share."""
        return (2 * number * self.share + quantity.largest) // (2 * quantity.largest)

    def unit(self, quantity: Quantity) -> float:
        """Return what one integer of a draw is, in units of the number."""
        return quantity.largest * 2.0**self.mechanism.grid_bits / self.share

    def noise(self, quantity: Quantity, sites: int) -> float:
        """Return the standard deviation of a sum over so many sites, in units of the number."""
        return math.sqrt(sites) * self.mechanism.deviation * self.unit(quantity)


def pack_noisy(tally: Tally, mechanism: Mechanism, random: Callable[[int], bytes]) -> Vector:
    """Return the words of one site's numbers, each a draw around its centre."""
    from ccesa.privacy.quantizer import Noise  # what draws noise is loaded where it is drawn

    noise = Noise(mechanism.variance, mechanism.grid_bits)
    return mechanism.fields.pack(noise.sample(centres(tally, mechanism), random))


def centres(tally: Tally, mechanism: Mechanism) -> Row:
    """Return what noise is drawn around, in fine steps."""
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

    A record then adds between -R and R, and between 0 and R^2; to 2 u and 4 u^2 it would be twice as much,
    and four times.
    """
    found = dict(sums)
    for column in schema.numbers:
        most = column.range
        triples = _moments(sums, column)
        found[column.name, "sum"] = [2 * s - n * most for n, s, _ in triples]
        found[column.name, "square"] = [4 * q - 4 * most * s + n * most**2 for n, s, q in triples]
    return found


def _uncentred(schema: Schema, sums: NoisySums) -> NoisySums:
    """Return the sums that ``_centred`` was given, but for the noise."""
    found = dict(sums)
    for column in schema.numbers:
        most = column.range
        pairs = [((s + n * most) / 2, n, q) for n, s, q in _moments(sums, column)]
        found[column.name, "sum"] = [s for s, _, _ in pairs]
        found[column.name, "square"] = [(q + 4 * most * s - n * most**2) / 4 for s, n, q in pairs]
    return found


def _moments(sums: Mapping[tuple[str, str], list[T]], column: Number) -> list[tuple[T, T, T]]:
    """Return count, sum and sum of squares in each group; any for those that nobody asked for."""
    present = sums[column.name, "present"]
    return list(zip(present, *(sums.get((column.name, what), present) for what in ("sum", "square")), strict=True))
