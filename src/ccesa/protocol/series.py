"""A series is rounds one after the other, whose set-up rides along with the round before.

Only one thing ties a round to the one before it: its vectors are computed from that sum. So exchange e
carries step s of round r wherever r · stride + s = e, with the stride of the guard: under ``curious`` a round
costs two exchanges in place of five, under ``active`` three in place of six. Every round has its own keys,
its own graph and its own context, and no text of one enters another: nothing that is promised about one
round changes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ccesa.agreement.config import MAX_NUMBER, RoundConfig
from ccesa.errors import (
    ConfigError,
    FaultyClient,
    MalformedMessage,
    OrderError,
    RoundFailed,
    without_frames,
)
from ccesa.parts import whole_number
from ccesa.protocol import checkpoint as checkpoints
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.parties import OneCallAtATime, checked_task
from ccesa.protocol.schedule import Schedule, check_series, made, numbered
from ccesa.protocol.server import Aggregate, Server, check_id
from ccesa.protocol.server_states import MadeOnDemand, Requests
from ccesa.wire import Data
from ccesa.words import Vector


@dataclass(frozen=True, kw_only=True, eq=False)
class Ended:
    """A round of a series that is over.

    Attributes:
        number: Of the round in its series.
        aggregate: The sum; None where the round was lost.
        failure: Why it was lost; None where there is a sum.
        released: Whether clients were asked for shares, or may have been: a task whose round is lost then is
            used up.
    """

    number: int
    aggregate: Aggregate | None = None
    failure: RoundFailed | None = None
    released: bool = False

    def result(self) -> Aggregate:
        """Return the sum.

        Raises:
            RoundFailed: The round was lost; the class says why.
        """
        if self.failure is not None:
            raise self.failure
        if self.aggregate is None:
            raise OrderError("the round is not over")
        return self.aggregate


class Series:
    """The server of a series: ``open`` an exchange, ``receive`` replies, ``close`` it, until ``finished``.

    Calls must not overlap; one that does is refused, and so is everything but ``stop`` after one that was
    interrupted.

    Args:
        config: The first round; those after it differ by their numbers. *accept* is on.
        server: Makes the server of a round; for ``active``: ``server=lambda c: ActiveServer(c, charter)``.
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
        self._exclusive = OneCallAtATime("series", fragile=True)

    @property
    def finished(self) -> bool:
        """Whether no round is in flight, none is left to start, and all outcomes were handed over."""
        return not (self._servers or self._left or self._ended)

    @property
    def rounds(self) -> tuple[int, ...]:
        """Numbers of the rounds in flight."""
        return tuple(sorted(self._servers))

    @property
    def steps(self) -> dict[int, tuple[str, frozenset[int]]]:
        """The open step of each round in flight, and who was asked in it, by the round's number."""
        if not self._is_open:
            return {}
        return {number: (one.step.name, one.asked) for number, one in sorted(self._servers.items())}

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

    def open(self, task: bytes = m.NO_TASK, *, start: bool = True) -> Requests:
        """Start the next exchange.

        Args:
            task: 32 bytes: a digest of what clients are asked to work on, if this exchange asks for vectors.
            start: Whether a round starts that could start with this exchange; else its number goes unused.

        Returns:
            An envelope for each client of whom something is due, by id.

        Raises:
            OrderError: The exchange before is still open, the series is over, or calls overlap.
            ConfigError: The task has another size, a member was never enrolled, or no server of the next
                round can be made. Nothing has changed.
        """
        with self._exclusive:
            if self._is_open:
                raise OrderError("close the exchange before the next one is opened")
            if self.finished:
                raise OrderError("the series is over")
            task = checked_task(task)
            starting = self._new_round() if self._starts and start else None
            masking = self.masking
            if masking is not None:
                self._servers[masking].work_on(task)
                self._close_step(masking)
            if starting is not None:
                self._start(*starting)
            elif self._starts:
                self._number, self._left = self._number + 1, self._left - 1
            self._exchange, self._is_open = self._exchange + 1, True
            due, self._due = self._due, {}
            return _envelopes(due)

    def receive(self, client: int, reply: Data) -> None:
        """Take one reply, with messages of several rounds. What is right in it is taken in any case.

        Args:
            client: Id of the sender, for which the transport vouches.
            reply: What ``SeriesClient.receive`` returned there.

        Raises:
            FaultyClient: An honest client would not send this, or it is late: the first fault in it.
            OrderError: No exchange is open, or calls overlap.
            ConfigError: The id is not a whole number.
            UsageError: The reply is not bytes.
        """
        client, view = check_id(client), m.measured(reply, "reply")
        with self._exclusive:
            if not self._is_open:
                raise OrderError("no exchange is open")
            faults = self._faults(client, view)
        if faults:
            del reply, view  # whoever keeps the fault does not keep them
            raise faults.pop(0)

    @property
    def total(self) -> Vector | None:
        """The sum of the masked vectors that came in the open exchange; None where it asks for none."""
        server = self._summing
        return None if server is None else server.total

    def taken(self, client: int) -> bytes:
        """Return what was taken of a client in the open exchange, as a log keeps it: without its vector.

        Args:
            client: Id of the client; what was not taken of it is left out.

        Returns:
            An envelope for ``take_over`` of another series that follows the same log.
        """
        return envelope.pack(
            server.taken(client) for _, server in sorted(self._servers.items()) if client in server.answered
        )

    def take_over(self, answers: Mapping[int, bytes], total: Data = b"") -> list[FaultyClient]:
        """Take what other servers of this series have taken in the open exchange.

        Servers that follow one log stay the same this way, whichever of them a client has reached.

        Args:
            answers: What ``taken`` gave there, by client. Where no vectors are asked for, what this one has
                taken itself is passed over.
            total: The sum of the vectors of those answers, as ``total`` gave it; nothing where none are.

        Returns:
            The faults of answers that do not go with the others, as two keys that are the same; those answers
            were left out. Where there are any, only a series that takes all answers in one agreed order is
            the same as the others.

        Raises:
            OverlappingSums: This one has taken a vector of the same client itself, which would count twice;
                nothing has changed.
            ConfigError: The sum has another size, or no vectors are asked for; nothing has changed.
            MalformedMessage: An answer is not an envelope; nothing has changed.
            OrderError: No exchange is open, or calls overlap.
        """
        with self._exclusive:
            if not self._is_open:
                raise OrderError("no exchange is open")
            if total and self._summing is None:
                raise ConfigError("a sum of vectors in an exchange that asks for none")
            by_context: dict[bytes, dict[int, bytes]] = {}
            for client, answer in answers.items():
                for message in envelope.unpack(answer):
                    by_context.setdefault(m.context_of(message) or b"", {})[client] = bytes(message)
            faults: list[FaultyClient] = []
            # First the one that adds vectors up: it refuses the whole, before any other has taken its part.
            summing = self._summing
            for number, server in sorted(self._servers.items(), key=lambda item: item[1] is not summing):
                own = by_context.get(server.context, {})
                faults += self._followed(number, server, own, total if server is summing else b"")
            return faults

    def close(self) -> list[Ended]:
        """Close the exchange; whoever has not answered it has dropped out of the rounds in flight.

        Returns:
            The rounds that are over since the last call, by number: with a sum, or lost.

        Raises:
            OrderError: No exchange is open, or calls overlap.
        """
        with self._exclusive:
            if not self._is_open:
                raise OrderError("no exchange is open")
            self._is_open = False
            for number, server in list(self._servers.items()):
                if not _asks_vectors(server):
                    self._close_step(number)
            ended, self._ended = self._ended, []
            return sorted(ended, key=lambda one: one.number)

    def wind_up(self) -> None:
        """Start no more rounds; those in flight go on to their ends.

        Raises:
            OrderError: Another call is at work, or one was interrupted.
        """
        with self._exclusive:
            self._left = 0

    def stop(self) -> Requests:
        """End the series, also after a call that was interrupted; rounds in flight are lost.

        Returns:
            An empty envelope for each client that may still hold keys, by id; none the second time.

        Raises:
            OrderError: Another call is at work.
        """
        with self._exclusive.to_end():
            self._servers, self._due, self._ended, self._left, self._is_open = {}, {}, [], 0, False
            asked, self._asked = sorted(self._asked), set()
            return dict.fromkeys(asked, envelope.pack([]))

    def checkpoint(self) -> bytes:
        """Return what another series of this configuration goes on from.

        Save it after ``open``, before the envelopes are sent, after ``receive``, before a client is told that
        its reply has come, and after ``close``, along with the rounds that are over.

        Raises:
            ConfigError: Servers are made without ``openings``.
            OrderError: Another call is at work, or one was interrupted.
        """
        with self._exclusive:
            return checkpoints.encode(
                checkpoints.SavedSeries(
                    context=self.config.context,
                    members=sorted(self.members),
                    left=self._left,
                    number=self._number,
                    exchange=self._exchange,
                    is_open=self._is_open,
                    asked=sorted(self._asked),
                    rounds={number: server.checkpoint() for number, server in self._servers.items()},
                    due=sorted(self._due),
                    lost={one.number: str(one.failure) for one in self._ended},
                )
            )

    def restore(self, data: bytes) -> Requests:
        """Go on from a checkpoint; only a series that has just been made can.

        A round that has gone on since the checkpoint is lost (``StaleCheckpoint``), and so is one that was
        started since; the others go on. One that was lost before, and not handed over by ``close`` yet, is a
        ``RoundFailed`` with the same text.

        Args:
            data: The newest that ``checkpoint`` returned.

        Returns:
            The envelopes of the open exchange, as they were; none where none is open.

        Raises:
            OrderError: This series was opened or restored before, or another call is at work.
            ConfigError: The bytes are damaged, or of another series or version; or servers are made without
                ``openings``, or with others than before.
        """
        with self._exclusive:
            if self._exchange >= 0:
                raise OrderError("this series has been opened already; make a new one to restore another")
            saved = checkpoints.decode(data, checkpoints.SavedSeries, self.config.context)
            servers = {
                number: made(self._make, numbered(self.config, number), Server) for number in saved.rounds
            }
            requests, lost = _restored(servers, saved.rounds)
            self._servers = {number: servers[number] for number in requests}
            before = [
                Ended(number=one, failure=RoundFailed(text), released=True)
                for one, text in saved.lost.items()
            ]
            self._ended = before + lost
            self.members, self._asked = set(saved.members), set(saved.asked)
            self._left, self._number = saved.left, saved.number
            self._exchange, self._is_open = saved.exchange, saved.is_open
            if saved.is_open:
                return _envelopes(requests)
            self._due = {number: requests[number] for number in saved.due if number in requests}
            return {}

    @property
    def _starts(self) -> bool:
        return self._left > 0 and self._schedule.starts(self._exchange + 1)

    def _new_round(self) -> tuple[Server, Requests | RoundFailed]:
        """Make the server of the next round, and its first requests.

        There are none where the series was restored from before another server opened this round.
        """
        server = made(self._make, numbered(self.config, self._number), Server)
        try:
            return server, server.open(self.members)
        except RoundFailed as failure:
            return server, without_frames(failure)

    def _start(self, server: Server, opened: Requests | RoundFailed) -> None:
        if isinstance(opened, RoundFailed):
            self._ended.append(Ended(number=self._number, failure=opened))
        else:
            self._servers[self._number], self._due[self._number] = server, opened
            self._asked.update(opened)
        self._number, self._left = self._number + 1, self._left - 1

    def _faults(self, client: int, reply: Data) -> list[FaultyClient]:
        """Take what is right in a reply; return what is not."""
        try:
            messages = envelope.unpack(reply)
        except MalformedMessage as error:
            return [FaultyClient(client, str(error))]
        return [fault for fault in (self._take(client, one) for one in messages) if fault is not None]

    def _take(self, client: int, message: Data) -> FaultyClient | None:
        """Give a message to the server of its round; return what is wrong with it."""
        context = m.context_of(message)
        server = next((one for one in self._servers.values() if one.context == context), None)
        if server is None:
            return FaultyClient(client, "a message of a round that is not in flight")
        try:
            server.receive(client, message)
        except FaultyClient as fault:
            return without_frames(fault)
        return None

    @property
    def _summing(self) -> Server | None:
        """The server whose open step takes vectors."""
        if not self._is_open:
            return None
        return next((one for one in self._servers.values() if m.has_vector(one.step.reply)), None)

    def _followed(
        self, number: int, server: Server, answers: dict[int, bytes], total: Data
    ) -> list[FaultyClient]:
        """Let the server of one round take over answers, one by one where one of them does not fit."""
        faults: list[FaultyClient] = []
        try:
            if m.has_vector(server.step.reply):
                server.take_over(answers, total)
                return faults
            for client, answer in answers.items():
                try:
                    server.take_over({client: answer})
                except FaultyClient as fault:
                    faults.append(without_frames(fault))
        except RoundFailed as failure:
            self._end(Ended(number=number, failure=without_frames(failure), released=_releases(server)))
        return faults

    def _close_step(self, number: int) -> None:
        """Close the open step of a round; it stays in flight while there are requests for the next one."""
        server = self._servers[number]
        released = _releases(server)
        try:
            requests = server.close()
        except RoundFailed as failure:
            self._end(Ended(number=number, failure=without_frames(failure), released=released))
            return
        if requests:
            self._due[number] = requests
        else:
            self._end(Ended(number=number, aggregate=server.result(), released=released))

    def _end(self, ended: Ended) -> None:
        del self._servers[ended.number]
        self._ended.append(ended)


def _restored(
    servers: dict[int, Server], rounds: dict[int, bytes]
) -> tuple[dict[int, Requests], list[Ended]]:
    """Restore these servers; return the requests of those that go on, and the rounds that are lost."""
    requests: dict[int, Requests] = {}
    lost = []
    for number, data in rounds.items():
        try:
            requests[number] = servers[number].restore(data)
        except RoundFailed as failure:
            lost.append(Ended(number=number, failure=without_frames(failure), released=True))
    return requests, lost


def _envelopes(due: dict[int, Requests]) -> Requests:
    """Pack what is due of all rounds, by client."""
    ordered = [due[number] for number in sorted(due)]

    def make(client: int) -> bytes:
        return envelope.pack(requests[client] for requests in ordered if client in requests)

    return MadeOnDemand({client: client for client in sorted(set().union(*ordered))}, make)


def _releases(server: Server) -> bool:
    """Tell whether the open step asks for shares: it is the last one."""
    return server.next_step is None


def _asks_vectors(server: Server) -> bool:
    """Tell whether the step after the open one asks for vectors: then the task must be known to close it."""
    after = server.next_step
    return after is not None and m.has_vector(after.reply)
