"""Too few members, and rounds that are lost in their set-up: the hub waits, and says for what."""

import json
from itertools import pairwise

import pytest

from ccesa.plan import charters, plan
from ccesa.policy import Policy
from ccesa.service.federation import Federation
from ccesa.service.forms import Words
from ccesa.service.hub import agenda
from engines import CLIENTS, WORDS, World, check, federation
from rounds import charter

HOUR = 3600.0


def planned(**policy) -> Federation:
    """The charter of ``ccesa plan`` for six members: least roster 3, least survivors 3, and t = 4."""
    made = plan(CLIENTS, 0.1, guard="active")
    agreed = charter(
        CLIENTS,
        bits=32,
        graph=made.graph,
        threshold=made.threshold,
        least_roster=made.least_roster,
        min_survivors=made.min_survivors,
        certificate=charters.state(made),
    )
    waits = {"after": 3, "deadline": 6, "vector_after": 3, "vector_deadline": 6, "gather": 3, "absent": 60}
    return Federation(name="a test", rounds=2, form=Words(words=WORDS), policy=Policy(**waits | policy), charter=agreed)


def tables(world) -> dict[str, int]:
    """How many rows each table has."""
    names = ("series", "exchanges", "answers", "sums", "rounds", "audit", "facts", "members", "hubs", "tasks")
    with world.hubs[0].store.store._database.reading() as run:
        return {name: run(f"SELECT count(*) FROM {name}")[0][0] for name in names}  # noqa: S608


def wait(world, seconds: float, every: float = 5.0) -> None:
    until = world.now + seconds
    while world.now < until:
        world.now += every
        world.go_on(0)


def test_with_too_few_members_nothing_begins_and_the_next_one_cures_it_at_once(database_url):
    """Four of six are here, five are needed: an hour costs no row. Then the fifth comes."""
    world = World(database_url, planned(), seed=1, hubs=1)
    world.here = {0, 1, 2, 3}
    wait(world, 60)
    began, before = world.now, tables(world)
    wait(world, HOUR, every=20.0)
    assert tables(world) == before
    assert before["exchanges"] == before["rounds"] == 0
    status = world.hubs[0].status
    assert (status.state, status.reason) == ("gathering", "4 of 6 are here, 5 are needed")
    assert status.since < began
    assert status.advice == "Start the sites that are missing: client-4, client-5."
    world.here.add(4)
    world.go_on(0)
    world.go_on(0)
    assert tables(world)["exchanges"] == 1
    world.here.add(5)
    world.run(troubles=0)
    assert len(check(world)) == 2
    assert world.hubs[0].status.reason == ""
    world.close()


def test_members_that_leave_in_the_middle_are_waited_for(tmp_path):
    """A round in flight goes on with whom it has; no other one begins until enough are back."""
    world = World(f"sqlite:///{tmp_path}/a.db", planned(), seed=2, hubs=1)
    while not tables(world)["exchanges"]:
        world.go_on(0)
    world.here = {0, 1}
    wait(world, 300)
    before = tables(world)
    wait(world, HOUR, every=20.0)
    assert tables(world) == before
    assert before["rounds"] <= 4  # lost while those that left still counted as here
    assert world.hubs[0].status.reason == "2 of 6 are here, 5 are needed"
    world.here = set(range(CLIENTS))
    world.run(troubles=0)
    assert "sum" in [row.outcome for row in check(world)]
    world.close()


def test_rounds_that_are_lost_in_their_set_up_come_ever_more_rarely(tmp_path):
    """Five of six are needed and six are heard from, of which two never answer."""
    world = World(f"sqlite:///{tmp_path}/a.db", planned(absent=10.0), seed=3, hubs=1)
    answers, world.reply = world.reply, lambda client, view: None if client > 3 else answers(client, view)
    wait(world, HOUR, every=10.0)
    rows = world.hubs[0].store.rounds()
    assert {row.question for row in rows} == {None}
    pauses = [after.started - before.ended for before, after in pairwise(rows)]
    assert pauses[0] >= agenda.REST
    assert all(two >= one - 20 for one, two in pairwise(pauses))
    assert agenda.LONGEST_REST <= pauses[-1] < agenda.LONGEST_REST + 20
    assert len(rows) < 16
    status = world.hubs[0].status
    assert status.reason.startswith(f"the last {len(rows)} rounds were lost in the set-up; the next one begins")
    assert status.reason.endswith(rows[-1].reason)
    assert "needs" in rows[-1].reason or "enough" in rows[-1].reason
    world.close()


def test_whoever_comes_back_ends_the_pause(tmp_path):
    world = World(f"sqlite:///{tmp_path}/a.db", planned(absent=30.0), seed=4, hubs=1)
    answers, world.reply = world.reply, lambda client, view: None if client > 3 else answers(client, view)
    world.here = {0, 1, 2, 3, 4}
    wait(world, HOUR / 6, every=2.0)
    assert len(world.hubs[0].store.rounds()) > 4
    lost, opened = tables(world)["rounds"], tables(world)["exchanges"]
    assert world.now + 60 < world.hubs[0].engine._leader._agenda.rests_until
    world.reply = answers
    world.here.add(5)
    world.go_on(0)
    assert tables(world)["exchanges"] == opened + 1
    world.run(troubles=0)
    assert [row.outcome for row in check(world)[lost:]].count("sum") == 2
    world.close()


def test_a_file_that_wants_fewer_questions_ends_nothing(database_url):
    """The store says how many there are: the most that any file had. More can be asked for later."""
    world = World(database_url, federation(rounds=3), seed=5, hubs=2)
    world.federation = federation(rounds=1)
    world.hubs[1].store.store.close()
    world.hubs[1] = world.hub(1)
    while not world.hubs[1].store.rounds():
        world.go_on(0)
        world.go_on(1)
    assert world.hubs[1].view.state == "running"
    assert world.hubs[1].status.questions == 3
    world.run(troubles=0)
    assert len([row for row in check(world) if row.outcome == "sum"]) == 3
    world.federation = federation(rounds=4)
    world.hubs[0].store.store.close()
    world.hubs[0] = world.hub(0)
    world.run(troubles=0)
    assert len([row for row in check(world) if row.outcome == "sum"]) == 4
    entries = [json.loads(row.body) for row in world.hubs[0].store.audit_rows() if row.kind == "questions"]
    assert entries == [{"before": 3, "now": 4}]
    world.close()


def test_a_hub_reads_each_round_once(tmp_path, monkeypatch):
    world = World(f"sqlite:///{tmp_path}/a.db", federation(rounds=6), seed=6, hubs=1)
    read, decode = [], agenda.Store.rounds_besides

    def counted(store, known):
        found = decode(store, known)
        read.append(len(found) - len(known))
        return found

    monkeypatch.setattr(agenda.Store, "rounds_besides", counted)
    world.run(troubles=0)
    assert sum(read) == len(check(world)) == 6
    assert len(read) > 12
    world.close()


@pytest.mark.parametrize("behind", [False, True])
def test_what_was_not_read_in_order_is_read_all_the_same(tmp_path, behind):
    """Another hub may write a round of an earlier series down late."""
    world = World(f"sqlite:///{tmp_path}/a.db", federation(rounds=2), seed=7, hubs=1)
    world.run(troubles=0)
    store = world.hubs[0].store
    rows = store.rounds()
    known = rows[1:] if behind else rows[:1]
    assert store.rounds_besides(known) == rows
    assert store.rounds_besides(rows) == rows
    world.close()
