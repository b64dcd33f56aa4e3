"""The questions left to ask, the members that can answer them, the privacy budget used, and the blame for lies."""

import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from ccesa import words
from ccesa.errors import ConfigError
from ccesa.service.coordinator import Coordinator, Result, calling
from ccesa.service.desk import PrivacyStatus
from ccesa.service.errors import CoordinatorFailed
from ccesa.service.federation import Federation
from ccesa.service.forms import AnyForm, read_form
from ccesa.service.logs import event
from ccesa.service.store import Store
from ccesa.service.store.rows import MemberRow, RoundRow
from ccesa.service.tasks import pack_arrays, task_digest

SUM = "sum"  # the outcome of a round with a sum
#: Outcomes of rounds after which no site answers the same question again: the round was lost after shares
#: were released, the sum makes no sense, or the operator has ended the series.
TASK_LOST, SENSELESS, ABANDONED = "TaskLost", "VectorError", "Abandoned"
#: Seconds between a round that was lost in its set-up and the next one. They double, up to a maximum.
REST, LONGEST_REST = 5.0, 600.0
_LONGEST_PAUSE = 3600.0  # the maximum of seconds for which a member that never answers is not asked
_NAMED = 3  # the most members to name in a text


class Agenda:
    """The questions that were asked and answered, from the rounds in the store."""

    def __init__(self, federation: Federation, store: Store, coordinator: Coordinator) -> None:
        self._federation, self._store, self._coordinator = federation, store, coordinator
        #: The coordinator's numbers for each question: it gets each result once.
        self._numbers: dict[int, Mapping[str, float]] = {}
        self.rounds: list[RoundRow] = []
        self.reload()

    def start(self, now: float) -> None:
        """Note the number of questions in this hub's file; the files of other hubs may have more."""
        wanted = self._store.note_questions(self._federation.rounds, now)
        if wanted > self._federation.rounds:
            event("questions", logging.WARNING, file=self._federation.rounds, store=wanted)
        self.reload()

    def reload(self) -> None:
        self.rounds = self._store.rounds_besides(self.rounds)
        #: The number of questions in all, according to the store.
        self.questions = max(self._store.count_questions(), self._federation.rounds)
        self._attempts = Counter(row.question for row in self.rounds)
        #: Questions that have a sum, and those that may be asked again, in their order.
        self.answered = {row.question for row in self.rounds if row.outcome == SUM and row.question is not None}
        used_up = self.answered | self._used_up()
        most = self._federation.agreement.attempts
        self.pending = [one for one in range(self.questions) if one not in used_up and self._attempts[one] < most]
        #: Questions that were asked, have no sum, and are not asked again.
        self.lost = {one for one in self._attempts if one is not None} - self.answered - set(self.pending)

    @property
    def is_noisy(self) -> bool:
        """Whether the sums have noise. Then sites answer a question again, and charge their ledgers."""
        return self._federation.form.mechanism is not None

    def _used_up(self) -> set[int | None]:
        """Return the questions that no site answers again: in another series, or after too many releases."""
        if self.is_noisy:
            return set()
        row, releases = self._store.series(), self._federation.agreement.releases
        runs = None if row is None or row.over else row.series
        released = Counter(row.question for row in self.rounds if row.outcome in (TASK_LOST, SENSELESS))
        elsewhere = {row.question for row in self.rounds if row.series != runs or row.outcome == ABANDONED}
        return {question for question, count in released.items() if count >= releases} | elsewhere

    @property
    def lost_in_setup(self) -> int:
        """The number of latest rounds in a row that asked members, and were lost before vectors were asked for."""
        latest = itertools.takewhile(lambda row: row.question is None, reversed(self.rounds))
        return sum(row.asked > 0 for row in latest)

    @property
    def rests_until(self) -> float:
        """The earliest time of the next round, if the same members are here."""
        lost = self.lost_in_setup
        return self.rounds[-1].ended + min(REST * 2.0 ** min(lost - 1, 20), LONGEST_REST) if lost else 0.0

    def next_attempt(self, question: int | None) -> int:
        """Return the number of the next attempt at a question; 0 without a question."""
        return 0 if question is None else self._attempts[question] + 1

    def task(self, question: int) -> bytes:
        """Return the task of a question: the same bytes every time."""
        known = self._store.task_of(question)
        if known is not None:
            return known
        self.report_all()
        with calling("task"):
            task = self._coordinator.task(question)
        payload = bytes(task) if isinstance(task, bytes | bytearray | memoryview) else pack_arrays(task)
        digest = task_digest(payload)
        same = {row.question for row in self.rounds if row.task == digest} - {None, question}
        if len(same) >= self._federation.agreement.releases and not self.is_noisy:
            raise CoordinatorFailed(
                f"the coordinator gives question {question} the task of an earlier question, and no site "
                "works on a task twice: return a new task, also after lost(question)"
            )
        self._store.put_task(question, payload, digest)
        return self._store.task_of(question) or payload  # another hub may have been faster

    def report_all(self) -> None:
        """Report all results and losses to the coordinator that it does not know, in their order."""
        last = {row.question: row for row in self.rounds}
        for row in sorted(last.values(), key=lambda one: (one.series, one.number)):
            if row.question is None or row.question in self._numbers:
                continue
            if row.question in self.lost:
                with calling("lost"):
                    self._coordinator.lost(row.question)
                self._numbers[row.question] = {}
            elif row.outcome == SUM:
                stored = self._store.total_of(row.question)
                if stored is not None:
                    self.report(stored)

    def report(self, row: RoundRow) -> Mapping[str, float]:
        """Report one result to the coordinator, unless it knows it; return its numbers for it."""
        if row.question is None:
            return {}
        if row.question in self._numbers:  # the store was away after the first report
            return self._numbers[row.question]
        value = value_of(self._federation, self._store, row)
        with calling("result"):
            numbers = self._coordinator.result(Result(question=row.question, value=value, survivors=row.survivors))
            checked = {str(name)[:64]: float(number) for name, number in (numbers or {}).items()}
        self._numbers[row.question] = checked
        return checked


def form_of_series(federation: Federation, store: Store, series: int) -> AnyForm:
    """Return the form that a series began with; the federation's file or charter may have changed since."""
    form = store.form_of(series)
    return read_form(msgspec.json.decode(form)) if form else federation.form


def value_of(federation: Federation, store: Store, row: RoundRow) -> Any:
    """Return the value of a sum in the form of its series, in which the number of members sets the scale."""
    payload = store.task(row.task)
    if payload is None:
        raise ConfigError(f"the store has no task of question {row.question}")
    form = form_of_series(federation, store, row.series)
    total = np.frombuffer(row.total, words.dtype(form.bits)).copy()
    return form.value(total, len(row.survivors), payload, row.context)


def describe_result(federation: Federation, store: Store, question: int) -> dict[str, Any] | None:
    """Return the public result of a question; None until it has a sum."""
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
        "value": form.for_json(value_of(federation, store, row)),
        "metrics": row.metrics,
    }


def measure_privacy(federation: Federation, rounds: Iterable[RoundRow]) -> PrivacyStatus | None:
    """Return the epsilon spent by all rounds that asked for vectors, also lost ones; None without noise."""
    mechanism = federation.form.mechanism
    if mechanism is None:
        return None
    vectors = sum(row.question is not None for row in rounds)
    return PrivacyStatus(
        epsilon=mechanism.release.times(vectors).epsilon(mechanism.delta) if vectors else 0.0,
        budget=mechanism.epsilon,
        delta=mechanism.delta,
        vectors=vectors,
        rounds=mechanism.rounds,
    )


def find_refused(pairs: Iterable[Iterable[int]], helpers: range) -> set[int]:
    """Return the members to blame, given pairs of a member and a helper that refused its box: all helpers did.

    A single helper may lie, and then it costs nobody its place.
    """
    counts = Counter(client for pair in {tuple(sorted(pair)) for pair in pairs} for client in pair)
    return {client for client, count in counts.items() if client not in helpers and count == len(helpers)}


def find_blamed(pairs: Iterable[Iterable[int]], around: int | None) -> set[int]:
    """Return the clients to blame, given pairs in which one client lied: k liars cost at most k honest clients.

    Nothing shows which of the two lied. At most ``around`` liars can be around any client, so a client in more pairs
    lied itself. In the other pairs both ends of a maximal matching are blamed: each pair in it has a liar, and no
    client is in two. If everyone in any pair were blamed, one liar could have all its neighbours set aside.
    """
    every = sorted({tuple(sorted(pair)) for pair in pairs})
    degrees = Counter(client for pair in every for client in set(pair))
    blamed = {client for client, degree in degrees.items() if around is not None and degree > around}
    for pair in every:
        if not blamed & set(pair):
            blamed |= set(pair)
    return blamed


def at(seconds: float) -> str:
    """Return a time of day in words."""
    return time.strftime("%H:%M:%S UTC", time.gmtime(seconds))


def seat_name(federation: Federation, client: int) -> str:
    """Return the name of a member or a helper as the charter has it."""
    names = federation.agreement.party_names
    return names[client].removesuffix(" (helper)") if client in federation.helper_ids else names[client]


def elapsed(since: float, now: float) -> float:
    """Return the seconds between two times in either order: after a clock was set back, nothing must wait for ever."""
    return abs(now - since)


class Presence:
    """The last contact of each member, at any hub. Any thread calls ``hear``; the engine calls the rest."""

    def __init__(self, federation: Federation, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._federation, self._store, self.now = federation, store, clock
        self._heard: dict[int, float] = {}
        #: Series and exchange that members claim to know, and that this hub did not.
        self._known: dict[int, tuple[int, int]] = {}
        self._shared: dict[int, float] = {}  # the times that the store has
        self.rows: dict[int, MemberRow] = {}
        #: The number of rounds in a row that a member did not answer, and the time of the last one.
        self._silent: dict[int, tuple[int, float]] = {}
        self.reload()

    def hear(self, client: int) -> None:
        self._heard[client] = self.now()

    def note_known(self, client: int, series: int, exchange: int) -> None:
        """Note that a member claims to know an exchange that this hub does not."""
        self._known[client] = max((series, exchange), self._known.get(client, (0, -1)))

    def share_known(self) -> None:
        """Share the claims of members with other hubs at once: these may have to stop."""
        if known := dict(self._known):
            self._store.note_known(known)
            self._known = {client: place for client, place in self._known.items() if place != known.get(client)}
            self.reload()

    def ahead_of(self, place: tuple[int, int]) -> str:
        """Return a text if more members than can collude know a later exchange: one of them is honest."""
        known = {client: row.known for client, row in self.rows.items() if row.known > place}
        witnesses = sorted(known.keys() & self.eligible)
        if len(witnesses) <= self._federation.agreement.certificate.colluders:
            return ""
        series, exchange = min(known[client] for client in witnesses)
        names = ", ".join(self._federation.agreement.names[client] for client in witnesses[:_NAMED])
        return f"{len(witnesses)} members, such as {names}, know exchange {exchange} of series {series} or a later one"

    def note_silent(self, clients: set[int], now: float) -> None:
        for client in clients:
            times, _ = self._silent.get(client, (0, now))
            self._silent[client] = times + 1, now

    def note_answered(self, clients: set[int]) -> None:
        """Note that members answered until the end of a round."""
        for client in clients:
            self._silent.pop(client, None)

    def _rests(self, client: int, now: float) -> bool:
        """Return whether a member was silent too often to be asked now. The pause doubles each time."""
        times, when = self._silent.get(client, (0, now))
        over = times - self._federation.policy.faults
        if over < 0:
            return False
        return elapsed(when, now) < min(self._federation.policy.absent * 2.0 ** min(over, 20), _LONGEST_PAUSE)

    def share(self) -> None:
        """Exchange times of contact with other hubs."""
        heard = dict(self._heard)
        if news := dict(heard.items() - self._shared.items()):
            self._store.note_contacts(news)
            self._shared = heard
        self.reload()

    def reload(self) -> None:
        self.rows = self._store.members()

    def last_contact(self, client: int) -> float:
        """Return the time when a member was last heard from; 0 for never."""
        now, row = self.now(), self.rows.get(client)
        times = (self._heard.get(client, 0.0), 0.0 if row is None else row.seen)
        return min(times, key=lambda one: elapsed(one, now))

    def row(self, client: int) -> MemberRow:
        return self.rows.get(client) or MemberRow(client=client)

    @property
    def eligible(self) -> set[int]:
        """Members that are not set aside."""
        aside = {client for client, row in self.rows.items() if row.set_aside}
        return set(range(self._federation.clients)) - aside

    def is_here(self, client: int, now: float) -> bool:
        return elapsed(self.last_contact(client), now) < self._federation.policy.absent

    def present(self, now: float) -> set[int]:
        """Return the members to ask to take part, with silent ones only if there are too few others."""
        here = {client for client in self.eligible if self.is_here(client, now)}
        awake = {client for client in here if not self._rests(client, now)}
        return awake if len(awake) >= self._federation.agreement.needed else here

    def shortage(self, now: float) -> str:
        """Return a text with the members that are here and needed, and helpers that are away; empty if all is well."""
        here, needed = len(self.present(now)), self._federation.agreement.needed
        parts = [] if here >= needed else [f"{here} of {self._federation.clients} are here, {needed} are needed"]
        away = [one for one in self._federation.helper_ids if not self.is_here(one, now)]
        names = ", ".join(f"{seat_name(self._federation, one)}{self._last(one)}" for one in away)
        parts += [f"waits for helper{'s' * (len(away) > 1)} {names}"] if away else []
        return "; ".join(parts)

    def _last(self, client: int) -> str:
        last = self.last_contact(client)
        return f" (last heard from at {at(last)})" if last else ""
