"""Schemas and tables for tests of statistics, and the same statistics computed the plain way."""

import math
import statistics
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from hypothesis import strategies as st

from ccesa.statistics import Category, Measured, Number, Report, Schema

MEASURES = ("count", "sum", "mean", "variance", "histogram", "quantiles")
WORDS = ("a", "b", "c d", "é", "1")


@st.composite
def numbers(draw: st.DrawFn, name: str) -> Number:
    places = draw(st.integers(0, 3))
    steps = sorted(draw(st.sets(st.integers(-3000, 3000), min_size=2, max_size=6)))
    lower, *edges, upper = (step / 10**places for step in steps)
    measures = draw(st.sets(st.sampled_from(MEASURES if edges else MEASURES[:4]), min_size=1))
    if not measures & {"histogram", "quantiles"}:
        edges = []
    return Number(
        name=name,
        lower=lower,
        upper=upper,
        places=places,
        measures=tuple(sorted(measures)),
        edges=tuple(edges),
        quantiles=tuple(sorted(draw(st.sets(st.sampled_from([0.01, 0.1, 0.25, 0.5, 0.9]), min_size=1)))),
    )


@st.composite
def schemas(draw: st.DrawFn, unit: str = "none") -> Schema:
    values = st.sets(st.sampled_from(WORDS), min_size=1).map(lambda some: tuple(sorted(some)))
    categories = tuple(
        Category(name=f"category {place}", values=draw(values)) for place in range(draw(st.integers(0, 3)))
    )
    grouped = draw(st.integers(0, min(2, len(categories))))
    return Schema(
        name="some tables",
        max_records=100,
        least_group=1 if unit == "record" else draw(st.integers(1, 4)),
        privacy_unit=unit,
        group_by=tuple(one.name for one in categories[::-1][:grouped]),
        missing=("NA",),
        numbers=tuple(draw(numbers(f"number {place}")) for place in range(draw(st.integers(0, 2)))),
        categories=categories,
    )


def rows_of(schema: Schema, most: int = 25) -> st.SearchStrategy[list[dict]]:
    """Tables of a site, with values of all kinds: missing, unknown, beyond the bounds, between two steps."""
    columns = {
        one.name: st.sampled_from([None, "", " NA "])
        | st.decimals(Decimal(-4000), Decimal(4000), places=one.places + 1)
        | st.decimals(Decimal(repr(one.lower)), Decimal(repr(one.upper)), places=one.places + 1).map(str)
        | st.floats(one.lower, one.upper)
        | st.sampled_from((*one.edges, one.lower, one.upper))
        for one in schema.numbers
    }
    words = st.sampled_from([*WORDS, None, "", "NA", "unknown"])
    columns |= {one.name: words for one in schema.categories}
    return st.lists(st.fixed_dictionaries(columns), max_size=most)


def is_missing(value: object) -> bool:
    return value is None or (isinstance(value, str) and value.strip() in ("", "NA"))


def label(category: Category, value: object) -> str:
    if is_missing(value):
        return "missing"
    return value if value in category.values else "other"


def plain_groups(schema: Schema, sites: list[list[dict]]) -> dict[tuple[str, ...], list[dict]]:
    """All records by group, without those of sites that have too few of them; too few values are blank."""
    found = defaultdict(list)
    for rows in sites:
        own = defaultdict(list)
        for row in rows:
            own[tuple(label(one, row[one.name]) for one in schema.grouped)].append(row)
        for key, group in own.items():
            if len(group) >= schema.least_group:
                found[key] += without_rare_values(schema, group)
    return found


def without_rare_values(schema: Schema, group: list[dict]) -> list[dict]:
    """The records of a group at one site; where a column has too few values, none of them is there."""
    rare = {
        one.name: None
        for one in schema.numbers
        if sum(not is_missing(row[one.name]) for row in group) < schema.least_group
    }
    return [row | rare for row in group]


def exact(value: object) -> Fraction:
    return Fraction(repr(value) if isinstance(value, float) else value)


def check_report(schema: Schema, report: Report, sites: list[list[dict]]) -> None:
    """A report says what Python's own statistics say of all records together."""
    groups = plain_groups(schema, sites)
    assert {tuple(one.key.values()) for one in report.groups} == groups.keys()
    for one in report.groups:
        rows = groups[tuple(one.key.values())]
        assert list(one.key) == list(schema.group_by)
        assert one.records == len(rows)
        for column in schema.numbers:
            check_column(column, one.numbers[column.name], [row[column.name] for row in rows])
        for category in schema.counted:
            labels = [label(category, row[category.name]) for row in rows]
            assert one.categories[category.name] == {name: labels.count(name) for name in category.labels}


def check_column(column: Number, found: Measured, cells: list[object]) -> None:
    raw = [exact(value) for value in cells if not is_missing(value)]
    lower, upper = exact(column.lower), exact(column.upper)
    values = [Fraction(round(min(max(value, lower), upper) * 10**column.places), 10**column.places) for value in raw]
    assert (found.count, found.missing) == (len(values), len(cells) - len(values))
    assert found.clipped == sum(not lower <= value <= upper for value in raw)
    asked = column.measures
    assert found.sum == (sum(values) if "sum" in asked else None)
    assert found.mean == (statistics.mean(values) if "mean" in asked and values else None)
    assert found.variance == (statistics.variance(values) if "variance" in asked and values[1:] else None)
    ends = [exact(end) for end in (column.lower, *column.edges, column.upper)]
    if "histogram" in asked:
        assert [(one.lower, one.upper) for one in found.histogram] == list(pairwise(ends))
        for one in found.histogram:
            inside = [one.lower <= value < one.upper or value == one.upper == upper for value in values]
            assert one.count == sum(inside)
    if "quantiles" in asked and values:
        assert [one.at for one in found.quantiles] == list(column.quantiles)
        for one in found.quantiles:
            true = sorted(values)[math.ceil(exact(one.at) * len(values)) - 1]
            assert one.lower <= true <= one.upper
            assert one.lower <= one.value <= one.upper
