"""A charter's file is TOML, for which the standard library has a reader and no writer."""

import json
import math
import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, time
from typing import Any

from ccesa.errors import ConfigError, shown

_HEAD = """\
# The charter of a federation: every site holds a copy, and all have the same digest.
# The digest is over what is said here, not over this text: ccesa charter show FILE
"""
#: Integers of 64 bits and a second's fraction of nine digits: the common limits of readers of TOML.
_LEAST, _MOST = -(2**63), 2**63 - 1
_LONG_FRACTION = re.compile(r":[0-9]{2}\.[0-9]{10}")
#: Strings and comments of TOML; nothing in them is a time.
_QUOTED = re.compile(r'''"""(?:\\.|[^\\])*?"""(?!")|'{3}.*?'{3}(?!')|"(?:\\.|[^"\\])*"|'[^']*'|#[^\n]*''', re.DOTALL)


def parse(text: str) -> dict[str, Any]:
    """Return the tables of the file, with ``expires`` in seconds since 1970."""
    try:
        every = tables(text.removeprefix("\ufeff"))  # some editors begin a file with it
    except (ValueError, RecursionError) as error:  # also nesting that Python does not read
        raise ConfigError(f"this is not a charter, because it is not TOML: {shown(str(error), 200)}") from None
    if "expires" in every:
        every["expires"] = seconds(every["expires"])
    return every


def tables(text: str) -> dict[str, Any]:
    """Return the tables of a text in TOML, if all readers of TOML read it the same.

    Raises ValueError for other texts, and numbers and times beyond common limits; RecursionError for deep nesting.
    """
    every = tomllib.loads(text, parse_float=_float)
    _check_integers(every)
    if _LONG_FRACTION.search(_QUOTED.sub("", text)):
        raise ValueError("the fraction of a second must have at most nine digits")
    return every


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number) and not text.endswith("inf"):
        raise ValueError(f"{shown(text, 20)} is too large for a float")
    return number


def _check_integers(value: object) -> None:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            _check_integers(each)
    elif isinstance(value, int) and not _LEAST <= value <= _MOST:
        raise ValueError("an integer must have at most 64 bits, including its sign")


def write(tables: dict[str, Any]) -> str:
    """Return the text: values first, then a table for each part, without values of None."""
    given = {name: value for name, value in tables.items() if value is not None}
    with suppress(OverflowError, ValueError, OSError):  # it may be beyond the calendar
        given["expires"] = datetime.fromtimestamp(given["expires"], UTC)
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


def seconds(moment: object) -> object:
    """Return the seconds since 1970; a date begins at midnight UTC, a time needs an offset."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ConfigError("expires needs an offset, as in 2027-01-31T12:00:00Z")
        return int(moment.timestamp())
    if isinstance(moment, date):
        return int(datetime.combine(moment, time(), UTC).timestamp())
    return moment
