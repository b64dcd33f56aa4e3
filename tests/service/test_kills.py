"""Hubs and sites that are killed at random moments: rounds go on, and every sum is exact or lost by name."""

import random
import signal
import time
from contextlib import ExitStack, suppress

import httpx
import pytest

from postgres import Server
from processes import Place, check, finish
from series_rounds import GUARDS

GROUPS = 4


def start(place: Place) -> None:
    for hub in range(place.hubs):
        place.start_hub(hub)
    for group in range(GROUPS):
        place.start_sites(group)


def kill(place: Place, kills: int, chance: random.Random, lives: float) -> None:
    """Kill hubs, and now and then a process of sites, at random moments; start each again."""
    for count in range(kills):
        time.sleep(chance.uniform(0, lives))
        hub = chance.randrange(place.hubs)
        place.kill(f"hub{hub}")
        if count % 5 == 4:
            group = chance.randrange(GROUPS)
            place.kill(f"sites{group}")
            place.start_sites(group)
        if chance.random() < 0.2:
            time.sleep(chance.uniform(0, 0.5))
        place.start_hub(hub)


def test_a_hub_that_is_killed_goes_on(tmp_path):
    """As people would type it."""
    made = Place(folder=tmp_path, store="sqlite:///a.db", clients=8, rounds=4, typed=True)
    with made as place:
        start(place)
        time.sleep(2)
        kill(place, 3, random.Random(1), lives=1.5)
        place.wait_over(60)
        rows = check(place)
    assert [row.outcome for row in rows].count("sum") >= 3


def test_finish_ends_a_federation_whose_database_others_have_read(tmp_path):
    with Place(folder=tmp_path, store="sqlite:///a.db", clients=8) as place:
        start(place)
        go_on(place, 1)
        finish(place)
        place.wait_over(30)
        check(place)


@pytest.mark.service
@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_two_hundred_kills(tmp_path, request, guard, database):
    """Fifty of them for each guard and each kind of database."""
    postgres = database == "postgresql"
    store = request.getfixturevalue("postgres_url") if postgres else "sqlite:///a.db"
    chance = random.Random(f"{guard} {database}")
    with Place(folder=tmp_path, store=store, guard=guard, hubs=3 if postgres else 1) as place:
        start(place)
        time.sleep(2)
        kill(place, 50, chance, lives=2.5)
        before = place.sums()
        go_on(place, before + 2)
        finish(place)
        place.wait_over(120)
        check(place)
    assert before, "there were sums in spite of the kills"


def go_on(place: Place, sums: int) -> None:
    """Rounds go on, when nobody kills any more."""
    for _ in range(600):
        if place.sums() >= sums:
            return
        time.sleep(0.1)
    raise AssertionError(place.told())


def test_three_hubs_that_are_killed_are_one(tmp_path, postgres_url):
    """Sites go from one to another; the leader dies, too."""
    with Place(folder=tmp_path, store=postgres_url, clients=8, hubs=3, rounds=4) as place:
        start(place)
        time.sleep(1)
        kill(place, 4, random.Random(2), lives=0.7)
        place.wait_over(60)
        rows = check(place)
    assert [row.outcome for row in rows].count("sum") >= 3


@pytest.mark.service
@pytest.mark.parametrize("guard", GUARDS)
def test_a_leader_that_stands_still_is_replaced_and_does_no_harm_when_it_goes_on(tmp_path, postgres_url, guard):
    """It is stopped for longer than its lease and its claims live; what it does then comes too late."""
    with Place(folder=tmp_path, store=postgres_url, guard=guard, hubs=3) as place:
        start(place)
        time.sleep(4)
        for _ in range(3):
            stopped = place.leader()
            before = place.sums()
            place.signal(f"hub{stopped}", signal.SIGSTOP)
            time.sleep(17)
            for _ in range(30):
                time.sleep(0 if place.sums() > before else 1)
            assert place.sums() > before, place.told()
            assert place.leader() != stopped
            place.signal(f"hub{stopped}", signal.SIGCONT)
            time.sleep(2)
        finish(place)
        place.wait_over(120)
        rows = check(place)
    assert [row.outcome for row in rows].count("sum") >= 5


@pytest.mark.service
def test_all_hubs_ask_the_same_down_to_the_byte(tmp_path, postgres_url):
    """Whoever is asked at all of them while they are killed never sees two requests of one exchange."""
    seen: dict[tuple[int, str], bytes] = {}
    again = 0
    chance = random.Random(3)
    with Place(folder=tmp_path, store=postgres_url, hubs=3) as place, ExitStack() as opened:
        start(place)
        lines = [opened.enter_context(httpx.Client(base_url=url, timeout=2)) for url in place.urls]
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if chance.random() < 0.02:
                kill(place, 1, chance, lives=0)
            client = chance.randrange(place.clients)
            for line in lines:
                with suppress(httpx.HTTPError):
                    answer = line.get("/v1/series/1/exchanges", headers={"authorization": f"Bearer token-{client}"})
                    if answer.status_code == 200:
                        key = (client, answer.headers["ccesa-exchange"])
                        again += key in seen
                        assert seen.setdefault(key, answer.content) == answer.content
        finish(place)
        place.wait_over(120)
        check(place)
    assert again > 50


@pytest.mark.service
def test_a_database_that_is_away_for_a_while(tmp_path):
    """Killed as by a power cut, and started again: with its usual care for the disk, nothing is lost."""
    server = Server()
    server.start(fsync="on", full_page_writes="on")
    try:
        with Place(folder=tmp_path, store=server.url(), hubs=2) as place:
            start(place)
            for ends in (server.kill, server.stop, server.kill):
                time.sleep(6)
                ends()
                time.sleep(4)
                server.start(fsync="on", full_page_writes="on")
            time.sleep(5)
            finish(place)
            place.wait_over(120)
            rows = check(place)
        assert [row.outcome for row in rows].count("sum") >= 3
    finally:
        server.remove()
