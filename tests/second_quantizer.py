"""The second implementation, appendix A: floats to words and back, one value at a time.

Each refusal is a statement of its own, so that ``mutants.py`` can take one away and see a vector fail.
"""

import math
from fractions import Fraction

from second import bytes_of, words_of
from second_config import Refused, whole

UNITS = 2**24


def number(value):
    """As it stands in the JSON."""
    return float(value) if value in ("nan", "inf", "-inf") else value


def positive(value):
    if not value > 0:
        raise Refused("ConfigError")
    if not value < math.inf:
        raise Refused("ConfigError")
    return value


class Quantizer:
    """What is agreed, from an entry of the file."""

    def __init__(self, *, shapes, clients, clip, bits, rounding, max_weight=1.0, levels=None):
        if whole(bits) not in (8, 16, 32, 64):
            raise Refused("ConfigError")
        if whole(clients) < 1:
            raise Refused("ConfigError")
        if rounding not in ("nearest", "stochastic"):
            raise Refused("ConfigError")
        bounds = [number(one) for one in clip] if isinstance(clip, list) else [number(clip)] * len(shapes)
        if len(bounds) != len(shapes):
            raise Refused("ConfigError")
        self.bounds, self.max_weight = [positive(bound) for bound in bounds], positive(number(max_weight))
        most = min((2 ** (bits - 1) - 1) // clients, 2**52)
        self.levels = most if levels is None else whole(levels)
        if self.levels < 1:
            raise Refused("ConfigError")
        if self.levels > most:
            raise Refused("ConfigError")
        self.shapes, self.clients, self.bits, self.rounding = shapes, clients, bits, rounding
        self.base = (2**bits - 1) // clients + 1
        self.digits = next(count for count in range(1, 26) if self.base**count > UNITS)
        self.length = sum(map(math.prod, shapes)) + self.digits

    def gives(self):
        return {"levels": self.levels, "base": self.base, "digits": self.digits, "length": self.length}

    def flat(self, arrays):
        """Each value with the bound of its array."""
        if [shape_of(array) for array in arrays] != self.shapes:
            raise Refused("VectorError")
        values = [(v, bound) for array, bound in zip(arrays, self.bounds, strict=True) for v in leaves(array)]
        if any(not math.isfinite(value) for value, _ in values):
            raise Refused("VectorError")
        return values

    def encode(self, arrays, weight, draws=None):
        if not weight >= 0:
            raise Refused("VectorError")
        if weight > self.max_weight:
            raise Refused("VectorError")
        units = round(weight / self.max_weight * UNITS)
        scale = self.levels * units / UNITS
        words = []
        for place, (value, bound) in enumerate(self.flat(arrays)):
            steps = max(-bound, min(bound, value)) / bound * scale
            if self.rounding == "nearest":
                step = round(steps)
            else:
                step = math.floor(steps) + (draws[place] < steps - math.floor(steps))
            words.append(max(-self.levels, min(self.levels, step)) % 2**self.bits)
        words += [units // self.base**place % self.base for place in range(self.digits)]
        return bytes_of(words, self.bits)

    def decode(self, data):
        """Means in a row, exactly, and the sum of the weights."""
        if len(data) * 8 != self.length * self.bits:
            raise Refused("VectorError")
        words = words_of(data, self.bits)
        units = sum(word * self.base**place for place, word in enumerate(words[-self.digits :]))
        if units == 0:
            raise Refused("VectorError")
        if units > self.clients * UNITS:
            raise Refused("VectorError")
        sizes = map(math.prod, self.shapes)
        bounds = [bound for bound, size in zip(self.bounds, sizes, strict=True) for _ in range(size)]
        half, whole_ring = 2 ** (self.bits - 1), 2**self.bits
        signed = [word - whole_ring if word >= half else word for word in words[: -self.digits]]
        means = [
            step * Fraction(bound) / self.levels * UNITS / units
            for step, bound in zip(signed, bounds, strict=True)
        ]
        return means, units / UNITS * self.max_weight


def shape_of(array):
    return [len(array), *shape_of(array[0])] if isinstance(array, list) else []


def leaves(array):
    return [v for part in array for v in leaves(part)] if isinstance(array, list) else [number(array)]
