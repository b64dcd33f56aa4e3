"""A round as a strategy's call runs it: alone, or as the next one of a series that is kept between calls."""

from flwr.app import Message
from flwr.serverapp import Grid

from ccesa.errors import FaultyClient
from ccesa.flower.both import log
from ccesa.flower.server.report import in_nodes
from ccesa.flower.server.transport import RoundTransport, forget
from ccesa.protocol.round import run_round
from ccesa.protocol.schedule import Schedule, numbered
from ccesa.protocol.series import Ended, Series
from ccesa.protocol.server import Aggregate, Server
from ccesa.protocol.steps import Requests, steps_of

_NONE: Requests = {}


class SingleRound:
    """A round that nothing is prepared with."""

    def __init__(self, grid: Grid, message_type: str, server: Server) -> None:
        self.config = server.config
        #: Nodes that may hold keys.
        self.holding: set[int] = set()
        self._grid, self._message_type, self._server = grid, message_type, server

    def __str__(self) -> str:
        return f"a single round: {len(steps_of(self.config))} exchanges"

    @property
    def context(self) -> bytes:
        """Of the round."""
        return self.config.context

    @property
    def last_number(self) -> int:
        """The highest number that is taken in its series."""
        return self.config.number

    def enter(self, messages: dict[int, Message], task: bytes) -> bool:
        """Say what the round works on; there always is one."""
        self._server.work_on(task)
        return True

    def run(self, transport: RoundTransport, task: bytes) -> Aggregate:
        """Return the sum, or raise the RoundFailed that says why there is none."""
        try:
            return run_round(self._server, transport.carry, transport.refuse)
        finally:
            self.holding -= transport.answered_last

    def end(self, *, lost: bool) -> None:
        """Tell whoever may hold keys to drop them."""
        forget(self._grid, self.config, self._message_type, self.holding, wait=lost)


class KeptSeries:
    """A series with some nodes, for as long as a strategy asks the same of them.

    Each call works on its next round, and sets up those after it.
    """

    def __init__(self, grid: Grid, message_type: str, series: Series) -> None:
        self.config = series.config
        #: Nodes that may hold keys.
        self.holding: set[int] = set()
        self._grid, self._message_type, self._series = grid, message_type, series
        self._stride, self._steps = Schedule.of(series.config).stride, steps_of(series.config)
        #: The exchange that is open, or was last, and its requests.
        self._exchange, self._requests = -1, _NONE
        #: The round that was entered, which node is which of its clients, and who was left behind in it.
        self._number, self._nodes = series.config.number, dict[int, int]()
        self._left_behind: set[int] = set()
        #: The highest number that is taken in its series: of the round that is set up.
        self.last_number = series.config.number

    @property
    def finished(self) -> bool:
        """Whether no round is left in it."""
        return self._series.finished

    @property
    def context(self) -> bytes:
        """Of the round that was entered."""
        return numbered(self.config, self._number).context

    def __str__(self) -> str:
        """Say which round was entered, and what it takes if it goes well."""
        left = len(self._steps) - self._place
        return f"round {self._place_of(self._number) + 1} of a series: {left} exchanges"

    def enter(self, messages: dict[int, Message], task: bytes) -> bool:
        """Begin to work on the next round, with these clients; False if no round is left.

        A round that was lost while it was set up has cost nobody anything: the one after it takes its place.
        """
        self._nodes = {client: int(one.metadata.dst_node_id) for client, one in messages.items()}
        self._series.members, self._left_behind = set(messages), set()
        self._open(task)
        while not self._series.rounds:
            self._warn(self._series.close())
            if self.finished:
                return False
            self._open(task)
        self._number = self._series.rounds[0]
        return True

    def run(self, transport: RoundTransport, task: bytes) -> Aggregate:
        """Run the round that was entered; return the sum, or raise what says why there is none."""
        while (ended := self._pass(transport)) is None:
            self._open(task)
        if self.finished:
            self.holding -= transport.answered_last
        self._left_behind = transport.left_behind
        return ended.result()

    def end(self, *, lost: bool) -> None:
        """After a round: whoever was left behind in it is told to drop all keys, and is asked again later."""
        if self.finished:
            self.stop(wait=lost)
        else:
            self._forget(self._left_behind, wait=False)

    def stop(self, *, wait: bool) -> None:
        """End the series: whoever may hold keys is told to drop them."""
        self._series.stop()
        self._forget(self.holding, wait=wait)

    def _forget(self, nodes: set[int], *, wait: bool) -> None:
        forget(self._grid, self.config, self._message_type, nodes, wait=wait)
        self.holding -= nodes

    @property
    def _place(self) -> int:
        """The place of the open exchange among the steps of the round that was entered."""
        return self._exchange - self._place_of(self._number) * self._stride

    def _place_of(self, number: int) -> int:
        """The place of a round in the series, which can go on where another one with its id was."""
        return number - self.config.number

    def _open(self, task: bytes) -> None:
        self._requests = self._series.open(task)
        self._exchange += 1
        self.last_number = max(self.last_number, *self._series.rounds, self._number)

    def _pass(self, transport: RoundTransport) -> Ended | None:
        """Carry the open exchange, by the name that it has for the round that was entered; return its end."""
        step = self._steps[self._place]
        for client, reply in transport.carry(step, self._requests):
            try:
                self._series.receive(client, reply)
            except FaultyClient as fault:
                transport.refuse(fault)
        over = self._series.close()
        self._warn([ended for ended in over if ended.number != self._number])
        return next((ended for ended in over if ended.number == self._number), None)

    def _warn(self, lost: list[Ended]) -> None:
        for ended in lost:
            if ended.failure is not None:
                why = in_nodes(ended.failure, self._nodes)
                place = self._place_of(ended.number) + 1
                log.warn(f"round {place} of a series is lost while it is set up: {why}")


class SeriesOfOne(KeptSeries):
    """A round with *accept* that nothing is prepared with: for nodes every such round is one of a series."""

    def __str__(self) -> str:
        return f"a single round: {len(self._steps)} exchanges"

    def end(self, *, lost: bool) -> None:
        """Tell whoever may hold keys to drop them: there is no call after this one."""
        self.stop(wait=lost)


Running = SingleRound | KeptSeries
