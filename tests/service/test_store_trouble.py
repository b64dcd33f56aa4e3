"""Databases that are full, locked or away, and servers that die: said as such, and it goes on afterwards."""

import random
import sqlite3
import threading
import time
import traceback

import pytest

from ccesa.errors import ConfigError
from ccesa.service.errors import Unavailable
from ccesa.service.store import database, log, open_store, postgres
from postgres import Server
from store_hub import Process, check, number, opening

SHARE = b"a share of a secret"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "federation.db"


def begun(url):
    """A store in which exchange 0 of series 1 is open, and client 3 is claimed by hub one."""
    store = open_store(url)
    store.begin_series(b"config", 2)
    store.open_exchange(1, opening(0))
    store.claim(1, 0, "one", {3: b"a"})
    return store


def told(error: BaseException) -> str:
    """Everything that a log would show of an error."""
    return "".join(traceback.format_exception(error))


# SQLite


def test_a_full_disk_loses_nothing_and_half_saves_nothing(path):
    store = begun(f"sqlite:///{path}")
    assert store.save(1, 0, "one", {3: b"a"}, bytes(10_000))
    store.claim(1, 0, "one", {7: b"b"})
    with store._database.reading() as run:
        [(pages,)] = run("PRAGMA page_count")
        run(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(Unavailable, match="SQLITE_FULL") as full:
        store.save(1, 0, "one", {7: SHARE * 5000}, bytes(200_000))
    assert "share" not in told(full.value)
    assert (store.answers(1, 0), store.sums(1, 0)) == ({3: b"a"}, [bytes(10_000)])
    assert store.save(1, 0, "one", {7: SHARE * 5000}, bytes(200_000))  # there is room again
    assert store.sums(1, 0) == [bytes(200_000)]
    store.close()


def test_a_file_that_others_hold_is_away_for_that_long(path, monkeypatch):
    monkeypatch.setattr(database, "_SECONDS", 0.05)
    store = begun(f"sqlite:///{path}")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="SQLITE_BUSY"):
        store.save(1, 0, "one", {3: SHARE}, None)
    assert store.answered(1, 0) == set()  # whoever only reads does not wait
    other.execute("ROLLBACK")
    other.close()
    assert store.save(1, 0, "one", {3: SHARE}, None)
    store.close()


def test_a_damaged_file_is_no_passing_trouble(path):
    store = begun(f"sqlite:///{path}")
    store.close()
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    with pytest.raises(ConfigError, match="is damaged"):
        store.answers(1, 0)
    store.close()


def test_a_row_that_is_too_large_is_no_passing_trouble(path, monkeypatch):
    store = begun(f"sqlite:///{path}")
    with store._database.reading():
        store._database._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)
    with pytest.raises(ConfigError, match="row this large"):
        store.save(1, 0, "one", {3: b"a"}, bytes(2000))
    store.close()


# PostgreSQL


def test_a_server_that_stops_is_away_until_it_is_back(postgres_server, postgres_url):
    store = begun(postgres_url)
    assert store.save(1, 0, "one", {3: b"a"}, b"sum")
    store.claim(1, 0, "one", {7: b"b"})
    postgres_server.stop()
    try:
        for _ in range(3):
            with pytest.raises(Unavailable) as away:
                store.save(1, 0, "one", {7: SHARE}, b"more")
            assert "share" not in told(away.value)
        with pytest.raises(Unavailable, match="cannot be reached"):
            open_store(postgres_url)
    finally:
        postgres_server.start()
    assert store.answers(1, 0) == {3: b"a"}
    assert store.save(1, 0, "one", {7: SHARE}, b"more")
    store.close()


def test_a_connection_that_the_server_ends_is_made_anew(postgres_server, postgres_url):
    store = begun(postgres_url)
    postgres_server.psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ccesa'")
    with pytest.raises(Unavailable):
        store.save(1, 0, "one", {3: SHARE}, None)
    assert store.save(1, 0, "one", {3: SHARE}, None)
    store.close()


def test_what_was_acknowledged_survives_the_server(tmp_path):
    """Killed with all its processes at random moments, with ``fsync`` on as it is by default.

    The server is this test's own: one with the tables of all other tests takes long to come back.
    """
    chance, server = random.Random(3), Server()
    try:
        server.start(fsync="on", full_page_writes="on")
        url = server.url()
        store = open_store(url)
        for life in range(2):
            place = (store.begin_series(b"config", 1).series, 0)
            store.open_exchange(place[0], opening(0))
            hubs = [Process(url, place, one, tmp_path / f"{life}-{one}") for one in range(2)]
            time.sleep(chance.uniform(0.05, 0.3))
            server.kill()
            acknowledged = [pair for hub in hubs for pair in hub.kill()]
            server.start(fsync="on", full_page_writes="on")
            with pytest.raises(Unavailable):
                store.series()
            found = {client: number(body) for client, body in check(store, place).items()}
            assert dict(acknowledged).items() <= found.items()
            assert len(acknowledged) <= len(found) <= len(acknowledged) + 16
            store.end_series(place[0])
        store.close()
    finally:
        server.remove()


def test_no_row_is_in_the_text_of_an_error(postgres_server, postgres_url):
    """PostgreSQL quotes a row that breaks a rule, in the detail of its error."""
    store = begun(postgres_url)
    place = postgres_url.rpartition("%3D")[2]
    postgres_server.psql(f"ALTER TABLE {place}.answers ADD CHECK (body IS NULL OR length(body) < 5)")
    with pytest.raises(Unavailable, match="23514, CheckViolation") as broken:
        store.save(1, 0, "one", {3: SHARE}, b"sum")
    for secret in (SHARE.decode(), SHARE.hex(), "Failing row"):
        assert secret not in told(broken.value)
    store.close()


def test_what_a_person_has_to_mend_is_no_passing_trouble(postgres_server, postgres_url):
    store = begun(postgres_url)
    postgres_server.psql(f"DROP TABLE {postgres_url.rpartition('%3D')[2]}.sums")
    with pytest.raises(ConfigError, match="UndefinedTable"):
        store.save(1, 0, "one", {3: SHARE}, b"sum")
    assert store.answered(1, 0) == set()
    with pytest.raises(ConfigError, match="DataError"):
        store.note_alive("a name with \0 in it", 1.0)
    store.close()


def test_closing_waits_for_a_save_and_nothing_changes_after(postgres_url, monkeypatch):
    """Also for one that is said again, and has no claim left that closing would have to wait for."""
    store, closer = begun(postgres_url), open_store(postgres_url)
    assert store.save(1, 0, "one", {3: b"a"}, b"sum")
    slowly = "UPDATE sums SET total = slow.total FROM (SELECT ?, ?, ?, ?::bytea AS total, pg_sleep(0.5)) AS slow"
    monkeypatch.setattr(log, "_TOTAL", slowly)
    saving = threading.Thread(target=store.save, args=(1, 0, "one", {3: b"a"}, b"the sum again"))
    saving.start()
    time.sleep(0.2)
    closer.close_exchange(1, 0, 2.0)
    assert closer.sums(1, 0) == [b"the sum again"]
    saving.join()
    assert closer.sums(1, 0) == [b"the sum again"]
    store.close()
    closer.close()


def test_a_hub_that_stands_still_in_a_transaction_holds_nobody_up(postgres_url, monkeypatch):
    kind = postgres.PostgreSQL
    settings = tuple(one.replace("timeout = '10s'", "timeout = '200ms'") for one in kind.SETTINGS)
    monkeypatch.setattr(kind, "SETTINGS", settings)
    still = begun(postgres_url)
    monkeypatch.undo()
    other = open_store(postgres_url)

    def stand_still():
        with still._database.writing() as run:
            run("SELECT closed FROM exchanges WHERE series = 1 AND exchange = 0 FOR SHARE")
            other.close_exchange(1, 0, 2.0)
            run("SELECT 1")

    with pytest.raises(Unavailable):
        stand_still()
    assert other.exchanges(1)[0].closed == 2.0
    still.close()
    other.close()
