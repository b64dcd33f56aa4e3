"""Hubs and sites that are killed at random moments: rounds go on, and every sum is exact or lost by name."""

import random
import signal
import time

import pytest

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


@pytest.mark.service
@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_two_hundred_kills(tmp_path, request, guard, database, record_property):
    """Fifty of them for each guard and each kind of database."""
    postgres = database == "postgresql"
    store = request.getfixturevalue("postgres_url") if postgres else "sqlite:///a.db"
    chance = random.Random(f"{guard} {database}")
    with Place(folder=tmp_path, store=store, guard=guard, hubs=3 if postgres else 1) as place:
        start(place)
        time.sleep(2)
        kill(place, 50, chance, lives=1.0 if postgres else 2.5)
        finish(place)
        place.wait_over(120)
        rows = check(place)
    outcomes = [row.outcome for row in rows]
    print(guard, database, {one: outcomes.count(one) for one in sorted(set(outcomes))})
    assert outcomes.count("sum") >= 5
