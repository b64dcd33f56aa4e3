"""Count a site's own records in one pass, in whole numbers, and leave out what few records have.

``previewed`` says what a site's table will come to. It is for the site itself and never leaves it.
"""

import math
import numbers
import unicodedata
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any
from unicodedata import normalize

from ccesa.errors import VectorError, quoted
from ccesa.statistics.schema import MISSING, OTHER, Category, Number, Quantity, Schema

#: By ``Quantity.key``, its numbers in all groups: those of the first group, then those of the next one.
Sums = dict[tuple[str, str], list[int]]


@dataclass(frozen=True)
class Tally:
    """What a site has counted, small groups left out. Only its sum with those of others is for them.

    Attributes:
        schema: What was agreed on.
        sums: The numbers of each quantity, by its key: those of the first group, then of the next one.
        records: How many records the site has, small groups included; for the site itself.
        left_out: How many of them are in groups that were left out; for the site itself.
    """

    schema: Schema
    sums: Sums
    records: int
    left_out: int


def tallied(schema: Schema, rows: Iterable[Mapping[str, Any]]) -> Tally:
    """Count a site's records.

    Args:
        schema: What was agreed on.
        rows: A mapping per record, from the names of columns to values.

    Raises:
        VectorError: Too many records, or a value that is none; the text says where, and never the value.
    """
    sums, count = counted(schema, rows)
    return Tally(schema, sums, count, _leave_out(schema, sums))


def counted(schema: Schema, rows: Iterable[Mapping[str, Any]]) -> tuple[Sums, int]:
    """Count a site's records, without leaving anything out: for nobody but the site. Also return how many."""
    sums: Sums = {one.key: [0] * (one.width * len(schema.cells)) for one in schema.quantities}
    count = 0
    for count, row in enumerate(rows, 1):
        if count > schema.max_records:
            raise VectorError(f"more than max_records = {schema.max_records} records")
        try:
            _add(schema, sums, row)
        except VectorError as error:
            raise VectorError(f"record {count}, {error}") from None
    return sums, count


def _add(schema: Schema, sums: Sums, row: Mapping[str, Any]) -> None:
    """Add what one record adds."""
    cell = 0
    for category in schema.grouped:
        cell = cell * len(category.labels) + category.places[label(schema, category, row)]
    added = {("", "records"): (0, 1)}
    for column in schema.numbers:
        value = read_number(_value(row, column.name), schema.missing, column.name)
        if value is not None:
            added |= {(column.name, what): one for what, one in _of(column, value).items()}
    for category in schema.counted:
        added[category.name, "values"] = category.places[label(schema, category, row)], 1
    for quantity in schema.quantities:
        if found := added.get(quantity.key):
            place, amount = found
            sums[quantity.key][cell * quantity.width + place] += amount


def _of(column: Number, value: Decimal) -> dict[str, tuple[int, int]]:
    """Return where among the numbers of each quantity, and how much, a value adds."""
    steps = column.steps(value)
    lower, upper = column.bounds
    return {
        "present": (0, 1),
        "clipped": (0, int(not lower <= value <= upper)),
        "sum": (0, steps),
        "square": (0, steps**2),
        "bins": (min(bisect(column.ends, steps), len(column.ends) - 1) - 1, 1),
    }


def _leave_out(schema: Schema, sums: Sums) -> int:
    """Set the numbers of small groups to zero, and in others those of columns with few values.

    Return how many records were in small groups.
    """
    records, left_out = list(sums["", "records"]), 0
    for cell in small_cells(schema, records):
        left_out += records[cell]
        _clear(sums, cell, schema.quantities)
    for column in schema.numbers:
        about = [one for one in schema.quantities if one.column == column.name]
        for cell in small_cells(schema, sums[column.name, "present"]):
            _clear(sums, cell, about)
    return left_out


def small_cells(schema: Schema, counts: Sequence[int]) -> list[int]:
    """Return the groups that are too small to leave a site, by the count of each."""
    return [cell for cell, count in enumerate(counts) if 0 < count < schema.least_group]


def _clear(sums: Sums, cell: int, quantities: Iterable[Quantity]) -> None:
    for one in quantities:
        sums[one.key][cell * one.width : (cell + 1) * one.width] = [0] * one.width


def read_number(value: Any, missing: Iterable[str], name: str) -> Decimal | None:
    """Return a number exactly, or None where there is none.

    Args:
        value: A text, one of Python's or numpy's numbers, or None.
        missing: What stands for a missing value.
        name: Of the column, for errors.

    Raises:
        VectorError: It is not a finite number.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        value = trimmed(value)
        if not value or value in missing:
            return None
        # Decimal would take underscores and digits of other scripts, which other programs read differently.
        if "_" in value or not value.isascii():
            raise VectorError(f"column {quoted(name)}: not a number; write it as in 36.6")
    elif isinstance(value, numbers.Integral) and not isinstance(value, bool):
        value = int(value)
    elif isinstance(value, numbers.Real) and not isinstance(value, bool):
        value = repr(float(value))
    elif not isinstance(value, Decimal):
        raise VectorError(f"column {quoted(name)}: not a number")
    try:
        found = Decimal(value)
    except InvalidOperation:
        raise VectorError(f"column {quoted(name)}: not a number; write it as in 36.6") from None
    if not found.is_finite():
        raise VectorError(f"column {quoted(name)}: not a finite number")
    return found


def trimmed(text: str) -> str:
    """Return what counts of a text: without the spaces around it, in Normalization Form C as in a schema."""
    return normalize("NFC", text.strip())


def label(schema: Schema, category: Category, row: Mapping[str, Any]) -> str:
    """Return as what a record is counted in a category."""
    value = _value(row, category.name)
    text = "" if value is None or (isinstance(value, float) and math.isnan(value)) else trimmed(str(value))
    if not text or text in schema.missing:
        return MISSING
    return text if text in category.values else OTHER


def _value(row: Mapping[str, Any], name: str) -> Any:
    try:
        return row[name]
    except (KeyError, TypeError, IndexError):
        raise VectorError(f"column {quoted(name)} is missing") from None


#: What a number is where it is not missing.
_CLIPPED, _WITHIN = "clipped", "within"


# What will come of a table


@dataclass(frozen=True, kw_only=True)
class ColumnPreview:
    """What becomes of a column.

    Attributes:
        name: Of the column.
        values: How many records have a value of it.
        missing: How many have none.
        clipped: How many values are beyond the bounds; None for words.
        other: How many are none of the agreed values; None for numbers.
        alike: Of those, how many look like an agreed one, by that one: they differ from it in upper and lower
            case, in accents, or in what is no letter and no digit.
    """

    name: str
    values: int
    missing: int
    clipped: int | None = None
    other: int | None = None
    alike: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """What does not leave the site, because there are too few of it.

    Attributes:
        group: The labels of the group, by column.
        column: The column of numbers that is left out of it; None where all of the group is.
        count: How many records, or values of the column, there are.
    """

    group: dict[str, str]
    column: str | None
    count: int


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What becomes of a table.

    Attributes:
        records: How many it has.
        columns: In the order of the schema, numbers first.
        left_out: In the order of the groups.
    """

    records: int
    columns: tuple[ColumnPreview, ...]
    left_out: tuple[LeftOut, ...]


def previewed(schema: Schema, rows: Iterable[Mapping[str, Any]]) -> Preview:
    """Count a site's records, and say what of them does not count.

    Args:
        schema: What was agreed on.
        rows: A mapping per record, from the names of columns to values.

    Raises:
        VectorError: As for ``Schema.encode``.
    """
    found = {name: Counter[str]() for name in schema.columns}
    alike = {one.name: Counter[str]() for one in schema.categories}
    sums, records = counted(schema, _watched(schema, rows, found, alike))
    columns = [
        ColumnPreview(
            name=one.name,
            values=records - found[one.name][MISSING],
            missing=found[one.name][MISSING],
            clipped=found[one.name][_CLIPPED],
        )
        for one in schema.numbers
    ]
    columns += [
        ColumnPreview(
            name=one.name,
            values=records - found[one.name][MISSING],
            missing=found[one.name][MISSING],
            other=found[one.name][OTHER],
            alike=dict(alike[one.name]),
        )
        for one in schema.categories
    ]
    return Preview(records=records, columns=tuple(columns), left_out=tuple(_left_out(schema, sums)))


def _watched(
    schema: Schema,
    rows: Iterable[Mapping[str, Any]],
    found: Mapping[str, Counter[str]],
    alike: Mapping[str, Counter[str]],
) -> Iterator[Mapping[str, Any]]:
    """Yield the records, and count on the way what they have in each column."""
    agreed = {one.name: {_bare(value): value for value in (*schema.missing, *one.values)} for one in schema.categories}
    for row in rows:
        yield row  # what cannot be counted is refused there
        for column in schema.numbers:
            found[column.name][_kind(schema, column, row)] += 1
        for category in schema.categories:
            kind = label(schema, category, row)
            found[category.name][kind] += 1
            if kind == OTHER:
                meant = agreed[category.name].get(_bare(trimmed(str(row[category.name]))))
                alike[category.name].update([] if meant is None else [meant])


def _kind(schema: Schema, column: Number, row: Mapping[str, Any]) -> str:
    value = read_number(row[column.name], schema.missing, column.name)
    if value is None:
        return MISSING
    lower, upper = column.bounds
    return _WITHIN if lower <= value <= upper else _CLIPPED


def _bare(text: str) -> str:
    """Return letters and digits alone, without case and accents; all of the text where there are none."""
    apart = unicodedata.normalize("NFKD", text).casefold()
    return "".join(one for one in apart if one.isalnum()) or text


def _left_out(schema: Schema, sums: Sums) -> Iterator[LeftOut]:
    records = sums["", "records"]
    small = set(small_cells(schema, records))
    rare = {one.name: set(small_cells(schema, sums[one.name, "present"])) for one in schema.numbers}
    for cell, labels in enumerate(schema.cells):
        group = dict(zip(schema.group_by, labels, strict=True))
        if cell in small:
            yield LeftOut(group=group, column=None, count=records[cell])
            continue
        for name, cells in rare.items():
            if cell in cells:
                yield LeftOut(group=group, column=name, count=sums[name, "present"][cell])
