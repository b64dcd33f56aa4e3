"""``Ledger``: what was spent on a site's data, over all charters, mechanisms and tasks. Spent is spent.

A site states its own budget when it makes the file. Every masked vector is charged before it leaves, whatever
becomes of its round, and none leaves that would exceed the budget. Releases of several mechanisms compose as
Gaussians do: squares of mu add up, and so do what each adds to delta outright and its slack. That also holds
where the next release is chosen in view of what earlier ones gave; if the choice is between several
mechanisms, with delta + ``Spent.outright`` in place of delta.

Neither vectors nor noise are in the file; it says when the site took part in which round, and is private for that.
"""

import time
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from math import sqrt
from pathlib import Path

from ccesa.errors import BudgetSpent, ConfigError, VectorError, quoted
from ccesa.parts import check_type
from ccesa.privacy.ledger_file import Book, Budget, Entry, InMemory, OnDisk, Pages, first_line, next_line
from ccesa.privacy.mechanism import Mechanism, total
from ccesa.words import Vector

_DIGEST_BYTES = 32
#: So many draws are the same twice with a chance below 2^-150: none is likelier than 0.19.
_NEVER_ALIKE = 64


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What vectors have spent together.

    Attributes:
        vectors: How many have left, or were about to.
        epsilon: At the delta of the budget, rounded up.
        mu: Of the Gaussian mechanism that tells as much.
        outright: The part of delta that no epsilon covers: graphs that fail, and tables of noise.
    """

    vectors: int
    epsilon: float
    mu: float
    outright: float


class Ledger:
    """What was spent on one site's data, and what may be. Threads and processes may use it at the same time.

    Older copies of both of its files, put back together, cannot be told from the ledger as it was then: leave
    them out of what is restored with the system.

    Args:
        path: A file that ``Ledger.new`` made. Beside it lies another, with ``.head`` behind its name.

    Raises:
        DamagedLedger: The file is not as it was written, or it or its head is an older copy.
        ConfigError: Others can read or change the file, or the system cannot read or lock it.
    """

    def __init__(self, path: Path | str | InMemory) -> None:
        self._pages: Pages = path if isinstance(path, InMemory) else OnDisk(path)
        self._budget = self._pages.read().budget
        self._made: dict[bytes, object] = {}

    @classmethod
    def new(cls, path: Path | str, *, epsilon: float, delta: float) -> "Ledger":
        """Return a new ledger, in two new files that only their owner can read.

        Args:
            path: Where neither the file nor its head is yet.
            epsilon: The budget, above 0 and at most 50.
            delta: The budget, at least 10^-12 and below 1.

        Raises:
            ConfigError: The budget is out of range, something is there already, or there are no file locks.
            OSError: The system cannot write the files.
        """
        OnDisk.new(path, _opened(epsilon, delta))
        return cls(path)

    @classmethod
    def in_memory(cls, *, epsilon: float, delta: float) -> "Ledger":
        """Return a new ledger that ends with its object, for simulations.

        Args:
            epsilon: The budget, above 0 and at most 50.
            delta: The budget, at least 10^-12 and below 1.

        Raises:
            ConfigError: The budget is out of range.
        """
        return cls(InMemory(_opened(epsilon, delta)))

    @property
    def epsilon(self) -> float:
        """The epsilon of the budget."""
        return self._budget.epsilon

    @property
    def delta(self) -> float:
        """The delta of the budget."""
        return self._budget.delta

    def account(self, mechanism: Mechanism, charter: bytes | None = None) -> "Account":
        """Return what a client charges its vectors to.

        Args:
            mechanism: The noise in them.
            charter: The digest of the client's charter, if it has one.

        Raises:
            ConfigError: Something else than a mechanism or a digest.
        """
        check_type("mechanism", mechanism, Mechanism)
        if charter is not None and not (isinstance(charter, bytes) and len(charter) == _DIGEST_BYTES):
            raise ConfigError(f"the digest of a charter has {_DIGEST_BYTES} bytes, not {quoted(charter)}")
        return Account(self._pages, mechanism, charter, self._made)

    def entries(self) -> tuple[Entry, ...]:
        """Return all that was charged, in its order.

        Raises:
            ConfigError: As when the ledger is opened.
        """
        return self._pages.read().entries

    def spent(self) -> Spent:
        """Return what all vectors have spent together.

        Raises:
            ConfigError: As when the ledger is opened.
        """
        book = self._pages.read()
        return _spent(book, book.entries)

    def spent_by_charter(self) -> dict[str | None, Spent]:
        """Return what the vectors of each charter have spent, by its digest in hexadecimal.

        These epsilons do not add up; ``spent`` composes all vectors.

        Raises:
            ConfigError: As when the ledger is opened.
        """
        book = self._pages.read()
        by_charter: dict[str | None, list[Entry]] = {}
        for entry in book.entries:
            by_charter.setdefault(entry.charter, []).append(entry)
        return {charter: _spent(book, entries) for charter, entries in by_charter.items()}

    def left(self) -> int | None:
        """Return how many more vectors like the last one may leave; None if there was none yet.

        Raises:
            ConfigError: As when the ledger is opened.
        """
        book = self._pages.read()
        if not book.entries:
            return None
        return _left(book, book.entries[-1])


@dataclass(frozen=True)
class Account:
    """What the vectors of one mechanism under one charter are charged to; ``Ledger.account`` makes it.

    Attributes:
        pages: Where the ledger is kept.
        mechanism: The noise in every vector.
        charter: The digest of the charter, if there is one.
    """

    pages: Pages
    mechanism: Mechanism
    charter: bytes | None
    #: Digests of vectors that were made for it, by this ledger's object; the file has none of them.
    _made: dict[bytes, object] = field(default_factory=dict, repr=False, compare=False)

    def check_fresh(self, vector: Vector) -> None:
        """Refuse a vector that was made for another round: noise hides nothing twice.

        Vectors of few numbers may be alike by chance, and are not compared.

        Raises:
            VectorError: This ledger's object has seen the same vector before.
        """
        if self.mechanism.dimension < _NEVER_ALIKE:
            return
        found = object()
        if self._made.setdefault(sha256(vector.tobytes()).digest(), found) is not found:
            raise VectorError(
                "the function returned the vector of another round again, with the same noise: draw noise in "
                "every call, as encode does"
            )

    def check(self) -> None:
        """Check that one more vector may leave, and charge nothing.

        Raises:
            BudgetSpent: None may.
            ConfigError: The ledger is damaged or cannot be read.
        """
        self._following(b"", b"", self.pages.read())

    def charge(self, task: bytes, round_id: bytes) -> None:
        """Charge one vector; only when this has returned may it leave. It is never refunded.

        Args:
            task: The digest of what it is about.
            round_id: Of the round that it is for.

        Raises:
            BudgetSpent: It may not leave; nothing was charged.
            ConfigError: The ledger is damaged, or cannot be written; it may have been charged.
        """
        self.pages.add(partial(self._following, task, round_id))

    def left(self) -> int:
        """Return how many more vectors may leave, if nothing else is charged.

        Raises:
            ConfigError: The ledger is damaged or cannot be read.
        """
        book = self.pages.read()
        return _left(book, self._entry(b"", b"", book))

    def _following(self, task: bytes, round_id: bytes, book: Book) -> bytes:
        """Return the line that a vector becomes, if it may leave."""
        entry = self._entry(task, round_id, book)
        _check(book, entry)
        return next_line(book, entry)

    def _entry(self, task: bytes, round_id: bytes, book: Book) -> Entry:
        release = self.mechanism.released(self.mechanism.honest, book.budget.epsilon)
        return Entry(
            number=len(book.entries) + 1,
            time=int(time.time()),
            charter=None if self.charter is None else self.charter.hex(),
            mechanism=self.mechanism.digest.hex(),
            rounds=self.mechanism.rounds,
            task=task.hex(),
            round=round_id.hex(),
            mu2=release.mu2,
            delta=release.delta,
            slack=release.slack,
            unit=self.mechanism.unit,
        )


def _opened(epsilon: float, delta: float) -> bytes:
    return first_line(Budget(time=int(time.time()), epsilon=epsilon, delta=delta))


def _spent(book: Book, entries: Sequence[Entry]) -> Spent:
    added = total(entry.release for entry in entries)
    epsilon = added.epsilon(book.budget.delta)
    return Spent(vectors=len(entries), epsilon=epsilon, mu=sqrt(added.mu2), outright=added.delta)


def _left(book: Book, entry: Entry) -> int:
    """Return how many vectors like this one may leave."""
    most = 0 if book.mixes(entry) else max(0, entry.rounds - book.vectors(entry.account))
    return bisect(range(1, most + 1), False, key=lambda count: not book.fits(entry.release.times(count)))


def _check(book: Book, entry: Entry) -> None:
    """Refuse a vector for which mechanism or ledger are not made, or the budget has no room."""
    if book.mixes(entry):
        raise ConfigError(
            "this ledger counts what is told about records, or about the site as a whole, and this vector "
            "has noise for the other: the two do not add up; keep a ledger for each"
        )
    if book.vectors(entry.account) >= entry.rounds:
        raise BudgetSpent(
            f"{entry.rounds} vector(s) of this site have left with this noise, as many as it is "
            "made for: no vector leaves; plan for more rounds, with the noise that they need"
        )
    if not book.fits(entry.release):
        spent, after = book.spent.epsilon(book.budget.delta), book.epsilon_after(entry.release)
        raise BudgetSpent(
            f"{len(book.entries)} vector(s) have spent epsilon = {spent:.4g} of this site's "
            f"{book.budget.epsilon:g} at delta = {book.budget.delta:g}, and one more would make it "
            f"{after:.4g}: no vector leaves; take no further part with these data, or with more noise only"
        )
