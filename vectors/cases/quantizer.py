"""quantizer.json: appendix A of the specification, what it gives and what it refuses."""

import math
from typing import Any

import numpy as np

from cases.common import Case
from ccesa import words
from ccesa.errors import CcesaError
from ccesa.values.quantize import Quantizer

DESCRIPTION = (
    "Appendix A of docs/protocol.md. settings: what is agreed, with the bits of a field, fields of a word, "
    "levels, digits of a weight and words that follow, or the name of the refusal; instead of field_bits "
    "there may be bits of a value, a precision, or nothing. "
    "encoded: arrays of one client with its weight, and the words as little-endian bytes, or a refusal; "
    "draws are the random numbers in [0, 1) of stochastic rounding, one for each value: the larger "
    "neighbour is taken where the draw is below the fraction. decoded: sums, with the mean of each array "
    "and the sum of weights, or a refusal. Settings are named by their place in the list. Shapes are "
    "those of the arrays; numbers that JSON does not have are text."
)
#: Arrays of one client.
Floats = list[Any]


class Draws:
    """A generator of random numbers that were drawn before."""

    def __init__(self, numbers: list[float]) -> None:
        self.numbers = np.array(numbers)

    def random(self, size: int) -> Any:
        if size != self.numbers.size:
            raise LookupError(f"{size} numbers asked for, {self.numbers.size} given")
        return self.numbers


def quantizer(settings: Case) -> Quantizer[Any]:
    """Make the one that an entry of the file describes."""
    others = {name: _number(value) for name, value in settings.items() if name != "shapes"}
    return Quantizer.for_model([np.zeros(shape) for shape in settings["shapes"]], **others)


def _number(value: Any) -> Any:
    if isinstance(value, list):
        return [_number(one) for one in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


def make() -> Case:
    good = _settings()
    return {
        "description": DESCRIPTION,
        "settings": [_setting(one) for one in [*good, *_bad_settings()]],
        "encoded": [_encoded(good, *case) for case in _inputs()],
        "decoded": [_decoded(good, *case) for case in _sums()],
    }


def _settings() -> list[Case]:
    pair = {"shapes": [[2], [2, 1]]}
    near = {"rounding": "nearest"}
    return [
        {**pair, "clients": 40, "clip": 1.0, "field_bits": 8, **near},
        {**pair, "clients": 100, "clip": [0.5, 8.0], "field_bits": 16, "max_weight": 3.0, **near},
        {**pair, "clients": 100, "clip": 2.0, "rounding": "stochastic"},
        {**pair, "clients": 100, "clip": 1.0, "field_bits": 64, "max_weight": 65536.0, **near},
        {**pair, "clients": 3, "clip": 1.0, "field_bits": 32, **near},
        {**pair, "clients": 127, "clip": 1.0, "field_bits": 8, **near},
        {**pair, "clients": 1, "clip": 1.0, "field_bits": 2, **near},
        {"shapes": [], "clients": 3, "clip": 1.0, "field_bits": 8, **near},
        {**pair, "clients": 1000, "clip": 1.0, "bits": 8, **near},
        {**pair, "clients": 1024, "clip": 1.0, "bits": 8, **near},
        {**pair, "clients": 1, "clip": 1.0, "bits": 2, **near},
        {**pair, "clients": 1024, "clip": 1.0, "bits": 53, **near},
        {**pair, "clients": 50, "clip": 2.0, "precision": 1e-4, "rounding": "stochastic"},
        {**pair, "clients": 50, "clip": [2.0, 0.5], "precision": 1e-4, **near},
        {**pair, "clients": 3, "clip": 1.0, "precision": 1e9, "rounding": "stochastic"},
        {"shapes": [], "clients": 3, "clip": 1.0, "precision": 1e-4, "rounding": "stochastic"},
        {**pair, "clients": 2**31 - 1, "clip": 1.0, **near},
        {**pair, "clients": 3, "clip": 1e305, "field_bits": 32, **near},
    ]


def _bad_settings() -> list[Case]:
    plain = {"shapes": [[2], [2, 1]], "clients": 3, "clip": 1.0, "rounding": "nearest"}
    changes: list[Case] = [
        {"field_bits": 1},
        {"field_bits": 0},
        {"field_bits": 65},
        {"field_bits": 8.5},
        {"bits": 1},
        {"bits": 54},
        {"bits": 8.5},
        {"bits": 53, "clients": 2**12},
        {"precision": 0.0},
        {"precision": -1.0},
        {"precision": "nan"},
        {"precision": "inf"},
        {"precision": 1e-15},
        {"precision": 1.8e-15},
        {"precision": 1e-14, "clients": 10**6},
        {"bits": 8, "precision": 1e-4},
        {"bits": 8, "field_bits": 10},
        {"precision": 1e-4, "field_bits": 10},
        {"clients": 0},
        {"clients": -1},
        {"clients": 128, "field_bits": 8},
        {"clients": 2**31},
        {"clients": 1.5},
        {"clip": 0.0},
        {"clip": -1.0},
        {"clip": "nan"},
        {"clip": "inf"},
        {"clip": [1.0]},
        {"clip": [1.0, 1.0, 1.0]},
        {"clip": [1.0, 0.0]},
        {"max_weight": 0.0},
        {"max_weight": -1.0},
        {"max_weight": "inf"},
        {"max_weight": "nan"},
        {"rounding": "up"},
    ]
    return [{**plain, **change} for change in changes]


def _setting(settings: Case) -> Case:
    try:
        made = quantizer(settings)
    except CcesaError as error:
        return {**settings, "error": type(error).__name__}
    return {
        **settings,
        "gives": {
            "field_bits": made.field_bits,
            "per_word": made.fields.per_word,
            "levels": made.levels,
            "digits": made.count - made.layout.size,
            "length": made.length,
        },
    }


def _inputs() -> list[tuple[int, str, Floats, Any, list[float] | None]]:
    plain = [[0.0, 1.0], [[-1.0], [0.5]]]
    halves = [[1 / 6, 0.5], [[-1 / 6], [-0.5]]]
    steps = [[0.1, 0.2], [[-0.1], [1.9999]]]
    fine = [[1e-10, -1e-10], [[0.3], [2 / 3]]]
    return [
        (0, "plain", plain, 1.0, None),
        (0, "half to even", halves, 1.0, None),
        (0, "beyond the bound", [[1.1, -7.0], [[1e300], [-1e300]]], 1.0, None),
        (0, "no weight", plain, 0.0, None),
        (0, "the smallest weight", plain, 2.0**-25, None),
        (0, "half a weight", plain, 0.5, None),
        (1, "a bound for each array", [[0.25, -0.5], [[8.0], [-3.0]]], 2.5, None),
        (1, "the largest weight", [[0.25, -0.6], [[8.5], [-3.0]]], 3.0, None),
        (2, "draws below and above the fraction", steps, 1.0, [0.0, 0.999, 0.25, 0.5]),
        (2, "whole numbers of steps", [[2.0, -2.0], [[0.0], [0.0]]], 1.0, [0.0, 0.0, 0.999, 0.0]),
        (3, "64 bits", fine, 1000.0, None),
        (4, "two fields a word", fine, 1.0, None),
        (6, "fields of two bits", plain, 1.0, None),
        (8, "three fields a word", fine, 1.0, None),
        (8, "borrows from every field above", [[-1.0, 0.0], [[-1.0], [-1e-9]]], 1.0, None),
        (12, "a precision", fine, 1.0, [0.5, 0.5, 0.5, 0.5]),
        (5, "one level", [[0.5, -0.5], [[0.51], [-0.51]]], 1.0, None),
        (7, "no array", [], 1.0, None),
        (0, "NaN", [["nan", 1.0], [[-1.0], [0.5]]], 1.0, None),
        (0, "infinity", [[0.0, 1.0], [["inf"], [0.5]]], 1.0, None),
        (0, "minus infinity", [[0.0, "-inf"], [[1.0], [0.5]]], 1.0, None),
        (0, "an array too few", [[0.0, 1.0]], 1.0, None),
        (0, "an array too many", [*plain, [1.0]], 1.0, None),
        (0, "another shape", [[0.0, 1.0], [-1.0, 0.5]], 1.0, None),
        (0, "a value too many", [[0.0, 1.0, 1.0], [[-1.0], [0.5]]], 1.0, None),
        (0, "a weight above the largest", plain, 1.0000001, None),
        (0, "a weight below 0", plain, -0.5, None),
        (0, "a weight of NaN", plain, "nan", None),
        (0, "an infinite weight", plain, "inf", None),
    ]


def _encoded(
    settings: list[Case], place: int, name: str, arrays: Floats, weight: Any, draws: list[float] | None
) -> Case:
    case: Case = {"settings": place, "name": name, "arrays": arrays, "weight": weight}
    if draws is not None:
        case["draws"] = draws
    given = [np.array(_number(one), np.float64) for one in arrays]
    rng: Any = None if draws is None else Draws(draws)
    try:
        return {**case, "words": quantizer(settings[place]).encode(given, _number(weight), rng).vector.tobytes()}
    except CcesaError as error:
        return {**case, "error": type(error).__name__}


def _sums() -> list[tuple[int, str, list[list[int]]]]:
    """Numbers of each client, behind which the fields of the last word are empty; the file has their sum."""
    one, three = _digits(2**24, 4, 13), _digits(2**24, 132, 4)
    return [
        (0, "one client", [[0, 3, -3, 2, *one]]),
        (0, "three clients", [[1, 2, -3, 0, *one]] * 3),
        (0, "carries and borrows", [[3, -3, 3, -3, *one], [-3, 3, -3, 3, *one], [-1, -1, 1, 1, *one]]),
        (0, "all clients at the bound", [[3, -3, 3, -3, *one]] * 40),
        (1, "a bound for each array", [[300, -327, 5, 0, *_digits(2**23 + 5, 328, 3)]] * 2),
        (3, "64 bits", [[2**52, -(2**52), 1, 0, 2**24]] * 100),
        (5, "all of 127 clients, one level", [[1, -1, 0, 1, *_digits(2**24, 2, 25)]] * 127),
        (7, "no array", [_digits(2**24, 43, 5)]),
        (8, "three fields a word", [[131, -131, 131, -131, *three]] * 1000),
        (8, "numbers that cancel out", [[131000, 131, -1, 5, *three], [-131000, 0, 0, 1, *three]]),
        (8, "one step more than a thousand clients have", [[131001, 0, 0, 0, *three]]),
        (8, "one step less than a thousand clients have", [[0, 0, -131001, 0, *three]]),
        (8, "something above the highest field", [[0, 0, 2**18, 0, *three]]),
        (8, "something in a field that nobody fills", [[0, 0, 0, 0, *three, 1]]),
        (0, "no weight", [[0, 3, -3, 2, *[0] * 13]]),
        (0, "a digit below 0", [[0, 3, -3, 2, -1, *one[1:]]]),
        (0, "more weight than forty clients have", [[0, 3, -3, 2, *[120] * 13]]),
        (4, "all the weight that three clients have", [[0, 0, 0, 0, 3 * 2**24]]),
        (4, "one unit more than three clients have", [[0, 0, 0, 0, 3 * 2**24 + 1]]),
        (17, "the largest mean that a weight of one unit has", [[2**13, -(2**13), 0, 0, 1]]),
        (17, "a mean that no float64 holds", [[0, 0, 0, 2**29, 1]]),
        (0, "a word too few", [[0, 3, -3, 2]]),
        (0, "a word too many", [[0, 3, -3, 2, *one, *[0] * 8]]),
    ]


def _digits(units: int, base: int, count: int) -> list[int]:
    return [units // base**place % base for place in range(count)]


def _words(numbers: list[int], bits: int) -> list[int]:
    """Lay numbers into words, by the definition."""
    many = 64 // bits
    parts = [numbers[start : start + many] for start in range(0, len(numbers), many)]
    return [sum(number << (bits * place) for place, number in enumerate(part)) for part in parts]


def _decoded(settings: list[Case], place: int, name: str, clients: list[list[int]]) -> Case:
    made = quantizer(settings[place])
    each = [_words(numbers, made.field_bits) for numbers in clients]
    summed = [sum(column) % 2**64 for column in zip(*each, strict=True)]
    data = b"".join(word.to_bytes(8, "little") for word in summed)
    case: Case = {"settings": place, "name": name, "sum": data}
    try:
        mean = made.decode(words.from_bytes(data, 64))
    except CcesaError as error:
        return {**case, "error": type(error).__name__}
    if not math.isfinite(mean.weight):
        raise LookupError("a weight that JSON does not have")
    return {**case, "mean": [one.tolist() for one in mean.arrays], "weight": mean.weight}
