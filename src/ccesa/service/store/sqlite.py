"""SQLite, for one hub process: a file that only its owner can read, and a lock file beside it."""

import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ccesa import files
from ccesa.errors import ConfigError
from ccesa.service.errors import Unavailable
from ccesa.service.store.database import Database, Row

#: A commit is on the disk when it returns; what is deleted is overwritten; other processes are waited for.
_SETTINGS = ("journal_mode = WAL", "synchronous = FULL", "fullfsync = ON", "secure_delete = ON")
_SECONDS = 10
#: Trouble that no second try mends.
_LASTING = {
    sqlite3.SQLITE_ERROR: "is not the database of a federation",
    sqlite3.SQLITE_NOTADB: "is not a database of SQLite",
    sqlite3.SQLITE_CORRUPT: "is damaged",
    sqlite3.SQLITE_READONLY: "cannot be written to",
    sqlite3.SQLITE_TOOBIG: "cannot hold a row this large",
}


class _Run:
    def __init__(self, connection: sqlite3.Connection, database: "SQLite") -> None:
        self._connection, self._sql = connection, database.sql

    def __call__(self, sql: str, *values: Any) -> list[Row]:
        with closing(self._connection.execute(self._sql(sql), values)) as cursor:
            return cursor.fetchall()

    def many(self, sql: str, rows: Iterable[Row]) -> int:
        with closing(self._connection.executemany(self._sql(sql), rows)) as cursor:
            return cursor.rowcount


class SQLite(Database):
    """A database in one file.

    Args:
        path: Its file.
        hub: Whether this process is the hub, of which there is one.
        create: Whether to make the file where there is none.
    """

    READ = ("BEGIN",)
    WRITE = ALONE = ("PRAGMA synchronous = FULL", "BEGIN IMMEDIATE")  # SQLite has one writer at a time
    CLAIM = ("PRAGMA synchronous = NORMAL", "BEGIN IMMEDIATE")
    #: In the file they are overwritten, but not in the log; while somebody reads that, it waits.
    ERASE = (
        "PRAGMA busy_timeout = 100",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        f"PRAGMA busy_timeout = {1000 * _SECONDS}",
    )
    errors = sqlite3.Error

    def __init__(self, path: Path, *, hub: bool, create: bool) -> None:
        super().__init__()
        self._path = path.absolute()
        self._make_file(create)
        self._lock = _locked(self._path) if hub else None
        #: Which file the connection has: its device and its number there.
        self._file: tuple[int, int] | None = None

    def sql(self, statement: str) -> str:
        """Return a statement without locks on rows, which SQLite has no need of."""
        return statement.removesuffix(" FOR SHARE").removesuffix(" FOR UPDATE")

    def close(self) -> None:
        """Close the database, and let another hub have it."""
        super().close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _make_file(self, create: bool) -> None:
        """Make the file where there is none; SQLite gives its other files the permissions of this one.

        A file that is there is never opened except by SQLite. Closing any handle of it would end all locks
        that this process has on it, and another process that closes its connection would then take itself
        for the last one and remove the log, which this process would go on writing to, unseen by others.
        """
        if not self._path.parent.is_dir():
            raise ConfigError(f"there is no folder {self._path.parent}")
        if not self._path.exists():
            if not create:
                raise ConfigError(f"there is no database {self._path}; ccesa serve and ccesa invite make it")
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        files.check_private(self._path)

    def _found(self) -> tuple[int, int] | None:
        """Return which file is at the path now."""
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _check_place(self) -> None:
        if self._found() != self._file:
            raise Unavailable(f"the database {self._path} was deleted or replaced under this hub")

    def _connect(self) -> sqlite3.Connection:
        self._file = self._found()
        try:
            files.check_private(self._path)
        except OSError:
            raise Unavailable(f"the database {self._path} is not there") from None
        name = f"file:{quote(str(self._path))}?mode=rw"  # a file that has gone is not made anew, empty
        connection = sqlite3.connect(
            name, uri=True, timeout=_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            for setting in _SETTINGS:
                connection.execute(f"PRAGMA {setting}").close()
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _run(self, connection: sqlite3.Connection) -> _Run:
        return _Run(connection, self)

    def _told(self, error: Exception) -> Exception:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_IOERR) & 0xFF  # without its finer part
        if code in _LASTING:
            return ConfigError(f"{self._path} {_LASTING[code]} ({name})")
        return Unavailable(f"the database {self._path} cannot be used now ({name})")


def _locked(path: Path) -> int:
    """Lock a file beside the database until this process ends, or the handle is closed."""
    if not files.has_locks():
        raise ConfigError("a hub on SQLite needs file locks, which this system does not have; use PostgreSQL")
    try:
        return files.lock(f"{path}.lock")
    except BlockingIOError:
        raise ConfigError(
            f"another hub process has {path}: SQLite is for one hub process; several share PostgreSQL"
        ) from None
