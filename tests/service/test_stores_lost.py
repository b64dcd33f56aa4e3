"""A database that is full, away, or put back as it was before: rounds go on or are lost, and never wrong."""

import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ccesa.errors import ConfigError, FaultyServer
from ccesa.service.hub import engine
from ccesa.service.store import audit, open_store
from ccesa.service.store.audit import DamagedAudit
from engines import World, check, federation
from series_rounds import GUARDS


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(engine, "AWAY", 0.0)


@contextmanager
def full() -> Iterator[None]:
    """Let this process write to no file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("turns", range(0, 60, 9))
def test_a_full_disk(tmp_path, turns):
    """Nothing is acknowledged while nothing can be written; then rounds go on."""
    world = World(f"sqlite:///{tmp_path}/a.db", federation(), seed=turns, hubs=1)
    for _ in range(turns):
        world.go_on(0)
    acknowledged = {place: set(clients) for place, clients in world.acknowledged.items()}
    with full():
        for _ in range(6):
            world.now += engine.HEARTBEAT
            world.go_on(0)
            assert "cannot be used now (SQLITE_" in world.hubs[0].engine.trouble
    assert world.acknowledged == acknowledged
    world.run(troubles=0)
    assert world.hubs[0].engine.trouble == ""
    check(world)
    world.close()


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("exchanges", [1, 3])
def test_an_old_copy_that_is_put_back(tmp_path, guard, exchanges):
    """Clients answer no exchange that is over: rounds of the copy are lost by name, and sums stay exact.

    Whoever has noted the head of the audit log sees that entries are missing.
    """
    world = World(f"sqlite:///{tmp_path}/a.db", federation(guard, rounds=6), seed=3, hubs=1)
    until(world, lambda view: view.task is not None)
    world.hubs[0].store.store.close()
    shutil.copy(tmp_path / "a.db", tmp_path / "copy")
    world.hubs[0] = world.hub(0)
    copied, then = world.hubs[0].store.exchanges(1)[-1].exchange, world.now
    until(world, lambda view: view.exchange >= copied + exchanges)
    until(world, lambda view: bool(open_store(world.url).rounds()))
    noted = world.hubs[0].store.head().hash
    before = {(row.series, row.number) for row in world.hubs[0].store.rounds() if row.outcome == "sum"}
    world.hubs[0].store.store.close()
    put_back(tmp_path)
    world.now = then  # so that the exchange is still open
    world.hubs[0] = world.hub(0)
    with pytest.raises(DamagedAudit, match="missing"):
        audit.verify(world.hubs[0].store.audit_rows(), noted)
    refused = watch(world)
    world.requests.clear()  # the hub has forgotten what it asked, and may ask otherwise
    world.settled.clear()
    world.acknowledged.clear()
    world.run(troubles=0)
    rows = check(world)
    assert refused, "clients have answered an exchange that was over"
    again = {(row.series, row.number): row.outcome for row in rows}
    assert before
    assert all(again[place] != "sum" for place in before)
    assert "sum" in again.values()
    world.close()


def put_back(folder: Path) -> None:
    for path in folder.glob("a.db*"):
        path.unlink()
    shutil.copy(folder / "copy", folder / "a.db")


def watch(world: World) -> list[FaultyServer]:
    """Let clients decide for themselves what they answer; return what they refuse."""
    refused: list[FaultyServer] = []
    answer, world._sent = world._answer, {}

    def asked(client, view):
        party = world._parties.get((client, view.series))
        if party is not None and view.exchange < party._exchange:
            with pytest.raises(FaultyServer, match="an exchange that is over") as error:
                party.receive(view.requests[client])
            refused.append(error.value)
        return answer(client, view)

    world._answer = asked
    return refused


def until(world: World, found) -> None:
    for _ in range(400):
        world.go_on(0)
        if world.hubs[0].view is not None and found(world.hubs[0].view):
            return
    raise AssertionError("it never came")


def test_a_database_that_is_damaged_ends_the_hub(tmp_path):
    """Nobody can go on from it; the hub says so, and asks nobody for anything."""
    world = World(f"sqlite:///{tmp_path}/a.db", federation(), seed=1, hubs=1)
    until(world, lambda view: view.exchange == 1)
    world.hubs[0].store.store.close()
    (tmp_path / "a.db").write_bytes(bytes(100_000))
    with pytest.raises(ConfigError, match="is not an SQLite database"):
        world.hub(0)
