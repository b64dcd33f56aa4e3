"""A hub with helpers, without threads, sockets or a clock: it waits for them, and believes none of them alone."""

import time

import msgspec
import numpy as np
import pytest

from ccesa.agreement import charter as agreed
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.submission import confirmed_text
from ccesa.service.hub import engine
from ccesa.service.store import open_store
from engines import CLIENTS, HELPERS, LONG, World, check, federation

FIRST = CLIENTS  # the id of the helper that is a member, too
OUTSIDE = CLIENTS + 1
#: Exchanges of the first round by their steps.
PLACE = {"key": 0, "mask": 1, "unmask": 2}


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(engine, "AWAY", 0.0)


@pytest.fixture
def made(tmp_path):
    worlds = []

    def make(hubs: int = 1, rounds: int = 2, **policy: float) -> World:
        worlds.append(World(f"sqlite:///{tmp_path}/a.db", federation("assisted", rounds, **policy), 5, hubs))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


def until(world: World, found, chance: float = 1.0, hubs=(0,), turns: int = 400) -> None:
    """Go on until something is found."""
    for turn in range(turns):
        world.go_on(hubs[turn % len(hubs)], chance)
        if found():
            return
    raise AssertionError(f"it never came: {world.hubs[0].status}")


def finish(world: World) -> list:
    world.run(troubles=0)
    return check(world)


def test_no_round_begins_before_all_helpers_are_here(made):
    world = made()
    world.here -= {OUTSIDE}
    for _ in range(60):
        world.go_on(0)
    status = world.hubs[0].status
    assert (status.state, status.series, status.exchange) == ("gathering", 1, -1)
    assert status.reason == "waits for helper helper-1"
    assert [one.state for one in status.helpers] == ["present", "absent", "present"]
    assert status.helpers[1].name in status.advice
    world.here |= {OUTSIDE}
    assert [row.outcome for row in finish(world)] == ["sum", "sum"]


@pytest.mark.parametrize("asked", ["key", "mask", "unmask"])
def test_a_round_waits_for_a_helper_that_is_away_and_is_right_in_the_end(made, asked):
    """Far beyond the deadlines of members; the state names the helper, and since when."""
    world = made()
    until(world, lambda: world.hubs[0].view.exchange == PLACE[asked], chance=0.2)
    world.here -= {OUTSIDE}
    name = world.hubs[0].status.helpers[1].name
    until(world, lambda: world.hubs[0].status.reason.startswith(f"waits for helper {name} since 00:1"))
    for _ in range(5):
        world.now += 1000
        world.go_on(0, chance=1.0)
    assert world.hubs[0].status.state == "running"
    assert "the helper" in world.hubs[0].status.advice
    world.here |= {OUTSIDE}
    rows = finish(world)
    assert [row.outcome for row in rows] == ["sum", "sum"]
    assert [row.survivors for row in rows] == [tuple(range(CLIENTS))] * 2


def test_a_helper_that_stays_away_loses_the_round_by_its_name(made):
    """Nobody was asked for a sum, so the question is asked again."""
    world = made(helper_deadline=50)
    until(world, lambda: world.hubs[0].view.exchange == PLACE["mask"], chance=0.5)
    world.here -= {OUTSIDE}
    name = world.hubs[0].status.helpers[1].name
    store = open_store(world.url)
    until(world, lambda: store.rounds(), turns=2000)
    (row,) = store.rounds()
    store.close()
    world.here |= {OUTSIDE}
    assert row.outcome == "HelpersMissing"
    assert f"no answer from helper {name}" in row.reason
    rows = finish(world)
    assert rows[-1].outcome == "sum"


def test_a_helper_that_is_away_once_asked_for_its_sum_costs_the_task(made):
    world = made(helper_deadline=50)
    until(world, lambda: world.hubs[0].view.exchange == PLACE["unmask"], chance=0.5)
    world.here -= {OUTSIDE}
    store = open_store(world.url)
    until(world, lambda: any(row.outcome == "TaskLost" for row in store.rounds()), turns=2000)
    [row] = [row for row in store.rounds() if row.outcome == "TaskLost"]
    store.close()
    name = world.hubs[0].status.helpers[1].name
    assert row.reason.startswith("HelpersMissing after helpers were asked for their sums: ")
    assert f"helper {name}" in row.reason
    world.here |= {OUTSIDE}
    questions = [row.question for row in finish(world) if row.outcome == "sum"]
    assert row.question not in questions
    assert questions


def lying(world: World, helper: int, members) -> None:
    """Let a helper refuse the boxes of these members, whatever they are."""
    honest, place = world.help, helper - CLIENTS

    def refuse(one: int, view) -> bytes | None:
        reply = honest(one, view)
        if one != helper or not reply:
            return reply
        every = [m.decode(part, 1 << 20) for part in envelope.unpack(reply)]
        return envelope.pack(
            _refusing(part) if isinstance(part, m.ConfirmBoxesReply) else part.encode() for part in every
        )

    def _refusing(said: m.ConfirmBoxesReply) -> bytes:
        asked = m.unpack_ids("members", world.asked[helper], CLIENTS).tolist()
        refused = m.pack_ids(np.array(sorted(set(members) & set(asked)), np.int64))
        text = confirmed_text(said.context, helper, said.boxes, refused)
        signature = HELPERS[place].sign(text)
        return msgspec.structs.replace(said, refused=refused, signature=signature).encode()

    def noted(one: int, view) -> bytes | None:
        if one == helper and one in view.beside:
            (request,) = envelope.unpack(view.beside[one])
            world.asked = {helper: m.decode(request, 1 << 20).members}
        return refuse(one, view)

    world.asked = {}
    world.help = noted


def test_a_helper_that_lies_sets_nobody_aside(made):
    """It keeps members out of sums, or loses rounds, under its name."""
    world = made(rounds=3)
    lying(world, OUTSIDE, [2, 4])
    rows = finish_lied(world)
    assert {row.outcome for row in rows} == {"sum"}
    assert all(not {2, 4} & set(row.survivors) for row in rows)
    assert all({(2, OUTSIDE), (4, OUTSIDE)} == set(row.pairs) for row in rows)
    assert {one.state for one in world.hubs[0].status.members} == {"present"}
    assert {one.blames for one in world.hubs[0].status.members} == {0}


def finish_lied(world: World) -> list:
    """Members that a helper refuses are not in sums, although the hub has their replies."""
    world.run(troubles=0)
    world.acknowledged.clear()
    return check(world)


def test_a_helper_that_refuses_everyone_is_named_in_the_reason(made):
    world = made()
    lying(world, OUTSIDE, range(CLIENTS))
    rows = finish_lied(world)
    name = world.hubs[0].status.helpers[1].name
    assert {row.outcome for row in rows} == {"TooFewClients"}
    assert all(f"helper {name} could not open what client 0 sealed for it" in row.reason for row in rows)
    assert {one.blames for one in world.hubs[0].status.members} == {0}


def test_a_member_that_all_helpers_refuse_is_blamed(made):
    world = made(rounds=4)
    for helper in world.keys:
        lying(world, helper, [3])
    finish_lied(world)
    aside = [one.client for one in world.hubs[0].status.members if one.state == "set aside"]
    assert aside == [3]


def test_another_hub_goes_on_with_vectors_that_wait_for_helpers(made):
    """Whoever was told that its reply has come is in the sum, although the hub that had it is gone."""
    world = made()
    until(world, lambda: world.hubs[0].view.exchange == PLACE["mask"], chance=0.3)
    world.here -= {OUTSIDE}
    until(world, lambda: len(world.hubs[0].status.steps) == 1 and world.hubs[0].status.steps[0].answered == CLIENTS)
    view = world.hubs[0].view
    assert world.acknowledged[view.series, view.exchange] == set(range(CLIENTS))
    assert held(world) == list(range(CLIENTS))
    world.hubs[0].store.store.close()
    world.hubs[0] = world.hub(0)
    world.now += LONG
    world.here |= {OUTSIDE}
    rows = finish(world)
    assert [row.survivors for row in rows] == [tuple(range(CLIENTS))] * 2
    assert held(world) == []


def test_a_hub_that_was_away_for_longer_than_keys_live_replays_what_it_had_taken(made, monkeypatch):
    """It asks the same members with the same bytes; helpers and members decide what comes of it."""
    world = made(vector_after=500, vector_deadline=500)
    until(world, lambda: world.hubs[0].view.exchange == PLACE["mask"], chance=0.5)
    before = dict(world.hubs[0].view.requests)
    world.hubs[0].store.store.close()
    world.hubs[0] = world.hub(0)
    world.now += LONG
    monkeypatch.setattr(agreed, "current_time", lambda: time.time() + 8 * 86400)
    world.hubs[0].turn()
    world.hubs[0].turn()
    assert dict(world.hubs[0].view.requests) == before


def held(world: World) -> list[int]:
    store = open_store(world.url)
    with store._database.reading() as run:
        rows = run("SELECT client FROM held ORDER BY client")
    store.close()
    return [client for (client,) in rows]


def test_one_hub_serves_at_a_time(made):
    world = made(hubs=2)
    until(world, lambda: world.hubs[0].view.exchange == 0, chance=0.0)
    first, second = world.hubs
    second.turn()
    assert (first.view.serves, second.view.serves) == (True, False)
    assert first.engine.trouble == ""
    assert second.engine.trouble == "another hub serves: rounds with helpers have one hub at a time"
    second.turn(world.handed(FIRST, first.view, world.reply(FIRST, first.view)))
    assert world.receipts == {"again": 1}
    first.turn(world.handed(FIRST, first.view, world.reply(FIRST, first.view)))
    assert world.receipts == {"again": 1, "saved": 1}
    world.now += LONG  # the first one is silent for longer than its lease
    second.turn()
    second.turn()
    assert second.engine.trouble == ""
    first.turn()
    assert first.engine.trouble
    assert [row.outcome for row in finish(world)] == ["sum", "sum"]


def test_finish_does_not_wait_for_a_helper_that_shows_no_key(made):
    world = made()
    until(world, lambda: world.hubs[0].view.exchange == PLACE["key"], chance=0.0)
    world.here -= {OUTSIDE}
    world.hubs[0].store.store.finish()
    until(world, lambda: world.hubs[0].status.state == "over", turns=50)
