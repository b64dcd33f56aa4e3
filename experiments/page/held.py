"""What a section must say, and how the page differs from it."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

from experiments.page.markdown import WORDS, formatted

ROOT = Path(__file__).parent.parent
#: Names with digits that are numbers nowhere.
NAMES = ("CIFAR-10", "cifar10", "VGG-11", "H200", "X25519", "bfloat16")
_RAISED = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"
_DIGITS = rf"\d(?:[\d.,·{_RAISED}]*[\d{_RAISED}])?"
_NUMBER = rf"[+−-]?{_DIGITS}"
_FIELD = rf"({_NUMBER}(?:\s%)?|[^\W\d_]+(?:-[^\W\d_]+)*)"
#: In the text around fields: n = 100, q_total = 0.1.
_CONDITION = re.compile(rf"=\s+{_NUMBER}")
_NAMED = re.compile(rf"(?<!\w)(?:{'|'.join(NAMES)})(?!\w)")
_LARGER = "thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred|thousand|million|billion|dozen|couple"
_PARTS = "half|halved?|third|quarter|fifth|sixth|seventh|eighth|ninth|tenth|twentieth|fortieth|hundredth"
_TIMES = "twice|doubled?|tripled?|zero|[a-z]+fold"
_WORDS = "|".join([*WORDS[2:], _LARGER, _PARTS, _TIMES])
#: Whatever must be covered: digits, and numbers in words.
_COUNTED = re.compile(rf"{_DIGITS}|[{_RAISED}½¼¾]+|\b(?:{_WORDS})s?\b", re.IGNORECASE)


class Results(dict[str, Any]):
    """The results of every part by its name, read when they are asked for."""

    def __missing__(self, name: str) -> Any:
        self[name] = json.loads((ROOT / name / "results.json").read_text(encoding="utf-8"))
        return self[name]


@dataclass(frozen=True)
class Said:
    """A piece of a sentence with fields, and the values that belong in them."""

    text: str
    values: Callable[[Results], Sequence[object]]

    def wanted(self, found: Results) -> "Wanted":
        parts = list(Formatter().parse(self.text))
        specs = [spec for _, name, spec, _ in parts if name is not None]
        values = self.values(found)
        if not specs or len(specs) != len(values):
            raise ValueError(f"{len(values)} values for {len(specs)} fields: {self.text}")
        pattern = "".join(_spaced(text) + (_FIELD if name is not None else "") for text, name, _, _ in parts)
        texts = [formatted(value, spec or "") for value, spec in zip(values, specs, strict=True)]
        return Wanted(self.text, re.compile(pattern), texts)


@dataclass(frozen=True)
class Wanted:
    """A pattern that must occur once, and what belongs in its groups; without groups all of it is covered."""

    name: str
    pattern: re.Pattern[str]
    texts: Sequence[str] = ()

    def covered(self, match: re.Match[str]) -> Iterator[tuple[int, int]]:
        if not self.texts:
            yield match.span()
        yield from (match.span(group) for group in range(1, len(self.texts) + 1))
        yield from (condition.span() for condition in _CONDITION.finditer(match.string, *match.span()))


@dataclass(frozen=True, kw_only=True)
class Section:
    """What the page says under a heading; the introduction has none."""

    title: str
    tables: Sequence[Callable[[Results], str]] = ()
    said: Sequence[Said] = ()
    fixed: Sequence[str] = ()

    def wanted(self, found: Results) -> list[Wanted]:
        tables = [_table(table(found)) for table in self.tables]
        said = [said.wanted(found) for said in self.said]
        return [*tables, *said, *(Wanted(text, re.compile(_spaced(text))) for text in self.fixed)]


@dataclass(frozen=True)
class Finding:
    """Something on the page that is not as it should be, and what belongs there, where that is known."""

    start: int
    end: int
    says: str
    right: str | None = None


def findings(text: str, wanted: Sequence[Wanted]) -> list[Finding]:
    """Return how a section's text differs from what is wanted, and the numbers that nothing covers."""
    found, covered = [], [match.span() for match in _NAMED.finditer(text)]
    for one in wanted:
        matches = list(one.pattern.finditer(text))
        if len(matches) != 1:
            found.append(Finding(0, 0, f"{len(matches)} times instead of once: {one.name}"))
        for match in matches:
            covered += one.covered(match)
            found += _differences(match, one.texts)
    return found + _uncovered(text, covered)


def _uncovered(text: str, covered: Sequence[tuple[int, int]]) -> list[Finding]:
    held = bytearray(len(text))
    for start, end in covered:
        held[start:end] = b"\1" * (end - start)
    free = [number for number in _COUNTED.finditer(text) if not all(held[slice(*number.span())])]
    return [Finding(*number.span(), f"nothing covers {_around(text, number)!r}") for number in free]


def _differences(match: re.Match[str], texts: Sequence[str]) -> Iterator[Finding]:
    for group, right in enumerate(texts, 1):
        says = match[group]
        if says.split() != right.split():
            start, end = match.span(group)
            indent = "\n" + " " * (start - match.string.rfind("\n", 0, start) - 1)
            yield Finding(start, end, says, right.replace("\n", indent))


def renewed(text: str, found: Sequence[Finding]) -> str:
    """Return the text with what is right in all places where that is known."""
    known = {(one.start, one.end): one.right for one in found if one.right is not None}
    for (start, end), right in sorted(known.items(), reverse=True):
        text = text[:start] + right + text[end:]
    return text


def _table(text: str) -> Wanted:
    head = text.partition("\n")[0]
    numbers = re.split(_NUMBER, head)
    return Wanted(head, re.compile(rf"({_NUMBER.join(map(_spaced, numbers))}(?:\n *\|.*)*)"), [text])


def _spaced(text: str) -> str:
    return r"\s+".join(map(re.escape, re.split(r"\s+", text)))


def _around(text: str, number: re.Match[str]) -> str:
    return " ".join(text[max(0, number.start() - 30) : number.end() + 30].split())
