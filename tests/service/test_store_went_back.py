"""A database that goes back or goes away under a hub, or before it starts: noticed, and nothing is asked."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

import processes
from ccesa.errors import StaleLog
from ccesa.service.errors import Unavailable
from ccesa.service.hub import engine
from ccesa.service.store import audit, open_store
from ccesa.service.store.mark import Mark
from engines import CLIENTS, World, check, federation
from postgres import Server
from processes import Place, finish
from rounds import charter
from series_rounds import GUARDS


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(engine, "AWAY", 0.0)


def go_on(world, exchanges: int) -> None:
    """Go on until so many more exchanges have opened, and somebody has answered the last."""
    until = exchanges + (world.hubs[0].view.exchange if world.hubs[0].view else 0)
    while not (world.hubs[0].view and world.hubs[0].view.exchange >= until and world.receipts["saved"]):
        world.go_on(0)


def acknowledged(world) -> int:
    return world.receipts["saved"]


def silent(world, says: str) -> None:
    """The hub serves nobody, and says why."""
    before = acknowledged(world)
    for _ in range(5):
        world.go_on(0, chance=1.0)
        world.now += 1
    assert acknowledged(world) == before
    assert says in world.hubs[0].engine.trouble


def begin_anew(world) -> None:
    """What ``ccesa serve --new-series`` does."""
    world.hubs[0].store.store.close()
    world.hubs[0] = world.hub(0)
    counter = world.hubs[0].engine._counter
    counted = Mark() if counter is None else Mark.of_count(counter.value)
    world.hubs[0].engine._leader.abandon(world.now, counted.place[0])
    world.requests.clear()
    world.settled.clear()
    world.acknowledged.clear()


class File:
    """A file of SQLite that is copied and put back."""

    def __init__(self, folder, name="a.db"):
        self.path, self.copied = folder / name, folder / "copy.db"
        self.url = f"sqlite:///{self.path}"

    def copy(self):
        with closing(sqlite3.connect(self.path)) as one, closing(sqlite3.connect(self.copied)) as two:
            one.backup(two)
        os.chmod(self.copied, 0o600)

    def put_back(self):
        for path in (self.path, *self.path.parent.glob(f"{self.path.name}-*")):
            path.unlink()
        shutil.copy(self.copied, self.path)


class Dump:
    """A schema of PostgreSQL that is dumped, and put back from the dump while hubs are connected."""

    def __init__(self, server, url):
        self.url, self._server = url, server
        (options,) = parse_qs(urlsplit(url).query)["options"]
        self._schema, self._dumped = options.partition("=")[2], ""

    def copy(self):
        self._dumped = self._server.dump("-n", self._schema)

    def put_back(self):
        self._server.psql(f"DROP SCHEMA {self._schema} CASCADE")
        self._server.psql(self._dumped)


class Standby:
    """A server whose copy, which lags behind, takes over in its place."""

    def __init__(self):
        self._server = Server()
        self._server.start()
        self.url = self._server.url()

    def _copied(self, one: str, two: str):
        self._server.stop()
        shutil.rmtree(self._server.folder / two, ignore_errors=True)
        subprocess.run(["/bin/cp", "-a", self._server.folder / one, self._server.folder / two], check=True)
        self._server.start()

    def copy(self):
        self._copied("data", "standby")

    def put_back(self):
        self._copied("standby", "data")

    def remove(self):
        self._server.remove()


@pytest.fixture(params=["file", "dump", "standby"])
def kept(request, tmp_path):
    """A database that can be copied, and the copy put back."""
    if request.param == "file":
        yield File(tmp_path)
    elif request.param == "dump":
        yield Dump(request.getfixturevalue("postgres_server"), request.getfixturevalue("postgres_url"))
    else:
        standby = Standby()
        yield standby
        standby.remove()


@pytest.mark.parametrize("exchanges", [0, 2])
def test_a_database_that_goes_back_under_a_hub_is_noticed(kept, exchanges):
    """By an answer that was acknowledged, or by an exchange; also after a restart. A new series goes on."""
    world = World(kept.url, federation(rounds=3), seed=1, hubs=1)
    go_on(world, 4)
    kept.copy()
    saved = acknowledged(world)
    if exchanges:
        go_on(world, exchanges)
    while acknowledged(world) == saved:
        world.go_on(0)
    kept.put_back()
    world.go_on(0)  # a connection that is cut off is found out first
    silent(world, "the database has gone back: it lacks ")
    assert world.hubs[0].view.state == "stuck"
    assert world.hubs[0].status.advice.startswith("Put the newest database back.")
    assert not world.hubs[0].view.requests
    world.hubs[0].store.store.close()
    world.hubs[0] = world.hub(0)
    silent(world, "the database has gone back: it lacks ")
    begin_anew(world)
    world.run(troubles=0)
    rows = check(world)
    assert {row.series for row in rows if row.outcome == "sum"} == {1, 1002} or rows[-1].series == 1002
    entries = audit.verify(world.hubs[0].store.audit_rows())
    assert [row.kind for row in entries if row.kind in ("gone back", "series abandoned")] == [
        "gone back",
        "series abandoned",
    ]
    world.close()


def test_the_newest_database_that_is_put_back_goes_on_by_itself(kept):
    world = World(kept.url, federation(rounds=3), seed=2, hubs=1)
    go_on(world, 2)
    kept.copy()
    held, world.receipts["saved"] = dict(vars(world.hubs[0].engine._mark)), 0
    world.hubs[0].engine._mark = Mark(**held | {"place": (1, held["place"][1] + 1)})
    silent(world, "it lacks exchange 3 of series 1")
    world.hubs[0].engine._mark = Mark(**held)
    kept.put_back()  # without the note that it had gone back
    world.go_on(0)
    world.run(troubles=0)
    assert len([row for row in check(world) if row.outcome == "sum"]) == 3
    world.close()


@pytest.mark.parametrize("replaced", [False, True])
def test_nothing_is_acknowledged_into_a_file_that_is_gone(tmp_path, replaced):
    """Its connection would go on without a word; what it takes nobody would ever find."""
    world = World(f"sqlite:///{tmp_path}/a.db", federation(rounds=3), seed=3, hubs=1)
    go_on(world, 2)
    (tmp_path / "a.db").unlink()
    if replaced:
        (tmp_path / "a.db").touch(0o600)
    before = acknowledged(world)
    world.go_on(0, chance=1.0)
    assert "was deleted or replaced under this hub" in world.hubs[0].engine.trouble
    for _ in range(5):
        world.go_on(0, chance=1.0)
        assert world.hubs[0].engine.trouble
    assert acknowledged(world) == before
    assert world.receipts["again"]


def test_a_file_that_goes_while_something_is_saved_has_saved_nothing(tmp_path):
    world = World(f"sqlite:///{tmp_path}/a.db", federation(rounds=3), seed=4, hubs=1)
    go_on(world, 1)
    store = world.hubs[0].store.store

    def save():
        with store._database.writing() as run:
            run("DELETE FROM tokens")
            (tmp_path / "a.db").unlink()

    with pytest.raises(Unavailable, match="deleted or replaced"):
        save()


def test_every_copy_of_the_past_is_known_by_its_mark(tmp_path):
    """A database is at every mark of its own past, and none of its past is at a later mark."""
    kept, marks, copies = File(tmp_path), [], []
    world = World(kept.url, federation(rounds=2), seed=5, hubs=1)
    while not (world.hubs[0].view and world.hubs[0].view.state == "over"):
        world.go_on(0)
        mark = world.hubs[0].engine._mark
        if not marks or mark != marks[-1]:
            kept.copy()
            marks.append(mark)
            copies.append(shutil.copy(kept.copied, tmp_path / f"{len(copies)}.db"))
    world.close()
    assert len(marks) > 10
    for place, copy in enumerate(copies):
        store = open_store(f"sqlite:///{copy}")
        for earlier in marks[: place + 1]:
            store.follow(earlier)
        for later in marks[place + 1 :]:
            with pytest.raises(StaleLog):
                store.follow(later)
        store.close()


# What members know


def told(world, clients, place) -> None:
    for client in clients:
        world.hubs[0].presence.note_known(client, *place)
    world.go_on(0)


def restarted(world) -> None:
    """The hub dies and starts again, with whatever lies there now."""
    world.hubs[0].store.store.close()
    world.hubs[0] = world.hub(0)
    world.requests.clear()


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("empty", [False, True])
def test_s27_a_hub_that_starts_with_an_old_copy_knows_it_by_its_counter(tmp_path, guard, empty):
    """Before any member has said a word. A new series goes on."""
    kept = File(tmp_path)
    world = World(kept.url, federation(guard, rounds=3), seed=6, hubs=1, counters=tmp_path)
    if not empty:
        go_on(world, 3)
    kept.copy()
    go_on(world, 1)
    place = world.hubs[0].engine._mark.place
    kept.put_back()
    restarted(world)
    silent(world, f"it lacks exchange {place[1]} of series 1, which this hub has seen")
    assert world.hubs[0].view.state == "stuck"
    assert not world.hubs[0].view.requests
    begin_anew(world)
    world.run(troubles=0)
    assert world.hubs[0].store.series().series > 1000
    check(world)
    restarted(world)
    world.go_on(0)
    assert world.hubs[0].engine.trouble == ""
    kept.put_back()  # a second time, to before the first
    restarted(world)
    silent(world, "of series 1")
    begin_anew(world)
    for _ in range(50):
        world.now += 1
        world.go_on(0)
    assert world.hubs[0].engine.trouble == ""
    assert world.hubs[0].store.series().series > 2000
    world.close()


def test_s27_a_copy_that_another_hub_went_on_with_is_known_by_how_an_exchange_was_opened(tmp_path):
    """It has the same numbers again by then."""
    kept = File(tmp_path)
    world = World(kept.url, federation(rounds=3), seed=6, hubs=1, counters=tmp_path)
    go_on(world, 3)
    kept.copy()
    go_on(world, 1)
    place = world.hubs[0].engine._mark.place
    counted = (tmp_path / "0.counter").read_bytes()
    kept.put_back()
    (tmp_path / "0.counter").write_bytes(b"")
    restarted(world)
    world.settled.clear()
    while world.hubs[0].engine._mark.place < place:
        world.now += 1
        world.go_on(0)
    (tmp_path / "0.counter").write_bytes(counted)
    restarted(world)
    silent(world, f"it lacks exchange {place[1]} of series 1 as it was opened")
    world.close()


def test_a_hub_that_cannot_count_shows_nothing(tmp_path):
    world = World(f"sqlite:///{tmp_path}/a.db", federation(rounds=3), seed=6, hubs=1, counters=tmp_path)
    go_on(world, 2)
    counter, shown = world.hubs[0].engine._counter, set(world.requests)

    def full(number, mark):
        raise OSError(28, "No space left on device")

    counter.set = full
    for _ in range(20):
        world.go_on(0, chance=1.0)
        world.now += 1
    assert "the counter of this hub cannot be written: No space" in world.hubs[0].engine.trouble
    assert set(world.requests) == shown
    del counter.set
    world.run(troubles=0)
    check(world)
    world.close()


@pytest.mark.parametrize("guard", GUARDS)
def test_a_hub_that_starts_with_an_old_copy_hears_of_it_from_its_members(tmp_path, guard):
    """It has no counter. More members than may lie say which exchange they know."""
    agreed = charter(CLIENTS, bits=32, min_survivors=3) if guard == "active" else None
    made, kept = federation(guard, rounds=3), File(tmp_path)
    liars = 0 if agreed is None else agreed.certificate.colluders
    world = World(kept.url, made, seed=6, hubs=1)
    go_on(world, 3)
    kept.copy()
    go_on(world, 2)
    known = world.hubs[0].engine._mark.place
    world.hubs[0].store.store.close()
    kept.put_back()
    world.hubs[0] = world.hub(0)
    world.requests.clear()
    told(world, range(liars), known)
    assert world.hubs[0].engine.trouble == ""
    told(world, range(liars + 1), known)
    assert f"know exchange {known[1]} of series 1" in world.hubs[0].engine.trouble
    silent(world, "the database has gone back")
    begin_anew(world)
    world.run(troubles=0)
    assert world.hubs[0].store.series().series == 1002
    check(world)
    world.close()


def test_a_new_database_in_place_of_a_lost_one_takes_a_number_that_no_member_knows(tmp_path):
    """Members go on asking about the series that is lost, also after the operator has begun anew."""
    world = World(f"sqlite:///{tmp_path}/a.db", federation("curious", rounds=2), seed=8, hubs=1)
    for client in range(CLIENTS):
        world.hubs[0].presence.note_known(client, 2, 7)
    silent(world, "the database has gone back")
    assert world.hubs[0].store.series() is None
    begin_anew(world)
    told(world, range(CLIENTS), (2, 7))
    assert world.hubs[0].engine.trouble == ""
    world.run(troubles=0)
    assert world.hubs[0].store.series().series == 1001
    check(world)
    world.close()


def test_no_more_members_than_may_lie_stop_a_hub(tmp_path, monkeypatch):
    """And one that is set aside is not believed."""
    made = federation("active", rounds=2)
    monkeypatch.setattr(type(made.agreement.certificate), "colluders", property(lambda _: 2))
    world = World(f"sqlite:///{tmp_path}/a.db", made, seed=7, hubs=1)
    go_on(world, 2)
    told(world, [0, 1], (10**9 - 1, 10**9 - 1))
    assert world.hubs[0].engine.trouble == ""
    world.hubs[0].store.set_aside(0, "it lies")
    told(world, [0, 1, 2], (10**9 - 1, 5))
    assert world.hubs[0].engine.trouble == ""
    told(world, [3], (1, 10**6))
    assert world.hubs[0].engine.trouble.startswith(
        "the database has gone back: 3 members, such as client-1, client-2, client-3, know exchange 1000000"
        " of series 1 or a later one, and its last one is exchange"
    )
    world.close()


def test_a_hub_that_lags_behind_another_one_is_not_stuck(database_url):
    """Its members know what the other one has shown them; the store knows it, too."""
    world = World(database_url, federation(rounds=2), seed=8, hubs=2)
    go_on(world, 3)
    lagging = world.hubs[1]
    for client in range(CLIENTS):
        lagging.presence.note_known(client, *world.hubs[0].engine._mark.place)
    world.now += engine.HEARTBEAT
    world.go_on(1)
    assert lagging.engine.trouble == ""
    world.run(troubles=0)
    check(world)
    world.close()


def test_what_is_known_never_falls_and_goes_with_the_seat(database_url):
    with closing(open_store(database_url)) as store:
        store.note_known({3: (2, 7)})
        store.note_known({3: (2, 5), 4: (1, -1)})
        assert {client: row.known for client, row in store.members().items()} == {3: (2, 7), 4: (1, -1)}
        store.note_contacts({3: 5.0})
        assert store.members()[3].known == (2, 7)
        store.begin_series(b"config", 1, names=("a", "b", "c", "d", "e"))
        store.end_series(1)
        store.begin_series(b"config", 1, names=("b", "a", "c", "d", "e"))
        assert store.members()[3].known == (0, -1)


# With real hubs and sites


def serve(place: Place, *options: str) -> None:
    """Start ``ccesa serve`` as a person would."""
    with (place.folder / "hub0.log").open("ab") as log:
        command = [sys.executable, "-m", "ccesa", "serve", str(place._file(0)), "--name", "hub0", *options]
        place.running["hub0"] = subprocess.Popen(command, stdout=log, stderr=log)


def wait_for(what, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.1)


def readiness(place: Place) -> str:
    """What ``/readyz`` says; empty where all is well."""
    operate = place.federation.hub.operate
    with suppress(httpx.HTTPError):
        answer = httpx.get(f"http://{operate}/readyz", timeout=5)
        return "" if answer.status_code == 204 else answer.json()["detail"]
    return "no answer"


@pytest.mark.parametrize("counted", [False, True])
def test_a_hub_is_told_that_its_database_is_old_and_sites_join_the_new_series(tmp_path, counted):
    """By its counter, or else by sites. They run all the time: none is started again, and none ends."""
    with Place(folder=tmp_path, store="sqlite:///federation.db", clients=6, rounds=400) as place:
        kept = File(tmp_path, "federation.db")
        serve(place)
        for group in range(2):
            place.start_sites(group, groups=2)
        wait_for(lambda: place.sums() >= 1)
        kept.copy()
        copied = place.sums()
        wait_for(lambda: place.sums() >= copied + 2)
        place.kill("hub0")
        kept.put_back()
        if not counted:
            (tmp_path / "federation-0.counter").unlink()
        serve(place)
        wait_for(lambda: "the database has gone back" in readiness(place))
        assert ("it lacks exchange" if counted else "know exchange") in readiness(place)
        place.kill("hub0")
        serve(place, "--new-series")
        before = place.sums()
        wait_for(lambda: place.sums() >= before + 2)
        assert readiness(place) == ""
        finish(place)
        place.wait_over(60)
        assert {row.series for row in processes.check(place)} == {1, 1002}


def test_a_hub_waits_for_a_database_that_is_starting(tmp_path):
    """It says so once, and goes on as soon as it can."""
    server = Server()
    try:
        server.start()
        place = Place(folder=tmp_path, store=server.url(), clients=6)
        server.stop()
        with place:
            serve(place)
            log = place.folder / "hub0.log"
            wait_for(lambda: "waiting" in log.read_text())
            assert readiness(place) == "no answer"
            server.start()
            wait_for(lambda: readiness(place) == "")
            assert log.read_text().count("waiting") == 1
            assert "PostgreSQL cannot be reached" in log.read_text()
    finally:
        server.remove()


def test_readiness_says_that_a_file_is_gone(tmp_path):
    with Place(folder=tmp_path, store="sqlite:///federation.db", clients=6) as place:
        serve(place)
        wait_for(lambda: readiness(place) == "")
        (tmp_path / "federation.db").unlink()
        wait_for(lambda: "federation.db" in readiness(place))
