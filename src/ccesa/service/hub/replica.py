"""A replica is a series as the log in the store has it: all that was opened, answered and closed there.

Everything that a replica computes follows from the log and is not stored. So a hub that was killed or fell behind
replays the log, and a client may reach any of several hubs on one store: they are the same server.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import msgspec
import numpy as np

from ccesa import words
from ccesa.agreement.config import RoundConfig
from ccesa.errors import ConfigError, FaultyClient, MalformedMessage
from ccesa.protocol import messages as m
from ccesa.protocol.schedule import Schedule, with_number
from ccesa.protocol.series import Ended, Series
from ccesa.protocol.server import Server
from ccesa.protocol.steps import Requests, steps_of
from ccesa.service.federation import Federation
from ccesa.service.forms import Arrays
from ccesa.service.hub.agenda import form_of_series
from ccesa.service.store import Store
from ccesa.service.store.rows import ExchangeRow, SeriesRow
from ccesa.wire import Data


@dataclass(kw_only=True)
class Started:
    """The start of a round in flight, in seconds since 1970, and the number of clients asked to take part."""

    time: float
    asked: int
    #: The question for which the round was asked for vectors; None before that.
    question: int | None = None
    task: bytes = b""


#: The hub waits no longer for a helper that has declined this often in an exchange to answer about boxes.
_MUTE = 3
_NEVER = 1 << 62  # above the number of any exchange


def first_round(federation: Federation, length: int) -> RoundConfig:
    """Return the first round of a new series, for vectors of this length."""
    return federation.agreement.series(length, federation.form.bits)


def decode_config(federation: Federation, config: bytes) -> RoundConfig:
    """Return the first round of a series; refuse one that differs from the file, as no hub could follow its log."""
    try:
        begun = federation.agreement.decode(config)
    except MalformedMessage as error:
        raise ConfigError(f"the rounds in the store are not of this federation's kind: {error}") from error
    is_model = isinstance(federation.form, Arrays)  # which has its own length
    own = first_round(federation, begun.length if is_model else federation.form.length(b""))
    if begun != msgspec.structs.replace(own, series_id=begun.series_id, number=begun.number, accept=begun.accept):
        raise ConfigError(
            "the series in the store has other rounds than the federation's file, such as more clients: "
            "restore the file until the series is over, or end the series with --new-series"
        )
    return begun


def masked_in(federation: Federation, exchange: int) -> int:
    """Return the number of the round for whose vectors an exchange of a series asks."""
    rounds = federation.agreement.any_round
    if not rounds.helper_ids:
        rounds = msgspec.structs.replace(rounds, accept=True)
    place = next(place for place, step in enumerate(steps_of(rounds)) if m.has_vector(step.reply))
    return (exchange - place) // Schedule.of(rounds).stride


class Diverged(Exception):
    """Raised if replies taken here and elsewhere do not agree: replay them all in the order of ids."""


class Replica:
    """Follows the log of one series, from its first round that is not over."""

    def __init__(self, federation: Federation, store: Store, row: SeriesRow, hub: str) -> None:
        self._federation, self._store, self.row, self.hub = federation, store, row, hub
        self.config = decode_config(federation, row.config)
        if form_of_series(federation, store, row.series) != federation.form:
            raise ConfigError(
                "the series in the store has another form than the federation's file, so its sums mean "
                "something else: restore the file until the series is over, or end it with --new-series"
            )
        over = {one.number for one in store.rounds() if one.series == row.series} | self._unused()
        numbers = range(self.config.number, self.config.number + row.rounds)
        first = next((number for number in numbers if number not in over), numbers.stop)
        skipped, left = first - self.config.number, numbers.stop - first
        self._stride = Schedule.of(self.config).stride
        #: The first exchange that still asks anyone; later than all of them if all rounds are over.
        self._start = skipped * self._stride if left else _NEVER
        #: The number of the next exchange. A replay begins no later than the last round that is over.
        self.next = max(0, skipped - 1) * self._stride
        begun = with_number(self.config, first if left else first - 1)  # without rounds left, it is never opened
        self.series = Series(begun, server=self._server, rounds=max(left, 1))
        self.open: ExchangeRow | None = None
        self.requests: Requests = {}
        #: Clients whose vectors the store holds for this replica, until helpers have confirmed their boxes.
        self._held: set[int] = set()
        #: Envelopes for helpers about these, until they have answered, and since when.
        self.beside: dict[int, bytes] = {}
        self.asked_since = 0.0
        #: By helper: how often it declined to answer such an envelope.
        self._declined: Counter[int] = Counter()
        self._has_adopted = False
        self.started: dict[int, Started] = {}
        #: Rounds that are over and not recorded yet, as far as this replica knows.
        self.ended: list[Ended] = []
        self._now = 0.0
        #: Whether this replica has taken replies to the open exchange itself, before those of other hubs.
        self._has_taken = False
        self.follow()

    def _unused(self) -> set[int]:
        """Return the numbers of rounds that were not needed, and not started."""
        schedule = Schedule.of(self.config)
        return {
            self.config.number + one.exchange // schedule.stride
            for one in self._store.exchanges(self.row.series)
            if schedule.starts(one.exchange) and not one.members
        }

    @property
    def finished(self) -> bool:
        """Whether nothing is left to be opened."""
        return self._start == _NEVER or self.series.finished

    @property
    def has_vectors(self) -> bool:
        """Whether a round in flight was asked for vectors."""
        return any(self.started[number].question is not None for number in self.series.rounds)

    @property
    def oldest(self) -> int:
        """The first exchange that a replay needs."""
        first = min(self.series.rounds, default=None)
        return self.next if first is None else (first - self.config.number) * self._stride

    @property
    def before_start(self) -> int:
        """The number of exchanges that open before a round starts."""
        return -self.next % self._stride

    @property
    def most_bytes(self) -> int:
        """The maximum size of a reply to the open exchange."""
        vectors = self.open is not None and self.open.question is not None
        limits = [
            m.limit(kind, self.config)
            for step in steps_of(self.config)
            for kind in step.replies
            if vectors or not m.is_masked_vector(kind)
        ]
        limits += [m.limit(step.beside.reply, self.config) for step in steps_of(self.config) if step.beside]
        return sum(limits) + 4 * len(limits)

    def follow(self) -> bool:
        """Catch up with the log; return whether that changed anything."""
        place = self.next if self.open is None else self.open.exchange
        before = (self.next, self.open)
        for logged in self._store.exchanges(self.row.series, since=place):
            if self.open is None:
                self._open(logged)
            if logged.closed is not None:
                self._close(logged)
        return (self.next, self.open) != before

    def receive(self, client: int, reply: Data) -> tuple[bytes, FaultyClient | None]:
        """Take a reply; return the part to keep in the log, and the fault of the reply, if any."""
        self._has_taken, fault = True, None
        try:
            self.series.receive(client, reply)
        except FaultyClient as error:
            fault = error
        if self.waits_for_helpers:
            return bytes(reply) if self.series.recall(client) else b"", fault
        return self.series.recall(client), fault

    # Helpers

    @property
    def waits_for_helpers(self) -> bool:
        """Whether the open exchange asks helpers, and no members. Their answers are kept whole."""
        return bool(self.config.helper_ids) and self.open is not None and self.open.question is None

    @property
    def has_beside(self) -> bool:
        """Whether helpers confirm boxes beside the open exchange."""
        return bool(self.config.helper_ids) and self.open is not None and self.open.question is not None

    def hold(self, clients: Iterable[int]) -> set[int]:
        """Return which of these have sent a vector that waits for helpers, and count them as held."""
        new = set(clients) & self.series.pending
        self._held |= new
        return new

    def adopt(self) -> bool:
        """Take over vectors that wait for helpers from a hub that is gone, once; return whether there are any."""
        if self._has_adopted or not self.has_beside or self.open is None:
            return False
        held = self._store.adopt(self.row.series, self.open.exchange, self.hub)
        self._has_adopted = True
        for client, reply in held.items():
            with suppress(FaultyClient):
                self.series.receive(client, reply)
        return bool(self.hold(held))

    def ask_helpers(self, now: float) -> bool:
        """Ask about vectors that have come, once the questions before are answered; return whether anyone is asked."""
        if not self.has_beside or self.beside or not self._held:
            return False
        asked = self.series.ask_helpers()
        self.beside = {helper: asked[helper] for helper in asked if not self.is_mute(helper)}
        self.asked_since = now
        return bool(self.beside)

    def take_word(self, helper: int, reply: Data) -> FaultyClient | None:
        """Take a helper's word about boxes; return its fault, if any."""
        fault = None
        try:
            self.series.receive(helper, reply)
        except FaultyClient as error:
            fault = error
        self._declined[helper] += not reply
        self.beside = {one: self.beside[one] for one in sorted(self.beside.keys() & self.series.awaited)}
        if self.is_mute(helper):
            self.beside.pop(helper, None)
        return fault

    def is_mute(self, helper: int) -> bool:
        """Return whether a helper has declined to answer about boxes: it is not waited for."""
        return self._declined[helper] >= _MUTE

    def settled(self) -> tuple[set[int], set[int]]:
        """Return which held vectors are in the sum now, and which were refused; they are no longer held."""
        summed = self._held & self.series.confirmed
        refused = self._held - summed - self.series.pending
        self._held -= summed | refused
        return summed, refused

    @property
    def total(self) -> Data | None:
        """The sum of the vectors that this replica has taken itself; None if the exchange asks for none."""
        total = self.series.total
        return None if total is None else total.data.cast("B")

    def _server(self, config: RoundConfig) -> Server:
        # Keys of helpers are shown while a round is open; their time cannot be checked as of its beginning.
        now = None if config.helper_ids else self._now
        return Server(config, self._federation.agreement, dropout=self._federation.dropout, now=now)

    def _open(self, logged: ExchangeRow) -> None:
        self.open, self.next, self._has_taken = logged, logged.exchange + 1, False
        self._held, self.beside, self._declined, self._has_adopted = set(), {}, Counter(), False
        if logged.exchange < self._start:
            return
        before, masking = set(self.series.rounds), self.series.masking
        self.series.members, self._now = set(logged.members), logged.opened
        self.requests = self.series.open(logged.task, start=bool(logged.members))
        for number in set(self.series.rounds) - before:
            self.started[number] = Started(time=logged.opened, asked=len(logged.members))
        if masking in self.series.rounds:  # else it was lost before anyone was asked for a vector
            self.started[masking].question, self.started[masking].task = logged.question, logged.task

    def _close(self, logged: ExchangeRow) -> None:
        asked_helpers = self.waits_for_helpers
        self.open, self.beside = None, {}
        if logged.exchange < self._start:
            return
        others = self._store.answers(self.row.series, logged.exchange, besides=self.hub)
        if asked_helpers:
            faults = self._receive_all(others)
        else:
            sums = []
            if self.series.total is not None:  # else they are of a round that is over
                sums = self._store.sums(self.row.series, logged.exchange, besides=self.hub)
            faults = self.series.take_over(others, _add(sums, self.config.bits))
        if faults and self._has_taken:
            raise Diverged
        self.ended += self.series.close()
        self.requests = {}

    def _receive_all(self, replies: Mapping[int, bytes]) -> list[FaultyClient]:
        """Take the whole replies of helpers; return their faults."""
        faults = []
        for helper, reply in replies.items():
            try:
                with self.series.from_log():
                    self.series.receive(helper, reply)
            except FaultyClient as fault:
                faults.append(fault)
        return faults


def _add(sums: list[bytes], bits: int) -> bytes:
    """Return the sum of sums; empty without any."""
    if len(sums) < 2:
        return b"".join(sums)
    total = np.frombuffer(sums[0], words.dtype(bits)).copy()
    for one in sums[1:]:
        words.add(total, one)
    return total.tobytes()
