"""The lines of a ledger: the budget first, then one entry per vector, each bound by a hash to all before it.

A line is a hash, a space and a JSON object. The hash is over the hash of the line before and the object, so a
line that was changed, left out or moved is found. It has no key: it finds damage, and not a forger, who would
be the site itself.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec

from ccesa import labels
from ccesa.errors import ConfigError, DamagedLedger
from ccesa.parts import Part
from ccesa.privacy.demand import Unit, check_budget
from ccesa.privacy.release import Release, total

_ENCODER = msgspec.json.Encoder()


class Budget(Part, frozen=True, kw_only=True):
    """A budget is what all vectors of a site's data may spend together; it is the first line of a ledger."""

    ledger: Literal[1] = 1
    #: When the ledger was made, in seconds since 1970.
    time: int
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        for name in ("epsilon", "delta"):
            msgspec.structs.force_setattr(self, name, float(getattr(self, name)))


class Entry(Part, frozen=True, kw_only=True):
    """An entry is one vector that was about to leave, and what that spends. Digests are in hexadecimal."""

    number: int
    time: int
    charter: str | None
    mechanism: str
    #: How many vectors the mechanism is made for.
    rounds: int
    task: str
    round: str
    mu2: float
    delta: float
    slack: float
    #: What the promise is about, where that is not the site's whole vector.
    unit: Unit | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        if not all(0 <= part < math.inf for part in (self.mu2, self.delta, self.slack)):
            raise ConfigError("mu2, delta and slack of an entry must be 0 or greater")

    @property
    def account(self) -> tuple[str | None, str]:
        """Charter and mechanism: the rounds of a mechanism are counted for both together."""
        return self.charter, self.mechanism

    @property
    def release(self) -> Release:
        """What the vector spends."""
        return Release(mu2=self.mu2, delta=self.delta, slack=self.slack)


_KINDS: tuple[msgspec.json.Decoder[Any], ...] = (msgspec.json.Decoder(Budget), msgspec.json.Decoder(Entry))


@dataclass(frozen=True)
class Book:
    """A book is all that a ledger says, once every line of it was checked."""

    budget: Budget
    entries: tuple[Entry, ...]
    #: The hash of the last line.
    tip: bytes

    @cached_property
    def spent(self) -> Release:
        """What all entries spend together."""
        return total(entry.release for entry in self.entries)

    def vectors(self, account: tuple[str | None, str]) -> int:
        """Return how many vectors were charged to this charter and mechanism."""
        return sum(entry.account == account for entry in self.entries)

    def mixes(self, entry: Entry) -> bool:
        """Tell whether an entry is about a record where others are about the site, or the other way round."""
        return any(one.unit != entry.unit for one in self.entries)

    def epsilon_after(self, release: Release) -> float:
        """Return epsilon of all entries and of this, at the delta of the budget."""
        return total([self.spent, release]).epsilon(self.budget.delta)

    def fits(self, release: Release) -> bool:
        """Tell whether one more release, of one vector or several, stays within the budget."""
        return self.epsilon_after(release) <= self.budget.epsilon


def first_line(budget: Budget) -> bytes:
    """Return the line that a ledger starts with."""
    return _line(bytes(32), budget)


def next_line(book: Book, entry: Entry) -> bytes:
    """Return the line that an entry becomes behind all that the book has."""
    return _line(book.tip, entry)


def read(lines: Iterable[bytes]) -> Book:
    """Check all lines of a ledger, at least one, and return what they say; raises DamagedLedger."""
    tip, parts = bytes(32), []
    for place, line in enumerate(lines):
        tip, part = _checked(line, tip, place)
        parts.append(part)
    return Book(parts[0], tuple(parts[1:]), tip)


def longer(book: Book, line: bytes) -> Book:
    """Return what a ledger says with one more line; raises DamagedLedger."""
    tip, entry = _checked(line, book.tip, len(book.entries) + 1)
    return Book(book.budget, (*book.entries, entry), tip)


def _checked(line: bytes, before: bytes, place: int) -> tuple[bytes, Any]:
    """Return the hash of a line, and what it says; a budget in place 0, an entry in any other."""
    told, _, text = line.partition(b" ")
    tip = labels.digest(labels.LEDGER, before, text)
    if told != tip.hex().encode():
        raise DamagedLedger(place + 1, "it is not what was written there")
    try:
        part = _KINDS[min(place, 1)].decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedLedger(place + 1, f"this version cannot read it ({error})") from None
    if place and part.number != place:
        raise DamagedLedger(place + 1, f"it has number {part.number}")
    return tip, part


def _line(before: bytes, part: Budget | Entry) -> bytes:
    text = _ENCODER.encode(part)
    return labels.digest(labels.LEDGER, before, text).hex().encode() + b" " + text
