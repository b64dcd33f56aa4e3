"""A question is asked in one series, and not again once shares were released for it."""

import numpy as np
import pytest

from attacks.client_shares import CrookedDealer
from ccesa.errors import TaskSpent
from ccesa.protocol import messages as m
from ccesa.protocol.series import Series
from ccesa.service.coordinator import Averaging, Questions
from ccesa.service.errors import CoordinatorFailed
from ccesa.service.forms import Arrays
from ccesa.service.hub.agenda import Agenda
from ccesa.service.hub.replica import Replica
from ccesa.service.store import open_store
from ccesa.service.tasks import pack_arrays, task_digest
from series_rounds import SeriesPlay, task_of
from test_engine import Crowd, Process, check, drive, federation, vector

LIAR = 5


@pytest.fixture
def store(tmp_path):
    made = open_store(f"sqlite:///{tmp_path}/a.db", hub=True)
    yield made
    made.close()


def run(made, store, crowd, questions=None, **options):
    hub = Process(made, store, questions=questions)
    drive(lambda: hub, crowd, **options)
    hub.stop()
    return hub


class Silent(Crowd):
    """All but two keep their vectors back when a question is asked for the first time."""

    def __init__(self, made, question: int = 0, times: int = 1) -> None:
        super().__init__(made, vector)
        self.task_of, self.places, self.times = task_digest(b"test#%d" % question), set(), times

    def reply(self, i, view):
        if view.task == self.task_of:
            self.places.add((view.series, view.exchange))
        late = (view.series, view.exchange) in sorted(self.places)[: self.times]
        reply = super().reply(i, view)  # it is made, and does not arrive
        return b"" if late and i > 1 else reply


class Crooked(Crowd):
    """One client deals shares of another secret than the one that it commits to."""

    def party(self, i, config):
        if i != LIAR:
            return super().party(i, config)
        return CrookedDealer(config, i, lambda: self.vector(i, self.task), task=lambda: self.task)


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_round_that_is_lost_before_shares_are_asked_for_is_repeated_in_its_series(store, rounds):
    made = federation(rounds=rounds, vector_after=0.2, vector_deadline=0.2)
    crowd = Silent(made)
    run(made, store, crowd)
    rows = [row for row in store.rounds() if row.question == 0]
    assert [(row.outcome, row.attempt) for row in rows] == [("TooFewClients", 1), ("sum", 2)]
    assert {row.series for row in store.rounds()} == {1}
    assert rows[0].number < rows[1].number
    assert crowd.refused == []
    assert len(check(store, made)) == rounds


def test_no_round_is_set_up_for_which_there_is_no_question(store):
    """A federation with one question asks everyone for keys once."""
    made = federation(rounds=1)
    run(made, store, Crowd(made, vector))
    assert [row.number for row in store.rounds()] == [0]
    assert [one.exchange for one in store.exchanges(1) if one.members and one.exchange % 2 == 0] == [0, 2, 4][:1]


def test_a_hub_that_is_made_anew_knows_which_numbers_went_unused(store):
    """It starts where it can: what came before an unused number is forgotten."""
    made = federation(rounds=1, vector_after=0.2, vector_deadline=0.2)
    crowd, hubs = Silent(made), []

    def hub():
        if not hubs or (len(hubs) == 1 and len(store.rounds()) == 1):
            if hubs:
                hubs[-1].stop()
            hubs.append(Process(made, store))
        return hubs[-1]

    drive(hub, crowd)
    hubs[-1].stop()
    assert len(hubs) == 2
    lost, found = store.rounds()
    assert (lost.outcome, found.outcome, found.series) == ("TooFewClients", "sum", 1)
    unused = set(range(found.number)) - {lost.number}
    known = Replica(made, store, store.series(), "hub")._unused()
    assert unused == {number for number in known if number < found.number} == {1}


def test_s40_a_question_that_is_lost_with_its_shares_is_not_asked_again(store):
    """One dealer costs a question each time, with its name, until it is set aside.

    The two rounds after are set up by then, and lost as well.
    """
    made = federation(rounds=6, faults=3)
    crowd = Crooked(made, vector)
    hub = run(made, store, crowd)
    rows = store.rounds()
    assert [(row.question, row.outcome) for row in rows] == [*((q, "TaskLost") for q in range(5)), (5, "sum")]
    why = f"CorruptShares after shares were released: the secret of client {LIAR}"
    assert all(why in row.reason for row in rows[:5])
    assert rows[5].survivors == (0, 1, 2, 3, 4)
    assert hub.status.members[LIAR].state == "set aside"
    assert hub.status.reason == "5 of 6 sums are missing"
    assert crowd.refused == []


def test_a_new_question_can_be_asked_when_all_others_are_lost(store):
    """An operator who raises the number of questions begins a series, in which nothing old is asked."""
    made = federation(rounds=1)
    run(made, store, Crooked(made, vector))
    assert [row.outcome for row in store.rounds()] == ["TaskLost"]
    more = federation(rounds=2)
    crowd = Crowd(more, vector)
    run(more, store, crowd)
    assert [(row.series, row.question, row.outcome) for row in store.rounds()] == [(1, 0, "TaskLost"), (2, 1, "sum")]


def test_a_question_of_a_series_that_has_ended_is_not_asked_in_another(store):
    """Sites that sent a vector in it would refuse; of the others nobody knows."""
    made = federation(rounds=2, vector_after=0.2, vector_deadline=0.2)
    crowd, hub = Silent(made), Process(made, store)

    def stop(view):
        if store.rounds():
            raise InterruptedError

    with pytest.raises(InterruptedError):
        drive(lambda: hub, crowd, step=stop)
    hub.stop()
    hub.engine._leader.abandon(1.0)
    run(made, store, crowd)
    rows = store.rounds()
    assert [(row.question, row.outcome) for row in rows if row.series > 1] == [(1, "sum")]
    assert not [one for one in crowd.refused if isinstance(one, TaskSpent)]


# Coordinators


class Model(Averaging):
    def __init__(self) -> None:
        super().__init__({"weights": np.linspace(0, 1, 5, dtype=np.float32), "steps": np.zeros(2, np.int64)})
        self.lost_questions = []

    def lost(self, question):
        super().lost(question)
        self.lost_questions.append(question)


def test_averaging_goes_on_with_a_model_that_has_stepped_aside(store):
    """The same model is the same task, for which nobody sends another vector."""
    made = federation(rounds=4, form=Arrays(clients=6), faults=1)

    def changes(i, task):
        payload = store.task(task)
        return made.form.vector({"weights": np.full(5, 0.5), "steps": np.zeros(2)}, payload, bytes(32))

    crowd, model = Crooked(made, changes), Model()
    run(made, store, crowd, questions=model)
    assert [row.outcome for row in store.rounds()] == ["TaskLost", "TaskLost", "TaskLost", "sum"]
    assert model.lost_questions == [0, 1, 2]
    assert crowd.refused == []
    moved = model.model["weights"] - 0.5 - np.linspace(0, 1, 5, dtype=np.float32)
    assert 0 < np.abs(moved).max() < 0.01
    again = Model()  # a hub that is started again tells it all, and it comes out the same
    Agenda(made, store, again).report_all()
    assert again.lost_questions == [0, 1, 2]
    assert pack_arrays(again.model) == pack_arrays(model.model)


def test_a_coordinator_that_asks_the_same_again_is_told_so(store):
    class Same(Questions):
        def task(self, question):
            return b"the same"

    made = federation(rounds=2)
    hub, reasons = Process(made, store, questions=Same()), []

    def stuck(view):
        if view.state == "stuck":
            reasons.append(hub.status.reason)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        drive(lambda: hub, Crowd(made, vector), step=stuck)
    hub.stop()
    assert "gives question 1 the task of an earlier question" in reasons[0]
    with pytest.raises(CoordinatorFailed, match="return a new task"):
        Agenda(made, store, Same()).task(1)


# Series


@pytest.mark.parametrize("guard", ["curious", "active"])
def test_a_number_that_goes_unused_is_passed_over_by_clients_too(guard):
    play = SeriesPlay(guard, rounds=3)
    series, ended = play.series, []
    assert isinstance(series, Series)
    while not series.finished:
        task = m.NO_TASK if series.masking is None else task_of(series.masking)
        starts = series._exchange + 1 != series._schedule.stride
        for i, request in series.open(task, start=starts).items():
            series.receive(i, play.clients[i].receive(request))
        ended += series.close()
    assert [one.number for one in ended] == [0, 2]
    assert all(one.failure is None and one.released for one in ended)
