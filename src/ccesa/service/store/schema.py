"""The tables of a federation, in words that SQLite and PostgreSQL understand; BLOB is BYTEA there."""

from ccesa.errors import ConfigError
from ccesa.service.store.database import Database

VERSION = b"1"

_FACTS = "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value BLOB NOT NULL)"
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


def prepare(database: Database, create: bool) -> None:
    """Make the tables where there are none, if that is wished for; refuse those of another version."""
    if create:
        with database.alone() as run:
            run(_FACTS)
            if run("INSERT INTO facts VALUES ('version', ?) ON CONFLICT DO NOTHING RETURNING name", VERSION):
                for table in _TABLES.split(";")[:-1]:
                    run(f"CREATE TABLE {table.strip()}")
    with database.reading() as run:
        [(found,)] = run("SELECT value FROM facts WHERE name = 'version'")
        if found != VERSION:
            raise ConfigError(
                f"the database has tables of version {found.decode(errors='replace')}, this ccesa those of "
                f"{VERSION.decode()}: finish with the ccesa that began, or give the federation a new database"
            )
