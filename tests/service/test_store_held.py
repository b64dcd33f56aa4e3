"""Vectors that wait for helpers: in no sum, never lost, and each with one hub."""

import pytest

from ccesa.service.store import open_store
from ccesa.service.store.rows import Claim
from store_hub import opening

CONFIG = b"a series"


@pytest.fixture
def store(database_url):
    made = open_store(database_url)
    made.begin_series(CONFIG, 10)
    made.open_exchange(1, opening(0))
    yield made
    made.close()


def hold(store, hub: str, *clients: int) -> None:
    claims = store.claim(1, 0, hub, {client: bytes([client]) * 32 for client in clients})
    assert set(claims.values()) == {Claim.OWN}
    answers = {client: b"answer %d" % client for client in clients}
    assert store.save(1, 0, hub, answers, None, {client: b"whole %d" % client for client in clients})


def test_a_held_vector_is_acknowledged_and_in_no_sum(store):
    hold(store, "a", 1, 2)
    assert store.answered(1, 0) == {1, 2}
    assert store.answers(1, 0) == {}
    assert store.sums(1, 0) == []


def test_it_goes_into_the_sum_with_the_words_of_its_helpers(store):
    hold(store, "a", 1, 2, 3)
    assert store.settle(1, 0, "a", [1], [2], b"sum")
    assert store.answers(1, 0) == {1: b"answer 1"}
    assert store.sums(1, 0) == [b"sum"]
    assert store.adopt(1, 0, "b") == {3: b"whole 3"}


def test_one_that_still_waits_when_the_exchange_closes_is_left_out(store):
    hold(store, "a", 1, 2)
    assert store.settle(1, 0, "a", [1], [], b"sum")
    store.close_exchange(1, 0, 1.0)
    assert store.answers(1, 0) == {1: b"answer 1"}
    assert not store.settle(1, 0, "a", [2], [], b"more")
    assert store.sums(1, 0) == [b"sum"]
    assert store.adopt(1, 0, "b") == {}
    assert store.answered(1, 0) == {1, 2}


def test_a_hub_whose_vectors_another_one_has_adopted_saves_nothing_about_them(store):
    hold(store, "a", 1, 2)
    assert store.settle(1, 0, "a", [1], [], b"first")
    assert store.adopt(1, 0, "b") == {2: b"whole 2"}
    assert not store.settle(1, 0, "a", [2], [], b"first and second")
    assert store.settle(1, 0, "b", [2], [], b"second")
    assert store.sums(1, 0) == [b"first", b"second"]
    assert store.answers(1, 0, besides="a") == {2: b"answer 2"}


def test_it_is_saved_with_its_answer_or_not_at_all(store):
    store.claim(1, 0, "a", {1: bytes(32)})
    assert not store.save(1, 0, "b", {1: b"answer"}, None, {1: b"whole"})
    assert store.adopt(1, 0, "b") == {}


def test_it_is_forgotten_with_its_round(store):
    hold(store, "a", 1)
    store.close_exchange(1, 0, 1.0)
    store.forget(1, 1)
    with store._database.reading() as run:
        assert run("SELECT count(*) FROM held") == [(0,)]
