"""Check words are linear functions of a vector: those of a sum are the sum of everybody's.

They are masked with the vector, so they show faults of those who take masks off: a key that differs, a version, a
broken disk. They show no liar, because their weights are public.
"""

from functools import lru_cache

import numpy as np

from ccesa import labels
from ccesa.crypto.masks import mask_words
from ccesa.crypto.primitives import GENERATORS
from ccesa.words import Vector, zeros

#: Columns of a vector in rows: all rows share the weights of their columns.
COLUMNS = 1 << 14
_BITS = 64


def count(bits: int) -> int:
    """Return the number of check words: a vector that is wrong at random is missed with less than 2^-64."""
    return max(2, _BITS // bits)


def make(vector: Vector, context: bytes, generator: str) -> Vector:
    """Return the check words of a vector. A single wrong word always shows: no weight of the first one is even."""
    bits, size = 8 * vector.itemsize, vector.size
    columns, rows = min(COLUMNS, size), -(-size // COLUMNS)
    of_rows, of_columns = _weights(context, generator, bits, rows, columns)
    folded, product = zeros(columns, bits), zeros(columns, bits)
    for row, weight in enumerate(of_rows):
        part = vector[row * COLUMNS : (row + 1) * COLUMNS]
        np.multiply(part, weight, out=product[: part.size])
        folded[: part.size] += product[: part.size]
    return (of_columns * folded).sum(axis=1, dtype=vector.dtype)


@lru_cache(maxsize=8)
def _weights(context: bytes, generator: str, bits: int, rows: int, columns: int) -> tuple[Vector, Vector]:
    """Return the public weights of a round: one for each row, and for each check word one for each column."""
    key = labels.digest(labels.CHECK_WORDS, context)[: GENERATORS[generator].key_bytes]
    words = mask_words(generator, key, 0, rows + count(bits) * columns, bits)
    of_rows, of_columns = words[:rows], words[rows:].reshape(count(bits), columns)
    of_rows |= 1
    of_columns[0] |= 1
    return of_rows, of_columns
