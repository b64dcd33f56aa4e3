"""statistics.json, by the package and by the second implementation.

The latter does not draw noise around a table, nor read sums; the client for browsers draws.
"""

import msgspec
import pytest

from ccesa import wire, words
from ccesa.errors import ConfigError
from ccesa.privacy import Mechanism
from ccesa.statistics import Schema
from ccesa.statistics.packing import centres, unpack_exact, unpack_noisy
from ccesa.statistics.tally import count_table
from second import raw
from second_refusals import Refused
from second_statistics import encoding_of, numbers_of, words_of_table
from vector_files import cases, load, refused

SCHEMAS, MECHANISMS = load("statistics", "schemas"), load("statistics", "mechanisms")


def number(value):
    if isinstance(value, dict):
        return {name: number(one) for name, one in value.items()}
    if isinstance(value, list):
        return [number(one) for one in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


def schema_of(values):
    try:
        return msgspec.convert(number(values), Schema)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def values_at(case):
    return number(SCHEMAS[case["schema"]]["schema"])


def schema_at(case):
    return schema_of(values_at(case))


def mechanism_at(case):
    place = case["mechanism"]
    return None if place is None else Mechanism(**number(MECHANISMS[place]))


def flat(schema, sums):
    return [number for one in schema.quantities for number in sums[one.key]]


def integers(listed):
    return [int(one) for one in listed]


@pytest.mark.parametrize("case", SCHEMAS, ids=[str(k) for k in range(len(SCHEMAS))])
def test_schema(case):
    if "error" in case:
        with refused(case["error"]):
            schema_of(case["schema"])
        return
    made, due = schema_of(case["schema"]), case["gives"]
    assert wire.encode(made) == encoding_of(number(case["schema"])) == raw(due["encoding"])
    assert (made.length, made.dimension) == (due["length"], due["dimension"])
    assert len(made.quantities) == due["quantities"]


@cases("statistics", "counted", "name")
def test_table(case):
    schema = schema_at(case)
    if "error" in case:
        with refused(case["error"]):
            schema.encode(case["records"])
        with pytest.raises(Refused, match=f"^{case['error']}$"):
            numbers_of(values_at(case), case["records"])
        return
    numbers, vector = integers(case["numbers"]), raw(case["words"])
    assert flat(schema, count_table(schema, case["records"]).sums) == numbers
    assert numbers_of(values_at(case), case["records"]) == numbers
    assert schema.encode(case["records"]).tobytes() == vector
    assert words_of_table(values_at(case), case["records"]) == vector


@cases("statistics", "noisy", "name")
def test_table_with_noise(case):
    schema, mechanism, key = schema_at(case), mechanism_at(case), raw(case["key"])
    if "error" in case:
        with refused(case["error"]):
            schema.encode(case["records"], mechanism, lambda count: key[:count])
        return
    assert centres(count_table(schema, case["records"]), mechanism).tolist() == integers(case["centres"])
    found = schema.encode(case["records"], mechanism, lambda count: key[:count])
    assert found.tobytes().hex() == case["words"]


@cases("statistics", "sums", "name")
def test_sum(case):
    schema, mechanism = schema_at(case), mechanism_at(case)
    total, members = words.from_bytes(raw(case["sum"]), 64), case["members"]
    if "error" in case:
        with refused(case["error"]):
            schema.decode(total, members, mechanism)
        return
    schema.decode(total, members, mechanism)
    if mechanism is None:
        assert flat(schema, unpack_exact(schema, total, members)) == integers(case["numbers"])
    else:
        found = flat(schema, unpack_noisy(schema, total, mechanism))
        assert found == pytest.approx(case["numbers"], rel=1e-8)
