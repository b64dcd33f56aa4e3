"""The engine of a hub, without HTTP: real series, a real store, and sums that are right whatever stops it."""

import threading
import time
from collections import defaultdict

import msgspec
import numpy as np
import pytest

from ccesa import ConfigError, Harary, RoundConfig
from ccesa.memory import ProcessMemory
from ccesa.policy import Policy
from ccesa.protocol.client import Client
from ccesa.protocol.series_client import SeriesClient
from ccesa.service.coordinator import Questions
from ccesa.service.desk import Taken
from ccesa.service.federation import Federation
from ccesa.service.forms import Arrays, Statistics, Words
from ccesa.service.hub import agenda
from ccesa.service.hub.agenda import Presence, value_of
from ccesa.service.hub.engine import Engine, Handed
from ccesa.service.hub.replica import Replica, decode_config, first_round
from ccesa.service.meters import Meters
from ccesa.service.store import open_store
from ccesa.service.tasks import pack_arrays, task_digest
from ccesa.statistics import Number, Schema

WORDS = 7


def federation(clients: int = 6, rounds: int = 3, form=None, least: int = 3, **policy) -> Federation:
    return Federation(
        name="a test",
        rounds=rounds,
        config=RoundConfig(clients=clients, length=1, graph=Harary(degree=4), min_survivors=least),
        form=form or Words(words=WORDS),
        policy=Policy(**{"after": 0.5, "vector_after": 0.5, "gather": 0.5, **policy}),
    )


class Process:
    """What one hub process has, but for its addresses."""

    def __init__(self, federation, store, name="hub", questions=None) -> None:
        self.presence = Presence(federation, store)
        self.view = self.status = None
        self.engine = Engine(
            federation,
            store,
            questions or Questions("test"),
            presence=self.presence,
            publish=self.publish,
            meters=Meters(),
            name=name,
        )
        self.engine.start()

    def publish(self, view, status) -> None:
        self.view, self.status = view, status

    def take(self, client, view, reply):
        done, told = threading.Event(), []
        self.engine.hand_in(
            Handed(
                client=client,
                series=view.series,
                exchange=view.exchange,
                reply=reply,
                done=lambda receipt: (told.append(receipt), done.set()),
            )
        )
        while not done.wait(0.5):
            if not self.engine.alive:
                raise AssertionError("the engine has ended") from self.engine.failure
        return told[0]

    def stop(self) -> None:
        self.engine.stop()
        assert self.engine.failure is None, repr(self.engine.failure)


class Crowd:
    """Clients of all series, that answer whatever is open."""

    def __init__(self, federation, vector) -> None:
        self.federation, self.vector = federation, vector
        self.clients, self.answered = {}, {}
        #: What each site remembers whatever becomes of its process, and why rounds were refused.
        self.memories, self.refused = defaultdict(ProcessMemory), []

    def client(self, i, view):
        config = decode_config(self.federation, view.config)
        key = (i, view.series)
        if key not in self.clients:
            self.clients[key] = SeriesClient(config, lambda config: self.party(i, config))
        return self.clients[key]

    def party(self, i, config):
        memory = self.memories[i]
        return Client(config, i, lambda: self.vector(i, self.task), task=lambda: self.task, tasks=memory)

    def reply(self, i, view):
        key = (i, view.series, view.exchange)
        if key not in self.answered:
            self.task = view.task
            client = self.client(i, view)
            self.answered[key] = client.receive(view.requests[i])
            self.refused += client.faults.values()
        return self.answered[key]


def vector(i, task):
    return np.random.default_rng([i, *task]).integers(0, 2**32, WORDS, dtype=np.uint32)


def answer(hub, crowd, view, missing, done):
    """Answer what is open, but for those that are missing or have answered."""
    for i in view.requests:
        if i in missing or (i, view.series, view.exchange) in done:
            continue
        reply = crowd.reply(i, view)
        if reply is None:  # it takes its time
            continue
        receipt = hub().take(i, view, reply)
        if receipt.taken in (Taken.SAVED, Taken.LATE):
            done.add((i, view.series, view.exchange))
        else:
            assert receipt.taken is Taken.AGAIN, receipt


def drive(hub, crowd, *, until=30.0, step=lambda view: None, missing=()):
    """Answer everything until the federation is over."""
    end = time.monotonic() + until
    done = set()
    while time.monotonic() < end:
        for i in range(crowd.federation.clients):
            if i not in missing:
                hub().presence.hear(i)
        view = hub().view
        if not hub().engine.alive:
            raise AssertionError("the engine has ended") from hub().engine.failure
        if view is not None and view.state == "over":
            return
        if view is not None:
            step(view)
            answer(hub, crowd, view, set(missing), done)
        time.sleep(0.01)
    raise AssertionError(f"not over: {hub().status}")


def check(store, federation):
    """All sums are those of the survivors' own vectors."""
    sums = [row for row in store.rounds(totals=True) if row.outcome == "sum"]
    for row in sums:
        task = task_digest(store.task_of(row.question))
        expected = sum(vector(i, task).astype(np.uint64) for i in row.survivors) % 2**32
        assert np.frombuffer(row.total, np.uint32).tolist() == expected.tolist()
    assert len({row.question for row in sums}) == len(sums)
    return sums


def test_a_federation_runs_to_its_end(tmp_path):
    made = federation()
    store = open_store(f"sqlite:///{tmp_path}/a.db", hub=True)
    hub = Process(made, store)
    drive(lambda: hub, Crowd(made, vector))
    hub.stop()
    sums = check(store, made)
    assert [row.question for row in sums] == [0, 1, 2]
    assert all(row.survivors == tuple(range(6)) for row in sums)
    assert hub.status.state == "over"
    assert hub.status.answered == 3


@pytest.mark.parametrize("seed", range(4))
def test_a_hub_that_is_made_anew_at_any_moment_goes_on(tmp_path, seed):
    """What a new one knows is in the store; whatever the last one did not acknowledge is sent again."""
    made = federation(rounds=4)
    random = np.random.default_rng(seed)
    url = f"sqlite:///{tmp_path}/a.db"
    state = {"store": open_store(url, hub=True), "restarts": 0}
    state["hub"] = Process(made, state["store"])

    def perhaps_restart(view):
        if random.random() < 0.3 and state["restarts"] < 10:
            state["hub"].stop()
            state["store"].close()
            state["store"] = open_store(url, hub=True)
            state["hub"] = Process(made, state["store"])
            state["restarts"] += 1

    drive(lambda: state["hub"], Crowd(made, vector), step=perhaps_restart)
    state["hub"].stop()
    assert state["restarts"]
    assert [row.question for row in check(state["store"], made)] == [0, 1, 2, 3]


def test_what_was_open_before_a_pause_is_still_known_in_it(tmp_path):
    made, store = federation(rounds=2), open_store(f"sqlite:///{tmp_path}/db", hub=True)
    hub, other, paused = Process(made, store), open_store(f"sqlite:///{tmp_path}/db"), []

    def pause_at_two(view):
        assert view.exchange in (-1, view.latest)
        if view.latest == 2 and not paused and view.exchange == 2:
            other.pause("lunch")
        elif view.latest == 2 and view.state == "paused" and view.exchange == -1:
            paused.append(view)
            other.resume()

    drive(lambda: hub, Crowd(made, vector), step=pause_at_two)
    hub.stop()
    assert paused


def test_a_client_that_is_away_is_not_waited_for_twice(tmp_path):
    made = federation(absent=2.0)
    store = open_store(f"sqlite:///{tmp_path}/a.db", hub=True)
    hub = Process(made, store)
    drive(lambda: hub, Crowd(made, vector), missing={5})
    hub.stop()
    assert all(row.survivors == (0, 1, 2, 3, 4) for row in check(store, made))
    assert [one.state for one in hub.status.members][5] == "absent"


def test_a_lost_round_is_repeated_as_often_as_agreed(tmp_path, monkeypatch):
    """Nobody sends a vector for the first question; it is asked twice, and then the others are."""
    monkeypatch.setattr(agenda, "REST", 0.01)
    made = federation(vector_after=0.2, vector_deadline=0.2)
    store = open_store(f"sqlite:///{tmp_path}/a.db", hub=True)
    hub = Process(made, store)
    crowd = Crowd(made, vector)
    silent = task_digest(b"test#0")

    class Picky(Crowd):
        def reply(self, i, view):
            return b"" if view.task == silent else super().reply(i, view)

    drive(lambda: hub, Picky(made, vector))
    hub.stop()
    assert crowd
    rows = store.rounds()
    lost = [row for row in rows if row.question == 0]
    assert [row.outcome for row in lost] == ["TooFewClients"] * 2
    assert [row.attempt for row in lost] == [1, 2]
    assert [row.question for row in check(store, made)] == [1, 2]
    assert hub.status.state == "over"
    assert hub.status.reason == "1 of 3 sums are missing"


def test_who_sends_nonsense_three_times_is_set_aside(tmp_path):
    made = federation(rounds=2)
    store = open_store(f"sqlite:///{tmp_path}/a.db", hub=True)
    hub = Process(made, store)
    faults = []

    def nonsense(view):
        if 4 in view.requests and len(faults) < 3:
            receipt = hub.take(4, view, b"\x05\0\0\0hello")
            if receipt.taken is not Taken.LATE:
                faults.append(receipt)

    drive(lambda: hub, Crowd(made, vector), step=nonsense)
    hub.stop()
    assert [one.taken for one in faults] == [Taken.FAULTY] * 3
    member = hub.status.members[4]
    assert member.state == "set aside"
    assert "sent an invalid reply" in member.reason
    assert "set aside" in [row.kind for row in store.audit_rows()]
    check(store, made)


def test_other_bytes_come_too_late_and_the_same_ones_do_not_matter(tmp_path):
    made = federation(rounds=1)
    store = open_store(f"sqlite:///{tmp_path}/a.db", hub=True)
    hub = Process(made, store)
    seen = []

    class Twice(Crowd):
        def reply(self, i, view):
            reply = super().reply(i, view)
            if i == 0 and hub.take(0, view, reply).taken is Taken.SAVED:
                seen.append(hub.take(0, view, reply).taken)
                seen.append(hub.take(0, view, b"").taken)
            return reply

    drive(lambda: hub, Twice(made, vector))
    hub.stop()
    assert set(seen[::2]) <= {Taken.SAVED, Taken.LATE}
    assert set(seen[1::2]) <= {Taken.CONFLICT, Taken.LATE}
    assert Taken.CONFLICT in seen
    (row,) = check(store, made)
    assert row.survivors == tuple(range(6))


def test_a_series_that_was_abandoned_counts_what_it_asked_for(tmp_path):
    """Vectors may have left for it, and sites send none in another series: the next question is asked."""
    made = federation(rounds=2)
    store = open_store(f"sqlite:///{tmp_path}/a.db", hub=True)
    hub = Process(made, store)
    asked = []

    def stop_at_vectors(view):
        if view.task is not None and not asked:
            asked.append(view)
            hub.stop()

    with pytest.raises(AssertionError, match="ended"):
        drive(lambda: hub, Crowd(made, vector), step=stop_at_vectors)
    hub.engine._leader.abandon(1.0)
    hub.engine._leader.abandon(2.0)
    (row,) = store.rounds()
    assert (row.outcome, row.question, row.attempt, row.number) == ("Abandoned", 0, 1, 0)
    hub = Process(made, store)
    drive(lambda: hub, Crowd(made, vector))
    hub.stop()
    (row,) = check(store, made)
    # No member knows such a number of a series, whatever the store has forgotten.
    assert (row.series, row.question, row.attempt) == (1002, 1, 1)
    assert hub.status.reason == "1 of 2 sums are missing"


def test_a_series_of_another_charter_is_left_alone(tmp_path, caplog):
    """A hub that was given another file says so, and neither goes on with the series nor ends it."""
    store = open_store(f"sqlite:///{tmp_path}/a.db", hub=True)
    store.begin_series(b"something else", 1)
    hub = Process(federation(), store)
    end = time.monotonic() + 10
    while (hub.status is None or hub.status.state != "stuck") and time.monotonic() < end:
        time.sleep(0.05)
    assert hub.status.state == "stuck"
    assert "not of this federation's kind" in hub.status.reason
    time.sleep(0.5)  # it tries again all the time, and says so once
    hub.stop()
    assert [record.getMessage() for record in caplog.records].count("stuck") == 1
    assert not store.series().over


def test_a_vector_that_makes_no_sense_of_a_sum_costs_its_question_and_nothing_else(tmp_path):
    """One site that lies must not stop the hub: nobody can say who it was, and the round is lost by name."""
    schema = Schema(name="ages", numbers=(Number(name="age", lower=0, upper=100),))
    made = federation(rounds=2, form=Statistics(schema=schema))
    store = open_store(f"sqlite:///{tmp_path}/a.db", hub=True)
    hub = Process(made, store)

    def counted(i, task):
        found = schema.encode([{"age": 40 + i}] * 9)
        lies = i == 5 and task == task_digest(b"test#0")
        return np.full_like(found, 2**63 - 1) if lies else found

    drive(lambda: hub, Crowd(made, counted))
    hub.stop()
    lost, good = store.rounds()
    assert [row.question for row in (lost, good)] == [0, 1]
    assert (lost.outcome, lost.survivors, lost.total) == ("VectorError", tuple(range(6)), b"")
    assert "sum" in lost.reason
    assert good.outcome == "sum"
    assert hub.status.reason == "1 of 2 sums are missing"


def test_whoever_takes_no_part_makes_nobody_else_late(tmp_path):
    """Of ten sites three say at once that they take no part, and one is slow: the others wait for it."""
    waits = {"after": 0.1, "vector_after": 0.1, "deadline": 5.0, "vector_deadline": 5.0}
    made = federation(clients=10, rounds=1, least=7, **waits)
    store = open_store(f"sqlite:///{tmp_path}/a.db", hub=True)
    hub, slow = Process(made, store), {}

    class Unwilling(Crowd):
        def reply(self, i, view):
            since = slow.setdefault((view.series, view.exchange), time.monotonic())
            if i == 9 and time.monotonic() < since + 0.5:
                return None
            return b"" if i in (1, 2, 3) else super().reply(i, view)

    drive(lambda: hub, Unwilling(made, vector))
    hub.stop()
    (row,) = check(store, made)
    assert row.survivors == (0, 4, 5, 6, 7, 8, 9)


@pytest.mark.parametrize(
    "changed", [{"clients": 8}, {"least": 4}, {"form": Words(words=8)}, {"form": Words(words=WORDS, bits=64)}]
)
def test_a_file_that_has_changed_is_for_the_next_series(tmp_path, changed):
    """A hub that goes on with it would ask clients that the series does not have, and nobody could follow."""
    store = open_store(f"sqlite:///{tmp_path}/a.db", hub=True)
    hub, made = Process(federation(), store), federation()
    crowd = Crowd(made, vector)

    def stop_soon(view):
        if view.exchange == 1:
            hub.stop()

    with pytest.raises(AssertionError, match="ended"):
        drive(lambda: hub, crowd, step=stop_soon)
    logged = store.exchanges(1)
    hub = Process(federation(**changed), store)
    end = time.monotonic() + 10
    while (hub.status is None or hub.status.state != "stuck") and time.monotonic() < end:
        for i in range(8):
            hub.presence.hear(i)
        time.sleep(0.05)
    assert "other rounds than the federation's file" in hub.status.reason
    hub.stop()
    assert store.exchanges(1) == logged
    hub = Process(made, store)
    drive(lambda: hub, crowd)
    hub.stop()
    assert len(check(store, made)) == 3


@pytest.mark.parametrize("least", [3, 6])
def test_who_is_here_and_never_answers_is_not_waited_for_in_every_round(tmp_path, monkeypatch, least):
    """Unless there are too few others: with all six needed, all six are asked."""
    monkeypatch.setattr(agenda, "REST", 0.01)
    made = federation(rounds=6, least=least, after=0.2, vector_after=0.2, deadline=0.3, vector_deadline=0.3)
    store = open_store(f"sqlite:///{tmp_path}/a.db", hub=True)
    hub = Process(made, store)

    class Mute(Crowd):
        def reply(self, i, view):
            return None if i == 5 and len(store.rounds()) < (12 if least == 3 else 4) else super().reply(i, view)

    drive(lambda: hub, Mute(made, vector), until=60)
    hub.stop()
    asked = [row.asked for row in store.rounds()]
    check(store, made)
    assert asked == ([6] * 3 + [5] * 3 if least == 3 else [6] * len(asked))


def test_who_was_silent_is_asked_again_after_a_while(tmp_path):
    made, now = federation(absent=100.0), [1e9]
    store = open_store(f"sqlite:///{tmp_path}/a.db")
    presence = Presence(made, store, lambda: now[0])

    def asked_after(seconds):
        now[0] += seconds
        for i in range(6):
            presence.hear(i)
        return 5 in presence.present(now[0])

    for _ in range(3):
        assert asked_after(1)
        presence.note_silent({5}, now[0])
    assert not asked_after(99)
    assert asked_after(1)
    presence.note_silent({5}, now[0])
    assert not asked_after(199)
    assert asked_after(1)
    for _ in range(100):
        presence.note_silent({5}, now[0])
    assert not asked_after(3599)
    assert asked_after(1)
    presence.note_silent({5}, now[0])
    presence.note_answered({5})
    assert asked_after(1)
    store.close()


def test_a_sum_means_what_it_meant_when_it_was_asked_for(tmp_path):
    """With another number of clients numbers have another scale; the sums before keep theirs."""
    changes = {"w": np.full(3, 0.5, np.float32)}
    payload = pack_arrays({"w": np.zeros(3, np.float32)})

    class Model(Questions):
        def task(self, question):
            return {"w": np.full(3, question, np.float32)}

    def files(clients, rounds, **form):
        return federation(clients=clients, rounds=rounds, form=Arrays(clients=clients, **form))

    def means(made):
        told = [value_of(made, store, store.total_of(row.question)) for row in store.rounds()]
        return [value.arrays["w"].tolist() for value in told]

    store = open_store(f"sqlite:///{tmp_path}/a.db", hub=True)

    def run(made):
        hub = Process(made, store, questions=Model())
        drive(lambda: hub, Crowd(made, lambda i, task: made.form.vector(changes, payload, bytes(32))))
        hub.stop()

    run(files(6, rounds=1))
    run(made := files(8, rounds=2))
    assert means(made) == [pytest.approx([0.5] * 3, abs=1e-6)] * 2
    store.begin_series(first_round(made, 1).encode(), 1, form=msgspec.json.encode(made.form))
    with pytest.raises(ConfigError, match="another form"):
        Replica(files(8, 2, clip=3.0), store, store.series(), "hub")
