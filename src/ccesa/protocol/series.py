"""A series is rounds one after the other, whose set-up rides along with the round before.

Only one thing ties a round to the one before it: its vectors are computed from that sum. So exchange e
carries step s of round r wherever r · stride + s = e, with the stride of the guard: under ``curious`` a round
costs two exchanges in place of five, under ``active`` three in place of six. Every round has its own keys,
its own graph and its own context, and no text of one enters another: nothing that is promised about one
round changes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from ccesa.config import MAX_NUMBER, RoundConfig
from ccesa.errors import ConfigError, FaultyClient, MalformedMessage, OrderError, RoundFailed
from ccesa.guards import guard_named
from ccesa.parts import check_type, whole_number
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.server import Aggregate, Server, check_id
from ccesa.protocol.steps import HasSteps, Requests, steps_of


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A schedule says which step of which round belongs to which exchange."""

    stride: int
    names: tuple[str, ...]

    @classmethod
    def of(cls, round: HasSteps) -> "Schedule":
        """Return the schedule of the rounds of one series."""
        return cls(stride=guard_named(round.guard).stride, names=tuple(one.name for one in steps_of(round)))

    def exchange(self, number: int, step: str) -> int:
        """Return the exchange to which a step of a round belongs."""
        return number * self.stride + self.names.index(step)

    def ends(self, number: int) -> int:
        """Return the exchange of the last step of a round."""
        return self.exchange(number, self.names[-1])


@dataclass(frozen=True, kw_only=True, eq=False)
class Ended:
    """A round of a series that is over.

    Attributes:
        number: Of the round in its series.
        aggregate: The sum; None where the round was lost.
        failure: Why it was lost; None where there is a sum.
    """

    number: int
    aggregate: Aggregate | None = None
    failure: RoundFailed | None = None

    def result(self) -> Aggregate:
        """Return the sum.

        Raises:
            RoundFailed: The round was lost; the class says why.
        """
        if self.aggregate is None:
            raise self.failure or OrderError("the round is not over")
        return self.aggregate


class Series:
    """The server of a series: ``open`` an exchange, ``receive`` replies, ``close`` it, until ``finished``.

    Args:
        config: The first round; those after it differ by their numbers. *accept* is on.
        server: Makes the server of a round; for ``active``: ``lambda config: ActiveServer(config, charter)``.
        rounds: How many rounds there are; None goes on until ``stop``.

    Attributes:
        members: Ids of the clients that are asked to take part in rounds yet to start; add and remove freely.

    Raises:
        ConfigError: The configuration has no *accept*, or ``rounds`` is out of range.
    """

    def __init__(
        self,
        config: RoundConfig,
        *,
        server: Callable[[RoundConfig], Server] = Server,
        rounds: int | None = None,
    ) -> None:
        check_series(config)
        most = MAX_NUMBER - config.number + 1
        if rounds is not None and not 1 <= whole_number("rounds", rounds) <= most:
            raise ConfigError(f"rounds must lie in 1..{most}, not {rounds}")
        self.config, self.members = config, set(range(config.clients))
        self._make, self._schedule = server, Schedule.of(config)
        self._left = most if rounds is None else int(rounds)
        self._number, self._exchange, self._is_open = config.number, -1, False
        self._servers: dict[int, Server] = {}
        #: Requests of steps that closed with the last exchange, by round.
        self._due: dict[int, Requests] = {}
        self._ended: list[Ended] = []
        #: Everyone that was ever asked: who missed something since may hold keys.
        self._asked: set[int] = set()

    @property
    def finished(self) -> bool:
        """Whether no round is in flight, none is left to start, and all outcomes were handed over."""
        return not (self._servers or self._left or self._ended)

    @property
    def rounds(self) -> tuple[int, ...]:
        """Numbers of the rounds in flight."""
        return tuple(sorted(self._servers))

    @property
    def waiting(self) -> frozenset[int]:
        """Clients of whom some reply of the open exchange is still expected."""
        if not self._is_open:
            return frozenset()
        return frozenset().union(*(server.waiting for server in self._servers.values()))

    @property
    def masking(self) -> int | None:
        """The number of the round for which the next exchange asks for vectors; None if it asks for none."""
        waiting = self._servers.keys() - self._due.keys()
        return next((number for number in waiting if _asks_vectors(self._servers[number])), None)

    def open(self, task: bytes = m.NO_TASK) -> Requests:
        """Start the next exchange.

        Args:
            task: 32 bytes: a digest of what clients are asked to work on, if this exchange asks for vectors.

        Returns:
            An envelope for each client of whom something is due, by id.

        Raises:
            OrderError: The exchange before is still open.
            ConfigError: The task has another size.
        """
        if self._is_open:
            raise OrderError("close the exchange before the next one is opened")
        masking = self.masking
        if masking is not None:
            self._servers[masking].work_on(task)
            self._close_step(masking)
        self._exchange, self._is_open = self._exchange + 1, True
        if self._left and self._exchange % self._schedule.stride == 0:
            self._start()
        due, self._due = self._due, {}
        return {
            client: envelope.pack(due[number][client] for number in sorted(due) if client in due[number])
            for client in sorted(set().union(*due.values()))
        }

    def receive(self, client: int, reply: bytes) -> None:
        """Take one reply, with messages of several rounds. What is right in it is taken in any case.

        Args:
            client: Id of the sender, for which the transport vouches.
            reply: What ``SeriesClient.receive`` returned there.

        Raises:
            FaultyClient: An honest client would not send this, or it is late: the first fault in it.
            OrderError: No exchange is open.
            ConfigError: The id is not a whole number.
            UsageError: The reply is not bytes.
        """
        client = check_id(client)
        if not self._is_open:
            raise OrderError("no exchange is open")
        try:
            messages = envelope.unpack(m.measured(reply, "reply"))
        except MalformedMessage as error:
            raise FaultyClient(client, str(error)) from error
        by_context = {server.context: server for server in self._servers.values()}
        faults = []
        for message in messages:
            try:
                server = by_context.get(m.context_of(message) or b"")
                if server is None:
                    raise FaultyClient(client, "a message of a round that is not in flight")
                server.receive(client, message)
            except FaultyClient as fault:
                faults.append(fault)
        if faults:
            raise faults[0]

    def close(self) -> list[Ended]:
        """Close the exchange; whoever has not answered it has dropped out of the rounds in flight.

        Returns:
            The rounds that are over since the last call, by number: with a sum, or lost.

        Raises:
            OrderError: No exchange is open.
        """
        if not self._is_open:
            raise OrderError("no exchange is open")
        self._is_open = False
        for number, server in list(self._servers.items()):
            if not _asks_vectors(server):
                self._close_step(number)
        ended, self._ended = self._ended, []
        return ended

    def stop(self) -> Requests:
        """End the series; rounds in flight are lost, and all their secrets go.

        Returns:
            An empty envelope for each client that may still hold keys, by id.
        """
        self._servers, self._due, self._left, self._is_open = {}, {}, 0, False
        asked, self._asked = sorted(self._asked), set()
        return dict.fromkeys(asked, envelope.pack([]))

    def _start(self) -> None:
        server = self._make(numbered(self.config, self._number))
        self._servers[self._number] = server
        self._due[self._number] = server.open(sorted(self.members))
        self._asked |= self.members
        self._number, self._left = self._number + 1, self._left - 1

    def _close_step(self, number: int) -> None:
        """Close the open step of a round; it stays in flight while there are requests for the next one."""
        server = self._servers[number]
        try:
            requests = server.close()
        except RoundFailed as failure:
            self._end(Ended(number=number, failure=failure))
            return
        if requests:
            self._due[number] = requests
        else:
            self._end(Ended(number=number, aggregate=server.result()))

    def _end(self, ended: Ended) -> None:
        del self._servers[ended.number]
        self._ended.append(ended)


def check_series(config: RoundConfig) -> None:
    """Refuse what cannot be a round of a series."""
    check_type("config", config, RoundConfig, "; plan.config(accept=True) makes one")
    if not config.accept:
        raise ConfigError("rounds of a series have the step accept: make the configuration with accept=True")


def numbered(config: RoundConfig, number: int) -> RoundConfig:
    """Return the configuration of another round of the same series."""
    return msgspec.structs.replace(config, number=number)


def _asks_vectors(server: Server) -> bool:
    """Tell whether the step after the open one asks for vectors: then the task must be known to close it."""
    after = server.next_step
    return after is not None and m.has_vector(after.reply)
