"""Databases of earlier versions are taken over, those of later ones refused by name; see stores/make.py."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from ccesa.errors import ConfigError
from ccesa.service.errors import NewerDatabase, Unavailable
from ccesa.service.store import audit, open_store, schema
from engines import LONG, World, check, federation

STORES = Path(__file__).parent / "stores"
#: When the hub that left these databases stopped, by its clock.
THEN = 1010.0


def column_names(store):
    """The columns of all tables, in their order."""
    if type(store._database).__name__ == "SQLite":
        sql = "SELECT m.name, c.name, c.dflt_value FROM sqlite_master m, pragma_table_info(m.name) c"
        rest = " WHERE m.type = 'table' ORDER BY m.name, c.cid"
    else:
        sql = "SELECT table_name, column_name, column_default FROM information_schema.columns"
        rest = " WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position"
    with store._database.reading() as run:
        return [tuple(map(str, row)) for row in run(sql + rest)]


#: Versions of which there is a database here.
EARLIER = tuple(version for version in schema.READS if version != schema.VERSION)


@pytest.fixture(params=EARLIER)
def old(request):
    """An earlier version."""
    return request.param


@pytest.fixture(params=["sqlite", "postgresql"])
def old_url(request, tmp_path, old):
    """The URL of a database of that version, as its hub left it in the middle of the third question."""
    text = (STORES / f"version-{old}.{request.param}.sql").read_text()
    if request.param == "sqlite":
        path = tmp_path / "federation.db"
        path.touch(0o600)
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(text)
        return f"sqlite:///{path}"
    url = request.getfixturevalue("postgres_url")
    (options,) = parse_qs(urlsplit(url).query)["options"]
    server = request.getfixturevalue("postgres_server")
    server.psql(text.replace("place0", options.partition("=")[2]))
    return url


def version(store) -> int:
    with store._database.reading() as run:
        return schema._version(run)


def test_a_database_of_an_earlier_version_is_taken_over(old, old_url):
    """Its history, its series and its audit log go on."""
    before = open_store(old_url, create=False)
    noted = before.head().hash
    entries, rounds = audit.verify(before.audit_rows()), before.rounds(totals=True)
    before.close()
    assert [row.outcome for row in rounds] == ["sum", "sum"]
    world = World(old_url, federation(rounds=4), seed=5, hubs=1)
    world.now = THEN
    store = world.hubs[0].store
    assert version(store.store) == schema.VERSION
    after = audit.verify(store.audit_rows(), noted)
    assert after[: len(entries)] == entries
    steps = [("tables", {"version": version}) for version in range(old + 1, schema.VERSION + 1)]
    assert [(row.kind, msgspec.json.decode(row.body)) for row in after[len(entries) :]] == steps
    assert store.rounds(totals=True) == rounds
    assert store.members()[5].set_aside == "its disk is broken"
    assert store.member_of(bytes(range(32))) == 2
    world.run(troubles=0)
    rows = check(world)
    assert len(rows) > len(rounds)
    assert rows[: len(rounds)] == rounds
    audit.verify(store.audit_rows(), noted)
    world.close()


def test_an_earlier_version_is_read_as_it_is(old, old_url):
    store = open_store(old_url, create=False)
    assert version(store) == old
    assert len(audit.verify(store.audit_rows())) == 3
    assert store.total_of(1).survivors
    store.close()


def test_a_database_that_was_taken_over_is_like_a_new_one(old_url, tmp_path):
    """And a migration adds tables, and columns at the end with defaults: hubs of the version before go on."""
    with closing(open_store(old_url, create=False)) as store:
        old = column_names(store)
    with closing(open_store(old_url)) as store:
        migrated = column_names(store)
    names = [row[:2] for row in migrated]
    assert [row for row in migrated if row in old] == old
    added = [row for row in migrated if row not in old]
    assert added
    tables = {row[0] for row in old}
    assert all(default != "None" for table, _, default in added if table in tables)
    with closing(open_store(f"sqlite:///{tmp_path}/new.db")) as store:
        assert sorted(row[:2] for row in column_names(store)) == sorted(names)


def test_hubs_that_start_together_migrate_once(old, old_url):
    opened, together = [], threading.Barrier(4)

    def start() -> None:
        together.wait()
        opened.append(open_store(old_url))

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 4
    entries = audit.verify(opened[0].audit_rows())
    assert [row.kind for row in entries].count("tables") == schema.VERSION - old
    for store in opened:
        store.close()


def test_a_migration_that_is_interrupted_leaves_everything_as_it_was(old, old_url, monkeypatch):
    last = schema.VERSION
    statements = (*schema._MIGRATIONS[last], "ALTER TABLE nothing ADD COLUMN one BIGINT")
    with closing(open_store(old_url, create=False)) as store:
        before = column_names(store)
    with monkeypatch.context() as patch:
        patch.setitem(schema._MIGRATIONS, last, statements)
        with pytest.raises((ConfigError, Unavailable)):
            open_store(old_url)
    with closing(open_store(old_url, create=False)) as store:
        assert version(store) == old
        assert column_names(store) == before
    open_store(old_url).close()


def become(url: str, found: int) -> None:
    store = open_store(url)
    with store._database.writing() as run:
        run("UPDATE facts SET value = ? WHERE name = 'version'", str(found).encode())
    store.close()


@pytest.mark.parametrize("create", [False, True])
def test_a_database_of_a_later_version_is_refused_by_name(database_url, create):
    become(database_url, schema.VERSION + 1)
    with pytest.raises(NewerDatabase, match=rf"of version {schema.VERSION + 1}.* up to {schema.VERSION}"):
        open_store(database_url, create=create)


def test_a_version_that_nobody_knows_is_refused(database_url):
    become(database_url, 0)
    with pytest.raises(ConfigError, match="tables of version 0, and this ccesa reads versions 1 to 3"):
        open_store(database_url)


def test_a_hub_ends_when_a_newer_one_has_taken_its_database_over(database_url):
    """It cannot know what the rows mean now; whatever it is handed is sent again, to the newer one."""
    world = World(database_url, federation(), seed=1, hubs=1)
    while not (world.hubs[0].view and world.hubs[0].view.requests):
        world.go_on(0, chance=0.0)
    become(database_url, schema.VERSION + 1)
    world.now += LONG
    batch = world.batch([0, 1, 2])
    assert batch
    with pytest.raises(NewerDatabase, match="a newer ccesa has taken it over"):
        world.hubs[0].turn(*batch)
    assert dict(world.receipts) == {"again": len(batch)}
    world.close()
