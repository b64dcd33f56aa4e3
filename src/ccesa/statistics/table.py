"""``read_csv``: the records of a file. Errors name file, line and column, and never a value."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from ccesa.errors import VectorError, quoted
from ccesa.statistics.schema import Schema
from ccesa.statistics.tally import read_number, trim

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
            raise VectorError(f"{path}, line {lines.number}: not CSV, as with a quote and no end") from None
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
