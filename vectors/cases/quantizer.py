"""quantizer.json: appendix A of the specification, what it gives and what it refuses."""

import math
from typing import Any

import numpy as np

from cases.common import Case
from ccesa import words
from ccesa.errors import CcesaError
from ccesa.layout import ArrayType, Layout
from ccesa.quantize import Quantizer

DESCRIPTION = (
    "Appendix A of docs/protocol.md. settings: what is agreed, with the levels, the base and the number "
    "of digits that follow, or the name of the refusal; where levels is missing it is the largest. "
    "encoded: arrays of one client with its weight, and the words as little-endian bytes, or a refusal; "
    "draws are the random numbers in [0, 1) of stochastic rounding, one for each value: the larger "
    "neighbour is taken where the draw is below the fraction. decoded: sums, with the mean of each array "
    "and the sum of weights, or a refusal. Settings are named by their place in the list. Shapes are "
    "those of the arrays; numbers that JSON does not have are text."
)
#: What Layout needs besides shapes.
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
    shapes = tuple(map(tuple, settings["shapes"]))
    layout = Layout(None, shapes, (ArrayType(np.dtype(np.float64)),) * len(shapes))
    others = {name: _number(value) for name, value in settings.items() if name != "shapes"}
    return Quantizer(layout=layout, **others)


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
    return [
        {**pair, "clients": 40, "clip": 1.0, "bits": 8, "rounding": "nearest"},
        {**pair, "clients": 100, "clip": [0.5, 8.0], "bits": 16, "max_weight": 3.0, "rounding": "nearest"},
        {**pair, "clients": 100, "clip": 2.0, "bits": 32, "rounding": "stochastic"},
        {**pair, "clients": 100, "clip": 1.0, "bits": 64, "max_weight": 65536.0, "rounding": "nearest"},
        {**pair, "clients": 3, "clip": 1.0, "bits": 32, "levels": 10, "rounding": "nearest"},
        {**pair, "clients": 127, "clip": 1.0, "bits": 8, "rounding": "nearest"},
        {**pair, "clients": 1, "clip": 1.0, "bits": 8, "levels": 127, "rounding": "nearest"},
        {"shapes": [], "clients": 3, "clip": 1.0, "bits": 8, "rounding": "nearest"},
    ]


def _bad_settings() -> list[Case]:
    plain = {"shapes": [[2], [2, 1]], "clients": 3, "clip": 1.0, "bits": 8, "rounding": "nearest"}
    changes: list[Case] = [
        {"bits": 24},
        {"bits": 0},
        {"clients": 0},
        {"clients": -1},
        {"clients": 128},
        {"clients": 1.5},
        {"levels": 43},
        {"levels": -1},
        {"levels": 1.5},
        {"bits": 64, "clients": 1, "levels": 2**52 + 1},
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
    digits = made.length - made.layout.size
    base = (2**made.bits - 1) // made.clients + 1
    return {
        **settings,
        "gives": {"levels": made.levels, "base": base, "digits": digits, "length": made.length},
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
        (4, "few levels", [[0.25, 0.35], [[-0.25], [0.05]]], 1.0, None),
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
        return {
            **case,
            "words": quantizer(settings[place]).encode(given, _number(weight), rng).vector.tobytes(),
        }
    except CcesaError as error:
        return {**case, "error": type(error).__name__}


def _sums() -> list[tuple[int, str, list[list[int]]]]:
    """Words of each client; the file has their sum."""
    return [
        (0, "one client", [[0, 3, 253, 2, *_digits(2**24, 7, 9)]]),
        (0, "three clients", [[1, 2, 250, 0, *_digits(2**24, 7, 9)]] * 3),
        (1, "a bound for each array", [[300, 65000, 5, 0, *_digits(2**23 + 5, 656, 3)]] * 2),
        (3, "64 bits", [[2**52, 2**64 - 2**52, 1, 0, 2**24]] * 100),
        (5, "all of 127 clients, one level", [[1, 255, 0, 1, *_digits(2**24, 3, 16)]] * 127),
        (7, "no array", [_digits(2**24, 86, 4)]),
        (0, "no weight", [[0, 3, 253, 2, *[0] * 9]]),
        (0, "more weight than forty clients have", [[0, 3, 253, 2, *[255] * 9]]),
        (4, "all the weight that three clients have", [[0, 0, 0, 0, 3 * 2**24]]),
        (4, "one unit more than three clients have", [[0, 0, 0, 0, 3 * 2**24 + 1]]),
        (0, "a word too few", [[0, 3, 253, 2, *_digits(2**24, 7, 9)[:-1]]]),
        (0, "a word too many", [[0, 3, 253, 2, *_digits(2**24, 7, 9), 0]]),
    ]


def _digits(units: int, base: int, count: int) -> list[int]:
    return [units // base**place % base for place in range(count)]


def _decoded(settings: list[Case], place: int, name: str, clients: list[list[int]]) -> Case:
    bits = settings[place]["bits"]
    summed = [sum(column) % 2**bits for column in zip(*clients, strict=True)]
    data = b"".join(word.to_bytes(bits // 8, "little") for word in summed)
    case: Case = {"settings": place, "name": name, "sum": data}
    try:
        mean = quantizer(settings[place]).decode(words.from_bytes(data, bits))
    except CcesaError as error:
        return {**case, "error": type(error).__name__}
    if not math.isfinite(mean.weight):
        raise LookupError("a weight that JSON does not have")
    return {**case, "mean": [one.tolist() for one in mean.arrays], "weight": mean.weight}
