"""A client takes requests and gives replies, in one round, with no clock and no socket.

``Client`` hands requests to the functions of its guard's table, and answers a repeated request with the same bytes. On
anything that an honest server would not send it drops its secrets and is done.
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

from ccesa.agreement.agreement import ATTEMPTS, RELEASES, Trust
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import BARE_FLOOR, Floor, RoundConfig
from ccesa.agreement.identity import Identity
from ccesa.crypto import shamir
from ccesa.errors import ConfigError, FaultyNeighbour, FaultyServer, MalformedMessage, OrderError, VectorError
from ccesa.memory import Memory, Used
from ccesa.parts import check_type, whole_number
from ccesa.privacy.ledger import Account
from ccesa.protocol import messages as m
from ccesa.protocol import suspended
from ccesa.protocol.client_states import Accepted, ClientRound, Done, Joined, Membership, TaskSource, VectorSource
from ccesa.protocol.masking import check_source, masks_ahead
from ccesa.protocol.parties import OneCallAtATime, check_round, check_task, check_threads, check_unused
from ccesa.protocol.spending import Spending
from ccesa.protocol.steps import steps_of
from ccesa.wire import Data


class Client:
    """One client in one round.

    Calls must not overlap: one that does gets an ``OrderError``. So do all calls after an interrupted one.

    Args:
        config: The round, as the server announced it.
        client: This client's id, from 0 to ``config.clients`` - 1.
        vector: ``config.length`` unsigned words of ``config.bits``, or a function that makes them in step 2.
            With an account it must be a function. Whatever that raises or returns, a vector leaves: see
            ``failure``.
        task: 32 bytes: a digest of the work of this client, or a function that makes it in step 2. The client
            refuses a request for a vector for another task.
        floor: The client's own minimum. The default refuses rounds of two and vectors without a mask.
        used_rounds: Remembers rounds across processes; a second use of one is refused.
        tasks: Remembers for which tasks vectors were sent and shares were released, and outlives rounds: a
            ``FolderMemory``, or a ``ProcessMemory``. None remembers nothing.
        attempts: The most vectors that leave for one task.
        releases: The most rounds in which shares are released for one task.
        counted: Returns the name of a task in ``tasks``, if that is not the task itself.
        account: Of the ledger of this client's data. Every vector is charged to it before it leaves.
        threads: The most threads that make masks; 0 stands for as many as help.
        random: Returns n random bytes. Give another source than the system's only in tests.
        now: Seconds since 1970, by default the system's.
        member: Takes the place of ``floor`` under a guard with a charter; ``ActiveClient`` gives it.

    Raises:
        ConfigError: A round of another guard, below the floor, not for the account's noise, or used before;
            a vector that is ready, with an account; or an argument out of range.
        VectorError: The vector has another length or type than the round.
    """

    def __init__(
        self,
        config: RoundConfig,
        client: int,
        vector: VectorSource,
        *,
        task: TaskSource = m.NO_TASK,
        floor: Floor | None = None,
        used_rounds: Used | None = None,
        tasks: Memory | None = None,
        attempts: int = ATTEMPTS,
        releases: int = RELEASES,
        counted: Callable[[bytes], bytes] | None = None,
        account: Account | None = None,
        threads: int = 0,
        random: shamir.Randomness = os.urandom,
        now: float | None = None,
        member: Membership | None = None,
    ) -> None:
        trust = Trust(floor=(floor or Floor()).over(BARE_FLOOR), attempts=attempts, releases=releases)
        agreement = member.charter if member else trust
        check_round(config, agreement, now)
        agreement.check_account(config, account)
        client, threads = whole_number("client id", client), check_threads(threads)
        spending = Spending(
            config=config,
            memory=tasks,
            attempts=agreement.attempts,
            releases=agreement.releases,
            account=account,
            counted=counted,
        )
        if not 0 <= client < config.clients:
            raise ConfigError(f"client id {client} is not in 0..{config.clients - 1}")
        if not callable(task):
            spending.check_named(check_task(task))
        vector = check_source(vector, config.length, config.bits, account)
        check_unused(config, used_rounds)
        if used_rounds is not None:
            used_rounds.add(config.round_id)
        self._round: ClientRound[Any] = ClientRound(
            config=config,
            context=config.context,
            client=client,
            own=member or trust.floor,
            random=random,
            vector=vector,
            task=task,
            spend=spending,
            threads=threads,
            now=now,
        )
        self._steps, self._place = tuple(step for step in steps_of(config) if not step.by_helpers), 0
        self._state: Any = Joined()
        self._last_request = b""
        self._last_reply: bytes | None = None
        self._exclusive = OneCallAtATime("client")

    @property
    def client(self) -> int:
        """The id of this client in the round."""
        return self._round.client

    @property
    def context(self) -> bytes:
        """The 32-byte hash of the configuration, which is in every message."""
        return self._round.context

    @property
    def done(self) -> bool:
        """Whether the client has no secret left: it answered the last step, aborted, or was suspended."""
        return isinstance(self._state, Done)

    @property
    def fault(self) -> FaultyNeighbour | None:
        """Neighbours whose shares this client could not use, once it has complained of them."""
        if self._last_reply is None or m.kind_of(self._last_reply) is not m.Complaint:
            return None
        complaint = m.expect(m.decode(self._last_reply, len(self._last_reply)), m.Complaint)
        return FaultyNeighbour(m.unpack_ids("accused", complaint.accused, self._round.config.clients))

    @property
    def failure(self) -> VectorError | None:
        """Why this client has sent noise around zeros: the error of its function.

        It exists only with an account. The server sees a vector like any other: do not reveal it.
        """
        return self._round.failures[0] if self._round.failures else None

    def receive(self, request: Data) -> bytes:
        """Return the reply to the server's next request. The same request again gets the same reply.

        In step 2 without *accept* it may be a complaint; then ``fault`` names the neighbours.

        Args:
            request: Its size is in docs/protocol.md, section 7.

        Raises:
            FaultyServer: An honest server would not send this; all secrets are dropped.
            FaultyNeighbour: This client has complained of neighbours, and answers nothing else.
            TaskSpent: It may not contribute to the task again; nothing has changed.
            BudgetSpent: Its ledger has no room for one more vector; nothing has changed.
            ConfigError: It counts contributions, and works on no task, or its ledger cannot be used.
            VectorError: Without an account: the function made a vector of another length or type; nothing has
                changed.
            OrderError: The client is out of the round, calls overlap, or a masked vector is asked for again,
                which the transport repeats. In a fork, or if another process has sent the vector of this round,
                all secrets are dropped.
            UsageError: The request is not bytes.
        """
        view = m.view_of(request, "request")
        with self._exclusive:
            fingerprint = hashlib.sha256(view).digest()
            if fingerprint == self._last_request:
                if self._last_reply is None:
                    raise OrderError("the masked vector was already returned and is not kept; send those bytes again")
                return self._last_reply
            if self.fault is not None:
                raise self.fault
            if self.done and not self._last_request:
                raise OrderError(f"client {self.client} has aborted or was suspended; it answers nothing")
            try:
                state, reply = self._answer(view)
            except (FaultyServer, MalformedMessage, OrderError) as error:
                # With an OrderError another process has these keys.
                kind = OrderError if isinstance(error, OrderError) else FaultyServer
                fault = kind(str(error))
            else:
                return self._advance(state, fingerprint, reply)
            self._abort()
            raise fault  # a new one: the old traceback holds on to secrets

    def prepare(self) -> None:
        """Sum the masks while the vector is still being made; step 2 is one addition then.

        Before *accept* is answered, and after step 2, this does nothing.
        """
        with self._exclusive:
            self._round.spend.process.check(self._abort)
            if isinstance(self._state, Accepted) and self._round.ahead is None:
                kind = self._steps[self._place].reply
                self._round = replace(self._round, ahead=masks_ahead(self._round, self._state, kind))

    def leave(self) -> None:
        """Drop all secrets and take no further part; also after a call that was interrupted."""
        with self._exclusive.to_end():
            self._abort()

    def suspend(self) -> bytes:
        """Return the state of this client for another process of this node, secrets included.

        Keep the bytes in the memory of the node, never in a message, a log or a backup. This object is done then. In
        a fork all secrets are dropped.
        """
        with self._exclusive:
            self._round.spend.process.check(self._abort)
            saved = suspended.SavedClient(
                context=self._round.context,
                client=self.client,
                step=self._steps[self._place].name,
                state=None if self.done else suspended.encode_state(self._state),
                last_request=self._last_request,
                last_reply=self._last_reply,
            )
            self._abort()
            return suspended.encode(saved)

    def resume(self, data: bytes, resumed: Used | None = None) -> None:
        """Go on from where ``suspend`` left off; only a client that has just been made can.

        It is made without ``used_rounds``, which has its round already.

        Args:
            data: The bytes of ``suspend``. Take them out of the memory first, and resume them once.
            resumed: Remembers 32-byte digests of such bytes, and refuses a second use.

        Raises:
            OrderError: This client has answered already, or the bytes were resumed before.
            ConfigError: The bytes are damaged, or of another round, client, guard or version.
        """
        with self._exclusive:
            if not isinstance(self._state, Joined) or self._last_request:
                raise OrderError("this client has answered already; make a new one to resume another")
            saved = suspended.decode(data, suspended.SavedClient)
            if (saved.context, saved.client) != (self._round.context, self.client):
                raise ConfigError("these bytes are a suspended client of another round, or another client of this one")
            names = [step.name for step in self._steps]
            if saved.step not in names:
                raise ConfigError(f"a suspended client in step {saved.step!r}, which this guard does not have")
            place = names.index(saved.step)
            state = Done() if saved.state is None else suspended.decode_state(saved.state, self._steps[place].state)
            suspended.check_first_use(data, resumed)
            self._state, self._place = state, place
            self._last_request, self._last_reply = saved.last_request, saved.last_reply
            if self.done or any(m.has_vector(step.reply) for step in self._steps[:place]):
                self._forget_vector()

    def __reduce__(self) -> NoReturn:
        """Refuse pickles and copies: only ``suspend`` takes secrets out, and ends this object."""
        raise TypeError("a Client cannot be copied or pickled: after a crash, join the next round")

    def _answer(self, request: Data) -> tuple[Any, m.Message]:
        self._round.spend.process.check()
        if self.done:
            raise FaultyServer("the round is over for this client; it answers no further request")
        round, step = self._round, self._steps[self._place]
        if isinstance(self._state, Joined):  # no key exists yet
            round.spend.check_account()
        message = m.expect(m.decode(request, m.limit(step.request, round.config)), step.request)
        if message.context != round.context:
            raise FaultyServer("a message of another round, or of another configuration")
        if message.client != round.client:
            raise FaultyServer(f"expected a message for client {round.client}, got one for client {message.client}")
        return step.answer(round, self._state, message)

    def _advance(self, state: Any, fingerprint: bytes, reply: m.Message) -> bytes:
        data = reply.encode()
        # The masked vector is not kept: it is as large as the model. The transport repeats it.
        self._last_reply = None if m.has_vector(type(reply)) else data
        if self._last_reply is None or isinstance(state, Done):
            self._forget_vector()
        self._last_request, self._state = fingerprint, state
        self._place = min(self._place + 1, len(self._steps) - 1)
        return data

    def _forget_vector(self) -> None:
        self._round = replace(self._round, vector=_forgotten, ahead=None)

    def _abort(self) -> None:
        self._state = Done()
        self._forget_vector()
        self._last_request, self._last_reply = b"", None


class ActiveClient(Client):
    """One client in one round with a server that may lie.

    Args:
        config: The round, as ``Charter.decode`` reads it.
        identity: This client's own, whose key is in the charter.
        charter: This client's own copy of the charter.
        vector: ``config.length`` unsigned words of ``config.bits``, or a function that makes them in step 2.
            With an account it must be a function.
        tasks: Remembers for which tasks vectors were sent and shares were released, within the charter's
            ``attempts`` and ``releases``: a ``FolderMemory``, which outlives rounds and processes. None remembers
            nothing.
        task: 32 bytes: a digest of the work of this client, or a function that makes it in step 2.
        counted: Returns the name of a task in ``tasks``, if that is not the task itself.
        account: ``ledger.account(charter.privacy, charter.digest)``, if the charter has noise: every vector is
            charged to it before it leaves.
        used_rounds: Remembers rounds across processes; a second use of one is refused.
        threads: The most threads that make masks; 0 stands for as many as help.
        random: Returns n random bytes. Give another source than the system's only in tests.
        now: Seconds since 1970, by default the system's.

    Raises:
        ConfigError: The charter has expired, the round differs from it, the identity is not in it, the account is
            not for its noise, or an argument is refused as by ``Client``. No key exists yet.
        VectorError: The vector has another length or type than the round.
    """

    def __init__(
        self,
        config: RoundConfig,
        identity: Identity,
        charter: Charter,
        vector: VectorSource,
        *,
        tasks: Memory | None,
        task: TaskSource = m.NO_TASK,
        counted: Callable[[bytes], bytes] | None = None,
        account: Account | None = None,
        used_rounds: Used | None = None,
        threads: int = 0,
        random: shamir.Randomness = os.urandom,
        now: float | None = None,
    ) -> None:
        check_type("identity", identity, Identity, "; Identity.load(path) reads one")
        check_type("charter", charter, Charter, "; Charter.load(path) reads one")
        super().__init__(
            config,
            charter.admission.id_of(identity.public),
            vector,
            task=task,
            used_rounds=used_rounds,
            tasks=tasks,
            counted=counted,
            account=account,
            threads=threads,
            random=random,
            now=now,
            member=Membership(identity=identity, charter=charter),
        )


def _forgotten() -> NoReturn:
    raise OrderError("the vector is not kept: it was sent, or the round is over")
