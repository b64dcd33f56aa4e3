"""A replica is a series as the log in the store has it: all that was opened, answered and closed there.

All that a replica computes follows from the log and is not stored. So a hub that was killed or fell behind
replays the log, and several hubs on one store are the same server, whichever of them a client reaches.
"""

from dataclasses import dataclass

import numpy as np

from ccesa import words
from ccesa.agreement.config import RoundConfig
from ccesa.errors import ConfigError, FaultyClient, OrderError
from ccesa.protocol import messages as m
from ccesa.protocol.schedule import Schedule, with_number
from ccesa.protocol.series import Ended, Series
from ccesa.protocol.server import Server
from ccesa.protocol.steps import Requests, steps_of
from ccesa.service.federation import Federation
from ccesa.service.hub.agenda import form_of_series
from ccesa.service.store import Store
from ccesa.service.store.rows import ExchangeRow, SeriesRow
from ccesa.wire import Data


@dataclass(kw_only=True)
class Started:
    """When, for how many and for which question a round in flight was started."""

    #: Seconds since 1970, and how many clients were asked to take part.
    time: float
    asked: int
    #: The question for which it was asked for vectors; None before that.
    question: int | None = None
    task: bytes = b""


#: The number of no exchange.
_NEVER = 1 << 62


class Diverged(Exception):
    """Raised if replies taken here and elsewhere do not agree: replay them all in the order of ids."""


class Replica:
    """Follows the log of one series, from its first round that is not over."""

    def __init__(self, federation: Federation, store: Store, row: SeriesRow, hub: str) -> None:
        self._federation, self._store, self.row, self.hub = federation, store, row, hub
        self.config = federation.decode(row.config)
        if form_of_series(federation, store, row.series) != federation.form:
            raise ConfigError(
                "the series in the store has another form than the federation's file, so its sums mean "
                "something else: restore the file until the series is over, or end it with --new-series"
            )
        over = {one.number for one in store.rounds() if one.series == row.series} | self._unused()
        numbers = range(self.config.number, self.config.number + row.rounds)
        first = next((number for number in numbers if number not in over), numbers.stop)
        skipped = first - self.config.number
        stride = Schedule.of(self.config).stride
        #: The first exchange that still asks anyone; later than all of them if all rounds are over.
        self._start = skipped * stride if skipped < row.rounds else _NEVER
        #: The number of the next exchange; the last round that is over began here, at least.
        self.next = max(0, skipped - 1) * stride
        self.series: Series | None = None
        if skipped < row.rounds:
            begun = with_number(self.config, first)
            self.series = Series(begun, server=self._server, rounds=row.rounds - skipped)
        self.open: ExchangeRow | None = None
        self.requests: Requests = {}
        self.started: dict[int, Started] = {}
        #: Rounds that are over and not recorded yet, as far as this replica knows.
        self.ended: list[Ended] = []
        self._now = 0.0
        #: Whether this replica has taken replies to the open exchange itself, before those of other hubs.
        self._has_taken = False
        self.follow()

    def _unused(self) -> set[int]:
        """Return the numbers of rounds that were not started, as they were not needed."""
        schedule = Schedule.of(self.config)
        return {
            self.config.number + one.exchange // schedule.stride
            for one in self._store.exchanges(self.row.series)
            if schedule.starts(one.exchange) and not one.members
        }

    @property
    def finished(self) -> bool:
        """Whether nothing is left to be opened."""
        return self.series is None or self.series.finished

    @property
    def masking(self) -> int | None:
        """The number of the round for which the next exchange asks for vectors."""
        return None if self.series is None else self.series.masking

    @property
    def in_flight(self) -> tuple[int, ...]:
        """Numbers of the rounds that are not over."""
        return () if self.series is None else self.series.rounds

    @property
    def has_vectors(self) -> bool:
        """Whether vectors were asked for in a round that is not over."""
        return any(self.started[number].question is not None for number in self.in_flight)

    @property
    def steps(self) -> dict[int, tuple[str, frozenset[int]]]:
        """The open step of each round in flight, and who was asked in it."""
        return {} if self.series is None else self.series.steps

    @property
    def oldest(self) -> int:
        """The first exchange that a replay needs."""
        stride = Schedule.of(self.config).stride
        first = min(self.in_flight, default=None)
        return self.next if first is None else (first - self.config.number) * stride

    @property
    def before_start(self) -> int:
        """How many more exchanges open before a round starts."""
        return -self.next % Schedule.of(self.config).stride

    @property
    def most_bytes(self) -> int:
        """The maximum size of a reply to the open exchange."""
        vectors = self.open is not None and self.open.question is not None
        limits = [
            m.limit(kind, self.config)
            for step in steps_of(self.config)
            for kind in step.replies
            if vectors or not m.has_vector(kind)
        ]
        return sum(limits) + 4 * len(limits)

    def follow(self) -> bool:
        """Catch up with the log; return whether there was anything new."""
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
        if self.series is None:
            raise OrderError("no exchange is open")
        self._has_taken = True
        try:
            self.series.receive(client, reply)
        except FaultyClient as fault:
            return self.series.recall(client), fault
        return self.series.recall(client), None

    @property
    def total(self) -> Data | None:
        """The sum of the vectors that this replica has taken itself; None if none are asked for."""
        total = None if self.series is None else self.series.total
        return None if total is None else total.data.cast("B")

    def _server(self, config: RoundConfig) -> Server:
        """Make the server of a round, always the same one."""
        made = self._federation
        return Server(config, made.agreement, dropout=made.dropout, now=self._now)

    def _open(self, logged: ExchangeRow) -> None:
        self.open, self.next, self._has_taken = logged, logged.exchange + 1, False
        if self.series is None or logged.exchange < self._start:
            return
        before, masking = set(self.series.rounds), self.series.masking
        self.series.members, self._now = set(logged.members), logged.opened
        self.requests = self.series.open(logged.task, start=bool(logged.members))
        for number in set(self.series.rounds) - before:
            self.started[number] = Started(time=logged.opened, asked=len(logged.members))
        if masking in self.series.rounds:  # else it was lost before anyone was asked for a vector
            self.started[masking].question, self.started[masking].task = logged.question, logged.task

    def _close(self, logged: ExchangeRow) -> None:
        self.open = None
        if self.series is None or logged.exchange < self._start:
            return
        others = self._store.answers(self.row.series, logged.exchange, besides=self.hub)
        sums = []
        if self.series.total is not None:  # else they are of a round that is over
            sums = self._store.sums(self.row.series, logged.exchange, besides=self.hub)
        if self.series.take_over(others, _added(sums, self.config.bits)) and self._has_taken:
            raise Diverged
        self.ended += self.series.close()
        self.requests = {}


def _added(sums: list[bytes], bits: int) -> bytes:
    """Return the sum of sums; empty if there are none."""
    if len(sums) < 2:
        return b"".join(sums)
    total = np.frombuffer(sums[0], words.dtype(bits)).copy()
    for one in sums[1:]:
        words.add(total, one)
    return total.tobytes()
