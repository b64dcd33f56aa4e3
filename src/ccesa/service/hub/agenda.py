"""The agenda: which questions are left to ask, what each asks, and what the coordinator was told."""

import itertools
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from ccesa import words
from ccesa.errors import ConfigError
from ccesa.service.coordinator import Coordinator, Result, asking
from ccesa.service.errors import CoordinatorFailed
from ccesa.service.federation import Federation
from ccesa.service.forms import AnyForm, read_form
from ccesa.service.logs import event
from ccesa.service.store import Store
from ccesa.service.store.rows import RoundRow
from ccesa.service.tasks import pack_arrays, task_digest

#: The outcome of a round that has one.
SUM = "sum"
#: Outcomes of rounds after which no site answers the same question again: it was lost after shares had been
#: released, the sum makes no sense, or the operator has ended its series.
TASK_LOST, SENSELESS, ABANDONED = "TaskLost", "VectorError", "Abandoned"
#: Seconds between a round that was lost in its set-up and the next one; they double, up to a most.
REST, LONGEST_REST = 5.0, 600.0


class Agenda:
    """Knows what was asked and answered, from the rounds in the store."""

    def __init__(self, federation: Federation, store: Store, coordinator: Coordinator) -> None:
        self._federation, self._store, self._coordinator = federation, store, coordinator
        #: What the coordinator said to results, by question: it is told each of them once.
        self._told: dict[int, Mapping[str, float]] = {}
        self.rounds: list[RoundRow] = []
        #: How many questions there are in all; the store says it.
        self.questions = 0
        #: Questions that have a sum, and those that have none and may be asked once more, in their order.
        self.answered: set[int] = set()
        self.pending: list[int] = []
        #: Questions that were asked, have no sum, and are not asked again.
        self.lost: set[int] = set()
        self._attempts: Counter[int | None] = Counter()
        self.reload()

    def start(self, now: float) -> None:
        """Let the store know how many questions this hub's file wants; other files may want more."""
        wanted = self._store.want(self._federation.rounds, now)
        if wanted > self._federation.rounds:
            event("questions", logging.WARNING, file=self._federation.rounds, store=wanted)
        self.reload()

    def reload(self) -> None:
        """Read the rounds that are over, without their sums, and what is left to ask."""
        self.rounds = self._store.rounds_besides(self.rounds)
        self.questions = max(self._store.wanted(), self._federation.rounds)
        self._attempts = Counter(row.question for row in self.rounds)
        summed = {row.question for row in self.rounds if row.outcome == SUM}
        self.answered = {question for question in summed if question is not None}
        every, most, used_up = range(self.questions), self._federation.agreement.attempts, self._used_up()
        self.pending = [
            one for one in every if one not in summed and one not in used_up and self._attempts[one] < most
        ]
        self.lost = {one for one in self._attempts if one is not None} - summed - set(self.pending)

    @property
    def is_noisy(self) -> bool:
        """Whether there is noise in the sums: then sites may answer a question again, and are charged."""
        return self._federation.form.mechanism is not None

    def _used_up(self) -> set[int | None]:
        """Return the questions that no site answers again: it works on one in one series, and releases once.

        Vectors may have left for whatever was asked in a series that is over.
        """
        if self.is_noisy:
            return set()
        row, releases = self._store.series(), self._federation.agreement.releases
        runs = None if row is None or row.over else row.series
        released = Counter(row.question for row in self.rounds if row.outcome in (TASK_LOST, SENSELESS))
        elsewhere = {row.question for row in self.rounds if row.series != runs or row.outcome == ABANDONED}
        return {question for question, count in released.items() if count >= releases} | elsewhere

    @property
    def lost_in_setup(self) -> int:
        """How many of the latest rounds in a row were lost before vectors were asked for.

        One in which nobody was asked, as there was no question for it, counts as none of them.
        """
        latest = itertools.takewhile(lambda row: row.question is None, reversed(self.rounds))
        return sum(row.asked > 0 for row in latest)

    @property
    def rests_until(self) -> float:
        """When the next round begins at the earliest, if the same members are here: rounds cost room."""
        lost = self.lost_in_setup
        return self.rounds[-1].ended + min(REST * 2.0 ** min(lost - 1, 20), LONGEST_REST) if lost else 0.0

    def attempts(self, question: int) -> int:
        """Return how often vectors were asked for about a question."""
        return self._attempts[question]

    def task(self, question: int) -> bytes:
        """Return what a question asks: the same bytes whenever it is asked."""
        known = self._store.task_of(question)
        if known is not None:
            return known
        self.tell()
        with asking("task"):
            task = self._coordinator.task(question)
        payload = bytes(task) if isinstance(task, bytes | bytearray | memoryview) else pack_arrays(task)
        self._check_new(question, task_digest(payload))
        self._store.put_task(question, payload, task_digest(payload))
        return self._store.task_of(question) or payload  # another hub may have been faster

    def _check_new(self, question: int, digest: bytes) -> None:
        """Refuse a task that sites have worked on for another question: they would not do so again."""
        same = {row.question for row in self.rounds if row.task == digest} - {None, question}
        if len(same) >= self._federation.agreement.releases and not self.is_noisy:
            raise CoordinatorFailed(
                f"the coordinator gives question {question} the task of an earlier question, and no site "
                "works on a task twice: return another task, also after lost(question)"
            )

    def tell(self) -> None:
        """Tell the coordinator all results and losses that it does not know, in their order."""
        last = {row.question: row for row in sorted(self.rounds, key=lambda one: (one.series, one.number))}
        for row in sorted(last.values(), key=lambda one: (one.series, one.number)):
            if row.question is None or row.question in self._told:
                continue
            if row.question in self.lost:
                with asking("lost"):
                    self._coordinator.lost(row.question)
                self._told[row.question] = {}
            elif row.outcome == SUM:
                stored = self._store.total_of(row.question)
                if stored is not None:
                    self.told(stored)

    def told(self, row: RoundRow) -> Mapping[str, float]:
        """Tell the coordinator one result, unless it knows it; return what it has to say about it."""
        if row.question is None:
            return {}
        if row.question in self._told:  # it was told, and then the store was away
            return self._told[row.question]
        value = value_of(self._federation, self._store, row)
        with asking("result"):
            said = self._coordinator.result(
                Result(question=row.question, value=value, survivors=row.survivors)
            )
            numbers = {str(name)[:64]: float(number) for name, number in (said or {}).items()}
        self._told[row.question] = numbers
        return numbers


def form_of_series(federation: Federation, store: Store, series: int) -> AnyForm:
    """Return the form of a series: the federation's, unless its file or charter has changed since."""
    told = store.form_of(series)
    return read_form(msgspec.json.decode(told)) if told else federation.form


def value_of(federation: Federation, store: Store, row: RoundRow) -> Any:
    """Return what a sum says, in the form of its series: another number of members is another scale."""
    payload = store.task(row.task)
    if payload is None:
        raise ConfigError(f"the store has no task of question {row.question}")
    form = form_of_series(federation, store, row.series)
    total = np.frombuffer(row.total, words.dtype(form.bits)).copy()
    return form.value(total, len(row.survivors), payload, row.context)


def published(federation: Federation, store: Store, question: int) -> dict[str, Any] | None:
    """Return what is published about a question, made of its sum; None as long as there is none."""
    row = store.total_of(question)
    if row is None:
        return None
    form = form_of_series(federation, store, row.series)
    return {
        "question": question,
        "outcome": SUM,
        "series": row.series,
        "number": row.number,
        "survivors": list(row.survivors),
        "value": form.published(value_of(federation, store, row)),
        "metrics": row.metrics,
    }
