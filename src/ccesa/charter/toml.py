"""The text of a charter's file: TOML, of which the standard library has only the reader."""

import json
import tomllib
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from typing import Any

from ccesa.errors import ConfigError, shown

_HEAD = """\
# The charter of a federation: every site holds a copy, and all have the same digest.
# The digest is over what is said here, not over this text: ccesa charter show FILE
"""


def parse(text: str) -> dict[str, Any]:
    """Return the tables of the file, with ``expires`` in seconds since 1970."""
    try:
        found = tomllib.loads(text.removeprefix("\ufeff"))  # as some editors begin a file
    except (ValueError, RecursionError) as error:  # also numbers and nesting that Python does not read
        raise ConfigError(f"this is not a charter, it is not TOML: {shown(str(error), 200)}") from None
    if "expires" in found:
        found["expires"] = seconds(found["expires"])
    return found


def written(tables: dict[str, Any]) -> str:
    """Return the text: values first, then a table for each part; what is None is left out."""
    given = {name: value for name, value in tables.items() if value is not None}
    given["expires"] = _moment(given["expires"])
    values = {name: value for name, value in given.items() if not isinstance(value, dict)}
    values["members"] = values.pop("members")  # the longest comes last
    lines = list(_table(values))
    for name, table in given.items():
        if isinstance(table, dict):
            lines += ["", f"[{name}]", *_table(table)]
    return _HEAD + "\n".join(lines) + "\n"


def _table(table: dict[str, Any]) -> Iterator[str]:
    for name, value in table.items():
        if value is not None:
            yield f"{name} = {_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, dict):
        return "{" + ", ".join(_table(value)) + "}"
    if isinstance(value, list | tuple) and value and isinstance(value[0], list | dict):
        return "[\n" + "".join(f"    {_value(one)},\n" for one in value) + "]"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)


def _moment(seconds: int) -> datetime | int:
    """Return the moment as a date, or as it is where a calendar has none."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return seconds


def seconds(moment: object) -> object:
    """Return the seconds since 1970; a date begins at midnight UTC, a time needs an offset."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ConfigError("expires needs an offset, as in 2027-01-31T12:00:00Z")
        return int(moment.timestamp())
    if isinstance(moment, date):
        return int(datetime.combine(moment, time(), UTC).timestamp())
    return moment
