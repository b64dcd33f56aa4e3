"""A series between the calls of a strategy: each call works on its next round, and sets up those after it."""

from flwr.serverapp import Grid

from ccesa.errors import FaultyClient
from ccesa.flower.both import log
from ccesa.flower.server.report import in_nodes
from ccesa.flower.server.transport import RoundTransport, forget
from ccesa.protocol.series import Ended, Schedule, Series
from ccesa.protocol.server import Aggregate
from ccesa.protocol.steps import steps_of


class KeptSeries:
    """The server of a series with some nodes, for as long as a strategy asks the same of them."""

    def __init__(self, grid: Grid, message_type: str, series: Series) -> None:
        self.config = series.config
        #: Nodes that may hold keys.
        self.holding: set[int] = set()
        #: Of the round that the next call works on; those before it are over.
        self.number = 0
        self._grid, self._message_type, self._series = grid, message_type, series
        self._schedule, self._steps = Schedule.of(series.config), steps_of(series.config)
        self._exchange = 0
        #: Rounds that are over; one that is lost while it is set up is over before those ahead of it.
        self._over: set[int] = set()

    @property
    def is_fresh(self) -> bool:
        """Whether no message of it has been sent."""
        return self._exchange == 0

    @property
    def finished(self) -> bool:
        """Whether no round is left in it."""
        return self._series.finished

    @property
    def exchanges(self) -> int:
        """How many exchanges its next round still takes, if it goes well."""
        return self._schedule.ends(self.number) - max(self._exchange, self._begins) + 1

    def run_round(self, transport: RoundTransport, task: bytes) -> Aggregate:
        """Run the next round; return the sum, or raise the RoundFailed that says why there is none."""
        self._series.members = set(transport.messages)
        over: dict[int, Ended] = {}
        while self.number not in over:
            over |= {ended.number: ended for ended in self._pass(transport, task)}
        asked_for = over.pop(self.number)
        for ahead in over.values():  # the round after it takes its place
            if ahead.failure is not None:
                why = in_nodes(ahead.failure, transport.nodes, transport.around)
                log.warn(f"round {ahead.number + 1} of a series is lost before it was asked for: {why}")
        self._over |= {asked_for.number, *over}
        while self.number in self._over:
            self.number += 1
        if self.finished:
            self.holding -= transport.answered_last
        return asked_for.result()

    def stop(self, *, wait: bool) -> None:
        """End the series: whoever may hold keys is told to drop them."""
        self._series.stop()
        forget(self._grid, self.config, self._message_type, self.holding, wait=wait)

    def _pass(self, transport: RoundTransport, task: bytes) -> list[Ended]:
        """Run one exchange. One in which nothing is in flight has no messages."""
        requests = self._series.open(task)
        if self._exchange >= self._begins:
            step = self._steps[self._exchange - self._begins]
            for client, reply in transport.carry(step, requests):
                try:
                    self._series.receive(client, reply)
                except FaultyClient as fault:
                    transport.refuse(fault)
        self._exchange += 1
        return self._series.close()

    @property
    def _begins(self) -> int:
        return self._schedule.exchange(self.number, self._steps[0].name)
