"""Hubs beside each other: never two owners, nothing after closing, and sums that fit what was saved."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ccesa.service.store import audit, open_store
from ccesa.service.store.rows import Claim
from store_hub import Hub, Process, check, number, opening, work


@pytest.fixture
def stores(database_url):
    """Opens as many stores on one database as are asked for."""
    opened = []

    def another():
        opened.append(open_store(database_url))
        return opened[-1]

    yield another
    for store in opened:
        store.close()


@pytest.fixture
def store(stores):
    return stores()


# Every order of what hubs do

_HUBS, _CLIENTS = st.integers(0, 2), st.integers(0, 3)
_CLAIM = st.tuples(st.just("claim"), _HUBS, st.dictionaries(_CLIENTS, st.sampled_from([b"\1", b"\2"])))
_OTHERS = [st.tuples(st.just(name), _HUBS, _CLIENTS) for name in ("save", "release", "die", "close")]


class Model:
    """What the store has to say, step by step, about an exchange in which three hubs take replies."""

    def __init__(self, store):
        self.store, self.place = store, (store.begin_series(b"config", 1).series, 0)
        store.open_exchange(self.place[0], opening(0))
        self.hubs = [Hub(store, f"hub {one}", self.place) for one in range(3)]
        #: Which hub has which bytes of a client.
        self.owners: dict[int, tuple[str, bytes]] = {}
        #: What was saved when it closed.
        self.frozen = None

    def claim(self, hub, replies):
        saved = check(self.store, self.place)
        for client, claim in hub.claim(replies).items():
            assert claim is self.fares(hub.name, client, replies[client], client in saved)
            if claim is Claim.OWN:
                self.owners[client] = (hub.name, replies[client])

    def fares(self, name, client, reply, saved):
        owner, digest = self.owners.get(client, (name, reply))
        if self.frozen is not None:
            return Claim.LATE
        if digest != reply:
            return Claim.OTHER
        if saved:
            return Claim.SAVED
        return Claim.OWN if owner == name else Claim.PENDING

    def save(self, hub, _):
        owned = all(self.owners.get(client) == (hub.name, body) for client, body in hub.pending.items())
        can = not hub.pending or (owned and self.frozen is None)  # saving empties what is pending
        assert hub.save() is can

    def release(self, hub, client):
        if self.owners.get(client, ("",))[0] == hub.name and client not in check(self.store, self.place):
            del self.owners[client]
        hub.release(client)

    def die(self, hub, _):
        for other in self.hubs:
            self.store.note_alive(other.name, 0.0 if other is hub else 10.0)
        self.store.drop_claims(5.0)
        saved = check(self.store, self.place)
        alive = {other.name for other in self.hubs if other is not hub}
        self.owners = {client: owner for client, owner in self.owners.items() if owner[0] in alive or client in saved}

    def close(self, *_):
        self.store.close_exchange(*self.place, 1.0)
        if self.frozen is None:
            self.frozen = check(self.store, self.place)

    def holds(self):
        found = check(self.store, self.place)
        assert self.frozen in (None, found)
        for hub in self.hubs:
            assert hub.acknowledged.items() <= found.items()


@given(steps=st.lists(st.one_of(_CLAIM, _CLAIM, _CLAIM, _OTHERS[0], _OTHERS[0], *_OTHERS), max_size=25))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_every_order_of_steps_counts_each_client_once(store, steps):
    model = Model(store)
    for step, hub, what in steps:
        getattr(model, step)(model.hubs[hub], what)
        model.holds()
    store.end_series(model.place[0])


# Threads


def test_threads_that_take_replies_while_some_are_taken_for_dead(stores):
    """Four hubs, one that buries them at random, and one that closes."""
    main = stores()
    four = [stores() for _ in range(4)]
    undertaker, closer = stores(), stores()
    for seed in range(6):
        place = (main.begin_series(b"config", 1).series, 0)
        main.open_exchange(place[0], opening(0))
        hubs = [Hub(store, f"{seed} {one}", place) for one, store in enumerate(four)]
        done = threading.Event()

        def bury(seed=seed, hubs=hubs, done=done):
            chance = random.Random(seed)
            while not done.is_set():
                dead = chance.choice(hubs)
                for hub in hubs:
                    undertaker.note_alive(hub.name, 0.0 if hub is dead else 10.0)
                undertaker.drop_claims(5.0)
                time.sleep(0.003)

        def close(seed=seed, place=place):
            time.sleep(random.Random(seed).uniform(0.0, 0.3))
            closer.close_exchange(*place, 1.0)
            return check(closer, place)

        with ThreadPoolExecutor(6) as pool:
            burying, closing = pool.submit(bury), pool.submit(close)
            working = [
                pool.submit(work, hub, range(40), seed * 10 + one, lambda client, body: None)
                for one, hub in enumerate(hubs)
            ]
            for one in working:
                one.result()
            done.set()
            burying.result()
            frozen = closing.result()
        assert check(main, place) == frozen
        acknowledged = [pair for hub in hubs for pair in hub.acknowledged.items()]
        assert len(acknowledged) == len(dict(acknowledged)) == len(frozen)
        assert dict(acknowledged) == frozen
        main.end_series(place[0])


def at_once(stores, many, call):
    """What a call returns that threads with stores of their own make at the same time."""
    opened, start = [stores() for _ in range(many)], threading.Barrier(many)

    def one(place):
        start.wait()
        return call(opened[place], place)

    with ThreadPoolExecutor(many) as pool:
        return list(pool.map(one, range(many)))


def test_the_first_one_opens(stores):
    first = at_once(stores, 6, lambda store, one: store.begin_series(bytes([one]), one + 1))
    assert len({row.config for row in first}) == 1
    opened = at_once(stores, 6, lambda store, one: store.open_exchange(1, opening(0)).opened)
    assert set(opened) == {0.0}
    secrets = at_once(stores, 6, lambda store, one: store.secret())
    assert len(set(secrets)) == 1


def test_the_first_one_closes(stores):
    store = stores()
    store.begin_series(b"config", 1)
    for place in range(8):
        store.open_exchange(1, opening(place))

        def close(other, one, place=place):
            other.close_exchange(1, place, float(one))
            return other.exchanges(1, since=place)[0].closed

        assert len(set(at_once(stores, 4, close))) == 1


def test_one_leads(stores):
    for now in range(0, 100, 10):
        assert sum(at_once(stores, 4, lambda store, one, now=now: store.lead(f"hub {one}", now, 10.0))) == 1


def test_tables_are_made_by_many_at_once(database_url):
    with ThreadPoolExecutor(6) as pool:
        for store in pool.map(lambda _: open_store(database_url), range(6)):
            store.close()


def test_the_audit_log_is_one_chain(stores):
    def append(store, one):
        return [store.audit("test", {"hub": one, "count": place}, float(place)).hash for place in range(25)]

    hashes = at_once(stores, 4, append)
    rows = list(stores().audit_rows())
    audit.verify(rows)
    assert {row.hash for row in rows} == {one for some in hashes for one in some}
    assert len(rows) == 100


def test_a_nonce_makes_one_session_for_whoever_is_first(stores):
    made = at_once(stores, 6, lambda store, one: store.add_session(bytes([one]), b"nonce", one, 10.0))
    assert sum(made) == 1


# Processes that are killed


@pytest.mark.parametrize("hubs", [1, 2])
def test_what_was_acknowledged_survives_the_process(database_url, store, tmp_path, hubs):
    """More may be there than was acknowledged: what was saved in the last moment, a batch per process."""
    chance = random.Random(hubs)
    for life in range(2):
        place = (store.begin_series(b"config", 1).series, 0)
        store.open_exchange(place[0], opening(0))
        several = [Process(database_url, place, one, tmp_path / f"{life}-{one}") for one in range(hubs)]
        time.sleep(chance.uniform(0.0, 0.3))
        acknowledged = [pair for process in several for pair in process.kill()]
        store.drop_claims(100.0)
        found = {client: number(body) for client, body in check(store, place).items()}
        assert dict(acknowledged).items() <= found.items()
        assert len(acknowledged) <= len(found) <= len(acknowledged) + 8 * hubs
        store.end_series(place[0])
