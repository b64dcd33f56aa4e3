"""Tallies as words and back, exactly: each number is one or more digits, a 64-bit word each.

With up to 2^20 sites a digit is below 2^43, so sums of digits stay within a word, whatever they are of.
"""

import numpy as np

from ccesa.errors import ConfigError, VectorError
from ccesa.parts import check_integer
from ccesa.statistics.schema import Quantity, Schema
from ccesa.statistics.tally import Sums, Tally
from ccesa.values.digits import Digits
from ccesa.values.fields import WORD_BITS, Fields
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


def packed(tally: Tally) -> Vector:
    """Return the words of one site's numbers."""
    schema, sums = tally.schema, tally.sums
    rows = [_digits(schema, one).encode(sums[one.key]) for one in schema.quantities]
    return _FIELDS.pack(np.concatenate(rows))


def unpacked(schema: Schema, total: Vector, sites: int) -> Sums:
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
