"""``Ledger``: the spending on a site's data, over all charters, mechanisms and tasks.

A site states its own budget when it makes the file. Every masked vector is charged before it leaves and never refunded,
even if its round fails. No vector leaves that would exceed the budget. docs/privacy.md, 6, says how vectors with
different noise add up.

The file contains neither vectors nor noise. It is private, because it says when the site took part in which round.
"""

import time
from bisect import bisect
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from hashlib import sha256
from math import sqrt
from pathlib import Path

from ccesa.errors import BudgetSpent, ConfigError, VectorError, quoted
from ccesa.parts import check_type
from ccesa.privacy.ledger_file import Book, Budget, Charge, InMemory, OnDisk, write_line
from ccesa.privacy.mechanism import Mechanism, total
from ccesa.words import Vector

_DIGEST_BYTES = 32
#: This number of draws is equal twice with a probability below 2^-150, because no draw is likelier than 0.19.
_NEVER_ALIKE = 64


@dataclass(frozen=True, kw_only=True)
class Spent:
    """The spending of several vectors.

    Attributes:
        vectors: How many have left, or were about to.
        epsilon: Epsilon at the delta of the budget, rounded up.
        mu: The mu of the Gaussian mechanism that reveals as much.
        outright: The part of delta that no epsilon covers, for graphs that fail and tables of noise.
    """

    vectors: int
    epsilon: float
    mu: float
    outright: float


class Ledger:
    """The budget of one site's data and all spending on them. Threads and processes may use it at the same time.

    Do not restore its two files from a backup: older copies of both look like the ledger as it was then. Every method
    reads the files again and can raise the same errors.

    Args:
        path: A file that ``Ledger.new`` made. Its head is beside it, in a file whose name ends with ``.head``.

    Raises:
        DamagedLedger: The file was changed, or it or its head is an older copy.
        ConfigError: Others can read or change the file, or the system cannot read or lock it.
    """

    def __init__(self, path: Path | str | InMemory) -> None:
        self._pages = path if isinstance(path, InMemory) else OnDisk(path)
        self._budget = self._pages.read().budget
        self._made: dict[bytes, object] = {}

    @classmethod
    def new(cls, path: Path | str, *, epsilon: float, delta: float) -> "Ledger":
        """Return a new ledger, in two new files that only their owner can read.

        Args:
            path: The new file; neither it nor its head may exist.
            epsilon: The budget, above 0 and at most 50.
            delta: The budget, at least 10^-12 and below 1.

        Raises:
            ConfigError: The budget is out of range, a file already exists, or the system has no file locks.
            OSError: The system cannot write the files.
        """
        OnDisk.new(path, _first_line(epsilon, delta))
        return cls(path)

    @classmethod
    def in_memory(cls, *, epsilon: float, delta: float) -> "Ledger":
        """Return a new ledger without a file, for simulations.

        Args:
            epsilon: The budget, above 0 and at most 50.
            delta: The budget, at least 10^-12 and below 1.

        Raises:
            ConfigError: The budget is out of range.
        """
        return cls(InMemory(_first_line(epsilon, delta)))

    @property
    def epsilon(self) -> float:
        """The epsilon of the budget."""
        return self._budget.epsilon

    @property
    def delta(self) -> float:
        """The delta of the budget."""
        return self._budget.delta

    def account(self, mechanism: Mechanism, charter: bytes | None = None) -> "Account":
        """Return the account to which a client charges its vectors.

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

    def charges(self) -> tuple[Charge, ...]:
        """Return all charges in their order."""
        return self._pages.read().charges

    def spent(self) -> Spent:
        """Return what all vectors have spent together."""
        book = self._pages.read()
        return _spent(book, book.charges)

    def spent_by_charter(self) -> dict[str | None, Spent]:
        """Return what the vectors of each charter have spent, by its digest in hexadecimal.

        These epsilons do not add up. ``spent`` composes all vectors.
        """
        book = self._pages.read()
        by_charter: dict[str | None, list[Charge]] = {}
        for charge in book.charges:
            by_charter.setdefault(charge.charter, []).append(charge)
        return {charter: _spent(book, charges) for charter, charges in by_charter.items()}

    def left(self) -> int | None:
        """Return how many more vectors like the last one may leave; None before the first vector."""
        book = self._pages.read()
        return _left(book, book.charges[-1]) if book.charges else None


@dataclass(frozen=True)
class Account:
    """The account for vectors of one mechanism under one charter; ``Ledger.account`` makes it.

    Attributes:
        pages: The pages of the ledger.
        mechanism: The noise in every vector.
        charter: The digest of the charter, if it has one.
    """

    pages: InMemory | OnDisk
    mechanism: Mechanism
    charter: bytes | None
    #: Digests of vectors that this ledger's object has seen. They are not in the file.
    _made: dict[bytes, object] = field(default_factory=dict, repr=False, compare=False)

    def check_fresh(self, vector: Vector) -> None:
        """Refuse a vector that was made for another round, because its noise hides nothing twice.

        Vectors of few numbers are not compared, because they can be equal by chance.

        Raises:
            VectorError: This ledger's object has seen the same vector before.
        """
        if self.mechanism.dimension < _NEVER_ALIKE:
            return
        new = object()
        if self._made.setdefault(sha256(vector.tobytes()).digest(), new) is not new:
            raise VectorError(
                "the function returned the vector of another round again, with the same noise: draw noise in "
                "every call, as encode does"
            )

    def check(self) -> None:
        """Check that one more vector may leave, and charge nothing.

        Raises:
            BudgetSpent: No vector may leave.
            ConfigError: The ledger is damaged or cannot be read.
        """
        self._write(b"", b"", self.pages.read())

    def charge(self, task: bytes, round_id: bytes) -> None:
        """Charge one vector, which may leave only after this has returned. It is never refunded.

        Args:
            task: The digest of its task.
            round_id: The id of its round.

        Raises:
            BudgetSpent: The vector may not leave, and nothing was charged.
            ConfigError: The ledger is damaged or cannot be written. The vector may have been charged.
        """
        self.pages.add(partial(self._write, task, round_id))

    def left(self) -> int:
        """Return how many more vectors may leave, if nothing else is charged."""
        book = self.pages.read()
        return _left(book, self._charge(b"", b"", book))

    def _write(self, task: bytes, round_id: bytes, book: Book) -> bytes:
        """Return the line of a vector, if the mechanism and the ledger are made for it and the budget allows it."""
        charge = self._charge(task, round_id, book)
        if book.mixes(charge):
            raise ConfigError(
                "this ledger counts vectors with noise for records and this vector has noise for the whole site, or "
                "the other way round; the two do not add up: keep a ledger for each"
            )
        if book.vectors(charge.account) >= charge.rounds:
            raise BudgetSpent(
                f"{charge.rounds} vector(s) of this site have left with this noise, and it is made for no "
                "more: no vector leaves; plan for more rounds, with the noise that they need"
            )
        if not book.fits(charge.release):
            spent, after = book.spent.epsilon(book.budget.delta), book.epsilon_after(charge.release)
            raise BudgetSpent(
                f"{len(book.charges)} vector(s) have spent epsilon = {spent:.4g} of this site's "
                f"{book.budget.epsilon:g} at delta = {book.budget.delta:g}, and one more would make it "
                f"{after:.4g}: no vector leaves; take no further part with these data, or only with more noise"
            )
        return write_line(book.tip, charge)

    def _charge(self, task: bytes, round_id: bytes, book: Book) -> Charge:
        release = self.mechanism.release_at(self.mechanism.honest, book.budget.epsilon)
        return Charge(
            number=len(book.charges) + 1,
            time=int(time.time()),
            charter=None if self.charter is None else self.charter.hex(),
            mechanism=self.mechanism.digest.hex(),
            rounds=self.mechanism.rounds,
            task=task.hex(),
            round=round_id.hex(),
            unit=self.mechanism.unit,
            **asdict(release),
        )


def _first_line(epsilon: float, delta: float) -> bytes:
    return write_line(bytes(_DIGEST_BYTES), Budget(time=int(time.time()), epsilon=epsilon, delta=delta))


def _spent(book: Book, charges: Sequence[Charge]) -> Spent:
    added = total(charge.release for charge in charges)
    epsilon = added.epsilon(book.budget.delta)
    return Spent(vectors=len(charges), epsilon=epsilon, mu=sqrt(added.mu2), outright=added.delta)


def _left(book: Book, charge: Charge) -> int:
    """Return how many vectors like this one may leave."""
    most = 0 if book.mixes(charge) else max(0, charge.rounds - book.vectors(charge.account))
    return bisect(range(1, most + 1), False, key=lambda count: not book.fits(charge.release.times(count)))
