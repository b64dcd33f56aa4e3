"""A database as the store uses it: transactions of plain SQL, durable when they end, or undone; and SQLite.

Every error of a driver becomes ``Unavailable`` (try again; it may have happened or not) or ConfigError (a
person has to act). Texts of drivers can quote rows, and rows hold shares, so they are never passed on.
"""

import os
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from ccesa import files
from ccesa.errors import ConfigError
from ccesa.service.errors import Unavailable

Row = tuple[Any, ...]
_SECONDS = 10  # how long to wait for other processes
#: Errors of SQLite that another attempt cannot fix.
_LASTING = {
    sqlite3.SQLITE_ERROR: "is not the database of a federation",
    sqlite3.SQLITE_NOTADB: "is not an SQLite database",
    sqlite3.SQLITE_CORRUPT: "is damaged",
    sqlite3.SQLITE_READONLY: "cannot be written to",
    sqlite3.SQLITE_TOOBIG: "cannot hold a row this large",
}


def reason_of(text: str) -> str:
    """Return a reason that every database can hold. It is not empty, which would mean no reason."""
    return text.encode(errors="replace").replace(b"\0", b"?").decode() or "no reason given"


class Run(Protocol):
    """Runs statements inside one transaction; ``?`` stands for a value."""

    def __call__(self, sql: str, *values: Any) -> list[Row]:
        """Run a statement and return its rows."""

    def many(self, sql: str, rows: Iterable[Row]) -> int:
        """Run a statement for each of the rows; return how many rows of the table it changed."""


def fact(run: Run, name: str) -> bytes:
    """Return a fact about the federation; empty for an unknown one."""
    rows = run("SELECT value FROM facts WHERE name = ?", name)
    return rows[0][0] if rows else b""


def put_fact(run: Run, name: str, value: bytes) -> None:
    run("INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value)


class Database(ABC):
    """A connection for one thread at a time, which is made again after every error."""

    #: Statements that set a new connection up.
    SETTINGS: tuple[str, ...]
    #: Statements that begin a transaction that reads, writes, or writes with no other of this kind beside it.
    READ: tuple[str, ...]
    WRITE: tuple[str, ...]
    ALONE: tuple[str, ...]
    #: Statements that begin a transaction that writes, and whose end does not wait for the disk.
    CLAIM: tuple[str, ...]
    #: Statements outside of transactions that leave as little as possible of deleted rows.
    ERASE: tuple[str, ...]
    #: Makes the runner of statements on a connection.
    runner: Callable[[Any], Run]
    #: The base of the driver's errors.
    errors: type[Exception]

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._connection: Any = None

    def reading(self) -> AbstractContextManager[Run]:
        """Begin a transaction that only reads."""
        return self._transaction(self.READ)

    def writing(self) -> AbstractContextManager[Run]:
        """Begin a transaction that is durable when the block ends, and undone if the block raises."""
        return self._transaction(self.WRITE)

    def claiming(self) -> AbstractContextManager[Run]:
        """Begin a transaction that others see when the block ends. A crash may undo it until the next durable one."""
        return self._transaction(self.CLAIM)

    def alone(self) -> AbstractContextManager[Run]:
        """Begin a transaction that writes, with no other of this kind beside it."""
        return self._transaction(self.ALONE)

    @contextmanager
    def _transaction(self, begin: tuple[str, ...]) -> Iterator[Run]:
        done = False
        with self._turn:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                    begin = self.SETTINGS + begin
                run = self.runner(self._connection)
                for statement in begin:
                    run(statement)
                self._check_place()
                yield run
                run("COMMIT")
                self._check_place()
                done = True
            except self.errors as error:
                raise self._translate(error) from None  # its text can quote rows
            finally:
                if not done:
                    self._drop()

    def close(self) -> None:
        """Close the connection; the next transaction makes a new one."""
        with self._turn:
            self._drop()

    def _drop(self) -> None:
        """Close the connection, which undoes a transaction that has not ended."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(self.errors):
                connection.close()

    def erase(self) -> None:
        """Free the space of deleted rows as far as possible."""
        with self._turn:
            try:
                for statement in self.ERASE if self._connection is not None else ():
                    self.runner(self._connection)(statement)
            except self.errors as error:
                self._drop()
                raise self._translate(error) from None

    @abstractmethod
    def _connect(self) -> Any:
        """Make a connection."""

    @abstractmethod
    def _check_place(self) -> None:
        """Raise Unavailable if the database was deleted or replaced."""

    @abstractmethod
    def _translate(self, error: Exception) -> Exception:
        """Return our error for one of the driver, without rows in its text."""


class StorePart:
    def __init__(self, database: Database) -> None:
        self._database = database

    def _read(self, sql: str, *values: Any) -> list[Row]:
        with self._database.reading() as run:
            return run(sql, *values)

    def _write(self, sql: str, *values: Any) -> list[Row]:
        with self._database.writing() as run:
            return run(sql, *values)

    def _fact(self, name: str) -> bytes:
        with self._database.reading() as run:
            return fact(run, name)


class _SQLiteRun:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __call__(self, sql: str, *values: Any) -> list[Row]:
        with closing(self._connection.execute(_without_locks(sql), values)) as cursor:
            return cursor.fetchall()

    def many(self, sql: str, rows: Iterable[Row]) -> int:
        with closing(self._connection.executemany(_without_locks(sql), rows)) as cursor:
            return cursor.rowcount


def _without_locks(sql: str) -> str:
    """Return a statement without locks on rows, which SQLite does not need."""
    return sql.removesuffix(" FOR SHARE").removesuffix(" FOR UPDATE")


class SQLite(Database):
    """A database in one file for one hub process, which locks a file beside it. Only its owner can read it."""

    #: A commit is on disk when it returns, and deleted rows are overwritten.
    SETTINGS = (
        "PRAGMA journal_mode = WAL",
        "PRAGMA synchronous = FULL",
        "PRAGMA fullfsync = ON",
        "PRAGMA secure_delete = ON",
    )
    READ = ("BEGIN",)
    WRITE = ALONE = ("PRAGMA synchronous = FULL", "BEGIN IMMEDIATE")  # SQLite has one writer at a time
    CLAIM = ("PRAGMA synchronous = NORMAL", "BEGIN IMMEDIATE")
    #: Deleted rows are overwritten in the file, but stay in the write-ahead log until it is truncated.
    ERASE = ("PRAGMA busy_timeout = 100", "PRAGMA wal_checkpoint(TRUNCATE)", f"PRAGMA busy_timeout = {1000 * _SECONDS}")
    runner = _SQLiteRun
    errors = sqlite3.Error

    def __init__(self, path: Path, *, hub: bool, create: bool) -> None:
        super().__init__()
        self._path = path.absolute()
        self._make_file(create)
        self._lock = _lock(self._path) if hub else None
        self._file: tuple[int, int] | None = None  # device and inode of the connection's file

    def close(self) -> None:
        """Close the database, and release the lock."""
        super().close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _make_file(self, create: bool) -> None:
        """Make a missing file; SQLite gives its other files the permissions of this one.

        An existing file is opened by SQLite alone. Closing any other handle of it would end all locks of this
        process on it. Another process that closes its connection would then count itself as the last one and
        remove the write-ahead log, and others would lose writes of this process to that log.
        """
        if not self._path.parent.is_dir():
            raise ConfigError(f"folder {self._path.parent} does not exist")
        if not self._path.exists():
            if not create:
                raise ConfigError(f"database {self._path} does not exist: run ccesa serve or ccesa invite")
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        files.check_trusted(self._path, private=True)

    def _identity(self) -> tuple[int, int] | None:
        """Return device and inode of the file at the path."""
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def _check_place(self) -> None:
        if self._identity() != self._file:
            raise Unavailable(f"the database {self._path} was deleted or replaced under this hub")

    def _connect(self) -> sqlite3.Connection:
        self._file = self._identity()
        try:
            files.check_trusted(self._path, private=True)
        except OSError:
            raise Unavailable(f"the database {self._path} is missing") from None
        name = f"file:{quote(str(self._path))}?mode=rw"  # do not make a missing file again
        return sqlite3.connect(name, uri=True, timeout=_SECONDS, isolation_level=None, check_same_thread=False)

    def _translate(self, error: Exception) -> Exception:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_IOERR) & 0xFF  # without its finer part
        if code in _LASTING:
            return ConfigError(f"{self._path} {_LASTING[code]} ({name})")
        return Unavailable(f"the database {self._path} cannot be used now ({name})")


def _lock(path: Path) -> int:
    if not files.has_locks():
        raise ConfigError("a hub on SQLite needs file locks, which this system lacks: use PostgreSQL")
    try:
        return files.lock(f"{path}.lock")
    except BlockingIOError:
        raise ConfigError(f"another hub process uses {path}: use PostgreSQL for several hub processes") from None
