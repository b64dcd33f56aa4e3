"""noise.json: everything about noise that two implementations must have in common."""

import hashlib
from typing import Any

import numpy as np

from cases.common import Case, sample
from ccesa import wire, words
from ccesa.errors import CcesaError
from ccesa.privacy import Mechanism, NoisyQuantizer
from ccesa.privacy.quantizer import Noise, _passes, rotate, unrotate
from ccesa.privacy.table import tables

DESCRIPTION = (
    "Section 15 of docs/protocol.md. mechanisms: all public numbers, with their encoding, a map of msgpack "
    "in this order, and its digest; the words of a vector; the epsilon that all rounds keep; and the "
    "standard deviation of a coordinate of the sum of as many clients as are counted on. Or the name of the "
    "refusal. "
    "tables: the thresholds of the discrete Gaussian with variance / 256 and the fine grid of step "
    "2^-grid_bits, or a refusal. The digest is SHA-256 over all thresholds of all phases in order, 16 "
    "little-endian bytes each; first and lengths are of the rows, of which some are there in full. "
    "rotations: signs are those of each pass, a bit for each coordinate, the lowest bit of the first byte "
    "first; a set bit is minus. "
    "draws: centres on the fine grid and what is drawn with a key of 16 bytes, or a refusal. "
    "encoded: arrays of one client, the context and the key; fine is the vector on the fine grid after "
    "clipping and rotating, words are little-endian bytes; or a refusal. decoded: sums of words with the "
    "survivors, and the mean, or a refusal. Mechanisms are named by their place in the list. Floats have ten "
    "digits: what is computed in floats differs in the last ones. No fine value is near a half step, where "
    "that would count. Numbers that JSON does not have are text, and so are integers beyond 2^53, which "
    "many of its readers would round."
)
#: So little, relative to each value, must not change a fine value.
_NUDGE = 1e-9

TABLES = [(1240, 0, [0]), (1240, 1, [0, 1]), (2304, 6, [0, 1, 31, 32, 63]), (4999, 3, [5]), (256, 2, [3])]
BAD_TABLES = [(0, 6), (-1, 6), (1240, -1), (1240, 17), (256, 17), (2**40, 6), (1240.5, 6), (2**43 + 1, 0)]


def make() -> Case:
    good = _mechanisms()
    return {
        "description": DESCRIPTION,
        "mechanisms": [_mechanism(one) for one in [*good, *_bad_mechanisms(good[0])]],
        "tables": [*(_table(*one) for one in TABLES), *(_refused_table(*one) for one in BAD_TABLES)],
        "rotations": [_rotation(*one) for one in _rotated()],
        "draws": [_draws(*one) for one in _centres()],
        "encoded": [_encoded(good, *one) for one in _inputs(good)],
        "decoded": [_decoded(good, *one) for one in _sums(good)],
    }


def rounded(value: float) -> float:
    """Return ten digits of a number; what should be zero is zero."""
    return 0.0 if abs(value) < 1e-12 else float(f"{value:.10g}")


# mechanisms


def _mechanisms() -> list[Case]:
    """Numbers that ``choose_mechanism`` returned once."""
    return [
        _numbers(14, 8, 17992, 970, 10, -40.0),
        _numbers(850, 11, 262144, 28918, 21, -128.0),
        _numbers(30, 64, 10200, 1070, 10, "-inf", against="lies"),
        _numbers(80, 2**20, 262144, 8871, 12, -60.5),
        _numbers(14, 8, 17992, 970, 4, -40.0),
    ]


def _numbers(
    honest: int, dimension: int, variance: int, bound: int, bits: int, fails: float | str, **other: str
) -> Case:
    asked = {"epsilon": 8.0, "delta": 1e-6, "rounds": 10, "norm": 2.0, "against": "follows"}
    found = {"honest": honest, "dimension": dimension, "variance": variance, "grid_bits": 6, "bound": bound}
    return {**asked, **other, **found, "field_bits": bits, "fails": fails}


def _bad_mechanisms(good: Case) -> list[Case]:
    changes: list[Case] = [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": "nan"},
        {"epsilon": 50.5},
        {"delta": 0.0},
        {"delta": 1.0},
        {"delta": 1e-13},
        {"delta": 1e-13, "honest": 2**20, "fails": "-inf"},
        {"rounds": 0},
        {"rounds": 10**9 + 1},
        {"rounds": 10**9 + 1, "honest": 2**32, "fails": -128.0},
        {"rounds": 1.5},
        {"norm": 0.0},
        {"norm": "inf"},
        {"against": "both"},
        {"honest": 0},
        {"dimension": 0},
        {"dimension": 2**36 + 1},
        {"variance": 0},
        {"variance": 1239},
        {"variance": 1239, "honest": 10**4},
        {"variance": 2**18 + 1},
        {"grid_bits": 0},
        {"grid_bits": 13},
        {"bound": 0},
        {"field_bits": 1},
        {"field_bits": 65},
        {"fails": 1.0},
        {"fails": "nan"},
        {"fails": -19.0},
        # The promise does not hold with a little less noise, more change, more rounds, or fewer clients.
        {"variance": good["variance"] - 256},
        {"bound": good["bound"] + 2},
        {"rounds": good["rounds"] + 1},
        {"honest": good["honest"] - 1},
        {"epsilon": 7.9},
        {"delta": 9e-7},
        # Small noise over many coordinates and rounds is not Gaussian enough.
        {"variance": 1240, "bound": 5, "honest": 10**6, "dimension": 2**36, "rounds": 10**9, "fails": -128.0},
    ]
    return [{**good, **change} for change in changes]


def _mechanism(fields: Case) -> Case:
    try:
        made = mechanism(fields)
    except CcesaError as error:
        return {**fields, "error": type(error).__name__}
    return {
        **fields,
        "gives": {
            "encoding": wire.encode(made),
            "digest": made.digest,
            "length": made.length,
            "epsilon": rounded(made.certify()),
            "noise": rounded(made.noise(made.honest)),
        },
    }


def mechanism(fields: Case) -> Mechanism:
    """Make the one that an entry of the file describes."""
    return Mechanism(**{name: _number(value) for name, value in fields.items()})


def _number(value: Any) -> Any:
    if isinstance(value, list):
        return [_number(one) for one in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


# tables


def _table(variance: int, grid_bits: int, shown: list[int]) -> Case:
    made = tables(variance, grid_bits)
    each = [
        int(low).to_bytes(8, "little") + int(high).to_bytes(8, "little")
        for high, low in zip(made.high, made.low, strict=True)
    ]
    starts = made.starts.tolist()
    return {
        "variance": variance,
        "grid_bits": grid_bits,
        "first": made.first.tolist(),
        "lengths": np.diff(made.starts).tolist(),
        "digest": hashlib.sha256(b"".join(each)).digest(),
        "rows": [{"phase": one, "thresholds": each[starts[one] : starts[one + 1]]} for one in shown],
    }


def _refused_table(variance: Any, grid_bits: Any) -> Case:
    case: Case = {"variance": variance, "grid_bits": grid_bits}
    try:
        tables(variance, grid_bits)
    except CcesaError as error:
        return {**case, "error": type(error).__name__}
    raise LookupError(f"{case} is not refused")


# rotations


def _rotated() -> list[tuple[str, list[float]]]:
    return [
        ("one", [3.0]),
        ("two", [1.0, -2.0]),
        ("three, in two passes", [1.0, 2.0, 3.0]),
        ("a power of two", [float(k) for k in range(8)]),
        ("one that is spread", [0.0] * 5 + [16.0] + [0.0] * 10),
        ("all but one in both passes", [(-1.0) ** k * k for k in range(9)]),
        ("more than one block", [float(k % 7) - 3 for k in range(100)]),
    ]


def _rotation(name: str, values: list[float]) -> Case:
    context, given = sample(f"rotation {name}"), np.array(values)
    found = rotate(given, context)
    if not np.allclose(unrotate(found, context), given, atol=1e-12):
        raise LookupError(f"{name} does not come back")
    case: Case = {"name": name, "context": context, "values": values}
    signs = [np.packbits(row < 0, bitorder="little").tobytes() for _, row in _passes(given, context)]
    return {**case, "signs": signs, "rotated": [rounded(one) for one in found.tolist()]}


# draws


def _centres() -> list[tuple[int, int, list[int]]]:
    return [
        (2304, 6, [*range(-70, 70, 7)]),
        (1240, 1, [0, 1, 2, -1, -2, 10**6, -(10**6)]),
        (2304, 6, [2**62, -(2**62), 2**62 - 1]),
        (4999, 3, [3] * 40),
        (2304, 6, []),
        (2304, 6, [0, 2**62 + 1]),
        (2304, 6, [-(2**62) - 1]),
    ]


def _draws(variance: int, grid_bits: int, fine: list[int]) -> Case:
    key = sample(f"draws {variance} {grid_bits} {fine[:2]}", 16)
    case: Case = {"variance": variance, "grid_bits": grid_bits, "key": key, "fine": _exact(fine)}
    try:
        drawn = Noise(variance, grid_bits).sample(np.array(fine, np.int64), lambda count: key)
    except CcesaError as error:
        return {**case, "error": type(error).__name__}
    return {**case, "drawn": _exact(drawn.tolist())}


def _exact(integers: list[int]) -> list[int | str]:
    """Return integers as readers of JSON do not round them."""
    return [one if abs(one) <= 2**53 else str(one) for one in integers]


# vectors of one client, and sums


def _inputs(good: list[Case]) -> list[tuple[int, str, list[Any]]]:
    halves = _up_to_halves(good[2])
    return [
        (0, "zero", [[0.0] * 8]),
        (0, "within the norm", [[0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.7, -0.8]]),
        (0, "longer than the norm", [[1.0, -2.0, 3.0, -4.0, 5.0, -6.0, 7.0, -8.0]]),
        (0, "huge", [[1e300, -1e308, 1e307, 3e306, 0.0, 1e308, 1.0, 5e307]]),
        (0, "tiny", [[1e-320, 5e-324, 0.0, -1e-310, 0.0, 0.0, 0.0, 0.0]]),
        (0, "in two arrays", [[0.5, 0.25], [[0.1, 0.2, 0.3], [-0.1, -0.2, -0.3]]]),
        (1, "in two passes, in several words", [[0.01 * (k + 1) * (-1) ** k for k in range(11)]]),
        (2, "rounded up almost everywhere, so that it is shortened", [halves]),
        (4, "draws that do not fit their fields", [[0.1, -0.2, 0.3, -0.4, 0.5, -0.6, 0.7, -0.8]]),
        (0, "NaN", [["nan", 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]),
        (0, "infinity", [["inf", 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]),
        (0, "a value too few", [[0.0] * 7]),
        (0, "a value too many", [[0.0] * 9]),
    ]


def _up_to_halves(fields: Case) -> list[float]:
    """A model that the rotation of its context puts just above half steps, and longer than the norm."""
    bound, context = fields["bound"], _context(2, "rounded up almost everywhere, so that it is shortened")
    aim = np.full(64, np.floor(bound / 10) + 0.52)
    aim[0] = np.sqrt(bound**2 - 64 / 12 - float(aim[1:] @ aim[1:])) + 0.02
    return [rounded(one) for one in (unrotate(aim, context) * (fields["norm"] / bound)).tolist()]


def _context(place: int, name: str) -> bytes:
    return sample(f"context {place} {name}")


def _quantizer(fields: Case, shapes: list[Any]) -> NoisyQuantizer[Any]:
    return NoisyQuantizer.for_model([np.zeros(shape) for shape in shapes], mechanism(fields))


def _encoded(good: list[Case], place: int, name: str, arrays: list[Any]) -> Case:
    context, key = _context(place, name), sample(f"key {name}", 16)
    given = [np.array(_number(one), np.float64) for one in arrays]
    case: Case = {"mechanism": place, "name": name, "context": context, "key": key, "arrays": arrays}
    size = good[place]["dimension"]
    shapes = [one.shape for one in given] if sum(one.size for one in given) == size else [(size,)]
    case["shapes"] = [list(shape) for shape in shapes]
    made = _quantizer(good[place], shapes)
    try:
        found = made.encode(given, context, lambda count: key)
    except CcesaError as error:
        return {**case, "error": type(error).__name__}
    fine = _settled(made, given, context)
    return {**case, "fine": fine, "clipped": found.clipped, "words": found.vector.tobytes()}


def _settled(made: NoisyQuantizer[Any], arrays: list[Any], context: bytes) -> list[int]:
    """Return the fine values, if a little more or less would not change them."""
    flat = made.layout.flatten(arrays)
    random = np.random.default_rng(0)
    factors = [1.0, 1 - _NUDGE, *(1 - _NUDGE * random.random(size=(6, flat.size)))]
    found = [made._on_grid(flat * factor, context)[0] for factor in factors]
    if any(not np.array_equal(found[0], other) for other in found[1:]):
        raise LookupError("a fine value near a half step: take another model")
    return [int(one) for one in found[0]]


def _sums(good: list[Case]) -> list[tuple[int, str, int, list[int], int]]:
    """Numbers in the fields, and how many clients there are in the sum."""
    half = 2 ** (good[0]["field_bits"] - 1)
    return [
        (0, "one client", 1, [5, -3, 0, 1, 2, -8, 13, -21], 0),
        (0, "fourteen clients", 14, [50, -30, 0, 10, 20, -80, 130, -210], 0),
        (0, "one that wraps", 14, [half, -half - 1, 0, 0, 0, 0, 0, 0], 0),
        (1, "in two passes", 900, [1000 * (-1) ** k + k for k in range(11)], 0),
        (0, "nobody", 0, [0] * 8, 0),
        (0, "a word too many", 14, [0] * 8, 1),
        (0, "a word too few", 14, [0] * 8, -1),
    ]


def _decoded(good: list[Case], place: int, name: str, survivors: int, row: list[int], more: int) -> Case:
    made, context = _quantizer(good[place], [len(row)]), _context(place, name)
    packed = made.mechanism.fields.pack(np.array(row, np.int64))
    total = np.append(packed, packed[:1]) if more > 0 else packed[: packed.size + more]
    case: Case = {"mechanism": place, "name": name, "context": context, "survivors": survivors}
    case["sum"] = total.tobytes()
    try:
        mean = made.decode(words.from_bytes(total.tobytes(), 64), survivors, context)
    except CcesaError as error:
        return {**case, "error": type(error).__name__}
    return {**case, "mean": [rounded(one) for one in mean.arrays[0].tolist()]}
