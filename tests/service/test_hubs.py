"""Several hubs on one database, killed, cut off or overtaken between any two calls of the store."""

import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ccesa.errors import TaskSpent
from ccesa.service import Federation, Hub
from ccesa.service.errors import EngineFailed, Unavailable
from ccesa.service.hub import engine
from ccesa.service.store import log, open_store, postgres
from engines import LONG, Killed, World, check, copied, federation
from series_rounds import GUARDS
from store_hub import opening

MEMORY = Path("/dev/shm")  # noqa: S108 - nothing here has to outlive a power cut


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(engine, "AWAY", 0.0)


@pytest.mark.parametrize("guard", [*GUARDS, "assisted"])
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(seed=st.integers(0, 1 << 32), hubs=st.integers(1, 3))
def test_hubs_that_are_stopped_anywhere_are_one_server(guard, seed, hubs):
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        world = World(f"sqlite:///{folder}/a.db", federation(guard), seed, hubs, counters=Path(folder))
        world.run(troubles=12)
        check(world)
        assert not [one for one in world.refused if isinstance(one, TaskSpent)]
        world.close()


@pytest.mark.parametrize("guard", ["curious", "assisted"])
@pytest.mark.parametrize("seed", range(2))
def test_hubs_on_postgresql(postgres_url, seed, guard):
    world = World(postgres_url, federation(guard), seed, hubs=3)
    world.run(troubles=8)
    check(world)
    world.close()


@pytest.fixture
def world(tmp_path):
    made = World(f"sqlite:///{tmp_path}/a.db", federation(), seed=7)
    yield made
    made.close()


def until(world, found, chance=0.5, hubs=(0, 1)):
    """Go on without trouble until something is found."""
    for turn in range(400):
        world.go_on(hubs[turn % len(hubs)], chance)
        if found():
            return
    raise AssertionError("it never came")


def finish(world):
    world.run(troubles=0)
    return check(world)


def shows(world, exchange):
    return all(hub.view is not None and hub.view.exchange == exchange for hub in world.hubs)


def test_the_same_keys_at_two_hubs_are_one_client_for_both(world):
    """Each hub sees one of them alone; both go by the order of ids in the end."""
    until(world, lambda: shows(world, 0), chance=0)
    first, second = world.hubs
    for hub, client in ((second, 3), (first, 2)):
        view = hub.view
        honest = world.reply(2, view)
        hub.turn(world.handed(client, view, honest if client == 2 else copied(honest, 3)))
    assert world.acknowledged == {}
    assert world.receipts["saved"] == 2
    rows = finish(world)
    assert [row.survivors for row in rows if row.number == 0] == [(0, 1, 2, 4, 5)]


def test_nonsense_is_refused_and_something_else_can_be_sent(world):
    until(world, lambda: shows(world, 0), chance=0)
    for hub in world.hubs:
        hub.turn(world.handed(1, hub.view, b"\x05\0\0\0hello"))
    assert world.receipts["faulty"] == 2
    world.settled.clear()
    assert [row.survivors for row in finish(world)] == [tuple(range(6))] * 2
    assert world.hubs[0].presence.row(1).blames == 2


def test_whoever_is_not_asked_does_not_count_as_an_answer(world):
    """Else a member that is not in a round could have it closed before those that are."""
    until(world, lambda: shows(world, 0), chance=0)
    world.settled |= {(1, exchange, 5) for exchange in range(20)}  # it says nothing to the first round
    until(world, lambda: shows(world, 1))
    hub = world.hubs[0]
    assert 5 not in hub.view.requests
    hub.turn(world.handed(5, hub.view, b""))
    assert world.receipts["late"] == 1
    assert 5 not in world.hubs[0].store.answered(1, 1)


def test_a_hub_that_was_asleep_ends_no_series(world, monkeypatch):
    """It hears that the operator wants to finish, and not that vectors have been asked for since."""
    until(world, lambda: shows(world, 1))
    asleep = next(place for place, hub in enumerate(world.hubs) if hub.engine._leader.leads(world.now))
    awake, store, slept = 1 - asleep, world.hubs[asleep].store.store, []

    def sleep() -> bool:
        if slept:
            return True
        slept.append(True)
        world.now += LONG
        until(world, lambda: world.hubs[awake].view.task is not None, hubs=(awake,))
        store.finish()
        return True

    monkeypatch.setattr(store, "is_finishing", sleep)
    until(world, lambda: slept)
    assert not store.series().over
    assert [row.outcome for row in finish(world)] == ["sum"]


def dies_before_the_next(opens, series, exchange):
    if exchange.exchange == 1:
        raise Killed
    return opens(series, exchange)


@pytest.mark.parametrize("hubs", [1, 2])
def test_a_round_that_was_lost_at_once_leaves_no_gap(tmp_path, hubs):
    """The next one starts an exchange later; a hub that is made in between knows that, too."""
    world = World(f"sqlite:///{tmp_path}/a.db", federation(deadline=3), seed=1, hubs=hubs)
    for hub in world.hubs:
        hub.store.store.open_exchange = partial(dies_before_the_next, hub.store.store.open_exchange)
    until(world, lambda: world.lives[0] + world.lives[1] > hubs, chance=0, hubs=range(hubs))
    assert [row.outcome for row in world.hubs[0].store.rounds()] == ["TooFewClients"]
    for place in range(hubs):
        world.hubs[place] = world.hub(place)
    assert [row.outcome for row in finish(world)] == ["TooFewClients", "sum", "sum"]
    world.close()


def test_a_hub_that_is_made_after_the_last_round_ends_the_series(world):
    """The round is recorded, and whoever did it died before it ended the series."""

    def die(*_):
        raise Killed

    for hub in world.hubs:
        hub.store.store.end_series = die
    world.run(troubles=0)
    assert max(world.lives.values()) > 1
    assert world.hubs[0].store.series().over


def test_a_coordinator_is_told_once_though_the_store_was_away(world):
    """Else a model would move twice by what was learned once."""
    for hub in world.hubs:
        put = hub.store.store.put_round

        def away(*args, put=put, failed=[]):  # noqa: B006 - one list for each
            if not failed:
                failed.append(True)
                raise Unavailable("away")
            return put(*args)

        hub.store.store.put_round = away
    rows = finish(world)
    assert [row.metrics for row in rows] == [{"survivors": 6.0}] * 2
    assert [hub.coordinator.told for hub in world.hubs if hub.coordinator.told] == [[0, 1]]


def test_a_hub_that_follows_knows_what_was_answered(world):
    """It leads the next series, and asks nothing that has a sum."""
    until(world, lambda: len(world.hubs[0].store.rounds()) == 2)
    for hub in world.hubs:
        hub.turn()
        assert hub.engine._leader._agenda.pending == []
    finish(world)


def test_an_engine_that_has_ended_leaves_nobody_waiting(world, monkeypatch):
    """Whatever it dies of: what it had in hand, what was in line, and what comes later is sent again."""
    hub = world.hubs[0]
    until(world, lambda: shows(world, 0), chance=0)

    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(engine, "BATCH", 2)
    monkeypatch.setattr(hub.store.store, "claim", broken)
    for client in range(5):
        hub.engine.hand_in(world.handed(client, hub.view, b""))
    hub.engine.start()
    hub.engine._thread.join()
    assert isinstance(hub.engine.failure, ZeroDivisionError)
    hub.engine.hand_in(world.handed(5, hub.view, b""))
    assert world.receipts == {"again": 6}


FEDERATION = """
name = "a test"
rounds = 1
round = {clients = 4}
form = {type = "words", words = 3}
[hub]
store = "sqlite:///a.db"
listen = "127.0.0.1:0"
operate = "127.0.0.1:0"
"""


@pytest.fixture
def small(tmp_path):
    """A federation in a file."""
    (tmp_path / "federation.toml").write_text(FEDERATION)
    return Federation.load(tmp_path / "federation.toml")


def test_a_hub_ends_with_the_failure_of_its_engine(small, monkeypatch):
    """Whoever started it would take a plain end for the end of the federation."""

    def broken(*_):
        raise ZeroDivisionError("nobody expected this")

    monkeypatch.setattr(engine.Engine, "_turn", broken)
    with pytest.raises(EngineFailed, match="nobody expected this") as failure:
        Hub(small).serve()
    assert isinstance(failure.value.__cause__, ZeroDivisionError)


def test_a_hub_says_when_all_is_over(small, caplog):
    """One that is started again after that would seem to wait for sites."""
    store = open_store(small.store)
    store.finish()
    store.close()
    with caplog.at_level("INFO"):
        Hub(small, until_over=True).serve()
    (over,) = [record for record in caplog.records if record.getMessage() == "over"]
    assert over.fields == {"answered": 0, "questions": 1}


def test_what_another_hub_put_first_is_the_task(world):
    """A coordinator may not say the same twice; what sites are asked is what the store has."""
    one, other = (hub.engine._leader._agenda for hub in world.hubs)
    world.hubs[1].coordinator.task = lambda question: b"something else"
    put, store = world.hubs[0].store.store.put_task, world.hubs[0].store.store

    def slower(*args):
        assert other.task(0) == b"something else"
        put(*args)

    store.put_task = slower
    assert one.task(0) == b"something else"


def test_a_hub_that_has_just_started_does_not_say_that_all_is_over(world):
    """Sites would leave, and the round that is under way would be lost with them."""
    until(world, lambda: world.hubs[0].view is not None and world.hubs[0].view.task is not None)
    world.hubs[0].store.finish()
    showing = world.hub(0).engine._showing
    assert showing.view(None).state == "gathering"
    assert [row.outcome for row in finish(world)] == ["sum"]
    assert world.hub(0).engine._showing.view(None).state == "over"


def test_a_hub_that_stands_still_in_a_transaction_holds_nobody_up_for_long(postgres_url, monkeypatch):
    """Its locks end with its session, wherever it stopped; when it goes on, it has saved nothing."""
    kind = postgres.PostgreSQL
    short = tuple(one.replace("session_timeout = '10s'", "session_timeout = '1s'") for one in kind.SETTINGS)
    assert short != kind.SETTINGS
    monkeypatch.setattr(kind, "SETTINGS", short)
    stopped, other = open_store(postgres_url), open_store(postgres_url)
    stopped.begin_series(b"", 1)
    stopped.open_exchange(1, opening(0))
    stopped.claim(1, 0, "hub", dict.fromkeys(range(30), b"digest"))

    closed = []

    def rows():
        for client in range(30):
            if client == 20:
                closed.append(other.close_exchange(1, 0, 1.0))  # waits for the lock on the exchange
            yield (b"answer", 1, 0, client, "hub", b"answer")

    def save():
        with stopped._database.writing() as run:
            run(f"{log._OPEN} FOR SHARE", 1, 0)
            run.many(log._SAVE, rows())

    with pytest.raises(Unavailable):
        save()
    assert closed
    assert other.answers(1, 0) == {}
    stopped.close()
    other.close()


@pytest.mark.parametrize("restarted", [False, True])
def test_a_clock_that_is_set_back_by_an_hour_costs_no_hour(tmp_path, restarted):
    """Deadlines, the lease, the status and who is here: nothing waits until the old time comes again."""
    world = World(f"sqlite:///{tmp_path}/clock.db", federation(rounds=2), seed=1, hubs=1)
    world.now, answers = 1e9, world.reply
    for _ in range(4):
        world.go_on(0, 1.0)
    assert world.hubs[0].view.exchange > 0
    world.now -= 3600
    world.reply = lambda client, view: None if client == 5 else answers(client, view)  # deadlines matter
    if restarted:
        world.hubs[0] = world.hub(0)
    before = world.now
    while (world.hubs[0].view is None or world.hubs[0].view.state != "over") and world.now < before + 120:
        world.go_on(0, 1.0)
    assert world.hubs[0].view.state == "over"
    assert abs(world.hubs[0].status.now - world.now) < 5
    check(world)
    world.close()


def test_a_hub_whose_store_was_away_at_the_end_hears_of_the_end_all_the_same(world):
    """Whatever it could not read, it reads again; else it would say for ever that it waits for members."""
    follower = world.hubs[1]
    until(world, lambda: len(world.hubs[0].store.rounds()) == 1)
    follower.engine._leader._until = 0.0
    until(world, lambda: world.hubs[0].store.series().over, hubs=(0,))
    away = [True]
    rounds = follower.store.store.rounds_besides

    def gone(*args, **options):
        if away:
            raise Unavailable("away")
        return rounds(*args, **options)

    follower.store.store.rounds_besides = gone
    follower.turn()
    assert follower.engine.trouble == "away"
    away.clear()
    world.now += 1
    follower.turn()
    assert follower.view.state == "over"
    finish(world)
