"""The second implementation, appendix A: floats to words and back, one value at a time.

Each refusal is a statement of its own, so that ``mutants.py`` can take one away and see a vector fail.
"""

import math
import sys
from fractions import Fraction

from second import bytes_of, words_of
from second_config import whole
from second_refusals import refuse

LARGEST = Fraction(sys.float_info.max)
UNITS = 2**24


def number(value):
    """As it stands in the JSON."""
    return float(value) if value in ("nan", "inf", "-inf") else value


def positive(value, check):
    if not value > 0:
        refuse(check, "ConfigError")
    if not value < math.inf:
        refuse(check, "ConfigError")
    return value


def width_of(clients, field_bits, bits, precision, clip, steps):
    """Bits of a field, from whichever of three is given."""
    if [field_bits, bits, precision].count(None) < 2:
        refuse("Q1.6", "ConfigError")
    if field_bits is not None:
        return whole(field_bits, "Q1.7")
    if bits is None and precision is None:
        return 32
    if bits is not None:
        least = 2 ** (whole(bits, "Q1.8") - 1) - 1
    else:
        left = positive(precision, "Q1.9") / clip - 2.0**-49 if clip else math.inf
        if left <= 0:
            refuse("Q1.9", "ConfigError")
        least = max(1, math.ceil(steps / left))
    if least > 2**52:
        refuse("Q1.10", "ConfigError")
    return (clients * least).bit_length() + 1


class Quantizer:
    """What is agreed, from an entry of the file."""

    def __init__(self, *, shapes, clients, clip, rounding, field_bits=None, bits=None, precision=None, max_weight=1.0):
        if whole(clients, "Q1.1") < 1:
            refuse("Q1.1", "ConfigError")
        if rounding not in ("nearest", "stochastic"):
            refuse("Q1.2", "ConfigError")
        bounds = [number(one) for one in clip] if isinstance(clip, list) else [number(clip)] * len(shapes)
        if len(bounds) != len(shapes):
            refuse("Q1.3", "ConfigError")
        self.bounds = [positive(bound, "Q1.4") for bound in bounds]
        self.max_weight = positive(number(max_weight), "Q1.5")
        steps, largest = 0.5 if rounding == "nearest" else 1.0, max(self.bounds, default=0)
        self.width = width_of(clients, field_bits, bits, number(precision), largest, steps)
        if self.width > 64:
            refuse("Q1.11", "ConfigError")
        self.levels = min((2 ** (self.width - 1) - 1) // clients, 2**52)
        if self.levels < 1:
            refuse("Q1.12", "ConfigError")
        self.shapes, self.clients, self.rounding = shapes, clients, rounding
        self.base, self.per_word = self.levels + 1, 64 // self.width
        self.digits = next(count for count in range(1, 26) if self.base**count > UNITS)
        self.count = sum(map(math.prod, shapes)) + self.digits
        self.length = math.ceil(Fraction(self.count, self.per_word))

    def gives(self):
        return {
            "field_bits": self.width,
            "per_word": self.per_word,
            "levels": self.levels,
            "digits": self.digits,
            "length": self.length,
        }

    def flat(self, arrays):
        """Each value with the bound of its array."""
        if [shape_of(array) for array in arrays] != self.shapes:
            refuse("Q2.2", "VectorError")
        values = [(v, bound) for array, bound in zip(arrays, self.bounds, strict=True) for v in leaves(array)]
        if any(not math.isfinite(value) for value, _ in values):
            refuse("Q2.3", "VectorError")
        return values

    def encode(self, arrays, weight, draws=None):
        if not weight >= 0:
            refuse("Q2.1", "VectorError")
        if weight > self.max_weight:
            refuse("Q2.1", "VectorError")
        units = round(weight / self.max_weight * UNITS)
        scale = self.levels * units / UNITS
        numbers = []
        for place, (value, bound) in enumerate(self.flat(arrays)):
            steps = max(-bound, min(bound, value)) / bound * scale
            if self.rounding == "nearest":
                step = round(steps)
            else:
                step = math.floor(steps) + (draws[place] < steps - math.floor(steps))
            numbers.append(max(-self.levels, min(self.levels, step)))
        numbers += [units // self.base**place % self.base for place in range(self.digits)]
        words = [0] * self.length
        for place, one in enumerate(numbers):
            words[place // self.per_word] += one * 2 ** (self.width * (place % self.per_word))
        return bytes_of([word % 2**64 for word in words], 64)

    def sums(self, data):
        """What lies in every field of every word."""
        numbers = []
        for word in words_of(data, 64):
            for _ in range(self.per_word):
                one = word % 2**self.width
                one -= 2**self.width if one >= 2 ** (self.width - 1) else 0
                numbers.append(one)
                word = (word - one) // 2**self.width
            if word % 2 ** (64 - self.width * self.per_word):
                refuse("Q3.2", "VectorError")
        return numbers

    def decode(self, data):
        """Means in a row, exactly, and the sum of the weights."""
        if len(data) != 8 * self.length:
            refuse("Q3.1", "VectorError")
        numbers = self.sums(data)
        if any(numbers[self.count :]):
            refuse("Q3.3", "VectorError")
        if max(map(abs, numbers)) > self.clients * self.levels:
            refuse("Q3.4", "VectorError")
        steps, digits = numbers[: self.count - self.digits], numbers[self.count - self.digits : self.count]
        if min(digits) < 0:
            refuse("Q3.5", "VectorError")
        units = sum(digit * self.base**place for place, digit in enumerate(digits))
        if units == 0:
            refuse("Q3.6", "VectorError")
        if units > self.clients * UNITS:
            refuse("Q3.7", "VectorError")
        sizes = map(math.prod, self.shapes)
        bounds = [bound for bound, size in zip(self.bounds, sizes, strict=True) for _ in range(size)]
        means = [
            step * Fraction(bound) / self.levels * UNITS / units for step, bound in zip(steps, bounds, strict=True)
        ]
        if any(abs(mean) > LARGEST for mean in means):
            refuse("Q3.8", "VectorError")
        return means, units / UNITS * self.max_weight


def shape_of(array):
    return [len(array), *shape_of(array[0])] if isinstance(array, list) else []


def leaves(array):
    return [v for part in array for v in leaves(part)] if isinstance(array, list) else [number(array)]
