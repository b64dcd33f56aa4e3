"""The tables of a federation, in SQL for SQLite and PostgreSQL (where BLOB becomes BYTEA).

The tables have a version. A new database gets those of version 1 and is then migrated like any other, so that only
one way leads to a version. docs/data-model.md says what each row promises.
"""

import time

from ccesa.errors import ConfigError
from ccesa.service.errors import NewerDatabase
from ccesa.service.store import audit
from ccesa.service.store.database import Database, Run, fact, put_fact

_FACTS = "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value BLOB NOT NULL)"
#: Version 1.
_TABLES = """
series (series BIGINT PRIMARY KEY, config BLOB NOT NULL, rounds BIGINT NOT NULL, over BIGINT NOT NULL,
    forgotten BIGINT NOT NULL);
exchanges (series BIGINT, exchange BIGINT, members TEXT NOT NULL, task BLOB NOT NULL, question BIGINT,
    opened DOUBLE PRECISION NOT NULL, closed DOUBLE PRECISION, PRIMARY KEY (series, exchange));
answers (series BIGINT, exchange BIGINT, client BIGINT, hub TEXT NOT NULL, digest BLOB NOT NULL, body BLOB,
    PRIMARY KEY (series, exchange, client));
sums (series BIGINT, exchange BIGINT, hub TEXT, total BLOB NOT NULL, PRIMARY KEY (series, exchange, hub));
tasks (question BIGINT PRIMARY KEY, digest BLOB NOT NULL, payload BLOB NOT NULL);
rounds (series BIGINT, number BIGINT, question BIGINT, outcome TEXT NOT NULL, told TEXT NOT NULL,
    total BLOB NOT NULL, PRIMARY KEY (series, number));
members (client BIGINT PRIMARY KEY, blames BIGINT NOT NULL DEFAULT 0, set_aside TEXT NOT NULL DEFAULT '',
    seen DOUBLE PRECISION NOT NULL DEFAULT 0);
tokens (hash BLOB PRIMARY KEY, client BIGINT NOT NULL, label TEXT NOT NULL);
sessions (hash BLOB PRIMARY KEY, nonce BLOB NOT NULL UNIQUE, client BIGINT NOT NULL,
    expires DOUBLE PRECISION NOT NULL);
hubs (hub TEXT PRIMARY KEY, seen DOUBLE PRECISION NOT NULL);
lease (id BIGINT PRIMARY KEY, hub TEXT NOT NULL, until DOUBLE PRECISION NOT NULL);
audit (place BIGINT PRIMARY KEY, time DOUBLE PRECISION NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
    hash BLOB NOT NULL);
"""
#: How to make each version from the one before. A migration only adds tables, and columns with a default: a
#: hub of the previous version that is still running must not notice.
_MIGRATIONS = {
    2: (  # the latest exchange that a member claims to know, and this database did not
        "ALTER TABLE members ADD COLUMN known_series BIGINT NOT NULL DEFAULT 0",
        "ALTER TABLE members ADD COLUMN known_exchange BIGINT NOT NULL DEFAULT -1",
    ),
    3: (  # whole replies whose vectors wait for helpers
        "CREATE TABLE held (series BIGINT, exchange BIGINT, client BIGINT, reply BLOB NOT NULL,"
        " PRIMARY KEY (series, exchange, client))",
    ),
}
VERSION = max(_MIGRATIONS)
READS = (1, 2, 3)  # versions that commands read without a change, and that a hub migrates when it starts


def prepare(database: Database, create: bool) -> None:
    """With ``create``, make or migrate the tables in one transaction, one hub at a time. Then ``check``."""
    if create:
        with database.alone() as run:
            _migrate(run)
    check(database)


def check(database: Database) -> None:
    """Refuse missing tables and versions that this release does not read."""
    with database.reading() as run:
        _version(run)


def _migrate(run: Run) -> None:
    """Bring the tables to the latest version, step by step."""
    run(_FACTS)
    is_new = bool(run("INSERT INTO facts VALUES ('version', ?) ON CONFLICT DO NOTHING RETURNING name", b"1"))
    for table in _TABLES.split(";")[:-1] if is_new else ():
        run(f"CREATE TABLE {table.strip()}")
    for version in range(_version(run) + 1, VERSION + 1):
        for statement in _MIGRATIONS[version]:
            run(statement)
        put_fact(run, "version", str(version).encode())
        if not is_new:
            audit.append(run, "tables", {"version": version}, time.time())


def _version(run: Run) -> int:
    """Return the version of the tables; refuse versions that this release does not read."""
    text = fact(run, "version")
    found = int(text) if text.isdigit() else -1
    if found > VERSION:
        raise NewerDatabase(
            f"the database has tables of version {found}, and this ccesa knows versions up to {VERSION}: "
            "a newer ccesa has taken it over; start that one"
        )
    if found not in READS:
        raise ConfigError(
            f"the database has tables of version {found}, and this ccesa reads versions {READS[0]} to "
            f"{READS[-1]}: start once a release that reads both"
        )
    return found
