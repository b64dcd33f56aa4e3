"""Metrics as numbers in words: each a few digits, so that large and small values keep their precision.

A metric v of a client with weight w (in units of the quantizer) becomes the whole number
round((v / clip + 1) · w · 2^30), in digits whose sums over all clients stay in a word. The sum, divided by
the sum of the weights, gives back the weighted mean.

A slot is named by a sign and the metric's name: ``=loss`` is a number, and each ``+per-class`` is one number
of a list.
"""

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccesa import words
from ccesa.quantize import WEIGHT_UNITS

Metrics = dict[str, float | list[float]]

SCALE = 1 << 30
_LARGEST = 2 * WEIGHT_UNITS * SCALE
_NUMBER, _OF_LIST = "=", "+"


def base(clients: int, bits: int) -> int:
    """The largest base whose digits, summed over all clients, stay in a word."""
    return (2**bits - 1) // clients + 1


def digits(clients: int, bits: int) -> int:
    """Words that one number takes."""
    count = 1
    while base(clients, bits) ** count <= _LARGEST:
        count += 1
    return count


def encode(values: list[float], slots: int, units: int, clip: float, clients: int, bits: int) -> words.Vector:
    """Of one client; unused slots count as zero."""
    radix, count = base(clients, bits), digits(clients, bits)
    row: list[int] = []
    for value in [*values, *[0.0] * (slots - len(values))]:
        whole = round((value / clip + 1.0) * units * SCALE)
        row += [whole // radix**place % radix for place in range(count)]
    return np.array(row, words.dtype(bits))


def decode(total: words.Vector, units: int, clip: float, clients: int, bits: int) -> NDArray[np.float64]:
    """The weighted mean of every slot, from the sum over clients whose weights sum to ``units``."""
    radix, count = base(clients, bits), digits(clients, bits)
    rows = total.reshape(-1, count).tolist()
    sums = [sum(int(digit) * radix**place for place, digit in enumerate(row)) for row in rows]
    return np.array([(one / (units * SCALE) - 1.0) * clip for one in sums])


def signed(name: str) -> str:
    """The slot of a metric that is a number."""
    return _NUMBER + name


def schema(metrics: Metrics) -> list[str]:
    """The names of the slots that these metrics fill, in order."""
    return [
        _OF_LIST + name if isinstance(value, list) else signed(name)
        for name, value in sorted(metrics.items())
        for _ in (value if isinstance(value, list) else [value])
    ]


def is_schema(names: list[str]) -> bool:
    """Whether metrics could have these slots: in order, and every name once."""
    rows = [(signed, len(list(row))) for signed, row in itertools.groupby(names)]
    called = [signed[1:] for signed, _ in rows]
    signs = all(signed[:1] == _OF_LIST or (signed[:1] == _NUMBER and width == 1) for signed, width in rows)
    return signs and called == sorted(set(called))


def pick(names: list[str], metrics: Metrics) -> list[float]:
    """The values for these slots; NaN for a metric that is not there, or is not what the slots are for."""
    values: list[float] = []
    for signed, row in itertools.groupby(names):
        found, width = metrics.get(signed[1:], math.nan), len(list(row))
        is_list = isinstance(found, list)
        numbers = found if isinstance(found, list) else [found]
        fits = is_list == signed.startswith(_OF_LIST) and len(numbers) == width
        values += [float(number) for number in numbers] if fits else [math.nan] * width
    return values


def restore(names: list[str], values: NDArray[Any]) -> Metrics:
    """Back to metrics."""
    found: Metrics = {}
    for signed, value in zip(names, values.tolist(), strict=False):
        row = found.setdefault(signed[1:], []) if signed.startswith(_OF_LIST) else None
        if isinstance(row, list):
            row.append(value)
        else:
            found[signed[1:]] = value
    return found
