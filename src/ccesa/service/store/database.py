"""A database as the store uses it: transactions of plain SQL, durable when they end, or undone.

Whatever a driver raises becomes ``Unavailable`` (try again; it may have happened or not) or ConfigError (a
person has to do something). Drivers' own texts can quote rows, and rows hold shares: none of them gets out.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

Row = tuple[Any, ...]


def reason_of(text: str) -> str:
    """Return a reason as every database can hold it; an empty one would say that there is none."""
    return text.encode(errors="replace").replace(b"\0", b"?").decode() or "no reason given"


class Run(Protocol):
    """Runs statements with ``?`` in place of values, inside one transaction."""

    def __call__(self, sql: str, *values: Any) -> list[Row]:
        """Run a statement; return its rows, if it has any."""

    def many(self, sql: str, rows: Iterable[Row]) -> int:
        """Run a statement for each of the rows; return how many rows of the table it changed in all."""


class Database(ABC):
    """A connection that is made anew after whatever went wrong; one thread at a time has it."""

    #: How a transaction begins that reads, that writes, and beside which no other of its kind runs.
    READ: tuple[str, ...]
    WRITE: tuple[str, ...]
    ALONE: tuple[str, ...]
    #: How one begins that writes, and whose end does not wait for the disk.
    CLAIM: tuple[str, ...]
    #: Outside of transactions: what leaves as little as possible of deleted rows behind.
    ERASE: tuple[str, ...]
    #: What the driver raises.
    errors: type[Exception]

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._connection: Any = None

    @contextmanager
    def reading(self) -> Iterator[Run]:
        """Begin a transaction that changes nothing."""
        with self._transaction(self.READ) as run:
            yield run

    @contextmanager
    def writing(self) -> Iterator[Run]:
        """Begin a transaction that is durable when the block ends, and undone if anything is raised in it."""
        with self._transaction(self.WRITE) as run:
            yield run

    @contextmanager
    def claiming(self) -> Iterator[Run]:
        """Begin a transaction that all others see when the block ends, and that a crash may undo.

        Whatever is durable later than it is durable together with it.
        """
        with self._transaction(self.CLAIM) as run:
            yield run

    @contextmanager
    def alone(self) -> Iterator[Run]:
        """Begin a transaction that writes, and beside which no other one of this kind runs."""
        with self._transaction(self.ALONE) as run:
            yield run

    @contextmanager
    def _transaction(self, begin: tuple[str, ...]) -> Iterator[Run]:
        done = False
        with self._turn:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                run = self._run(self._connection)
                for statement in begin:
                    run(statement)
                self._check_place()
                yield run
                run("COMMIT")
                self._check_place()
                done = True
            except self.errors as error:
                raise self._told(error) from None  # its text can quote rows
            finally:
                if not done:
                    self._drop()

    @abstractmethod
    def _check_place(self) -> None:
        """Raise Unavailable if what was connected to is not where it was: nobody would find it again."""

    def close(self) -> None:
        """Let go of the connection; the next transaction makes a new one."""
        with self._turn:
            self._drop()

    def _drop(self) -> None:
        """Close the connection, which undoes a transaction that has not ended."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(self.errors):
                connection.close()

    def erase(self) -> None:
        """Give up the room that deleted rows had, as far as that is possible just now."""
        with self._turn:
            try:
                for statement in self.ERASE if self._connection is not None else ():
                    self._run(self._connection)(statement)
            except self.errors as error:
                self._drop()
                raise self._told(error) from None

    @abstractmethod
    def sql(self, statement: str) -> str:
        """Return a statement in this database's own dialect."""

    @abstractmethod
    def _connect(self) -> Any:
        """Make a connection."""

    @abstractmethod
    def _run(self, connection: Any) -> Run:
        """Return what runs statements on it."""

    @abstractmethod
    def _told(self, error: Exception) -> Exception:
        """Return the error that says what went wrong, without a row."""
