"""Joint statistics: what is decoded from a sum of vectors is what all records together say, exactly."""

import json
import math
import statistics
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccesa.errors import ConfigError, VectorError
from ccesa.statistics import Category, Number, Schema
from ccesa.statistics.packing import MAX_SITES, pack_exact
from ccesa.statistics.tally import Tally, count_table
from ccesa.values.fields import Fields
from tables import check_report, rows_of, schemas

AGE = Number(name="age", lower=0, upper=120, measures=("mean", "variance", "histogram"), edges=(18, 65))
WARD = Category(name="ward", values=("surgery", "medicine"))
SCHEMA = Schema(name="beds", least_group=1, numbers=(AGE,), categories=(WARD,), group_by=("ward",))


def with_(schema: Schema = SCHEMA, **fields) -> Schema:
    return msgspec.structs.replace(schema, **fields)


def summed(schema: Schema, sites: list[list[dict]]) -> np.ndarray:
    return np.sum([schema.encode(rows) for rows in sites], axis=0, dtype=np.uint64)


def bed(age: object = 50, ward: object = "surgery") -> dict:
    return {"age": age, "ward": ward}


# Exactness


@settings(max_examples=150)
@given(st.data())
def test_the_report_is_that_of_all_records_together(data):
    schema = data.draw(schemas())
    sites = data.draw(st.lists(rows_of(schema), min_size=1, max_size=4))
    total = summed(schema, sites)
    assert total.dtype == np.uint64
    assert total.shape == (schema.length,)
    report = schema.decode(total, len(sites))
    check_report(schema, report, sites)
    assert report.sites == len(sites)
    assert json.loads(json.dumps(report.as_dict()))["name"] == schema.name
    assert str(report).startswith("some tables: ")


@settings(max_examples=30)
@given(st.integers(1, 2**32), st.integers(2, 2**40), st.integers(0, 3), st.sampled_from([1, 2, 1000, MAX_SITES]))
def test_nothing_overflows_with_all_records_at_the_bound(records, upper, places, sites):
    measures = ("variance", "histogram")
    column = Number(name="n", lower=0, upper=upper, places=places, measures=measures, edges=(upper // 2,))
    schema = Schema(name="large", max_records=records, least_group=1, numbers=(column,))
    largest = {one.key: [records * one.largest] * one.width for one in schema.quantities}
    largest[column.name, "bins"] = [0] * (len(column.ends) - 2) + [records]
    one = pack_exact(Tally(schema, largest, records, 0))
    report = schema.decode(one * np.uint64(sites), sites)  # as if so many sites had sent it
    measured = report.groups[0].numbers[column.name]
    assert measured.count == measured.clipped == records * sites
    assert measured.histogram[-1].count == records * sites
    assert measured.variance == (0 if records * sites > 1 else None)
    if sites < MAX_SITES:
        return
    with pytest.raises(ConfigError, match=r"1\.\.1048576 sites, not 1048577"):
        schema.decode(one * np.uint64(sites), sites + 1)


def test_sums_of_large_numbers_take_several_words():
    column = Number(name="n", lower=0, upper=10**12, measures=("mean", "variance"))
    schema = Schema(name="large", least_group=1, numbers=(column,))
    values = [10**12 - 1, 10**12 - 3, 5]
    assert schema.length == 1 + 2 + 2 + 3  # 10^6 records of 10^12 have 61 bits, of 10^24 100; a digit has 43
    found = schema.decode(schema.encode({"n": value} for value in values), 1).groups[0].numbers["n"]
    assert found.mean * 3 == sum(values)
    assert found.variance == statistics.variance(map(Fraction, values))


def test_one_record_too_many_is_refused():
    schema = with_(max_records=3)
    assert schema.decode(schema.encode([bed()] * 3), 1).groups[0].records == 3
    with pytest.raises(VectorError, match=r"^more than max_records = 3 records$"):
        schema.encode([bed()] * 4)


def test_a_sum_that_so_many_sites_cannot_have_is_refused():
    schema = with_(max_records=3)
    total = summed(schema, [[bed()] * 3] * 2)
    assert schema.decode(total, 2).groups[0].records == 6
    with pytest.raises(VectorError, match="the sum exceeds that of 1 site\\(s\\) with up to 3 records each"):
        schema.decode(total, 1)
    with pytest.raises(VectorError, match="expected an array of uint64"):
        schema.decode(total.astype(np.int64), 2)
    with pytest.raises(VectorError, match="expected a vector of shape"):
        schema.decode(total[:-1], 2)
    total[0] = 2**64 - 1
    with pytest.raises(VectorError, match="is it their sum"):
        schema.decode(total, 2)


@pytest.mark.parametrize("place", range(8))
def test_sums_that_no_records_have_are_refused(place):
    schema = Schema(name="x", least_group=1, numbers=(AGE,), categories=(Category(name="sex", values=("f", "m")),))
    total = schema.encode([{"age": 20, "sex": "f"}, {"age": 70, "sex": "m"}])
    assert schema.decode(total, 1).groups[0].records == 2
    total[place] += np.uint64({3: 100, 4: 10_000}.get(place, 3))
    with pytest.raises(VectorError, match="no records can have these sums"):
        schema.decode(total, 1)


@pytest.mark.parametrize("sites", [0, -1, True, 2.0, MAX_SITES + 1])
def test_a_number_of_sites_that_cannot_be_is_refused(sites):
    with pytest.raises(ConfigError, match="sites"):
        SCHEMA.decode(SCHEMA.encode([]), sites)


# What a site leaves out


@settings(max_examples=60)
@given(st.data())
def test_every_group_of_a_vector_has_the_least_number_of_records_or_is_all_zeros(data):
    schema = data.draw(schemas())
    rows = data.draw(rows_of(schema))
    tally = count_table(schema, rows)
    counted = 0
    for cell, records in enumerate(tally.sums["", "records"]):
        numbers = [
            number
            for one in schema.quantities
            for number in tally.sums[one.key][cell * one.width : (cell + 1) * one.width]
        ]
        assert records >= schema.least_group or not any(numbers)
        counted += records
    assert (tally.records, tally.left_out) == (len(rows), len(rows) - counted)


def test_small_groups_are_left_out_by_each_site_for_itself():
    schema = with_(least_group=3)
    sites = [[bed()] * 3 + [bed(ward="medicine")] * 2, [bed()] * 2 + [bed(ward="medicine")] * 2]
    (group,) = schema.decode(summed(schema, sites), 2).groups
    assert (group.key, group.records) == ({"ward": "surgery"}, 3)
    nobody = schema.encode([bed()] * 2)
    assert not nobody.any()
    assert np.array_equal(nobody, schema.encode([]))


@settings(max_examples=60)
@given(st.data())
def test_every_column_of_a_group_has_the_least_number_of_values_or_is_all_zeros(data):
    schema = data.draw(schemas())
    tally = count_table(schema, data.draw(rows_of(schema)))
    for column in schema.numbers:
        for cell, present in enumerate(tally.sums[column.name, "present"]):
            numbers = [
                number
                for one in schema.quantities
                if one.column == column.name
                for number in tally.sums[one.key][cell * one.width : (cell + 1) * one.width]
            ]
            assert present >= schema.least_group or not any(numbers)


def test_d4_one_value_in_a_group_of_five_is_not_published():
    """Neither its count nor anything else: the vector is that of a group in which nobody has a value."""
    schema = with_(least_group=5)
    one, nobody = [bed(), *[bed(age=None)] * 4], [bed(age=None)] * 5
    assert np.array_equal(schema.encode(one), schema.encode(nobody))
    (group,) = schema.decode(schema.encode(one), 1).groups
    measured = group.numbers["age"]
    assert (group.records, measured.count, measured.missing, measured.mean) == (5, 0, 5, None)
    assert not any(bin.count for bin in measured.histogram)
    five = schema.decode(schema.encode([bed()] * 5), 1).groups[0].numbers["age"]
    assert (five.count, five.mean) == (5, 50)


def test_few_values_at_one_site_are_left_out_whatever_others_have():
    """Nothing of the few is in the sum, so nothing of them is in the difference of two sums."""
    schema = with_(least_group=3)
    many, few = [bed(age=20)] * 3, [bed(age=90)] * 2 + [bed(age=None)] * 3
    (group,) = schema.decode(summed(schema, [many, few]), 2).groups
    assert (group.records, group.numbers["age"].count, group.numbers["age"].mean) == (8, 3, 20)


def test_what_one_site_left_out_is_nowhere_in_its_vector():
    """Neither a total nor a number of records left out goes with it: it would be the small group's."""
    schema = with_(least_group=3)
    some = [bed()] * 3
    assert np.array_equal(schema.encode([*some, bed(ward="medicine"), bed(ward="medicine")]), schema.encode(some))


# Values


@pytest.mark.parametrize(
    ("value", "steps", "clipped"),
    [
        (36.6, 66, 0),
        ("36.64", 66, 0),
        (Decimal("36.65"), 66, 0),
        ("36.75", 68, 0),  # half to even
        ("1e1", 0, 1),
        (30, 0, 0),
        (29.99, 0, 1),
        (45, 150, 0),
        ("45.01", 150, 1),
        ("1e999999999", 150, 1),
        ("-1e999999999", 0, 1),
        (np.float32(36.5), 65, 0),
        (np.int64(36), 60, 0),
        ("  36.6 ", 66, 0),
        ("36.65" + "0" * 60 + "1", 67, 0),
        ("1e-999999999", 0, 1),
    ],
)
def test_values_are_rounded_to_their_places_and_clipped_to_their_bounds(value, steps, clipped):
    column = Number(name="temperature", lower=30, upper=45, places=1, measures=("sum",))
    tally = count_table(Schema(name="x", least_group=1, numbers=(column,)), [{"temperature": value}])
    assert tally.sums["temperature", "sum"] == [steps]
    assert tally.sums["temperature", "clipped"] == [clipped]


@pytest.mark.parametrize("value", [None, "", "  ", "NA", float("nan"), np.nan])
def test_missing_values_are_counted_apart(value):
    schema = with_(missing=("NA",))
    (group,) = schema.decode(schema.encode([bed(age=value), bed(ward=value, age=3)]), 1).groups[:1]
    assert (group.numbers["age"].count, group.numbers["age"].missing) == (0, 1)
    found = schema.decode(schema.encode([bed(ward=value, age=3)]), 1).groups
    assert [one.key for one in found] == [{"ward": "missing"}]


@pytest.mark.parametrize("value", ["x17", "1,5", "12 kg", "nan", "inf", "-Infinity", True, [1], b"1", 1j, object()])
def test_what_is_no_number_is_refused_without_being_told(value):
    with pytest.raises(VectorError, match=r"^record 2, column 'age': not a (finite )?number") as refused:
        SCHEMA.encode([bed(), bed(age=value)])
    assert str(value) not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_a_column_that_is_not_there_is_refused():
    with pytest.raises(VectorError, match=r"^record 1, column 'age' is missing$"):
        SCHEMA.encode([{"ward": "surgery"}])
    with pytest.raises(VectorError, match=r"^record 1, column 'ward' is missing$"):
        SCHEMA.encode([[3, 4]])


def test_unknown_categories_are_one_group():
    rows = [bed(ward=ward) for ward in ("surgery", "Surgery", "icu", "missing", "other")]
    groups = SCHEMA.decode(SCHEMA.encode(rows), 1).groups
    assert Counter({one.key["ward"]: one.records for one in groups}) == {"surgery": 1, "other": 4}


@pytest.mark.parametrize("text", ["Z\u00fcrich", "Zu\u0308rich"])
@pytest.mark.parametrize("agreed", ["Z\u00fcrich", "Zu\u0308rich"])
def test_an_accent_that_is_a_character_of_its_own_is_the_same_word(agreed, text):
    """On both sides: in the schema, whose digest is the same, and in the table."""
    column = Category(name="Spita\u0308ler", values=(agreed, "Bern"))
    schema = Schema(name="x", least_group=1, group_by=("Spit\u00e4ler",), categories=(column,))
    assert column == Category(name="Spit\u00e4ler", values=("Z\u00fcrich", "Bern"))
    (group,) = schema.decode(schema.encode([{"Spit\u00e4ler": f" {text} "}]), 1).groups
    assert group.key == {"Spit\u00e4ler": "Z\u00fcrich"}


def test_two_values_that_differ_in_form_only_are_one_twice():
    with pytest.raises(ConfigError, match="an entry appears twice"):
        Category(name="town", values=("Z\u00fcrich", "Zu\u0308rich"))


def test_quantiles_are_interpolated_within_their_bin():
    column = Number(name="n", lower=0, upper=100, measures=("quantiles",), edges=(10, 20), quantiles=(0.1, 0.5))
    schema = Schema(name="x", least_group=1, numbers=(column,))
    low, middle = (
        schema.decode(schema.encode({"n": n} for n in [1, 12, 14, 16, 18]), 1).groups[0].numbers["n"].quantiles
    )
    assert (low.value, low.lower, low.upper) == (5, 0, 10)
    assert (middle.value, middle.lower, middle.upper) == (Decimal("13.75"), 10, 20)  # the second of four


# The schema


@given(schemas())
def test_lengths_and_dimensions(schema):
    assert schema.dimension == len(schema.cells) * sum(one.width for one in schema.quantities)
    assert schema.length >= schema.dimension
    assert schema.length == schema.encode([]).size
    assert Fields(64, MAX_SITES).most + 1 == 2**43


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"name": ""}, "the name of a schema must have 1 to 100 characters"),
        ({"name": " beds"}, "no space around it"),
        ({"name": "be\u202eds"}, "cannot be printed"),
        ({"name": 3}, "must have 1 to 100 characters"),
        ({"max_records": 0}, r"max_records must lie in 1\.\.4294967296, not 0"),
        ({"max_records": 2**32 + 1}, "max_records must lie in"),
        ({"max_records": 2.0}, "max_records must be a whole number"),
        ({"least_group": 0}, r"least_group must lie in 1\.\.1000000, not 0"),
        ({"least_group": 2, "max_records": 1}, r"least_group must lie in 1\.\.1, not 2"),
        ({"privacy_unit": "site"}, "privacy_unit must be none or record"),
        ({"privacy_unit": "record", "least_group": 5}, "privacy_unit = record needs least_group = 1"),
        ({"privacy_unit": "record", "max_records": 2**30 + 1}, r"max_records must lie in 1\.\.1073741824"),
        ({"group_by": ("age",)}, "group_by names 'age', which is not a category"),
        ({"group_by": ("ward", "ward")}, "group_by: an entry appears twice"),
        ({"numbers": (AGE, AGE)}, "columns: an entry appears twice"),
        ({"categories": (WARD, Category(name="age", values=("old",)))}, "columns: an entry appears twice"),
        ({"missing": ("surgery",)}, "column 'ward': a value also stands for a missing one"),
        ({"missing": ("",)}, "what stands for a missing value must have 1 to 100 characters"),
        ({"missing": ("NA", "NA")}, "missing: an entry appears twice"),
    ],
)
def test_a_schema_that_cannot_be_is_refused(fields, match):
    with pytest.raises(ConfigError, match=match):
        with_(**fields)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"name": "a\nb"}, "cannot be printed"),
        ({"lower": 120}, "lower, edges and upper must ascend"),
        ({"edges": (65, 18)}, "must ascend"),
        ({"edges": (0, 18)}, "must ascend"),
        ({"edges": (18, 120)}, "must ascend"),
        ({"edges": (18.5,)}, "18.5 is not a number below 2.53 steps with 0 places"),
        ({"upper": float("inf")}, "inf is not a number below"),
        ({"upper": float("nan")}, "nan is not a number below"),
        ({"upper": 2.0**53 + 2}, "is not a number below"),
        ({"upper": "120"}, "upper must be a number, or numbers, not '120'"),
        ({"upper": True}, "upper must be a number"),
        ({"upper": 10**400}, "upper must be a number"),
        ({"edges": ("a",)}, "edges must be a number, or numbers"),
        ({"places": -1}, r"places must lie in 0\.\.9, not -1"),
        ({"places": 10}, r"places must lie in 0\.\.9, not 10"),
        ({"places": 0.5}, "places must be a whole number"),
        ({"measures": ()}, "measures are some of count, sum"),
        ({"measures": ("median",)}, "measures are some of count, sum"),
        ({"measures": ("mean", "mean", "histogram")}, "measures of 'age': an entry appears twice"),
        ({"measures": ("mean",)}, "edges of bins, and edges need one of the two"),
        ({"edges": ()}, "edges of bins, and edges need one of the two"),
        ({"edges": tuple(n / 10 for n in range(1, 1100)), "places": 1}, "at most 1000 are allowed, not 1099"),
        ({"quantiles": (0.5, 0.25)}, "quantiles must ascend between 0 and 1"),
        ({"quantiles": (0.0,)}, "quantiles must ascend between 0 and 1"),
        ({"quantiles": (1.0,)}, "quantiles must ascend between 0 and 1"),
        ({"quantiles": (math.nan, 0.5)}, "quantiles must ascend between 0 and 1"),
        ({"measures": ("quantiles",), "quantiles": ()}, "quantiles are missing"),
    ],
)
def test_a_number_column_that_cannot_be_is_refused(fields, match):
    with pytest.raises(ConfigError, match=match):
        msgspec.structs.replace(AGE, **fields)


@pytest.mark.parametrize(
    ("values", "match"),
    [
        ((), "column 'ward' has no values"),
        (("a", "a"), "values of 'ward': an entry appears twice"),
        (("other",), "other is always counted"),
        (("missing",), "missing is always counted"),
        ((" a",), "no space around it"),
        ((3,), "must have 1 to 100 characters"),
    ],
)
def test_a_category_that_cannot_be_is_refused(values, match):
    with pytest.raises(ConfigError, match=match):
        Category(name="ward", values=values)


def test_groups_and_words_are_bounded():
    many = [Category(name=name, values=tuple(f"{n}" for n in range(100))) for name in "xyz"]
    two = Schema(name="x", categories=many[:1], group_by=("x",))
    assert len(two.cells) == 102
    with pytest.raises(ConfigError, match="more than 10000 groups"):
        Schema(name="x", categories=many, group_by=("x", "y"))
    more = [Category(name=f"w{n}", values=tuple(f"{n}" for n in range(1000))) for n in range(11)]
    with pytest.raises(ConfigError, match="words, but at most 1048576 are allowed"):
        Schema(name="x", categories=[many[0], *more], group_by=("x",))
    four = [Category(name=name, values=("a",)) for name in "wxyz"]
    with pytest.raises(ConfigError, match="group_by: at most 3 are allowed, not 4"):
        Schema(name="x", categories=four, group_by=tuple("wxyz"))


TEXT = """
name = "beds"
group_by = ["ward"]

[[numbers]]
name = "age"
lower = 0
upper = 120

[[categories]]
name = "ward"
values = ["surgery", "medicine"]
"""


def test_a_schema_has_a_file(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text("\ufeff" + TEXT, encoding="utf-8")
    found = Schema.load(path)
    assert found.numbers == (Number(name="age", lower=0.0, upper=120.0),)
    assert (found.least_group, found.max_records, found.privacy_unit) == (5, 1_000_000, "none")
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"schema\.toml: "):
        Schema.load(path)
    path.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(ConfigError, match=r"schema\.toml: expected at most 1048576 bytes"):
        Schema.load(path)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("name =", "name", "this is not a schema"),
        ('"beds"', '"beds"\nmore = 1', "unknown field `more`"),
        ("lower = 0\n", "", "missing required field `lower`"),
        ("lower = 0", 'lower = "0"', "Expected `float`"),
        ("upper = 120", "upper = -1", "must ascend"),
        ('["ward"]', '["age"]', "not a category"),
        ("upper = 120", 'upper = 120\nmeasures = ["median"]', "Invalid enum value 'median'"),
        (
            "upper = 120",
            'upper = 120\nmeasures = ["median"]',
            r"one of count, sum, mean, variance, histogram, quantiles\)",
        ),
    ],
)
def test_a_text_that_is_no_schema_says_why(old, new, match):
    with pytest.raises(ConfigError, match=match):
        Schema.parse(TEXT.replace(old, new, 1))


def test_numbers_have_one_form():
    assert msgspec.structs.replace(AGE, lower=0, edges=[18, 65.0]) == msgspec.structs.replace(
        AGE, lower=-0.0, edges=(18.0, np.int64(65))
    )
