"""What the store keeps, on both databases."""

import math
import os
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

from ccesa import files
from ccesa.errors import ConfigError, OrderError
from ccesa.service.errors import Forgotten, Unavailable
from ccesa.service.store import Store, database, open_store, postgres
from ccesa.service.store.rows import Claim, ExchangeRow, MemberRow, RoundRow, SeriesRow, TokenRow


@pytest.fixture
def store(database_url):
    """A store of either kind."""
    opened = open_store(database_url)
    yield opened
    opened.close()


@pytest.fixture
def series(store):
    """A store in which exchange 0 of series 1 is open."""
    store.begin_series(b"config", 2)
    store.open_exchange(1, opening(0))
    return store


def opening(place: int, **given) -> ExchangeRow:
    values = {"members": (0, 3, 7), "task": bytes(32), "question": None, "opened": 1.25}
    return ExchangeRow(exchange=place, **values | given)


def a_round(number: int = 0, **given) -> RoundRow:
    values = {
        "question": 0,
        "attempt": 1,
        "task": b"task" * 8,
        "context": b"\xff\x00" * 16,
        "started": 1.5,
        "ended": 1e9 + 0.1,
        "outcome": "sum",
        "reason": "",
        "survivors": (0, 3),
        "asked": 3,
        "pairs": ((0, 3),),
        "total": b"\x00\xff" * 50,
        "metrics": {"accuracy": 0.1},
    }
    return RoundRow(series=1, number=number, **values | given)


# The federation


def test_a_database_belongs_to_one_federation(store):
    store.check_federation("five hospitals", bytes(32))
    store.check_federation("five hospitals", bytes(32))
    for other in [("six hospitals", bytes(32)), ("five hospitals", b"\1" * 32)]:
        with pytest.raises(ConfigError, match="does not belong to federation"):
            store.check_federation(*other)


def test_the_secret_is_made_once(store, database_url):
    secret = store.secret()
    assert len(secret) == 32
    other = open_store(database_url)
    assert other.secret() == secret
    other.close()


def test_what_an_operator_wishes_is_kept(store):
    assert store.pause_reason() == ""
    assert not store.is_finishing()
    store.pause("a site is down")
    assert store.pause_reason() == "a site is down"
    store.pause("")
    assert store.pause_reason()  # also without a reason
    store.resume()
    assert store.pause_reason() == ""
    store.finish()
    assert store.is_finishing()


# Series and exchanges


def test_a_series_is_begun_once(store):
    assert store.series() is None
    first = store.begin_series(b"config", 3)
    assert first == SeriesRow(series=1, config=b"config", rounds=3)
    assert store.begin_series(b"other", 4) == first == store.series()
    store.end_series(1)
    assert store.series() == replace(first, over=True)
    assert store.begin_series(b"other", 4) == SeriesRow(series=2, config=b"other", rounds=4) == store.series()


def test_an_exchange_is_opened_once(series):
    assert series.open_exchange(1, opening(0, members=(1,), question=4)) == opening(0)
    assert series.exchanges(1) == [opening(0)]


def test_exchanges_follow_each_other(series):
    with pytest.raises(OrderError, match="cannot open before the previous one"):
        series.open_exchange(1, opening(1))
    series.close_exchange(1, 0, 2.0)
    with pytest.raises(OrderError, match="cannot open before the previous one"):
        series.open_exchange(1, opening(2))
    second = opening(1, question=5, task=b"t" * 32)
    assert series.open_exchange(1, second) == second
    assert series.exchanges(1) == [opening(0, closed=2.0), second]
    assert series.exchanges(1, since=1) == [second]
    assert series.open_exchange(1, opening(0)) == opening(0, closed=2.0)


@pytest.mark.parametrize("place", [-1, 1])
def test_exchanges_are_counted_from_0_on(store, place):
    store.begin_series(b"config", 2)
    with pytest.raises(OrderError):
        store.open_exchange(1, opening(place))


def test_what_was_closed_is_opened_as_new(store):
    """Whoever hands over an exchange that says when it closed does not close it."""
    store.begin_series(b"config", 2)
    assert store.open_exchange(1, opening(0, closed=3.0)) == opening(0)


def test_only_a_series_that_runs_goes_on(series):
    series.close_exchange(1, 0, 2.0)
    series.end_series(1)
    for number in (1, 2):
        with pytest.raises(OrderError, match="is not running"):
            series.open_exchange(number, opening(1))


def test_an_exchange_is_closed_once(series):
    series.close_exchange(1, 0, 2.0)
    series.close_exchange(1, 0, 3.0)
    assert series.exchanges(1) == [opening(0, closed=2.0)]
    with pytest.raises(OrderError, match="never opened"):
        series.close_exchange(1, 1, 3.0)


# Claims and answers


def test_one_hub_takes_a_reply(series):
    assert series.claim(1, 0, "one", {3: b"a", 7: b"b"}) == {3: Claim.OWN, 7: Claim.OWN}
    assert series.claim(1, 0, "other", {3: b"a", 7: b"c"}) == {3: Claim.PENDING, 7: Claim.OTHER}
    assert series.claim(1, 0, "one", {3: b"a", 7: b"c"}) == {3: Claim.OWN, 7: Claim.OTHER}
    assert series.answered(1, 0) == set()
    assert series.save(1, 0, "one", {3: b"answer"}, b"sum")
    assert series.claim(1, 0, "other", {3: b"a"}) == series.claim(1, 0, "one", {3: b"a"}) == {3: Claim.SAVED}
    assert series.claim(1, 0, "one", {3: b"c"}) == {3: Claim.OTHER}
    assert series.answered(1, 0) == {3}


def test_more_replies_than_one_statement_holds(series):
    digests = {client: client.to_bytes(4, "little") for client in range(2**32 - 2500, 2**32)}
    assert series.claim(1, 0, "one", digests) == dict.fromkeys(digests, Claim.OWN)
    assert series.save(1, 0, "one", digests, None)
    assert series.answers(1, 0) == digests


def test_a_faulty_reply_leaves_room_for_another(series):
    series.claim(1, 0, "one", {3: b"a", 7: b"b"})
    series.release(1, 0, "other", [3, 7])
    assert series.claim(1, 0, "other", {3: b"c"}) == {3: Claim.OTHER}
    series.release(1, 0, "one", [3])
    assert series.claim(1, 0, "other", {3: b"c"}) == {3: Claim.OWN}
    assert series.save(1, 0, "one", {7: b""}, None)
    series.release(1, 0, "one", [7])
    assert series.answers(1, 0) == {7: b""}  # what is saved stays, also if there is nothing in it


@pytest.mark.parametrize(("place", "exchange"), [((1, 1), 1), ((2, 0), 0)])
def test_what_is_not_open_takes_nothing(series, place, exchange):
    assert series.claim(*place, "one", {3: b"a"}) == {3: Claim.LATE}
    assert not series.save(*place, "one", {3: b"a"}, b"sum")
    assert series.sums(*place) == []


def test_nothing_is_saved_without_a_claim(series):
    series.claim(1, 0, "one", {3: b"a"})
    series.claim(1, 0, "other", {7: b"b"})
    assert not series.save(1, 0, "one", {3: b"a", 7: b"b"}, b"sum")
    assert not series.save(1, 0, "one", {3: b"a", 8: b"b"}, b"sum")
    assert series.answers(1, 0) == {}
    assert series.sums(1, 0) == []
    assert series.save(1, 0, "one", {3: b"a"}, b"sum")


def test_saving_again_is_harmless_and_changes_no_answer(series):
    series.claim(1, 0, "one", {3: b"a"})
    assert series.save(1, 0, "one", {3: b"answer"}, b"sum")
    assert series.save(1, 0, "one", {3: b"answer"}, b"sum")
    assert not series.save(1, 0, "one", {3: b"another"}, b"another")
    assert (series.answers(1, 0), series.sums(1, 0)) == ({3: b"answer"}, [b"sum"])


def test_an_empty_save_changes_no_sum(series):
    assert series.save(1, 0, "one", {}, b"sum")
    assert series.sums(1, 0) == []


def test_a_sum_is_replaced_and_those_of_others_stay(series):
    series.claim(1, 0, "one", {3: b"a", 0: b"b"})
    series.claim(1, 0, "other", {7: b"c"})
    assert series.save(1, 0, "one", {3: b"a"}, memoryview(b"sum 1"))
    assert series.save(1, 0, "other", {7: b"c"}, b"sum 2")
    assert series.save(1, 0, "one", {0: b"b"}, b"sum 3")
    assert list(series.answers(1, 0).items()) == [(0, b"b"), (3, b"a"), (7, b"c")]
    assert series.answers(1, 0, besides="one") == {7: b"c"}
    assert sorted(series.sums(1, 0)) == [b"sum 2", b"sum 3"]
    assert series.sums(1, 0, besides="one") == [b"sum 2"]


def test_after_closing_nothing_is_saved(series):
    series.claim(1, 0, "one", {3: b"a", 7: b"b"})
    assert series.save(1, 0, "one", {3: b"a"}, b"sum")
    series.close_exchange(1, 0, 2.0)
    assert not series.save(1, 0, "one", {7: b"b"}, b"more")
    assert not series.save(1, 0, "one", {3: b"a"}, b"more")
    assert series.claim(1, 0, "one", {0: b"c"}) == {0: Claim.LATE}
    assert (series.answers(1, 0), series.sums(1, 0)) == ({3: b"a"}, [b"sum"])


def test_closing_ends_claims_that_are_not_saved(series):
    series.claim(1, 0, "one", {3: b"a", 7: b"b"})
    series.save(1, 0, "one", {3: b"a"}, b"sum")
    series.close_exchange(1, 0, 2.0)
    with series._database.reading() as run:
        assert run("SELECT client FROM answers") == [(3,)]


def test_whoever_reads_sees_one_moment(series, database_url):
    """An exchange that is forgotten between two statements is not taken for one without answers."""
    series.claim(1, 0, "one", {3: b"a"})
    series.save(1, 0, "one", {3: b"a"}, b"sum")
    other = open_store(database_url)
    with series._database.reading() as run:
        assert run("SELECT forgotten FROM series") == [(0,)]
        other.end_series(1)
        assert run("SELECT client FROM answers") == [(3,)]
    with series._database.reading() as run:
        assert run("SELECT client FROM answers") == []
    other.close()


def test_who_reads_holds_up_a_hub_that_forgets_for_a_moment_at_most(series, database_url):
    series.claim(1, 0, "one", {3: b"a"})
    series.save(1, 0, "one", {3: b"a"}, b"sum")
    other = open_store(database_url)
    with other._database.reading() as run:
        run("SELECT client FROM answers")
        started = time.monotonic()
        series.forget(1, 1)
        assert time.monotonic() - started < 5
    other.close()


def test_the_end_of_a_series_closes_its_exchange(series):
    series.claim(1, 0, "one", {3: b"a"})
    series.end_series(1)
    assert not series.save(1, 0, "one", {3: b"a"}, b"sum")
    assert series.claim(1, 0, "one", {0: b"c"}) == {0: Claim.LATE}


def test_a_hub_that_was_taken_for_dead_saves_nothing(series):
    series.note_alive("one", 10.0)
    series.note_alive("other", 20.0)
    series.claim(1, 0, "one", {3: b"a"})
    assert series.save(1, 0, "one", {3: b"a"}, b"sum")
    series.claim(1, 0, "one", {7: b"b"})
    series.claim(1, 0, "other", {0: b"c"})
    series.drop_claims(15.0)
    assert series.claim(1, 0, "other", {7: b"b"}) == {7: Claim.OWN}
    assert not series.save(1, 0, "one", {7: b"b"}, b"more")
    assert (series.answers(1, 0), series.sums(1, 0)) == ({3: b"a"}, [b"sum"])
    assert series.save(1, 0, "other", {0: b"c", 7: b"b"}, b"others")
    assert series.answered(1, 0) == {0, 3, 7}


def test_a_hub_that_never_said_a_word_counts_as_dead(series):
    series.claim(1, 0, "one", {3: b"a"})
    series.drop_claims(0.0)
    assert not series.save(1, 0, "one", {3: b"a"}, None)


# Forgetting


def test_shares_go_with_their_round(series):
    for place in range(3):
        series.open_exchange(1, opening(place))
        series.claim(1, place, "one", {3: b"a"})
        series.save(1, place, "one", {3: b"a share"}, b"a sum")
        series.close_exchange(1, place, 2.0)
    series.forget(1, 2)
    series.forget(1, 1)
    for place in (0, 1):
        for read in (series.answers, series.sums):
            with pytest.raises(Forgotten):
                read(1, place)
    assert (series.answers(1, 2), series.sums(1, 2)) == ({3: b"a share"}, [b"a sum"])
    assert [one.closed for one in series.exchanges(1)] == [2.0, 2.0, 2.0]
    series.end_series(1)
    with pytest.raises(Forgotten):
        series.answers(1, 2)


def test_forgetting_leaves_no_share_in_a_file_of_sqlite(tmp_path):
    store = open_store(f"sqlite:///{tmp_path}/federation.db", hub=True)
    store.begin_series(b"config", 2)
    store.open_exchange(1, opening(0))
    share, total = b"share of a secret" * 3, b"a sum of vectors" * 5000
    for client in range(50):
        store.claim(1, 0, "one", {client: b"a"})
        store.save(1, 0, "one", {client: share}, total + bytes([client]) * client)
    store.close_exchange(1, 0, 2.0)

    def lies_about(found: bytes) -> bool:
        return any(found in path.read_bytes() for path in tmp_path.iterdir())

    assert lies_about(share)
    assert lies_about(total[:500])
    store.forget(1, 1)
    assert not lies_about(share)
    assert not lies_about(total[:500])
    store.close()


def test_forgetting_gives_room_back_to_postgresql(postgres_url, postgres_server):
    place = postgres_url.rpartition("%3D")[2]
    store = open_store(postgres_url)
    store.begin_series(b"config", 2)
    for exchange in range(4):
        store.open_exchange(1, opening(exchange))
        for client in range(10):
            store.claim(1, exchange, "one", {client: b"a"})
            store.save(1, exchange, "one", {client: os.urandom(3000)}, os.urandom(100_000))
        store.close_exchange(1, exchange, 2.0)
        store.forget(1, exchange + 1)
    size = postgres_server.psql(f"SELECT pg_total_relation_size('{place}.sums')")
    assert int(size) < 2_000_000  # of four
    assert postgres_server.psql(f"TABLE {place}.answers") == ""
    store.close()


# Tasks and rounds


def test_what_a_question_works_on_is_decided_once(store):
    assert store.task_of(0) is None
    store.put_task(0, b"payload", b"digest")
    store.put_task(0, b"other", b"another")
    store.put_task(1, b"payload", b"digest")
    assert (store.task_of(0), store.task_of(1)) == (b"payload", b"payload")
    assert (store.task(b"digest"), store.task(b"another")) == (b"payload", None)


def test_rounds_are_kept_as_they_were(store):
    rows = [a_round(0, outcome="Unreliable", reason='"x" – y', total=b""), a_round(1), a_round(2, question=None)]
    for row in [*rows, replace(rows[1], reason="again", total=b"other")]:
        store.put_round(row)
    assert store.rounds(totals=True) == rows
    assert store.rounds()[-2:] == [replace(row, total=b"") for row in rows[1:]]
    assert store.total_of(0) == rows[1]
    assert store.total_of(1) is None


def test_a_round_without_an_outcome_is_replaced(store):
    store.put_round(a_round(outcome="", total=b""))
    assert store.total_of(0) is None
    store.put_round(a_round())
    assert store.total_of(0) == a_round()


def test_a_loss_that_is_no_number_is_left_out(store):
    store.put_round(a_round(metrics={"loss": math.nan, "best": -math.inf, "accuracy": 0.5}))
    assert store.total_of(0).metrics == {"accuracy": 0.5}


# People


def test_who_was_heard_of_by_a_clock_that_was_set_back_is_heard_of_now(store):
    store.note_contacts({7: 5000.0, 3: 5000.0})
    store.note_contacts({7: 4990.0, 3: 1400.0})
    assert [row.seen for row in store.members().values()] == [1400.0, 5000.0]


def test_what_is_held_against_members_goes_with_their_names(store):
    """Whoever has moved up in the next charter has done nothing."""
    for names in (("a", "b", "c", "d"), ("a", "c", "d", "e"), ("c", "a")):
        newest = store.series()
        if newest is not None:
            store.end_series(newest.series)
        store.begin_series(b"config", 1, names=names)
        if newest is None:
            store.set_aside(1, "b has left")
            store.set_aside(2, "c lies")
            store.blame({0: 1, 3: 2}, "", 1.0)
        known = {names[client]: (row.blames, row.set_aside) for client, row in store.members().items()}
        expected = {"a": (1, ""), "b": (0, "b has left"), "c": (0, "c lies"), "d": (2, "")}
        assert known == {name: held for name, held in expected.items() if name in names}
    store.begin_series(b"other", 1, names=("x", "y"))  # one is running: nothing changes
    assert len(store.members()) == 2


def test_members_are_set_aside_and_let_in(store):
    store.note_contacts({7: 5.0, 3: 6.0})
    store.note_contacts({7: 4.0, 3: 8.0})
    assert store.blame({3: 2, 9: 1}, "lies", 1.0) == set()
    assert store.blame({3: 1, 9: 1}, "lies", 2.0) == {3}
    assert store.blame({3: 1}, "more lies", 3.0) == set()
    store.set_aside(7, "out of order")
    store.set_aside(7, "again")
    store.set_aside(8, "")
    known = store.members()
    assert known == {
        3: MemberRow(client=3, blames=4, set_aside="lies", seen=8.0),
        7: MemberRow(client=7, set_aside="out of order", seen=5.0),
        8: MemberRow(client=8, set_aside=known[8].set_aside),
        9: MemberRow(client=9, blames=2),
    }
    assert known[8].set_aside  # also without a reason
    store.let_in(3)
    store.let_in(5)
    assert store.members()[3] == MemberRow(client=3, seen=8.0)
    assert 5 not in store.members()
    assert store.blame({9: 1}, "lies", 4.0, limit=4) == set()


@pytest.mark.parametrize("reason", ["\0", "\ud800", "☠ \x1b[2J"])
def test_a_reason_can_be_any_text(store, reason):
    store.set_aside(3, reason)
    store.blame({4: 3}, reason, 5.0)
    store.pause(reason)
    assert store.members()[3].set_aside == store.members()[4].set_aside == store.pause_reason() != ""


def test_a_token_speaks_for_one(store):
    store.add_token(b"hash 1", 3, "site 3")
    store.add_token(b"hash 2", None, "operator")
    store.add_token(b"hash 3", 0, "site 0")
    assert (store.member_of(b"hash 1"), store.member_of(b"hash 3")) == (3, 0)
    assert store.member_of(b"hash 2") is store.member_of(b"hash") is None
    assert [store.is_operator(one) for one in (b"hash 1", b"hash 2", b"hash 3", b"")] == [False, True, False, False]
    assert store.tokens() == [
        TokenRow(client=None, label="operator"),
        TokenRow(client=0, label="site 0"),
        TokenRow(client=3, label="site 3"),
    ]
    assert (store.revoke_tokens(0), store.revoke_tokens(5)) == (1, 0)
    assert (store.member_of(b"hash 1"), store.member_of(b"hash 3")) == (3, None)
    assert store.revoke_tokens(None) == 1
    assert not store.is_operator(b"hash 2")


@pytest.mark.parametrize("client", [-1, -2])
def test_no_client_is_an_operator(store, client):
    with pytest.raises(ConfigError):
        store.add_token(b"hash", client, "operator")
    assert not store.is_operator(b"hash")


def test_a_challenge_makes_one_session(store):
    assert store.add_session(b"hash 1", b"nonce", 3, 100.0)
    assert not store.add_session(b"hash 2", b"nonce", 3, 100.0)
    assert not store.add_session(b"hash 1", b"another nonce", 4, 100.0)
    assert (store.session(b"hash 1", 99.0), store.session(b"hash 2", 99.0)) == (3, None)
    assert store.session(b"hash 1", 100.0) is None
    assert not store.add_session(b"hash 2", b"nonce", 3, 200.0)  # it is remembered when the session is over
    store.session(b"hash", 4000.0)
    assert store.add_session(b"hash 2", b"nonce", 3, 5000.0)  # but not for ever


# Hubs


def test_one_hub_leads_as_long_as_it_renews_its_lease(store):
    assert store.lead("one", 10.0, 5.0)
    assert not store.lead("other", 14.0, 5.0)
    assert store.lead("one", 14.0, 5.0)
    assert not store.lead("other", 18.0, 5.0)
    assert store.lead("other", 19.0, 5.0)
    assert not store.lead("one", 20.0, 5.0)
    assert store.lead("other", 20.0, 0.0)  # gives it back
    assert store.lead("one", 20.0, 5.0)
    assert not store.lead("other", -30.0, 5.0)  # clocks differ
    assert store.lead("other", -3600.0, 5.0)  # a clock that was set back by an hour


def test_hubs_that_are_alive_the_leader_first(store):
    for name, now in [("a", 5.0), ("b", 20.0), ("c", 21.0), ("a", 10.0)]:
        store.note_alive(name, now)
    store.lead("c", 20.0, 5.0)
    assert store.hubs(10.0) == ["c", "a", "b"]
    assert store.hubs(15.0) == ["c", "b"]
    store.drop_claims(15.0)
    assert store.hubs(0.0) == ["c", "b"]


# Opening


@pytest.mark.parametrize("url", ["", "mysql://x", "sqlite:///", "sqlite://x", "federation.db"])
def test_other_databases_are_refused(url):
    with pytest.raises(ConfigError, match=r"sqlite:///file or postgresql"):
        open_store(url)


def test_nothing_is_made_where_that_is_not_wished_for(database_url, tmp_path):
    with pytest.raises(ConfigError):
        open_store(database_url, create=False)
    assert not any(tmp_path.iterdir())


def test_without_psycopg_it_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, postgres.__name__)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match="PostgreSQL needs psycopg"):
        open_store("postgresql://localhost/x")


@pytest.mark.parametrize("url", ["postgresql://user:geheim@host:port:port/x", "postgresql://x?geheim=geheim"])
def test_a_wrong_url_is_not_repeated(url):
    with pytest.raises((ConfigError, Unavailable)) as told:
        open_store(url)
    assert "geheim" not in str(told.value)


def test_a_store_that_is_not_there_is_away(tmp_path):
    with pytest.raises(Unavailable, match="cannot be reached"):
        open_store(f"postgresql://ccesa@/x?host={tmp_path}")


# Files of SQLite


@pytest.fixture
def path(tmp_path):
    return tmp_path / "federation.db"


def test_nobody_else_can_read_the_files(path):
    store = open_store(f"sqlite:///{path}", hub=True)
    store.begin_series(b"config", 2)
    assert {one.name: one.stat().st_mode & 0o777 for one in path.parent.iterdir()} == dict.fromkeys(
        [path.name, *(path.name + end for end in ("-wal", "-shm", ".lock"))], 0o600
    )
    store.close()


def test_a_file_that_others_can_read_is_refused(path):
    open_store(f"sqlite:///{path}").close()
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        open_store(f"sqlite:///{path}")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match=f"folder {tmp_path}/none does not exist"):
        open_store(f"sqlite:///{tmp_path}/none/federation.db")


def test_one_hub_has_a_file_and_commands_run_beside_it(path):
    hub = open_store(f"sqlite:///{path}", hub=True)
    with pytest.raises(ConfigError, match="use PostgreSQL for several"):
        open_store(f"sqlite:///{path}", hub=True)
    beside = open_store(f"sqlite:///{path}")
    beside.add_token(b"hash", 3, "site")
    assert hub.member_of(b"hash") == 3
    beside.close()
    hub.close()
    open_store(f"sqlite:///{path}", hub=True).close()


_COMMAND = """
import sys
from ccesa.service.store import open_store
store = open_store(sys.argv[1])
store.add_token(sys.argv[2].encode(), 3, "site")
print(store.pause_reason())
store.close()
"""


def test_a_hub_and_every_command_beside_it_see_what_the_other_has_written(path):
    """Though it opens and closes stores, as for its board, its locks say that it is there.

    A command that does not know this removes the log when it ends, and what the hub saves then is lost.
    """
    url = f"sqlite:///{path}"
    hub, board = open_store(url, hub=True), open_store(url)
    open_store(url).close()
    for name in ("first", "second", "third"):
        hub.pause(name)
        command = [sys.executable, "-c", _COMMAND, url, name]
        assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == f"{name}\n"
        assert [store.member_of(name.encode()) for store in (hub, board)] == [3, 3]
    board.close()
    hub.close()


def test_a_system_without_file_locks_has_no_hub_on_sqlite(path, monkeypatch):
    monkeypatch.setattr(files, "fcntl", None)
    with pytest.raises(ConfigError, match="needs file locks"):
        open_store(f"sqlite:///{path}", hub=True)
    open_store(f"sqlite:///{path}").close()


@pytest.mark.parametrize("text", ["this is a text, and not a database" * 200, "short"])
def test_what_is_no_database_is_refused(path, text):
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="not an SQLite database"):
        open_store(f"sqlite:///{path}")
    assert path.read_text() == text


def test_another_database_is_refused_by_a_command_that_reads(path):
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE recipes (name TEXT)")
    other.close()
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="not the database of a federation"):
        open_store(f"sqlite:///{path}", create=False)


def test_a_file_that_has_gone_is_not_made_anew(path):
    store = open_store(f"sqlite:///{path}")
    store.close()
    path.unlink()
    with pytest.raises((ConfigError, Unavailable)):
        store.series()
    assert not path.exists()


def test_all_settings_that_keep_what_was_saved_are_on(path):
    store = open_store(f"sqlite:///{path}")
    with store._database.reading() as run:
        found = {name: run(f"PRAGMA {name}")[0][0] for name in ("journal_mode", "synchronous", "secure_delete")}
    assert found == {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1}
    store.close()


def test_commits_of_postgresql_reach_the_disk(postgres_server, postgres_url):
    """Also where the server's own default is not to wait for that."""
    asked = postgres_url.replace("options=", "options=-csynchronous_commit%3Doff%20")
    store = open_store(asked)
    with store._database.reading() as run:
        assert run("SHOW synchronous_commit") == [("on",)]
    store.close()


def test_a_store_can_be_used_by_any_thread(store: Store):
    found = []
    thread = threading.Thread(target=lambda: found.append(store.begin_series(b"config", 2)))
    thread.start()
    thread.join()
    assert found == [store.series()]


def test_saved_answers_are_counted(series):
    series.claim(1, 0, "hub", {0: b"a", 3: b"b", 7: b"c"})
    assert series.count_answered(1, 0) == (0, 0)
    assert series.save(1, 0, "hub", {0: b"", 3: b"body"}, None)
    assert series.count_answered(1, 0) == (len(series.answered(1, 0)), 1) == (2, 1)


def test_only_claims_do_not_wait_for_the_disk(series):
    lite = isinstance(series._database, database.SQLite)
    settings = {True: ("PRAGMA synchronous", 2, 1), False: ("SHOW synchronous_commit", "on", "off")}
    look, durable, passing = settings[lite]
    for begin, expected in (
        (series._database.claiming, passing),
        (series._database.writing, durable),
        (series._database.claiming, passing),
        (series._database.alone, durable),
    ):
        with begin() as run:
            assert run(look) == [(expected,)]
    series.claim(1, 0, "hub", {0: b"a"})
    assert series.save(1, 0, "hub", {0: b"body"}, None)
    if lite:
        with series._database.reading() as run:
            assert run(look) == [(durable,)]
