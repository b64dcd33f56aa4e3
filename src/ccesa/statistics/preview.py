"""What a site's table will come to under a schema, for the site itself: nothing of it is for anybody else."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ccesa.statistics.columns import MISSING, OTHER, Number
from ccesa.statistics.schema import Schema
from ccesa.statistics.tally import Sums, counted, label, read_number, small_cells, trimmed

#: What a number is where it is not missing.
_CLIPPED, _WITHIN = "clipped", "within"


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
    agreed = {
        one.name: {_bare(value): value for value in (*schema.missing, *one.values)}
        for one in schema.categories
    }
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
