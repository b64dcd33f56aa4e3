"""Metrics as whole numbers in digits, so that large and small values keep their precision.

A metric v of a client with weight w (in units of the quantizer) becomes the whole number
round((v / clip + 1) · w · 2^30). The sum of these, divided by the sum of the weights, gives back the weighted
mean.

A metric takes one slot for each of its numbers. A slot is named by a sign and the metric's name: ``=loss`` is
a number, and each ``+per-class`` is one number of a list.
"""

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ccesa.values.fields import Digits, Fields, Row
from ccesa.values.quantize import WEIGHT_UNITS

Metrics = dict[str, float | list[float]]

SCALE = 1 << 30
_NUMBER, _OF_LIST = "=", "+"


def digits(fields: Fields) -> Digits:
    """Return the digits in which one number of one client travels."""
    return Digits(fields=fields, largest=2 * WEIGHT_UNITS * SCALE)


def encode(values: list[float], units: int, clip: float, form: Digits) -> Row:
    """Return the digits of one client's values, of which none is beyond ``clip``."""
    return form.encode(round((value / clip + 1.0) * units * SCALE) for value in values)


def decode(sums: Row, units: int, clip: float, form: Digits) -> NDArray[np.float64]:
    """Return the weighted mean of every value, from the sum over clients whose weights sum to ``units``."""
    return np.array([(one / (units * SCALE) - 1.0) * clip for one in form.decode(sums)])


def slots_of(metrics: Metrics) -> list[str]:
    """Return the names of the slots that these metrics fill, in order."""
    return [
        (_OF_LIST if isinstance(value, list) else _NUMBER) + name
        for name, value in sorted(metrics.items())
        for _ in (value if isinstance(value, list) else [value])
    ]


def are_slots(slots: list[str]) -> bool:
    """Return whether metrics could have these slots: in order, and every name once."""
    rows = [(slot, len(list(row))) for slot, row in itertools.groupby(slots)]
    names = [slot[1:] for slot, _ in rows]
    signs = all(slot[:1] == _OF_LIST or (slot[:1] == _NUMBER and width == 1) for slot, width in rows)
    return signs and names == sorted(set(names))


def pick(slots: list[str], metrics: Metrics) -> list[float]:
    """Return the values for these slots; NaN for a metric that is not there, or not what they are for."""
    values: list[float] = []
    for slot, row in itertools.groupby(slots):
        found, width = metrics.get(slot[1:], math.nan), len(list(row))
        numbers = found if isinstance(found, list) else [found]
        fits = isinstance(found, list) == slot.startswith(_OF_LIST) and len(numbers) == width
        values += [float(number) for number in numbers] if fits else [math.nan] * width
    return values


def restore(slots: list[str], values: NDArray[Any]) -> Metrics:
    """Return the metrics that have these values in their slots."""
    found: Metrics = {}
    for slot, row in itertools.groupby(zip(slots, values.tolist(), strict=False), key=lambda pair: pair[0]):
        numbers = [value for _, value in row]
        found[slot[1:]] = numbers if slot.startswith(_OF_LIST) else numbers[0]
    return found
