"""A federation's database: a log that every hub process follows, and what a hub knows beside it.

Every method of a ``Store`` is one transaction. When it returns, what it did is durable; when it raises
``ccesa.service.errors.Unavailable``, it was done or not, and the same call can be made again.
"""

from contextlib import ExitStack
from pathlib import Path

from ccesa.errors import ConfigError
from ccesa.service.store import schema
from ccesa.service.store.database import Database
from ccesa.service.store.log import Log
from ccesa.service.store.people import People
from ccesa.service.store.results import Results

__all__ = ["Store", "open_store"]
_SQLITE, _POSTGRES = "sqlite:///", ("postgresql://", "postgres://")


class Store(Log, People, Results):
    """A federation's database. One thread at a time uses it; others wait, or have one of their own."""

    def check_version(self) -> None:
        """Raise ``NewerDatabase`` if a newer ccesa has taken the database over."""
        schema.check(self._database)

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()


def open_store(url: str, *, hub: bool = False, create: bool = True) -> Store:
    """Open a federation's database.

    Args:
        url: ``sqlite:///file`` or ``postgresql://...``.
        hub: Whether this process is a hub; one alone can have a file of SQLite. A process opens at most one
            store in this way.
        create: Whether to make file and tables where there are none, and to take over those of earlier
            versions.

    Returns:
        The store.

    Raises:
        NewerDatabase: A newer ccesa has taken the database over.
        ConfigError: For a URL of neither kind, tables of a version that this release does not read, a file
            that others can read, or one that another hub has.
        Unavailable: If the database is away.
    """
    database = _database(url, hub, create)
    with ExitStack() as undone:
        undone.callback(database.close)
        schema.prepare(database, create)
        undone.pop_all()
    return Store(database)


def _database(url: str, hub: bool, create: bool) -> Database:
    if url.startswith(_SQLITE) and url != _SQLITE:
        from ccesa.service.store.sqlite import SQLite

        return SQLite(Path(url.removeprefix(_SQLITE)), hub=hub, create=create)
    if url.startswith(_POSTGRES):
        from ccesa.service.store.postgres import PostgreSQL

        return PostgreSQL(url)
    raise ConfigError("a database is sqlite:///file or postgresql://user@host/name")
