"""A federation's database: a log that every hub process follows, and members, tokens, tasks and results.

Every method of a ``Store`` is one transaction. When it returns, its effect is durable. When it raises
``ccesa.service.errors.Unavailable``, it may have happened or not, and the call can be repeated.
"""

from contextlib import ExitStack
from pathlib import Path

from ccesa.errors import ConfigError
from ccesa.service.store import schema
from ccesa.service.store.database import Database, SQLite
from ccesa.service.store.log import Log
from ccesa.service.store.records import Records

__all__ = ["Store", "open_store"]
_SQLITE, _POSTGRES = "sqlite:///", ("postgresql://", "postgres://")


class Store(Log, Records):
    """A federation's database. One thread at a time uses it; other threads wait."""

    def check_version(self) -> None:
        """Raise ``NewerDatabase`` if a newer ccesa has taken the database over."""
        schema.check(self._database)

    def close(self) -> None:
        self._database.close()


def open_store(url: str, *, hub: bool = False, create: bool = True) -> Store:
    """Open a federation's database: ``sqlite:///file`` or ``postgresql://...``.

    Only one ``hub`` can use an SQLite file, and a process opens at most one store in this way. ``create`` allows it to
    make a missing file and missing tables, and to migrate tables of earlier versions.
    """
    if url.startswith(_SQLITE) and url != _SQLITE:
        database: Database = SQLite(Path(url.removeprefix(_SQLITE)), hub=hub, create=create)
    elif url.startswith(_POSTGRES):
        from ccesa.service.store.postgres import PostgreSQL  # an optional package

        database = PostgreSQL(url)
    else:
        raise ConfigError("a database must be sqlite:///file or postgresql://user@host/name")
    with ExitStack() as undone:
        undone.callback(database.close)
        schema.prepare(database, create)
        undone.pop_all()
    return Store(database)
