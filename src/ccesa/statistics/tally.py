"""Read a site's own records, count them in one pass, in whole numbers, and leave small groups out.

Errors name file, line and column. They never show a value. ``preview`` says what becomes of a site's table. It is for
the site itself and never leaves it.
"""

import csv
import math
import numbers
import unicodedata
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, BinaryIO
from unicodedata import normalize

from ccesa.errors import VectorError, quoted
from ccesa.statistics.schema import MISSING, OTHER, Category, Number, Schema

#: A record: its values by the names of columns.
Row = Mapping[str, Any]
#: The numbers of each quantity by its key: those of the first group, then those of the next one.
Sums = dict[tuple[str, str], list[int]]


@dataclass(frozen=True)
class Tally:
    """The sums of a site, without small groups. Other sites only learn sums over several sites."""

    schema: Schema
    sums: Sums
    #: How many records the site has, and how many of them are in groups that were left out; for the site itself.
    records: int
    left_out: int


def count_table(schema: Schema, rows: Iterable[Row]) -> Tally:
    """Count a site's records; raise VectorError for too many, or for an invalid value, which no text contains."""
    sums, count = _count(schema, rows)
    return Tally(schema, sums, count, _leave_out(schema, sums))


def _count(schema: Schema, rows: Iterable[Row]) -> tuple[Sums, int]:
    """Return the sums of all records, including small groups, and the number of records."""
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


def _add(schema: Schema, sums: Sums, row: Row) -> None:
    """Add one record."""
    cell = 0
    for category in schema.grouped:
        cell = cell * len(category.labels) + category.places[label(schema, category, row)]
    added = {("", "records"): (0, 1)}  # the place and the amount for each quantity
    for column in schema.numbers:
        value = read_number(_value(row, column.name), schema.missing, column.name)
        if value is not None:
            name, steps = column.name, column.steps(value)
            added |= {
                (name, "present"): (0, 1),
                (name, "clipped"): (0, int(not _is_within(column, value))),
                (name, "sum"): (0, steps),
                (name, "square"): (0, steps**2),
                (name, "bins"): (min(bisect(column.ends, steps), len(column.ends) - 1) - 1, 1),
            }
    for category in schema.counted:
        added[category.name, "values"] = category.places[label(schema, category, row)], 1
    for quantity in schema.quantities:
        if found := added.get(quantity.key):
            place, amount = found
            sums[quantity.key][cell * quantity.width + place] += amount


def _is_within(column: Number, value: Decimal) -> bool:
    lower, upper = column.bounds
    return lower <= value <= upper


def _leave_out(schema: Schema, sums: Sums) -> int:
    """Set small groups, and columns with few values in others, to zero. Return the records in small groups."""
    left_out = 0
    for cell, column, count in list(small_parts(schema, sums)):
        left_out += count if column is None else 0
        for one in schema.quantities:
            if column in (None, one.column):
                sums[one.key][cell * one.width : (cell + 1) * one.width] = [0] * one.width
    return left_out


def small_parts(schema: Schema, sums: Sums) -> Iterator[tuple[int, str | None, int]]:
    """Yield the place and count of each group that is too small to leave a site, or of one column in another group."""
    for cell, records in enumerate(sums["", "records"]):
        if 0 < records < schema.least_group:
            yield cell, None, records
            continue
        for column in schema.numbers:
            if 0 < (present := sums[column.name, "present"][cell]) < schema.least_group:
                yield cell, column.name, present


def read_number(value: Any, missing: Iterable[str], name: str) -> Decimal | None:
    """Return a number exactly, from a text or a number of Python or numpy; None if it is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        value = trim(value)
        if not value or value in missing:
            return None
        # Decimal accepts underscores and digits of other scripts, which other programs read differently.
        if "_" in value or not value.isascii():
            raise VectorError(f"column {quoted(name)}: not a number; write it as in 36.6")
    elif isinstance(value, numbers.Integral) and not isinstance(value, bool):
        value = int(value)
    elif isinstance(value, numbers.Real) and not isinstance(value, bool):
        value = repr(float(value))
    elif not isinstance(value, Decimal):
        raise VectorError(f"column {quoted(name)}: not a number")
    try:
        number = Decimal(value)
    except InvalidOperation:
        raise VectorError(f"column {quoted(name)}: not a number; write it as in 36.6") from None
    if not number.is_finite():
        raise VectorError(f"column {quoted(name)}: not a finite number")
    return number


def trim(text: str) -> str:
    """Return a text without the spaces around it, in Normalization Form C as in a schema."""
    return normalize("NFC", text.strip())


def label(schema: Schema, category: Category, row: Row) -> str:
    """Return the label as which a record is counted in a category."""
    value = _value(row, category.name)
    text = "" if value is None or (isinstance(value, float) and math.isnan(value)) else trim(str(value))
    if not text or text in schema.missing:
        return MISSING
    return text if text in category.values else OTHER


def _value(row: Row, name: str) -> Any:
    try:
        return row[name]
    except (KeyError, TypeError, IndexError):
        raise VectorError(f"column {quoted(name)} is missing") from None


# Tables in files


#: Characters between two fields.
SEPARATORS = ",;\t|"


def read_csv(path: Path | str, schema: Schema) -> Iterator[dict[str, Any]]:
    """Yield a mapping per record, with the columns of the schema.

    The first line names the columns, in any order. Columns that are not in the schema are not read. Fields are
    separated by commas, semicolons, tabs or bars: by the character that gives the columns of the schema.

    Args:
        path: A file in UTF-8, with a byte order mark or without.
        schema: The schema.

    Yields:
        Numbers as Decimal, words as text, and None for missing numbers.

    Raises:
        VectorError: A column is missing, or a line cannot be read. No text contains a value.
        OSError: The system cannot read the file.
    """
    with _open(path) as lines:
        separator, header = _header(next(lines, ""), schema)
        numbers = {one.name: header.index(one.name) for one in schema.numbers}
        words = {one.name: header.index(one.name) for one in schema.categories}
        for fields in csv.reader(lines, delimiter=separator, strict=True):
            if not fields:
                continue
            if len(fields) != len(header):
                raise VectorError(f"expected {len(header)} fields, got {len(fields)}")
            yield {name: read_number(fields[at], schema.missing, name) for name, at in numbers.items()} | {
                name: fields[at] for name, at in words.items()
            }


def check_columns(path: Path | str, schema: Schema) -> None:
    """Refuse a file without the columns of a schema. It reads no record, so the result depends on none."""
    with _open(path) as lines:
        _header(next(lines, ""), schema)


@contextmanager
def _open(path: Path | str) -> Iterator["_Lines"]:
    """Open a file and add the line to errors in it."""
    with Path(path).open("rb") as file:
        lines = _Lines(file)
        try:
            yield lines
        except csv.Error:
            raise VectorError(f"{path}, line {lines.number}: not CSV; perhaps a quote has no end") from None
        except UnicodeDecodeError:
            raise VectorError(f"{path}, line {lines.number}: not UTF-8") from None
        except VectorError as error:
            place = f"{path}, line {lines.number}," if lines.number else f"{path}:"
            raise VectorError(f"{place} {error}") from None


class _Lines(Iterator[str]):
    """The lines of a file, decoded one by one, so that each error has its number."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.number = 0

    def __next__(self) -> str:
        data = self._file.readline()
        if not data:
            raise StopIteration
        self.number += 1
        return data.decode().removeprefix("\ufeff" if self.number == 1 else "")


def _header(line: str, schema: Schema) -> tuple[str, list[str]]:
    """Return the separator that gives the most columns of the schema, and the names of the columns."""
    if not line:
        raise VectorError("the file is empty; its first line must name the columns")
    found = {one: [trim(name) for name in _split(line, one)] for one in SEPARATORS}
    separator = max(SEPARATORS, key=lambda one: len(set(schema.columns) & set(found[one])))
    header = found[separator]
    for name in schema.columns:
        if (times := header.count(name)) != 1:
            what = f"appears {times} times" if times else "is missing"
            raise VectorError(f"column {quoted(name)} {what}")
    return separator, header


def _split(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator, strict=True), [])
    except csv.Error:
        return []


# The preview of a table


@dataclass(frozen=True, kw_only=True)
class ColumnPreview:
    """The preview of a column."""

    name: str
    #: How many records have a value of it, and how many do not.
    values: int
    missing: int
    #: Numbers beyond the bounds; None for words.
    clipped: int | None = None
    #: Words that are not agreed values; None for numbers.
    other: int | None = None
    #: How many of them look like an agreed value, except for case, accents, and other than letters and digits.
    alike: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A group that does not leave the site because it is too small, or one ``column`` of numbers in it."""

    group: dict[str, str]
    column: str | None
    count: int


@dataclass(frozen=True, kw_only=True)
class Preview:
    """The preview of a table. Columns are in the order of the schema, numbers first."""

    records: int
    columns: tuple[ColumnPreview, ...]
    left_out: tuple[LeftOut, ...]


def preview(schema: Schema, rows: Iterable[Row]) -> Preview:
    """Count a site's records, and return what is missing, clipped, unknown or left out; raise as ``count_table``."""
    found = {name: Counter[str]() for name in schema.columns}
    alike = {one.name: Counter[str]() for one in schema.categories}
    sums, records = _count(schema, _watch(schema, rows, found, alike))

    def previewed(name: str, **others: Any) -> ColumnPreview:
        missing = found[name][MISSING]
        return ColumnPreview(name=name, values=records - missing, missing=missing, **others)

    numbers = [previewed(one.name, clipped=found[one.name][_CLIPPED]) for one in schema.numbers]
    words = [previewed(name, other=found[name][OTHER], alike=dict(those)) for name, those in alike.items()]
    left_out = (
        LeftOut(group=dict(zip(schema.group_by, schema.cells[cell], strict=True)), column=column, count=count)
        for cell, column, count in small_parts(schema, sums)
    )
    return Preview(records=records, columns=(*numbers, *words), left_out=tuple(left_out))


#: The label of a number beyond the bounds.
_CLIPPED = "clipped"


def _watch(
    schema: Schema, rows: Iterable[Row], found: Mapping[str, Counter[str]], alike: Mapping[str, Counter[str]]
) -> Iterator[Row]:
    """Yield the records, and count their labels in each column."""
    agreed = {one.name: {_bare(value): value for value in (*schema.missing, *one.values)} for one in schema.categories}
    for row in rows:
        yield row  # the caller refuses invalid values
        for column in schema.numbers:
            value = read_number(row[column.name], schema.missing, column.name)
            found[column.name][MISSING] += value is None
            found[column.name][_CLIPPED] += value is not None and not _is_within(column, value)
        for category in schema.categories:
            kind = label(schema, category, row)
            found[category.name][kind] += 1
            if kind == OTHER:
                meant = agreed[category.name].get(_bare(trim(str(row[category.name]))))
                alike[category.name].update([] if meant is None else [meant])


def _bare(text: str) -> str:
    """Return the letters and digits of a text, without case and accents, or all of a text without any."""
    apart = unicodedata.normalize("NFKD", text).casefold()
    return "".join(one for one in apart if one.isalnum()) or text
