"""statistics.json: everything about counting tables that two implementations must have in common."""

from collections.abc import Callable
from typing import Any

import msgspec

from cases.common import Case, sample
from ccesa import wire, words
from ccesa.errors import CcesaError, ConfigError
from ccesa.privacy import Mechanism
from ccesa.statistics.packing import _digits, centres, unpack_exact, unpack_noisy
from ccesa.statistics.schema import Schema
from ccesa.statistics.tally import count_table

DESCRIPTION = (
    "Section 16 of docs/protocol.md. schemas: what is agreed, with the encoding of all its keys, the "
    "words of a vector, the numbers d and the quantities K; or the name of the refusal. counted: "
    "records of one member, the numbers of its table by quantity, group and order, and its words "
    "without noise; or a refusal. noisy: the same with noise from a key of 16 bytes, and the centres in"
    " fine steps. sums: sums of words of so many members, and the sum of each number, with noise to ten"
    " digits; or a refusal. Schemas and mechanisms are named by their place in the list. In a record "
    "null is an empty value. Numbers that JSON does not have are text, and so are integers beyond 2^53,"
    " which many of its readers would round."
)
AGE: Case = {"name": "age", "lower": 0.0, "upper": 110.0}
STAY: Case = {
    "name": "stay",
    "lower": -1.5,
    "upper": 365.25,
    "places": 2,
    "measures": ["variance", "count", "histogram", "quantiles"],
    "edges": [0.0, 1.0, 7.25],
    "quantiles": [0.1, 0.9],
}
WARD: Case = {"name": "ward", "values": ["medicine", "surgery"]}
SEX: Case = {"name": "sex", "values": ["f", "m"]}
SMALL: Case = {"name": "ages", "least_group": 1, "numbers": [AGE]}
WHOLE: Case = {
    "name": "stays in hospital",
    "max_records": 100000,
    "least_group": 2,
    "group_by": ["ward"],
    "missing": ["NA", "-"],
    "numbers": [AGE, STAY],
    "categories": [WARD, SEX],
}
LARGE: Case = {
    "name": "digits",
    "max_records": 2**32,
    "least_group": 1,
    "numbers": [{"name": "x", "lower": -9007199254740992.0, "upper": 9007199254740992.0, "measures": ["variance"]}],
}
NOISY: Case = {**WHOLE, "least_group": 1, "privacy_unit": "record"}
CROSSED: Case = {
    "name": "crossed",
    "least_group": 1,
    "group_by": ["sex", "ward"],
    "numbers": [{"name": "age", "lower": 0.0, "upper": 3.0, "measures": ["sum"]}],
    "categories": [WARD, SEX],
}
#: In no Normalization Form C: letters with marks of their own, a sign for a letter, parts of a syllable. The
#: ligature in the end stays: Form C changes nothing that only looks alike.
DECOMPOSED: Case = {
    "name": "Spita\u0308ler",
    "least_group": 1,
    "group_by": ["Ort e\u0301"],
    "missing": ["fe\u0301hlt"],
    "numbers": [{"name": "Gro\u0308\u00dfe", "lower": 0.0, "upper": 9.0}],
    "categories": [{"name": "Ort e\u0301", "values": ["Zu\u0308rich", "\u212b", "\u1112\u1161\u11ab", "\ufb01n"]}],
}
GOOD = [
    SMALL,
    WHOLE,
    LARGE,
    NOISY,
    CROSSED,
    {"name": "records"},
    {**LARGE, "max_records": 2},
    {**NOISY, "max_records": 2**30},
    {"name": "the other zero", "numbers": [{**AGE, "lower": -0.0}]},
    DECOMPOSED,
]


def make() -> Case:
    return {
        "description": DESCRIPTION,
        "schemas": [_schema(one) for one in [*GOOD, *_bad_schemas()]],
        "mechanisms": MECHANISMS,
        "counted": [_counted(*one) for one in _tables()],
        "noisy": [_noisy(*one) for one in _noisy_tables()],
        "sums": [_sums(*one) for one in _totals()],
    }


def exact(integers: list[int]) -> list[int | str]:
    """Return integers as readers of JSON do not round them."""
    return [one if abs(one) <= 2**53 else str(one) for one in integers]


# schemas


def schema(values: Case) -> Schema:
    """Make the one that an entry of the file describes, as from the TOML of a charter."""
    try:
        return msgspec.convert(_number(values), Schema)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _number(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _number(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_number(one) for one in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


def _schema(values: Case) -> Case:
    try:
        made = schema(values)
    except CcesaError as error:
        return {"schema": values, "error": type(error).__name__}
    gives = {"length": made.length, "dimension": made.dimension, "quantities": len(made.quantities)}
    return {"schema": values, "gives": {"encoding": wire.encode(made), **gives}}


def _bad_schemas() -> list[Case]:
    named = {"name": "x"}
    changes: list[Case] = [
        {"name": ""},
        {"name": " x"},
        {"name": "x" * 101},
        {"name": "a\u200bb"},
        {"other": 1},
        {"max_records": 0},
        {"max_records": 2**32 + 1},
        {"max_records": 2**30 + 1, "least_group": 1, "privacy_unit": "record"},
        {"max_records": 4},
        {"least_group": 0},
        {"least_group": 1000001},
        {"privacy_unit": "record"},
        {"privacy_unit": "client", "least_group": 1},
        {"group_by": ["nobody"]},
        {"group_by": ["age"], "numbers": [AGE]},
        {"group_by": ["ward", "ward"], "categories": [WARD]},
        {"group_by": ["a", "b", "c", "d"], "categories": [{"name": one, "values": ["v"]} for one in "abcd"]},
        {"group_by": ["a", "b"], "categories": [{"name": one, "values": [str(k) for k in range(99)]} for one in "ab"]},
        {"missing": ["NA", "NA"]},
        {"missing": [""]},
        {"missing": [f"m{k}" for k in range(1001)]},
        {"missing": ["f"], "categories": [SEX]},
        {"numbers": [AGE, AGE]},
        {"numbers": [{**AGE, "name": "sex"}], "categories": [SEX]},
        {"categories": [{**SEX, "values": []}]},
        {"categories": [named]},
        {"categories": [{**SEX, "values": ["f", "f"]}]},
        {"categories": [{**SEX, "values": ["\u00e9", "e\u0301"]}]},
        {"missing": ["\u00e9"], "categories": [{**SEX, "values": ["e\u0301"]}]},
        {"categories": [{**SEX, "values": ["f", "other"]}]},
        {"categories": [{**SEX, "values": ["f", "missing"]}]},
        {"categories": [{**SEX, "values": ["f "]}]},
        *({"numbers": [{**AGE, **change}]} for change in _bad_numbers()),
        # 10,000 groups of a hundred and more numbers are more words than a vector may have.
        {
            "group_by": ["a", "b"],
            "categories": [
                *({"name": one, "values": [str(k) for k in range(98)]} for one in "ab"),
                {"name": "c", "values": [str(k) for k in range(103)]},
            ],
        },
    ]
    return [{**named, **change} for change in changes]


def _bad_numbers() -> list[Case]:
    return [
        {"lower": 110.0},
        {"lower": 111.0},
        {"lower": 0.5},
        {"lower": "nan"},
        {"upper": "inf"},
        {"upper": 9007199254740994.0},
        {"upper": 1e16, "places": 1},
        {"places": -1},
        {"places": 10},
        {"places": 1.5},
        {"measures": []},
        {"measures": ["median"]},
        {"measures": ["count", "count"]},
        {"measures": ["histogram"]},
        {"edges": [18.0]},
        {"edges": [0.0], "measures": ["histogram"]},
        {"edges": [18.0, 18.0], "measures": ["histogram"]},
        {"edges": [65.0, 18.0], "measures": ["histogram"]},
        {"edges": [110.0], "measures": ["histogram"]},
        {"edges": [17.5], "measures": ["quantiles"]},
        {"edges": [18.0], "measures": ["quantiles"], "quantiles": []},
        {"quantiles": [0.0, 0.5]},
        {"quantiles": [0.5, 1.0]},
        {"quantiles": [0.5, 0.5]},
        {"quantiles": [0.5, 0.25]},
        {"quantiles": ["nan", 0.5]},
        {"bins": [1]},
    ]


# tables


def _rows(*rows: tuple[Any, Any, Any, Any]) -> list[Case]:
    return [dict(zip(("age", "stay", "ward", "sex"), row, strict=True)) for row in rows]


ROWS = _rows(
    (34, "2.5", "medicine", "f"),
    (71.5, "1e1", "medicine", "m"),
    (72.5, "-2", "surgery", "f"),
    (None, "NA", "surgery", "x"),
    (111, "7.25", "surgery", ""),
    (-3, "365.25", "surgery", None),
    (110, "365.26", "-", "m"),
    (0, "-1.5", "NA", "m"),
    (1, "-1.50001", "medicine", " f "),
    ("109.5", " 0 ", "elsewhere", "m"),
    (8, "", "elsewhere", "F"),
    (50, "0.125", "medicine", "m"),
    (50, "0.135", "medicine", "m"),
    (50, "+.5E+0", "medicine", "m"),
    (50, "7.245", "medicine", "m"),
    (50, "7.2450000000000000000000000000000000000000000001", "medicine", "m"),
    (50, "365.2500000000000000000000000000000000000000000001", "medicine", "m"),
    (50, "1e9999", "medicine", "m"),
    (50, "-1e9999", "medicine", "m"),
    (50, "1e-9999", "medicine", "m"),
    (2.675e1, 2.675, "medicine", "m"),
)


def _places() -> list[Case]:
    """Return records with the same words in several forms, and with others that only look alike."""
    words = [
        *("Zu\u0308rich", "Z\u00fcrich", "\u2000Z\u00fcrich\u2001", "z\u00fcrich", "Zurich"),
        *("\u212b", "A\u030a", "\u00c5", "\ud55c", "\u1112\u1161\u11ab"),
        *("\ufb01n", "fin", "f\u00e9hlt", "fe\u0301hlt", "Ort \u00e9"),
    ]
    sizes = ["1", "f\u00e9hlt", " fe\u0301hlt "]
    return [{"Gr\u00f6\u00dfe": sizes[k % 3], "Ort \u00e9": word} for k, word in enumerate(words)]


def _tables() -> list[tuple[int, str, list[Case]]]:
    rare = _rows(
        (34, "2.5", "medicine", "f"),
        (35, "", "medicine", "m"),
        (None, "400", "surgery", "f"),
        (36, "1", "surgery", "f"),
        (None, "NA", "surgery", "f"),
        (7, "7.25", "-", "f"),
        (8, "9", "-", "f"),
        (9, "9", "elsewhere", "f"),
    )
    few = _rows((1, "1", "medicine", "f"), (2, "2", "surgery", "f"), (3, "3", "surgery", "f"))
    return [
        (0, "no record", []),
        (0, "one number", [{"age": one} for one in (0.5, 1.5, 2.5, 110.5, -0.5)]),
        (1, "everything", ROWS),
        (1, "a small group left out", few),
        (1, "few values left out", rare),
        (9, "texts in other forms", _places()),
        (2, "digits", [{"x": "9007199254740992"}, {"x": "-9007199254740992"}, {"x": 9007199254740992.0}]),
        (4, "two categories", few + ROWS[:8]),
        (5, "records alone", [{}, {}, {}]),
        (6, "as many records as there may be", [{"x": 0}, {"x": 1}]),
        (6, "a record too many", [{"x": 0}, {"x": 1}, {"x": 2}]),
        (0, "a word for a number", [{"age": "old"}]),
        (0, "an infinite number", [{"age": "Infinity"}]),
        (0, "a number that is none", [{"age": "NaN"}]),
        (0, "a comma", [{"age": "1,5"}]),
        (0, "two signs", [{"age": "--1"}]),
        (0, "a point alone", [{"age": "."}]),
        (0, "no column", [{"years": 3}]),
    ]


def _counted(place: int, name: str, records: list[Case]) -> Case:
    case: Case = {"schema": place, "name": name, "records": records}
    try:
        tally = count_table(schema(GOOD[place]), records)
        vector = schema(GOOD[place]).encode(records)
    except CcesaError as error:
        return {**case, "error": type(error).__name__}
    return {**case, "numbers": exact(_flat(tally.sums, GOOD[place])), "words": vector.tobytes()}


def _flat(sums: Any, values: Case) -> list[Any]:
    return [number for one in schema(values).quantities for number in sums[one.key]]


# with noise


def _mechanism(**changes: Any) -> Case:
    made: Case = {
        "epsilon": 8.0,
        "delta": 1e-6,
        "rounds": 2,
        "norm": schema(NOISY).norm,
        "against": "follows",
        "honest": 3,
        "dimension": schema(NOISY).dimension,
        "variance": 262144,
        "grid_bits": 6,
        "bound": 3700,
        "field_bits": 64,
        "fails": -60.0,
        "unit": "record",
    }
    return {name: value for name, value in {**made, **changes}.items() if value is not None}


MECHANISMS = [
    _mechanism(),
    _mechanism(unit=None),
    _mechanism(norm=3.0),
    _mechanism(dimension=schema(NOISY).dimension + 1),
    _mechanism(field_bits=63),
    _mechanism(bound=2),
    _mechanism(bound=2**21, honest=2**20, rounds=1),
]


def mechanism(fields: Case) -> Mechanism:
    """Make the one that an entry of the file describes."""
    return Mechanism(**_number(fields))


def _noisy_tables() -> list[tuple[int, int | None, str, list[Case]]]:
    return [
        (3, 0, "everything", ROWS),
        (3, 0, "no record", []),
        (3, 0, "one record", ROWS[:1]),
        (3, None, "without noise", []),
        (1, 0, "noise that nobody agreed on", []),
        (3, 1, "noise for clients", []),
        (3, 2, "another norm", []),
        (3, 3, "another dimension", []),
        (3, 4, "fields of other bits", []),
        (3, 5, "less than a step of the fine grid", []),
    ]


def _noisy(place: int, noise: int | None, name: str, records: list[Case]) -> Case:
    key = sample(f"statistics {name}", 16)
    case: Case = {"schema": place, "mechanism": noise, "name": name, "key": key, "records": records}
    made = schema(GOOD[place])
    try:
        with_noise = None if noise is None else mechanism(MECHANISMS[noise])
        vector = made.encode(records, with_noise, lambda count: key[:count])
    except CcesaError as error:
        return {**case, "error": type(error).__name__}
    if with_noise is None:
        raise LookupError(f"{name} has no noise and is not refused")
    around = centres(count_table(made, records), with_noise).tolist()
    return {**case, "centres": exact(around), "words": vector.tobytes()}


# sums


def _totals() -> list[tuple[int, int | None, str, int, bytes]]:
    three = _summed(1, 3, lambda made, k: made.encode(ROWS[k:] * 2))
    large = _summed(2, 2, lambda made, k: made.encode([{"x": "9007199254740992"}] * (k + 1)))
    noise = mechanism(MECHANISMS[0])
    noisy = _summed(3, 5, lambda made, k: made.encode(ROWS[k:], noise, lambda count: sample(f"{k}", count)))
    one = schema(SMALL).encode([{"age": 3}] * 5).tobytes()
    most = schema(GOOD[6]).encode([{"x": "1e99"}] * 2).tobytes()
    return [
        (0, None, "five records", 1, one),
        (1, None, "three members", 3, three),
        (2, None, "several digits", 2, large),
        (3, 0, "with noise", 5, noisy),
        (5, None, "nothing", 1, bytes(8)),
        (6, None, "as much as one member can have", 1, most),
        (2, None, "the largest digit", 1, _set(large, _large(2**63 - 2**20))),
        (2, None, "a larger digit", 1, _set(large, _large(2**63 - 2**20 + 1))),
        (0, None, "more records than a member has", 1, _set(one, {0: 10**6 + 1, 1: 5})),
        (0, None, "more values than records", 1, _set(one, {1: 6})),
        (0, None, "more clipped than there are", 1, _set(one, {2: 6})),
        (0, None, "a larger total than the bounds allow", 1, _set(one, {3: 551})),
        (0, None, "a digit below 0", 1, _set(one, {2: 2**64 - 1})),
        (1, None, "labels that do not add up", 3, _plus_one(three, -1)),
        (1, None, "bins that do not add up", 3, _plus_one(three, _start(1, "bins"))),
        (1, None, "too small squares", 3, _set(three, {_start(1, "square"): 1})),
        (1, None, "too large squares", 3, _set(three, {_start(1, "square"): 2**42})),
        (0, None, "a word too few", 1, one[8:]),
        (0, None, "a word too many", 1, one + bytes(8)),
        (3, 0, "a word too few, with noise", 5, noisy[8:]),
        (0, None, "nobody", 0, one),
        (0, None, "more than 2^20 members", 2**20 + 1, one),
        (7, 6, "so many members that sums could overflow", 2**20, noisy),
    ]


def _large(digit: int) -> dict[int, int]:
    """Return words of the schema of large numbers: a total of one digit, and squares that fit it."""
    return dict(enumerate([2**32, 2**32, 0, digit, 0, 0, 0, 0, 2**14, 0]))


def _summed(place: int, members: int, encode: Callable[[Schema, int], words.Vector]) -> bytes:
    made = schema(GOOD[place])
    total = encode(made, 0)
    for k in range(1, members):
        total = total + encode(made, k)
    return total.tobytes()


def _start(place: int, what: str) -> int:
    """Return the first word of a quantity."""
    made, at = schema(GOOD[place]), 0
    for one in made.quantities:
        if one.what == what:
            return at
        at += len(made.cells) * one.width * len(_digits(made, one).places)
    raise LookupError(what)


def _set(total: bytes, changes: dict[int, int]) -> bytes:
    row = [total[at : at + 8] for at in range(0, len(total), 8)]
    for place, value in changes.items():
        row[place] = value.to_bytes(8, "little")
    return b"".join(row)


def _plus_one(total: bytes, place: int) -> bytes:
    at = place % (len(total) // 8)
    return _set(total, {at: int.from_bytes(total[8 * at : 8 * at + 8], "little") + 1})


def _sums(place: int, noise: int | None, name: str, members: int, total: bytes) -> Case:
    case: Case = {"schema": place, "mechanism": noise, "name": name, "members": members, "sum": total}
    made, vector = schema(GOOD[place]), words.from_bytes(total, 64)
    try:
        with_noise = None if noise is None else mechanism(MECHANISMS[noise])
        made.decode(vector, members, with_noise)
    except CcesaError as error:
        return {**case, "error": type(error).__name__}
    if with_noise is None:
        return {**case, "numbers": exact(_flat(unpack_exact(made, vector, members), GOOD[place]))}
    found = _flat(unpack_noisy(made, vector, with_noise), GOOD[place])
    return {**case, "numbers": [float(f"{one:.10g}") for one in found]}
