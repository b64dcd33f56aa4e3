"""A server takes replies and gives requests, in one round, with no clock and no socket.

The caller decides when a step closes. Until then replies are taken one by one; a faulty one raises and changes
nothing. Masked vectors go into one running sum and are dropped, so memory is O(m + edges).
"""

import os
from collections.abc import Callable, Container, Iterable, Iterator, KeysView, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from ccesa import labels, wire, words
from ccesa.agreement.agreement import TRUST, Agreement
from ccesa.agreement.config import RoundConfig
from ccesa.crypto import primitives, shamir
from ccesa.errors import (
    ConfigError,
    ConflictingMessage,
    FaultyClient,
    LateMessage,
    MalformedMessage,
    OrderError,
    OverlappingSums,
    RoundFailed,
    TooFewClients,
    quoted,
    without_frames,
)
from ccesa.evidence import Accusation, Evidence
from ccesa.graphs.assignment import AssignmentGraph, Evolution, check_scipy
from ccesa.parts import whole_number
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_server import Gathering, Opened, Summoning, is_silent
from ccesa.protocol.drawing import take_complaint
from ccesa.protocol.log import AskRow, BeginRow, OpenRow, ReplyRow, RoundLog, Row, SumRow, TaskRow, follow, new_mark
from ccesa.protocol.parties import OneCallAtATime, check_executor, check_round, check_task, check_threads
from ccesa.protocol.server_states import Advertising, Delivered, Drawn, Requests, ServerRound, Unmasked, requests_for
from ccesa.protocol.steps import Step, steps_of
from ccesa.protocol.summing import check_vector
from ccesa.wire import Data
from ccesa.words import Vector

#: The expected dropout by default.
DROPOUT = 0.1


@dataclass(frozen=True, kw_only=True, eq=False)
class Aggregate:
    """The sum over the survivors V3, and its history.

    Attributes:
        vector: The sum modulo 2^bits, ``length`` unsigned words.
        survivors: Ids of the clients in the sum, ascending.
        evidence: Wrong shares and accusations, as pairs of clients of whom one lied, or the network did.
        graph_evolution: As ``evolution``; None with helpers.
    """

    vector: Vector = field(repr=False)
    survivors: tuple[int, ...]
    evidence: Evidence
    graph_evolution: Evolution | None = field(repr=False)

    @property
    def evolution(self) -> Evolution:
        """The assignment graph, the thresholds, and the clients that were left after each step.

        With helpers there is no graph: this raises ``OrderError``.
        """
        if self.graph_evolution is None:
            raise OrderError("a round with helpers has no assignment graph")
        return self.graph_evolution


class Server:
    """The server of one round: ``open`` it, ``receive`` replies, ``close`` steps until no requests are left.

    With a ``log`` it survives the loss of its process: another server that is made in the same way, with the log,
    goes on with ``replay``. A call that the open step does not allow, or that overlaps with another, gets an
    ``OrderError``. So do all calls after an interrupted one.

    Args:
        config: The round; every client has to know it beforehand.
        agreement: The charter, for a round under ``active`` or ``assisted``. Without one the clients trust the server.
        task: 32 bytes: a digest of the work that clients are asked for. ``work_on`` can set it later.
        dropout: The fraction of clients that may still leave after *accept*: a client whose accusations leave too few
            holders for that is left out.
        threads: The most threads that take masks off the sum; 0 stands for as many as help.
        executor: Its workers sum the masks that come off a large sum, in other processes or on other machines. They
            get mask keys, so they must be trusted like this server.
        random: Returns n random bytes. Give another source than the system's only in tests.
        log: Keeps every call on the disk before it returns. Without it nothing is kept.
        now: Seconds since 1970, by default the system's; the charter must not have expired then.

    Attributes:
        context: The 32-byte hash of the configuration, which is in every message.
        aggregate: The sum, when the round has succeeded.
        failure: The reason, when the round has failed.
        taken: The number of replies that were taken.

    Raises:
        ConfigError: A round that differs from the charter, or is under a guard that needs another agreement,
            an expired charter, an argument out of range, or a broken installation of scipy.
    """

    def __init__(
        self,
        config: RoundConfig,
        agreement: Agreement = TRUST,
        *,
        task: bytes = m.NO_TASK,
        dropout: float = DROPOUT,
        threads: int = 0,
        executor: Executor | None = None,
        random: shamir.Randomness = os.urandom,
        log: RoundLog | None = None,
        now: float | None = None,
    ) -> None:
        check_round(config, agreement, now)
        check_executor(executor)
        if not 0 <= dropout < 1:
            raise ConfigError(f"dropout must lie in [0, 1), not {quoted(dropout)}")
        check_scipy()  # before a client has sent anything
        self.config, self.context = config, config.context
        self.aggregate: Aggregate | None = None
        self.failure: RoundFailed | None = None
        self.taken = 0
        self._round: ServerRound[Any] = ServerRound(
            config=config,
            context=self.context,
            own=agreement,
            random=random,
            threads=check_threads(threads),
            executor=executor,
            task=check_task(task),
            dropout=dropout,
            now=now,
        )
        self._steps, self._place = steps_of(config), -1
        self._places = {kind: place for place, step in enumerate(self._steps) for kind in step.all_replies}
        self._limits = {kind: m.limit(kind, config) for kind in self._places}
        self._state: Any = Advertising()
        self._expected: frozenset[int] = frozenset(range(config.clients))
        self._log = log
        #: Answers in the open step, without vectors: they show repetitions.
        self._answered: dict[int, bytes] = {}
        #: The parts of the answers that the open step keeps, of clients that go on.
        self._kept: dict[int, Any] = {}
        self._accusations: set[Accusation] = set()
        self._exclusive = OneCallAtATime("server", fragile=True)

    @property
    def step(self) -> Step:
        """The step that is open; OrderError is raised before the first one and after the last."""
        if self._place < 0:
            raise OrderError("the round has not been opened")
        if self.finished:
            raise OrderError("the round is over")
        return self._steps[self._place]

    @property
    def next_step(self) -> Step | None:
        """The step after the open one; None if the open one is the last, or the round is over or not open."""
        if self.finished or not 0 <= self._place < len(self._steps) - 1:
            return None
        return self._steps[self._place + 1]

    @property
    def finished(self) -> bool:
        """Whether the round is over, with a sum or without."""
        return self.aggregate is not None or self.failure is not None

    @property
    def waiting(self) -> frozenset[int]:
        """Clients whose reply is still expected in this step."""
        return self._expected - self._answered.keys()

    @property
    def asked(self) -> frozenset[int]:
        """Clients that were asked in this step."""
        return self._expected

    @property
    def answered(self) -> KeysView[int]:
        """Clients that have answered this step; it grows with every answer."""
        return self._answered.keys()

    @property
    def held(self) -> int:
        """The number of ``pending``, without a copy of them: drivers ask after every vector."""
        return len(self._state.pending) if isinstance(self._state, Gathering) else 0

    @property
    def pending(self) -> frozenset[int]:
        """Members whose vectors wait for helpers to confirm their boxes."""
        return frozenset(self._state.pending) if isinstance(self._state, Gathering) else frozenset()

    @property
    def confirmed(self) -> frozenset[int]:
        """Members whose vectors are in the sum, because all helpers have confirmed their boxes."""
        return frozenset(self._state.summed) if isinstance(self._state, Gathering) else frozenset()

    @property
    def awaited(self) -> frozenset[int]:
        """Helpers that were asked about boxes and have not answered."""
        if not isinstance(self._state, Gathering):
            return frozenset()
        return frozenset(helper for helper in self.config.helper_ids if is_silent(self._state, helper))

    @property
    def graph(self) -> AssignmentGraph | None:
        """The assignment graph, after it is drawn."""
        return self._state.graph if isinstance(self._state, Drawn) else None

    def open(self, clients: Iterable[int] | None = None) -> Requests:
        """Return the requests of the first step by id, each of at most 64 bytes, and start it.

        Clients are asked for their keys. With helpers these are asked for theirs first.

        Args:
            clients: Ids of the clients that are asked to take part, helpers excluded; by default all that are enrolled.

        Raises:
            OrderError: This server was opened or replayed before, or its log has a round.
            StaleLog: The log is new, and its counter is not.
            ConfigError: An id is not that of an enrolled client.
        """
        with self._exclusive, self._failing():
            self._check_new()
            asked = self._expected if clients is None else self._enrolled(clients)
            if self._log is not None:
                self._log.begin(BeginRow(kind="round", context=self.context))
            return self._open(asked)

    def replay(self) -> Requests:
        """Return the requests of the open step, after the calls of another server were repeated from the log.

        Only a new server can replay. The requests are the same bytes as before. Those of ``waiting`` may have been
        lost; for those of ``ask_helpers`` call it once more. If the log has no opening, it returns no requests: then
        ``open`` the round.

        Raises:
            StaleLog: The log is behind its counter: clients may have been asked otherwise, the round has failed.
            RoundFailed: The log does not fit this server, which was made with other arguments.
            DamagedLog: The counter is not that of this log.
            ConfigError: The log is of another round or configuration, or the server has none.
        """
        with self._exclusive, self._failing():
            self._check_new()
            if self._log is None:
                raise ConfigError("make the server with log=RoundLog(...) to replay it")
            with self._log.replay("round", self.context) as rows, self.from_log():
                return self._repeat(rows)

    def ask_helpers(self, again: bool = False) -> Requests:
        """Return requests to helpers about the vectors that have come, by the helper's id, while step mask is open.

        Call it as vectors come, and once more when no other is awaited; ``receive`` takes the replies. A vector counts
        when all helpers have confirmed it. Without helpers, and if there is nothing to ask, there are no requests.

        Args:
            again: Ask also about vectors that helpers were asked about and have not answered: after ``replay``, and
                where requests or replies may have been lost.
        """
        with self._exclusive:
            if self.finished or self._place < 0 or self._steps[self._place].beside is None:
                return {}
            requests = self._ask_helpers(again)
            if requests:
                self._write(AskRow(again))
            return requests

    def work_on(self, task: bytes) -> None:
        """Set the task before clients are asked for vectors: the requests of step 2 carry it.

        Args:
            task: 32 bytes, a digest.
        """
        with self._exclusive:
            if any(m.is_masked_vector(step.reply) for step in self._steps[: self._place + 1]):
                raise OrderError("clients already know their task")
            self._round = replace(self._round, task=check_task(task))
            if self._place >= 0:
                self._write(TaskRow(task=self._round.task))

    def receive(self, client: int, reply: Data) -> None:
        """Take one reply. The same reply again changes nothing.

        Args:
            client: Id of the sender, for which the transport vouches.
            reply: The reply of ``Client.receive``, read in place: a buffer must not change meanwhile, and is not kept.

        Raises:
            FaultyClient: An honest client would not send this; nothing has changed.
            LateMessage: Its step has closed, or the client left the round before; nothing has changed.
            ConflictingMessage: The client answered differently before; the first answer is kept.
            OrderError: The round is not open, or calls overlap.
            ConfigError: The id is not a whole number.
            UsageError: The reply is not bytes.
        """
        client, view = whole_number("client id", client), m.view_of(reply, "reply")
        faults: list[FaultyClient] = []
        with self._exclusive:
            try:
                if self._receive(client, view):
                    self._write(ReplyRow(client=client, reply=memoryview(view)))
            except FaultyClient as fault:
                faults.append(without_frames(fault))
        if faults:
            del reply, view  # the fault may be kept, and these may be as large as the model
            raise faults.pop()

    def close(self) -> Requests:
        """Return the requests of the next step by client id; none when the round has succeeded.

        Clients that have not answered the open step have dropped out.

        Raises:
            TooFewClients: Fewer clients are left than ``min_survivors``.
            Unreliable: Secrets have too few live share holders.
            Disconnected: The survivors' mask graph falls apart.
            CorruptShares: A secret, or a mask that depends on it, cannot be rebuilt from the shares that came.
            HelpersMissing: A helper has not answered.
            CorruptSum: The check words of the sum do not fit.
            StaleLog: Another process has changed the counter of the log.
            OrderError: The round is not open, or calls overlap.
        """
        with self._exclusive, self._failing():
            return self._close()

    @property
    def total(self) -> Vector | None:
        """The sum of the masked vectors that came, with helpers of those that all have confirmed.

        None before they are asked for.
        """
        return self._state.total if isinstance(self._state, Delivered | Gathering) else None

    def recall(self, client: int) -> bytes:
        """Return the answer of a client in the open step, without its vector.

        Args:
            client: Id of a client that has answered.
        """
        if client not in self._answered:
            raise OrderError(f"client {client} has not answered the open step")
        return self._answered[client]

    def take_over(self, answers: Mapping[int, bytes], total: Data = b"") -> None:
        """Take the answers of another server of this round in the open step.

        Several servers can take replies to one step, each from other clients. One takes over the others' and closes it.
        With helpers one server takes all replies. It takes over, in step mask, what all helpers have confirmed before.

        Args:
            answers: The results of ``recall`` there, by client.
            total: The sum of the vectors of those answers; empty if they have none.

        Raises:
            OverlappingSums: This server has taken a reply of the same client; nothing has changed.
            FaultyClient: An answer that contradicts others, such as a used key; the answers before it were taken.
            RoundFailed: Answers with vectors that no server of this round can have taken: no sum fits them.
            ConfigError: The sum has another size; nothing has changed.
        """
        with self._exclusive, self._failing():
            if self.config.helper_ids and self.step.beside is None:
                raise OrderError("with helpers one server takes all replies of a round")
            asks_vectors = m.has_vector(self.step.reply)
            expected = self.config.masked_bytes if asks_vectors and total else 0
            if len(total) != expected:
                raise ConfigError(f"sum: expected {expected} bytes, got {len(total)}")
            if common := self._answered.keys() & answers.keys():
                raise OverlappingSums(common)
            try:
                with follow() if asks_vectors else nullcontext():
                    self._take_over(answers, total)
            except FaultyClient as fault:
                self._write(self._sum_row(answers))
                raise without_frames(fault) from None
            self._write(self._sum_row(answers, total))

    def result(self) -> Aggregate:
        """Return the sum, once the round is over.

        Raises:
            RoundFailed: The round has failed; the class says why, and ``evidence`` which clients may have lied.
            OrderError: The round is not over.
        """
        if self.failure is not None:
            raise self.failure
        if self.aggregate is None:
            raise OrderError(f"the round is in step {self.step.name}; there is no sum yet")
        return self.aggregate

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except RoundFailed as failure:
            failure.evidence = replace(failure.evidence, accusations=frozenset(self._accusations))
            self.failure = failure
            raise

    @contextmanager
    def from_log(self) -> Iterator[None]:
        """Return a context for replies that a server of this round has taken before: none of them is too old."""
        self._round = replace(self._round, from_log=True)
        try:
            yield
        finally:
            self._round = replace(self._round, from_log=False)

    def _check_new(self) -> None:
        if self._place >= 0 or self.finished:
            raise OrderError("the round has been opened already")

    def _enrolled(self, clients: Iterable[int]) -> frozenset[int]:
        asked = frozenset(whole_number("client id", one) for one in clients)
        if not asked <= self._expected:
            raise ConfigError(f"client id {min(asked - self._expected)} was never enrolled")
        return asked

    def _open(self, asked: frozenset[int]) -> Requests:
        """Ask for keys: those of the clients, or those of the helpers, which clients get with the next request."""
        kind, parties, members = self._steps[0].request, sorted(asked), list[int]()
        if self._steps[0].by_helpers:
            parties, members = list(self.config.helper_ids), parties
            self._state = Summoning(members=tuple(members))
        number = labels.client_bytes(self.config.number)
        return self._begin(requests_for(parties, kind(context=self.context, client=0, number=number)), members)

    def _begin(self, requests: Requests, members: Iterable[int] = ()) -> Requests:
        """Begin the next step, unless the round is over."""
        self._answered, self._kept = {}, {}
        self._place, self._expected = self._place + 1, frozenset(requests)
        if not self.finished:
            asked = {self.config.number: list(requests)}
            row = OpenRow(place=self._place, mark=new_mark(), task=self._round.task, asked=asked, members=list(members))
            self._write(row)
        return requests

    def _write(self, row: Row) -> None:
        if self._log is not None:
            self._log.append(row)

    def _sum_row(self, answers: Mapping[int, bytes], total: Data = b"") -> SumRow:
        taken = {client: bytes(answers[client]) for client in answers if client in self._answered}
        return SumRow(answers=taken, total=memoryview(total))

    def _repeat(self, rows: Iterable[Row]) -> Requests:
        requests: Requests = {}
        for row in rows:
            match row:
                case OpenRow():
                    requests = self._reopen(row)
                case TaskRow():
                    self._round = replace(self._round, task=check_task(row.task))
                case AskRow():
                    self._ask_helpers(row.again)
                case ReplyRow():
                    self._receive(row.client, row.reply)
                case SumRow():
                    self._take_over(row.answers, row.total)
        return requests

    def _ask_helpers(self, again: bool) -> Requests:
        beside = self.step.beside
        return beside.ask(self._round, self._state, again) if beside else {}

    def _reopen(self, row: OpenRow) -> Requests:
        """Open the step that another server opened, for the same clients or not at all."""
        asked = row.asked[self.config.number]
        members = row.members if self._steps[0].by_helpers else asked
        self._round = replace(self._round, task=check_task(row.task))
        requests = self._open(self._enrolled(members)) if self._place < 0 else self._close()
        if (self._place, list(requests)) != (row.place, asked):
            raise RoundFailed(f"opened for other clients at place {row.place}")
        return requests

    def _take_over(self, answers: Mapping[int, bytes], total: Data = b"") -> None:
        """Take the answers of another server in this step; their vectors are in a sum."""
        for client, answer in answers.items():
            self._receive(client, answer, summed=True)
        if total:
            m.check_size("sum", memoryview(total), 0 if self.total is None else self.total.nbytes)
            words.add(self._state.total, total)

    def _receive(self, client: int, reply: Data, *, summed: bool = False) -> bool:
        """Take a reply, or an answer whose vector is in a sum already; tell whether it is new."""
        step = self.step
        if not 0 <= client < self.config.clients + len(self.config.helper_ids):
            raise FaultyClient(client, "was never enrolled")
        kind = self._check_due(client, m.kind_of(reply))
        try:
            message = m.expect(m.decode(reply, self._limits[kind]), kind)
            if step.beside is not None and kind is step.beside.reply:
                self._check_addressed(client, message, self.config.helper_ids)
                accusations = step.beside.take(self._round, self._state, client, message)
                self._accusations |= accusations or frozenset()
                return self._note_taken(accusations is not None)
            self._check_addressed(client, message, self._expected)
            vector = None if summed else check_vector(self._round, client, message)
            answer = wire.encode_without_last(message) if m.has_vector(kind) else bytes(reply)
            first = self._answered.get(client)
            if first not in (None, answer):
                raise ConflictingMessage(client, f"a second, different answer to step {step.name}")
            if first is not None:
                return False
            kept = self._taker(step, message, summed)(self._round, self._state, client, message)
        except (MalformedMessage, primitives.BadKey, shamir.OutsideField) as error:
            raise FaultyClient(client, str(error)) from error
        if vector is not None and isinstance(message, m.SummedVector):
            words.add(self._state.total, vector)
        if kept and isinstance(message, m.Accusing):
            self._accusations |= kept
        if kind is not step.instead:
            self._kept[client] = kept
        self._answered[client] = answer
        return self._note_taken(True)

    def _taker(self, step: Step, message: m.Message, summed: bool) -> Callable[..., Any]:
        """Return the function of a step that takes this message."""
        if isinstance(message, m.Complaint):
            return take_complaint
        return step.beside.settle if summed and step.beside else step.take

    def _note_taken(self, is_new: bool) -> bool:
        self.taken += is_new
        return is_new

    def _check_due(self, client: int, kind: type[m.Message] | None) -> type[m.Message]:
        """Return the kind of this reply if it is due now; other replies are not parsed."""
        place = None if kind is None else self._places.get(kind)
        if kind is not None and place == self._place:
            return kind
        if place is None:
            raise FaultyClient(client, f"expected {self.step.reply.__struct_config__.tag}, got another message")
        name = self._steps[place].name
        if place < self._place:
            raise LateMessage(client, f"step {name} has closed")
        raise FaultyClient(client, f"step {name} has not opened yet")

    def _check_addressed(self, client: int, message: m.Message, expected: Container[int]) -> None:
        if message.context != self.context:
            raise FaultyClient(client, "a message of another round, or of another configuration")
        if message.client != client:
            raise FaultyClient(client, "a message in the name of", message.client)
        if client not in expected:
            raise LateMessage(client, f"it left the round before step {self.step.name}")

    def _close(self) -> Requests:
        step, answered = self.step, len(self._kept)
        # V3 is the sum; of V4 only the shares count. Without one of the helpers there is no sum at all.
        counts = step is not self._steps[-1] and not step.by_helpers
        if counts:
            self._check_left(answered, "answered")
        self._state, requests = step.close(self._round, self._state, self._kept)
        if counts and not self.config.helper_ids:
            self._check_left(len(requests), f"of {answered} have enough neighbours left, in one part")
        if isinstance(self._state, Unmasked | Opened):
            evidence = Evidence(wrong_shares=self._state.wrong_shares, accusations=frozenset(self._accusations))
            self.aggregate = Aggregate(
                vector=self._state.total,
                survivors=self._state.survivors,
                evidence=evidence,
                graph_evolution=self._state.evolution,
            )
        return self._begin(requests)

    def _check_left(self, left: int, how: str) -> None:
        least = self.config.min_survivors
        if left < least:
            raise TooFewClients(f"step {self.step.name}: {left} {how}, the round needs {least}")
