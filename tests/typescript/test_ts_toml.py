"""Mutated charters are read alike, or refused alike, by Python's reader of TOML 1.0 and the package's."""

import datetime
import json
import struct
from random import Random
from typing import Any

import pytest

from ccesa.agreement.charter import toml
from runners import PACKAGE, Runner

CHARTERS = json.loads((PACKAGE.parents[1] / "vectors" / "charters.json").read_text())["charters"]
#: Further lines, with every kind of value that a charter does not have.
KINDS = (
    """\
a = [1, 2.5, -0.0, +inf, nan, 0x1F, 0o17, 0b1, 1_000, 1e308, 9223372036854775807, -9_223_372_036_854_775_808]
n = "00:00:00.1234567890" # 00:00:00.1234567890
b.c = {d = "x\\u00e4\\n", e.f = 'y', g = []}
h = [1979-05-27T07:32:00Z, 1979-05-27 07:32:00.999888777-07:30, 1979-05-27T07:32:00, 1979-05-27, 07:32:00]
i = """
    + '"""\none\\\n   two"""'
    + """
[[j]]
k = true
[[j]]
[j.l]
"m" = false
"""
)
PIECES = [
    *"[]{}=.,#'\"\\\n\t -+_:eETZx0123456789ab",
    "\r\n",
    '"""',
    "'''",
    "[[",
    "]]",
    "inf",
    "nan",
    "true",
    "\x7f",
    "\u00e4",
]
#: Texts at a time, and times in the default tests and in the long one.
EACH, MANY = 400, 600


def mutated(random: Random) -> str:
    lines = (random.choice(CHARTERS)["text"] + "\n" + KINDS).split("\n") if random.random() < 0.3 else KINDS.split("\n")
    for _ in range(random.randrange(3)):
        place = random.randrange(len(lines))
        lines[place : place + random.randrange(2)] = [random.choice(lines)]
    text = "\n".join(lines)
    for _ in range(random.randrange(4)):
        place = random.randrange(len(text))
        text = text[:place] + random.choice(PIECES) + text[place + random.randrange(3) :]
    return text


def read(text: str) -> Any:
    try:
        return form(toml.tables(text))
    except ValueError:
        return None


def form(value: Any) -> Any:
    """Return a value as clients/typescript/test/runner.ts does."""
    match value:
        case dict():
            return ["table", {key: form(each) for key, each in value.items()}]
        case list():
            return ["array", [form(each) for each in value]]
        case bool():
            return ["boolean", value]
        case int():
            return ["bigint", str(value)]
        case float():
            return ["number", struct.pack("<d", value).hex()] if value == value else ["number", "nan"]
        case str():
            return ["string", value]
    return timed(value)


def timed(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        kind = "local date-time" if value.tzinfo is None else "offset date-time"
        known = value.replace(microsecond=0, tzinfo=value.tzinfo or datetime.UTC)
        return [kind, int(known.timestamp())]
    if isinstance(value, datetime.date):
        midnight = datetime.datetime(value.year, value.month, value.day, tzinfo=datetime.UTC)
        return ["date", int(midnight.timestamp())]
    return ["time", value.hour * 3600 + value.minute * 60 + value.second]


def theirs(found: Any) -> Any:
    """Return what came as JSON in the form of this page: tables as such, and one NaN."""
    match found:
        case ["table", entries]:
            return ["table", {key: theirs(each) for key, each in entries}]
        case ["array", values]:
            return ["array", [theirs(each) for each in values]]
        case ["number", bits] if (number := struct.unpack("<d", bytes.fromhex(bits))[0]) != number:
            return ["number", "nan"]
    return found


def compared(seed: int, runner: Runner) -> int:
    """Compare so many texts; return how many were read."""
    random = Random(seed)
    texts = [mutated(random) for _ in range(EACH)]
    count = 0
    for text, found in zip(texts, runner.call("toml", texts=texts), strict=True):
        expected = read(text)
        assert theirs(found) == expected, text
        count += expected is not None
    return count


def test_mutated_charters_are_read_alike(runner: Runner):
    assert 20 < compared(0, runner) < EACH - 20


@pytest.mark.typescript
@pytest.mark.parametrize("seed", range(1, MANY))
def test_a_quarter_of_a_million_charters(seed: int, node: Runner):
    assert compared(seed, node) > 0
