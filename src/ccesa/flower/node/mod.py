"""``secure_mod`` is a node's part: it answers the protocol, and trains only in the masking step.

Nothing of the app's reply leaves the node but under masks.

Between messages the client is suspended in the node's own state (``context.state``), which stays on the node,
and is wiped when the round, or the series of rounds, is over. A node that was restarted has no state, refuses
the rest of the rounds in flight, and is in the next one that is begun.

What the server hears in the clear does not depend on the node's data: an app that fails, or whose reply
cannot be used, contributes zeros and a count under the masks. All reasons are in the node's own log.
"""

import time
from collections.abc import Callable
from functools import partial

from flwr.app import Context, Message
from flwr.clientapp.typing import ClientAppCallable

from ccesa.agreement.config import RoundConfig
from ccesa.errors import (
    BudgetSpent,
    CcesaError,
    ConfigError,
    FaultyServer,
    MalformedMessage,
    OrderError,
    TaskSpent,
    shown,
)
from ccesa.flower.both import envelope, log
from ccesa.flower.both.envelope import (
    BUDGET,
    FAILED,
    FORGET,
    INTRODUCE,
    REFUSED,
    SPENT,
    Answer,
    Envelope,
    kind_of,
)
from ccesa.flower.both.introduction import introduce
from ccesa.flower.both.model import model_of
from ccesa.flower.both.noisy import AnyPacking, packing_for
from ccesa.flower.both.terms import Terms
from ccesa.flower.node import reply
from ccesa.flower.node.memory import open_memory
from ccesa.flower.node.noise import account_of, check_noise
from ccesa.flower.node.settings import NodeSettings
from ccesa.flower.node.suspended import SuspendedClient, SuspendedClients
from ccesa.memory import ROUND, STATE, Memory, UsedOnce
from ccesa.protocol import envelope as of_series
from ccesa.protocol import messages as m
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.contributing import Careful
from ccesa.protocol.series_client import SeriesClient
from ccesa.protocol.steps import steps_of
from ccesa.wire import Data
from ccesa.words import Vector

#: Makes the client of a round from its id and configuration, and the rounds that were used before.
MakeClient = Callable[..., Client]

_ALLOWING = "; ccesa-plain=true would allow it"
_COUNTING = " (ccesa-attempts and ccesa-releases, or attempts and releases in the charter)"
#: Characters of a reason in the node's log.
_REASON = 500


def secure_mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Answer one message on a node: ``ClientApp(mods=[secure_mod])``.

    It can stand in ``mods=`` of both ``@app.train`` and ``@app.evaluate`` instead.

    Args:
        message: What came from the ServerApp.
        context: The node's own, in which its settings and the state of its rounds are.
        call_next: The app, which is called in the masking step; what it raises stays in the node's log.

    Returns:
        The answer of the protocol, or a refusal that says no more than a code; the node's log has the reason.
    """
    queried = kind_of(message.metadata.message_type) == "query"
    try:
        settings = NodeSettings.read(context.node_config)
        request = None if queried else envelope.request_in(message)
    except CcesaError as error:
        log.warn(f"a message was refused: {_reason(error)}")
        return envelope.refusal(message, REFUSED)
    if request is None:
        if settings.answers_in_clear or (queried and not settings.needs_noise):
            return call_next(message, context)
        allowed = not (settings.has_charter or settings.needs_noise)
        log.warn("a message in the clear was refused" + _ALLOWING * allowed)
        return envelope.not_in_clear(message)
    try:
        answer = _Node(message, context, call_next, settings).answer(request)
    except CcesaError as error:
        answer = Answer(b"", _refused(f"step {shown(request.step)}", error))
    except Exception as error:  # Flower would send its text to the server
        log.fail(f"step {shown(request.step)} failed", error)
        answer = Answer(b"", FAILED)
    if answer.code and not answer.reply:
        return envelope.refusal(message, answer.code)
    return envelope.answer(message, answer)


class _Node:
    """One message of the protocol on this node."""

    def __init__(
        self, message: Message, context: Context, call_next: ClientAppCallable, settings: NodeSettings
    ) -> None:
        self._message, self._context, self._call_next = message, context, call_next
        self._settings, self._now = settings, time.time()
        self._suspended = SuspendedClients(context, str(message.metadata.message_type), self._now)

    def answer(self, request: Envelope) -> Answer:
        self._suspended.sweep(self._settings.forget_after)
        if request.step == INTRODUCE:
            identity, charter = self._settings.identity, self._settings.charter
            return Answer(introduce(identity, self._context.node_id, request.request, charter.digest))
        if request.step == FORGET:
            self._suspended.wipe(request.config)
            return Answer(b"")
        config, terms = self._agreed(request)
        if request.step not in [step.name for step in steps_of(config)]:
            raise ConfigError(f"there is no step {request.step!r}")
        memory = open_memory(self._settings, self._context)
        answer = self._exchange if config.accept else self._step
        return answer(request, config, partial(self._client, terms, memory), memory)

    def _step(self, request: Envelope, config: RoundConfig, make: MakeClient, memory: Memory) -> Answer:
        """Answer one step of a single round."""
        steps, data = [step.name for step in steps_of(config)], request.request
        if request.step == steps[0]:
            memory.sweep(self._now)
            client, born = make(_addressee(data, config), config, UsedOnce(memory, ROUND)), None
        else:  # taken out of the state: after a failure nothing of the round is left
            kept = self._suspended.take(request.config)
            if kept is None:
                raise ConfigError("this node has no part in that round; was it restarted?")
            client, born = make(_addressee(data, config), config), kept.born
            client.resume(kept.client, UsedOnce(memory, STATE))
        answer = client.receive(data)
        if request.step != steps[-1]:
            self._suspended.put(request.config, client.suspend(), born)
        return Answer(answer)

    def _exchange(self, request: Envelope, config: RoundConfig, make: MakeClient, memory: Memory) -> Answer:
        """Answer one exchange of a series: what is due in each of its rounds.

        A round that is refused is over for this node, and the others go on.
        """
        kept = self._suspended.take(request.config)  # after a failure nothing of the series is left
        first = of_series.unpack(request.request)[:1]
        if not first:
            raise MalformedMessage("an exchange of a series without a message")
        place, used = _addressee(first[0], config), UsedOnce(memory, ROUND)
        series = SeriesClient(config, partial(make, place), used_rounds=used)
        if kept is None:
            memory.sweep(self._now)
        else:
            try:
                series.resume(kept.client, UsedOnce(memory, STATE))
            except (OrderError, ConfigError) as error:  # this node can still be in rounds that begin now
                _refused("rounds in flight are", error)
                series = SeriesClient(config, partial(make, place), used_rounds=used)
        try:
            answer = series.receive(request.request)
        except FaultyServer:  # not one exchange, or an older one: nothing has changed
            self._keep(request.config, series, kept)
            raise
        codes = [
            _refused(f"step {request.step}: round {number} of a series is", fault)
            for number, fault in sorted(series.faults.items())
        ]
        self._keep(request.config, series, kept)
        return Answer(answer, max(codes, default=0))

    def _keep(self, config: bytes, series: SeriesClient, kept: SuspendedClient | None) -> None:
        """Suspend a series until its next exchange, unless nothing secret is left of it."""
        if series.rounds:
            self._suspended.put(config, series.suspend(), kept.born if kept else None)

    def _client(
        self, terms: Terms, memory: Memory, place: int, config: RoundConfig, used: UsedOnce | None = None
    ) -> Client:
        """Make the client of a round; ``place`` is its id, which a node with a charter knows itself."""

        vector = Careful(lambda: self._vector(config, terms))

        def task() -> bytes:
            return terms.round_task(envelope.without(self._message.content))

        def counted(task: bytes) -> bytes:
            return terms.counted_task(envelope.without(self._message.content))

        own = self._settings
        account = account_of(own, terms.mechanism)
        if own.has_charter:
            return ActiveClient(
                config,
                own.identity,
                own.charter,
                vector,
                task=task,
                used_rounds=used,
                tasks=memory,
                counted=counted,
                account=account,
                threads=own.threads,
            )
        return Client(
            config,
            place,
            vector,
            task=task,
            floor=own.floor,
            used_rounds=used,
            tasks=memory,
            attempts=own.attempts,
            releases=own.releases,
            counted=counted,
            account=account,
            threads=own.threads,
        )

    def _agreed(self, request: Envelope) -> tuple[RoundConfig, Terms]:
        """Return what this round is, and how replies become vectors in it.

        A node with a charter knows no other rounds, and takes no terms from the server.
        """
        message_type = str(self._message.metadata.message_type)
        if self._settings.has_charter:
            if request.terms:
                raise ConfigError(
                    "a request with terms; this node has a charter, and takes part only under it"
                )
            charter = self._settings.charter
            config, terms = charter.decode(request.config), Terms.under(charter, message_type)
            check_noise(self._settings, config, terms.mechanism)
            return config, terms
        config, terms = RoundConfig.decode(request.config), Terms.decode(request.terms)
        for name in ("bits", "clients"):
            found, expected = getattr(terms, name), getattr(config, name)
            if found != expected:
                raise ConfigError(f"terms for {found} {name} in a round of {expected}")
        self._settings.check_terms(message_type, terms)
        check_noise(self._settings, config, terms.mechanism)
        return config, terms

    def _vector(self, config: RoundConfig, terms: Terms) -> Vector:
        """Step 2, after everything was checked: what this node contributes."""
        content = envelope.without(self._message.content)
        packing = packing_for(terms, model_of(content)).for_round(config.context)
        if packing.length != config.length:
            raise ConfigError(f"terms for {packing.length} elements in a round of {config.length}")
        self._message.content = content
        return self._contribution(packing)

    def _contribution(self, packing: AnyPacking) -> Vector:
        """Run the app, and turn its reply into one vector.

        If there is nothing to turn, it is zeros and a count, or noise and nothing else.
        """
        try:
            return reply.packed(self._call_next(self._message, self._context), packing)
        except CcesaError as error:
            log.warn(f"this node contributes nothing to this round: {_reason(error)}")
        except KeyboardInterrupt:  # whoever sits at the node
            raise
        except BaseException as error:  # the user's own code
            log.fail("this node contributes nothing: the app failed", error)
        return packing.nothing()


def _refused(what: str, error: CcesaError) -> int:
    """Say why in the log of this node, and return the code, which is all that the server hears of it."""
    spent = isinstance(error, TaskSpent)
    log.warn(f"{what} refused: {_reason(error)}{_COUNTING * spent}")
    return SPENT if spent else BUDGET if isinstance(error, BudgetSpent) else REFUSED


def _reason(error: CcesaError) -> str:
    return shown(str(error), _REASON)


def _addressee(request: Data, config: RoundConfig) -> int:
    """Return which client of the round this node is; the client checks that every request is for it."""
    most = max(m.limit(step.request, config) for step in steps_of(config))
    return m.decode(request, most).client
