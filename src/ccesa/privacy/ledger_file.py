"""The lines of a ledger, and where they are kept: in a file, or in memory for simulations.

The budget is the first line; then there is one entry per vector. A line is a hash, a space and a JSON object.
The hash is over the hash of the line before and the object, so a line that was changed, left out or moved is
found. It has no key: it finds damage, not a forger, who would be the site itself.

Beside FILE lies FILE.head, a copy of its last line, which is replaced whole *before* the line is appended.
Both are on the disk when ``add`` returns, and only then may a vector leave. So after a crash FILE may lack
its last line, or the end of it. What is missing is in the head, and counts: nothing is refunded. Every other
difference between the two is damage, or an older copy of one of them that was put back. Older copies of both
together cannot be told from the ledger as it was then.
"""

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import IO, Any, Literal, NamedTuple, Protocol

import msgspec

from ccesa import files, labels
from ccesa.errors import ConfigError, DamagedLedger, quoted
from ccesa.parts import Part
from ccesa.privacy.mechanism import Release, Unit, check_budget, total

# Lines


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


# Files


try:
    import fcntl
except ImportError:  # a system without POSIX
    fcntl = None  # type: ignore[assignment]

#: More than half a million vectors.
_MOST_BYTES = 1 << 28


class Pages(Protocol):
    """What keeps the lines of a ledger."""

    def read(self) -> Book:
        """Return what the ledger says now."""

    def add(self, following: Callable[[Book], bytes]) -> None:
        """Add the line that follows what the ledger says, with nobody else in between."""


class InMemory:
    """Keeps what the lines say as long as this object lives."""

    def __init__(self, first: bytes) -> None:
        self._book, self._lock = read([first]), Lock()

    def read(self) -> Book:
        return self._book

    def add(self, following: Callable[[Book], bytes]) -> None:
        with self._lock:
            self._book = longer(self._book, following(self._book))


class _Found(NamedTuple):
    """What both files say together, and what FILE lacks of it."""

    book: Book
    missing: bytes


class OnDisk:
    """Keeps lines in a file, among processes that lock it."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._head = _head_of(self._path)

    @classmethod
    def new(cls, path: Path | str, first: bytes) -> "OnDisk":
        """Start a ledger in a file that is not there yet; raises ConfigError if it is, or its head."""
        _check_locks()
        head, text = _head_of(Path(path)), f"{first.decode()}\n"
        for there in (path, head):  # the head stays where somebody removes the file
            if os.path.lexists(there):
                raise ConfigError(f"{there} already exists and will not be overwritten")
        files.write_new(head, text, private=True)
        files.write_new(path, text, private=True)
        return cls(path)

    def read(self) -> Book:
        with self._locked(to_write=False):
            return self._found().book

    def add(self, following: Callable[[Book], bytes]) -> None:
        with self._locked(to_write=True) as file:
            found = self._found()
            line = following(found.book) + b"\n"
            _append(file, found.missing)  # on the disk before the head moves on, also what is there already
            files.replace(self._head, line.decode())
            _append(file, line)

    @contextlib.contextmanager
    def _locked(self, to_write: bool) -> Iterator[IO[bytes]]:
        """Open and lock the file until the end; whatever the system refuses is a ConfigError."""
        _check_locks()
        flags, mode = (os.O_WRONLY | os.O_APPEND, "ab") if to_write else (os.O_RDONLY, "rb")
        try:
            for path in (self._path, self._head):
                _check_regular(path)
            with os.fdopen(os.open(self._path, flags), mode) as file:
                fcntl.flock(file, fcntl.LOCK_EX if to_write else fcntl.LOCK_SH)
                if not os.path.samestat(os.fstat(file.fileno()), self._path.stat()):
                    raise ConfigError(f"{self._path} was replaced by another file just now; try again")
                yield file
        except OSError as error:
            told = error.strerror or error
            new = "; if there never was one: ccesa ledger new" if isinstance(error, FileNotFoundError) else ""
            raise ConfigError(f"the ledger {self._path} cannot be used, so nothing leaves: {told}{new}") from error

    def _found(self) -> _Found:
        """Read both files, and check them against each other."""
        data = files.trusted_bytes(self._path, _MOST_BYTES, private=True)
        *lines, torn = data.split(b"\n")
        there, missing = len(lines), b""
        head = self._read_head(there)
        if torn or lines[-1:] != [head[:-1]]:
            if not head.startswith(torn):
                raise self._damaged(there + 1, f"it is cut short, and differs from {self._head}")
            lines.append(head[:-1])
            missing = head[len(torn) :]
        try:
            return _Found(read(lines), missing)
        except DamagedLedger as error:
            apart = f"it and {self._head} are of different states; one is damaged, or an older copy put back"
            raise self._damaged(error.line, error.what if error.line <= there else apart) from None

    def _read_head(self, there: int) -> bytes:
        """Return the head, a whole line: it is replaced at once."""
        try:
            head = files.trusted_bytes(self._head, _MOST_BYTES, private=True)
        except FileNotFoundError:
            raise self._damaged(there, f"{self._head} is missing, so it may not be the last") from None
        if not head.endswith(b"\n"):
            raise self._damaged(there, f"{self._head} is not whole, so it may not be the last")
        return head

    def _damaged(self, line: int, what: str) -> DamagedLedger:
        return DamagedLedger(line, what, str(self._path))


def _check_regular(path: Path) -> None:
    """Refuse a pipe, for whose other end a client would wait; what is missing is told by who opens it."""
    if path.exists() and not path.is_file():
        raise ConfigError(f"{path} is no regular file, so it is no ledger, and nothing leaves")


def _head_of(path: Path) -> Path:
    """Return the path of the head: beside the file itself, also where the path is a link to it."""
    try:
        real = path.resolve()
    except (RuntimeError, ValueError) as error:  # links in a circle, or a name that no file can have
        raise ConfigError(f"{quoted(str(path))} cannot be a ledger: {error}") from error
    if not path.name:
        raise ConfigError(f"{quoted(str(path))} cannot be a ledger: it is a folder")
    return real.with_name(f"{real.name}.head")


def _append(file: IO[bytes], data: bytes) -> None:
    """Write to the end, and to the disk."""
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def _check_locks() -> None:
    if fcntl is None:
        raise ConfigError("a ledger on disk needs file locks, which this system does not have (fcntl)")
