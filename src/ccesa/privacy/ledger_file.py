"""The lines of a ledger, in a file, or in memory for simulations.

The first line is the budget. Each further line is the charge of one vector. A line is a hash, a space and a JSON
object. The hash is over the hash of the line before and the object, so it reveals a line that was changed, left out or
moved. It has no key: it finds damage, but no forgery by the site itself.

Beside FILE there is FILE.head, a copy of its last line, which is replaced as a whole *before* the line is appended.
Both are on the disk when ``add`` returns, and only then may a vector leave. So after a crash FILE may lack its last
line, or the end of it. The head has that line, and it counts. Any other difference between the two is damage, or an
older copy of one of them. Older copies of both together look like the ledger as it was then.
"""

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import IO, Any, Literal

import msgspec

from ccesa import files, labels
from ccesa.errors import ConfigError, DamagedLedger, quoted
from ccesa.parts import Part
from ccesa.privacy.mechanism import Release, Unit, check_budget, settle, total

# Lines


class Budget(Part, frozen=True, kw_only=True):
    """The budget of all vectors of a site's data: the first line of a ledger."""

    ledger: Literal[1] = 1
    #: The time when the ledger was made, in seconds since 1970.
    time: int
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        settle(self, "epsilon", "delta")


class Charge(Part, frozen=True, kw_only=True):
    """One vector that was about to leave, and what it spends. Digests are in hexadecimal."""

    number: int
    time: int
    charter: str | None
    mechanism: str
    #: The number of vectors that the mechanism is made for.
    rounds: int
    task: str
    round: str
    mu2: float
    delta: float
    slack: float
    #: The subject of the promise, if not the site's whole vector.
    unit: Unit | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        if not all(0 <= part < math.inf for part in (self.mu2, self.delta, self.slack)):
            raise ConfigError("mu2, delta and slack of a charge must be 0 or greater")

    @property
    def account(self) -> tuple[str | None, str]:
        """Charter and mechanism, for which vectors are counted together."""
        return self.charter, self.mechanism

    @property
    def release(self) -> Release:
        """The spending of the vector."""
        return Release(mu2=self.mu2, delta=self.delta, slack=self.slack)


@dataclass(frozen=True)
class Book:
    """Everything in a ledger, after each line was checked."""

    budget: Budget
    charges: tuple[Charge, ...]
    #: The hash of the last line.
    tip: bytes

    @cached_property
    def spent(self) -> Release:
        """The spending of all charges."""
        return total(charge.release for charge in self.charges)

    def vectors(self, account: tuple[str | None, str]) -> int:
        """Return how many vectors were charged to this charter and mechanism."""
        return sum(charge.account == account for charge in self.charges)

    def mixes(self, charge: Charge) -> bool:
        """Return whether some charges are about records and others about the site."""
        return any(one.unit != charge.unit for one in self.charges)

    def epsilon_after(self, release: Release) -> float:
        """Return epsilon of all charges and of this release, at the delta of the budget."""
        return total([self.spent, release]).epsilon(self.budget.delta)

    def fits(self, release: Release) -> bool:
        """Return whether one more release, of one vector or several, stays within the budget."""
        return self.epsilon_after(release) <= self.budget.epsilon

    def extend(self, line: bytes) -> "Book":
        """Return the book with one more line; raise DamagedLedger if the line does not belong there."""
        tip, charge = _read_line(line, self.tip, len(self.charges) + 1)
        return Book(self.budget, (*self.charges, charge), tip)


def read_book(lines: Iterable[bytes]) -> Book:
    """Return the book with these lines, at least one; raise DamagedLedger if they are not those of a ledger."""
    tip, parts = bytes(32), []
    for place, line in enumerate(lines):
        tip, part = _read_line(line, tip, place)
        parts.append(part)
    return Book(parts[0], tuple(parts[1:]), tip)


_DECODERS: tuple[msgspec.json.Decoder[Any], ...] = (msgspec.json.Decoder(Budget), msgspec.json.Decoder(Charge))


def _read_line(line: bytes, before: bytes, place: int) -> tuple[bytes, Any]:
    """Return the hash of a line, and the budget in place 0 or the charge in any other."""
    stated, _, text = line.partition(b" ")
    tip = labels.digest(labels.LEDGER, before, text)
    if stated != tip.hex().encode():
        raise DamagedLedger(place + 1, "its text does not match its hash")
    try:
        part = _DECODERS[min(place, 1)].decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DamagedLedger(place + 1, f"this version cannot read it ({error})") from None
    if place and part.number != place:
        raise DamagedLedger(place + 1, f"it has number {part.number}")
    return tip, part


def write_line(before: bytes, part: Budget | Charge) -> bytes:
    """Return the line of a budget or a charge, behind the line with this hash."""
    text = msgspec.json.encode(part)
    return labels.digest(labels.LEDGER, before, text).hex().encode() + b" " + text


# Files


try:
    import fcntl
except ImportError:  # a system without POSIX
    fcntl = None  # type: ignore[assignment]

#: More than half a million vectors.
_MAX_BYTES = 1 << 28


class InMemory:
    """Keeps a book as long as this object lives."""

    def __init__(self, first: bytes) -> None:
        self._book, self._lock = read_book([first]), Lock()

    def read(self) -> Book:
        """Return the book as it is now."""
        return self._book

    def add(self, following: Callable[[Book], bytes]) -> None:
        """Add the line that follows the book, with no other line in between."""
        with self._lock:
            self._book = self._book.extend(following(self._book))


class OnDisk:
    """Keeps a book in a file that processes lock."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path)
        self._head = _head_of(self._path)

    @classmethod
    def new(cls, path: Path | str, first: bytes) -> "OnDisk":
        """Start a ledger in a new file; raise ConfigError if the file or its head already exists."""
        _check_locks()
        head, text = _head_of(Path(path)), f"{first.decode()}\n"
        for existing in (path, head):  # the head stays if somebody removes the file
            if os.path.lexists(existing):
                raise ConfigError(f"{existing} already exists and will not be overwritten")
        files.write_new(head, text, private=True)
        files.write_new(path, text, private=True)
        return cls(path)

    def read(self) -> Book:
        with self._locked(to_write=False):
            return self._read_both()[0]

    def add(self, following: Callable[[Book], bytes]) -> None:
        with self._locked(to_write=True) as file:
            book, missing = self._read_both()
            line = following(book) + b"\n"
            _append(file, missing)  # all earlier lines are on the disk before the head changes
            files.replace(self._head, line.decode())
            _append(file, line)

    @contextlib.contextmanager
    def _locked(self, to_write: bool) -> Iterator[IO[bytes]]:
        """Open and lock the file until the end; errors of the system become a ConfigError."""
        _check_locks()
        flags, mode = (os.O_WRONLY | os.O_APPEND, "ab") if to_write else (os.O_RDONLY, "rb")
        try:
            for path in (self._path, self._head):
                if path.exists() and not path.is_file():  # a client would wait for the other end of a pipe
                    raise ConfigError(f"{path} is not a regular file, so it is not a ledger, and nothing leaves")
            with os.fdopen(os.open(self._path, flags), mode) as file:
                fcntl.flock(file, fcntl.LOCK_EX if to_write else fcntl.LOCK_SH)
                if not os.path.samestat(os.fstat(file.fileno()), self._path.stat()):
                    raise ConfigError(f"{self._path} was replaced by another file just now; try again")
                yield file
        except OSError as error:
            why = error.strerror or error
            new = "; if there never was one: ccesa ledger new" if isinstance(error, FileNotFoundError) else ""
            raise ConfigError(f"the ledger {self._path} cannot be used, so nothing leaves: {why}{new}") from error

    def _read_both(self) -> tuple[Book, bytes]:
        """Read both files and check them against each other. Return the book, and the bytes that FILE lacks."""
        data = files.trusted_bytes(self._path, _MAX_BYTES, private=True)
        *lines, torn = data.split(b"\n")
        whole, missing = len(lines), b""
        head = self._read_head(whole)
        if torn or lines[-1:] != [head[:-1]]:
            if not head.startswith(torn):
                raise self._damaged(whole + 1, f"it is cut short, and differs from {self._head}")
            lines.append(head[:-1])
            missing = head[len(torn) :]
        try:
            return read_book(lines), missing
        except DamagedLedger as error:
            apart = f"it and {self._head} do not match; one of them is damaged, or an older copy"
            raise self._damaged(error.line, error.what if error.line <= whole else apart) from None

    def _read_head(self, lines: int) -> bytes:
        """Return the head, which is always a whole line."""
        try:
            head = files.trusted_bytes(self._head, _MAX_BYTES, private=True)
        except FileNotFoundError:
            raise self._damaged(lines, f"{self._head} is missing, so this may not be the last line") from None
        if not head.endswith(b"\n"):
            raise self._damaged(lines, f"{self._head} is incomplete, so this may not be the last line")
        return head

    def _damaged(self, line: int, what: str) -> DamagedLedger:
        return DamagedLedger(line, what, str(self._path))


def _head_of(path: Path) -> Path:
    """Return the path of the head, which is beside the file itself even if the path is a link to it."""
    try:
        real = path.resolve()
    except (RuntimeError, ValueError) as error:  # a circle of links, or an invalid file name
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
