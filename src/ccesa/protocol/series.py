"""A series has rounds one after the other; each is set up while the round before is at work.

Only the vectors of a round depend on the sum before. So exchange e carries step s of round r if r · stride + s = e,
with the stride of the guard: a round costs two exchanges in place of five under ``curious``, three in place of six
under ``active``. Each round has its own keys, graph and context, and keeps all promises of a single round.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from ccesa.agreement.config import MAX_NUMBER, RoundConfig
from ccesa.errors import (
    ConfigError,
    FaultyClient,
    MalformedMessage,
    OrderError,
    OverlappingSums,
    RoundFailed,
    without_frames,
)
from ccesa.parts import whole_number
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.log import AskRow, BeginRow, OpenRow, ReplyRow, RoundLog, Row, SumRow, new_mark
from ccesa.protocol.parties import OneCallAtATime, check_task
from ccesa.protocol.schedule import Schedule, check_series, make_party, with_number
from ccesa.protocol.server import Aggregate, Server
from ccesa.protocol.server_states import MadeOnDemand, Requests
from ccesa.wire import Data
from ccesa.words import Vector


@dataclass(frozen=True, kw_only=True, eq=False)
class Ended:
    """A round of a series that is over.

    Attributes:
        number: Of the round in its series.
        aggregate: The sum; None if the round was lost.
        failure: Why it was lost; None if it succeeded.
        released: Whether clients were asked for shares, or may have been. Then a lost round uses its task up.
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

    A call gets an ``OrderError`` if no exchange is open for it, or if it overlaps with another. After an interrupted
    call only ``stop`` works.

    Args:
        config: The first round, with *accept*; later rounds have other numbers.
        server: Makes the server of a round; for ``active``: ``server=lambda c: Server(c, charter)``.
        rounds: The number of rounds; None goes on until ``stop``.
        log: Keeps every call on the disk before it returns. Servers of rounds are made without one.

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
        log: RoundLog | None = None,
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
        #: All clients that were ever asked: one that missed an exchange since may hold keys.
        self._asked: set[int] = set()
        self._exclusive = OneCallAtATime("series", fragile=True)
        self._log, self._from_log = log, False

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
        """The open step of each round in flight, and the clients asked in it, by the round's number."""
        if not self._is_open:
            return {}
        return {number: (one.step.name, one.asked) for number, one in sorted(self._servers.items())}

    @property
    def waiting(self) -> frozenset[int]:
        """Clients from which the open exchange still expects a reply."""
        if not self._is_open:
            return frozenset()
        return frozenset().union(*(server.waiting for server in self._servers.values()))

    @property
    def masking(self) -> int | None:
        """The number of the round for which the next exchange asks for vectors; None if it asks for none."""
        waiting = self._servers.keys() - self._due.keys()
        return next((number for number in waiting if _asks_vectors(self._servers[number])), None)

    def open(self, task: bytes = m.NO_TASK, *, start: bool = True) -> Requests:
        """Return the envelopes of the next exchange, for each client that has something to answer, and start it.

        Args:
            task: 32 bytes: a digest of the work that clients are asked for, if this exchange asks for vectors.
            start: Whether a round that could start with this exchange does; else its number goes unused.

        Raises:
            OrderError: The exchange before is still open, the series is over, or its log was not replayed.
            StaleLog: The log is new and its counter is not, or another process has changed it.
            ConfigError: The task has another size, a member was never enrolled, or no server of the next round can be
                made. Nothing has changed.
        """
        with self._exclusive:
            if self._is_open:
                raise OrderError("close the exchange before the next one is opened")
            if self.finished:
                raise OrderError("the series is over")
            task = check_task(task)
            starting = self._new_round() if self._starts and start else None
            if self._log is not None:
                self._prepare_log(self._log)
            left = self._left
            requests = self._open(task, starting)
            self._write(OpenRow(self._exchange, new_mark(), task, self._all_asked(), sorted(self.members), left, start))
            return requests

    def replay(self) -> Requests:
        """Return the envelopes of the last exchange, after the calls of another series were repeated from the log.

        Only a new series can replay. The envelopes are the same bytes as before. The exchange is open again, also if
        it had closed: closing it returns the same rounds. If the log has no opening, it returns no requests.

        Raises:
            StaleLog: The log is behind its counter: clients may have been asked otherwise. Rounds in flight are lost.
            RoundFailed: The log does not fit this series, which was made with other arguments.
            DamagedLog: The counter is not that of this log.
            ConfigError: The log is of another series or configuration, or the series has none.
        """
        with self._exclusive:
            if self._exchange >= 0:
                raise OrderError("this series has been opened already; make a new one to replay a log")
            if self._log is None:
                raise ConfigError("make the series with log=RoundLog(...) to replay it")
            try:
                with self._log.replay("series", self.config.context) as rows, self.from_log():
                    return self._repeat(rows)
            except RoundFailed:
                self._servers, self._due, self._left, self._is_open = {}, {}, 0, False
                raise

    def ask_helpers(self, again: bool = False) -> Requests:
        """Return envelopes for helpers about the vectors that have come, as ``Server.ask_helpers``.

        Args:
            again: Ask also about vectors that helpers were asked about and have not answered.
        """
        with self._exclusive:
            requests = self._ask_helpers(again) if self._is_open else {}
            if requests:
                self._write(AskRow(again))
            return requests

    def receive(self, client: int, reply: Data) -> None:
        """Take one reply, with messages of several rounds. A fault in one does not affect the others.

        Args:
            client: Id of the sender, for which the transport vouches.
            reply: The reply of ``SeriesClient.receive``.

        Raises:
            FaultyClient: An honest client would not send this, or it is late: the first fault in it.
            UsageError: The reply is not bytes, or the id is not a whole number.
        """
        client, view = whole_number("client id", client), m.view_of(reply, "reply")
        with self._exclusive:
            if not self._is_open:
                raise OrderError("no exchange is open")
            before = self._count_taken()
            faults = self._faults(client, view)
            if self._count_taken() > before:
                self._write(ReplyRow(client=client, reply=memoryview(view)))
        if faults:
            del reply, view  # the fault may be kept without them
            raise faults.pop(0)

    @contextmanager
    def from_log(self) -> Iterator[None]:
        """Return a context for replies that a server of this series has taken before: none of them is too old."""
        self._from_log = True
        try:
            yield
        finally:
            self._from_log = False

    @property
    def total(self) -> Vector | None:
        """The sum of the masked vectors that came in the open exchange; None if it asks for none.

        With helpers it has the vectors that all of them have confirmed.
        """
        server = self._summing
        return None if server is None else server.total

    @property
    def pending(self) -> frozenset[int]:
        """Members whose vectors wait in the open exchange for helpers to confirm their boxes."""
        server = self._summing
        return frozenset() if server is None else server.pending

    @property
    def confirmed(self) -> frozenset[int]:
        """Members whose vectors are in the sum of the open exchange, because all helpers have confirmed them."""
        server = self._summing
        return frozenset() if server is None else server.confirmed

    @property
    def awaited(self) -> frozenset[int]:
        """Helpers that were asked about boxes in the open exchange and have not answered."""
        server = self._summing
        return frozenset() if server is None else server.awaited

    def recall(self, client: int) -> bytes:
        """Return the answers of a client in the open exchange, without its vector, for ``take_over``.

        Args:
            client: Id of the client; answers that were not taken are left out.
        """
        servers = (server for _, server in sorted(self._servers.items()) if client in server.answered)
        return envelope.pack(server.recall(client) for server in servers)

    def take_over(self, answers: Mapping[int, bytes], total: Data = b"") -> list[FaultyClient]:
        """Return the faults among answers of other servers of this series, and take the other answers.

        Servers that follow one log stay the same this way, whichever of them a client has reached. Answers that
        contradict others, for example with a key that was used before, are left out. Then only a series that takes
        all answers in one agreed order is the same as the others.

        Args:
            answers: The results of ``recall`` there, by client.
            total: The sum of the vectors of those answers, their ``total``; empty if they have none.

        Raises:
            OverlappingSums: This one has taken a reply of the same client; nothing has changed.
            ConfigError: The sum has another size, or no vectors are asked for; nothing has changed.
            MalformedMessage: An answer is not an envelope; nothing has changed.
        """
        with self._exclusive:
            if not self._is_open:
                raise OrderError("no exchange is open")
            if total and self._summing is None:
                raise ConfigError("a sum of vectors in an exchange that asks for none")
            faults = self._take_over(answers, total)
            kept = {client: bytes(answer) for client, answer in answers.items()}
            self._write(SumRow(answers=kept, total=memoryview(total)))
            return faults

    def close(self) -> list[Ended]:
        """Return the rounds that are over since the last call, by number, and close the exchange.

        Clients that have not answered it have dropped out of the rounds in flight.
        """
        with self._exclusive:
            if not self._is_open:
                raise OrderError("no exchange is open")
            return self._close()

    def stop(self) -> Requests:
        """Return an empty envelope for each client that may still hold keys, and end the series.

        Rounds in flight are lost. It also works after an interrupted call; the second time there are no envelopes.
        """
        with self._exclusive.to_end():
            self._servers, self._due, self._ended, self._left, self._is_open = {}, {}, [], 0, False
            asked, self._asked = sorted(self._asked), set()
            return dict.fromkeys(asked, envelope.pack([]))

    def _open(self, task: bytes, starting: tuple[Server, Requests] | None) -> Requests:
        """Open the next exchange. If a round could start and does not, its number goes unused."""
        starts, masking = self._starts, self.masking
        if masking is not None:
            self._servers[masking].work_on(task)
            self._close_step(masking)
        if starting is not None:
            self._servers[self._number], self._due[self._number] = starting
        if starts:
            self._number, self._left = self._number + 1, self._left - 1
        self._exchange, self._is_open = self._exchange + 1, True
        due, self._due = self._due, {}
        self._asked.update(*due.values())
        return _envelopes(due)

    def _ask_helpers(self, again: bool) -> Requests:
        return _envelopes({number: server.ask_helpers(again) for number, server in self._servers.items()})

    def _close(self) -> list[Ended]:
        self._is_open = False
        for number, server in list(self._servers.items()):
            if not _asks_vectors(server):
                self._close_step(number)
        ended, self._ended = self._ended, []
        return sorted(ended, key=lambda one: one.number)

    def _write(self, row: Row) -> None:
        if self._log is not None:
            self._log.append(row)

    def _prepare_log(self, log: RoundLog) -> None:
        """Begin the log, or drop the rows of rounds that are over and whose sums were handed over."""
        first = min(self._servers, default=self._number)
        place = (first - self.config.number) * self._schedule.stride if self._servers else self._exchange + 1
        left, asked = self._left + self._number - first, sorted(self._asked)
        begin = BeginRow("series", self.config.context, first, place, left, asked=asked)
        if self._exchange < 0:
            log.begin(begin)
        elif not self._ended:
            log.cut(begin)

    def _all_asked(self) -> dict[int, list[int]]:
        return {number: sorted(server.asked) for number, server in sorted(self._servers.items())}

    def _count_taken(self) -> int:
        return sum(server.taken for server in self._servers.values())

    def _repeat(self, rows: Iterable[Row]) -> Requests:
        requests: Requests = {}
        for row in rows:
            match row:
                case BeginRow():
                    self._number, self._exchange, self._left = row.number, row.place - 1, row.left
                    self._asked = set(row.asked)
                case OpenRow():
                    requests = self._reopen(row)
                case AskRow():
                    self._ask_helpers(row.again)
                case ReplyRow():
                    self._faults(row.client, row.reply)
                case SumRow():
                    self._take_over(row.answers, row.total)
        return requests

    def _reopen(self, row: OpenRow) -> Requests:
        """Open the exchange that another series opened, for the same clients or not at all."""
        if self._is_open:
            self._close()
        self.members, self._left = set(row.members), row.left
        requests = self._open(row.task, self._new_round() if self._starts and row.start else None)
        asked = self._all_asked()
        if self._exchange != row.place or any(row.asked.get(number) != asked[number] for number in asked):
            raise RoundFailed(f"opened for other clients at place {row.place}")
        return requests

    def _take_over(self, answers: Mapping[int, bytes], total: Data) -> list[FaultyClient]:
        """Give each server the answers of its round."""
        by_context: dict[bytes, dict[int, bytes]] = {}
        for client, answer in answers.items():
            for message in envelope.unpack(answer):
                by_context.setdefault(m.context_of(message) or b"", {})[client] = bytes(message)
        summing, faults = self._summing, list[FaultyClient]()
        own = {number: by_context.get(server.context, {}) for number, server in sorted(self._servers.items())}
        if common := {one for number in own for one in own[number] if one in self._servers[number].answered}:
            raise OverlappingSums(common)
        # The server that adds vectors up comes first: it refuses the whole, before another has taken its part.
        for number in sorted(own, key=lambda number: self._servers[number] is not summing):
            server = self._servers[number]
            faults += self._follow(number, server, own[number], total if server is summing else b"")
        return faults

    @property
    def _starts(self) -> bool:
        return self._left > 0 and self._schedule.starts(self._exchange + 1)

    def _new_round(self) -> tuple[Server, Requests]:
        server = make_party(self._make, with_number(self.config, self._number), Server)
        return server, server.open(self.members)

    def _faults(self, client: int, reply: Data) -> list[FaultyClient]:
        try:
            messages = envelope.unpack(reply)
        except MalformedMessage as error:
            return [FaultyClient(client, str(error))]
        return [fault for fault in (self._take(client, one) for one in messages) if fault is not None]

    def _take(self, client: int, message: Data) -> FaultyClient | None:
        context = m.context_of(message)
        server = next((one for one in self._servers.values() if one.context == context), None)
        if server is None:
            return FaultyClient(client, "a message of a round that is not in flight")
        try:
            with server.from_log() if self._from_log else nullcontext():
                server.receive(client, message)
        except FaultyClient as fault:
            return without_frames(fault)
        return None

    @property
    def _summing(self) -> Server | None:
        if not self._is_open:
            return None
        return next((one for one in self._servers.values() if m.is_masked_vector(one.step.reply)), None)

    def _follow(self, number: int, server: Server, answers: dict[int, bytes], total: Data) -> list[FaultyClient]:
        """Let the server of one round take over answers, one by one unless they have vectors."""
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
            self._end(Ended(number=number, failure=without_frames(failure), released=server.next_step is None))
        return faults

    def _close_step(self, number: int) -> None:
        """Close the open step of a round; it stays in flight while there are requests for the next one."""
        server = self._servers[number]
        released = server.next_step is None  # the last step asks for shares
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


def _envelopes(due: dict[int, Requests]) -> Requests:
    """Pack the requests of all rounds, by client."""
    ordered = [due[number] for number in sorted(due)]
    clients = {client: client for client in sorted(set().union(*ordered))}
    return MadeOnDemand(clients, lambda client: envelope.pack(each[client] for each in ordered if client in each))


def _asks_vectors(server: Server) -> bool:
    """Tell whether the step after the open one asks for vectors: only then its closing needs the task."""
    after = server.next_step
    return after is not None and m.is_masked_vector(after.reply)
