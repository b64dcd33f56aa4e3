"""``secure_mod`` is a node's part: it answers the protocol, and trains only in the masking step.

Nothing of the app's reply leaves the node in the clear. Answers in the clear do not depend on the node's data: an app
that fails, or whose reply cannot be used, contributes zeros and a count under the masks. All reasons are in the node's
own log.

Between messages the client is suspended in the node's own state (``context.state``), which is wiped when the
round or series is over. A restarted node has no state: it refuses the rounds in flight and takes part in the next.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp.typing import ClientAppCallable

from ccesa import errors
from ccesa.agreement.config import RoundConfig
from ccesa.errors import CcesaError, ConfigError, VectorError, quoted, shown
from ccesa.flower.both import envelope, log
from ccesa.flower.both.envelope import Envelope, NodeAnswer, exchanges_of, kind_of, without_envelope
from ccesa.flower.both.packing import RECORDS, AnyPacking, NoisyPacking, Packing, Reply, packing_for
from ccesa.flower.both.terms import Metrics, ReplyTerms, model_of, slots_of
from ccesa.flower.node.settings import NodeSettings, account_of, check_noise
from ccesa.flower.node.state import SuspendedClient, SuspendedClients, open_keys, open_memory
from ccesa.memory import ROUND, STATE, Memory, UsedOnce
from ccesa.protocol import envelope as of_series
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.masking import Careful
from ccesa.protocol.series_client import SeriesClient
from ccesa.protocol.steps import steps_of
from ccesa.values.fields import WORD_BITS
from ccesa.wire import Data
from ccesa.words import Vector

_COUNTING = " (ccesa-attempts and ccesa-releases, or attempts and releases in the charter)"


def secure_mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """Answer one message on a node: ``ClientApp(mods=[secure_mod])``, or ``mods=`` of single functions.

    Args:
        message: A message from the ServerApp.
        context: The node's own, with its settings and the state of its rounds.
        call_next: The app, which is called in the masking step. Its errors stay in the node's log.

    Returns:
        The answer of the protocol, or a refusal with a code. The reason is in the node's log.
    """
    queried = kind_of(message.metadata.message_type) == "query"
    try:
        settings = NodeSettings.read(context.node_config)
        request = None if queried else envelope.request_in(message)
    except CcesaError as error:
        log.warn(f"refused a message: {_reason(error)}")
        return envelope.refuse(message, envelope.REFUSED)
    if request is None:
        if settings.answers_in_clear or (queried and not settings.needs_noise):
            return call_next(message, context)
        allowed = not (settings.has_charter or settings.needs_noise)
        log.warn("refused a message in the clear" + "; to allow it, set ccesa-plain=true" * allowed)
        return envelope.refuse(message, envelope.REFUSED, envelope.NOT_IN_CLEAR)
    try:
        return envelope.answer(message, _Node(message, context, call_next, settings).answer(request))
    except CcesaError as error:
        return envelope.refuse(message, _log_refusal(f"step {shown(request.step)}", error))
    except Exception as error:  # Flower would send its text to the server
        log.fail(f"step {shown(request.step)} failed", error)
        return envelope.refuse(message, envelope.FAILED)


class _Node:
    """One message of the protocol on this node."""

    def __init__(self, message: Message, context: Context, app: ClientAppCallable, settings: NodeSettings) -> None:
        self._message, self._context, self._call_next = message, context, app
        self._settings, self._now = settings, time.time()
        self._suspended = SuspendedClients(context, str(message.metadata.message_type), self._now)
        self._keys = open_keys(settings, self._now)

    def answer(self, request: Envelope) -> NodeAnswer:
        self._suspended.sweep(self._settings.forget_after)
        if request.step == envelope.INTRODUCE:
            identity, digest = self._settings.identity, self._settings.charter.digest
            return NodeAnswer(envelope.introduce(identity, self._context.node_id, request.request, digest))
        if request.step == envelope.FORGET:
            self._suspended.wipe(request.config)
            if self._keys is not None:
                self._keys.drop(self._settings.charter.decode(request.config).context)
            return NodeAnswer(b"")
        config, terms = self._agreed(request)
        due = {one.name: one for one in exchanges_of(config)}
        if request.step not in due:
            raise ConfigError(f"unknown step {request.step!r}")
        memory = open_memory(self._settings, self._context)
        if due[request.step].by_helpers:
            return self._help(request, config, memory, last=request.step == [*due][-1])
        answer = self._exchange if config.accept else self._step
        return answer(request, config, partial(self._client, terms, memory), memory)

    def _help(self, request: Envelope, config: RoundConfig, memory: Memory, *, last: bool) -> NodeAnswer:
        """Answer a request to a helper. Its key is in its folder between messages."""
        if self._keys is None:
            raise ConfigError("the charter does not name this node as a helper")
        own = self._settings
        helper = Helper(config, own.identity, own.charter, memory=memory, keys=self._keys, threads=own.threads)
        answer = helper.receive(request.request)
        if last:
            helper.leave()  # this message does not come again
        return NodeAnswer(answer)

    def _step(self, request: Envelope, config: RoundConfig, make: Callable[..., Client], memory: Memory) -> NodeAnswer:
        """Answer one step of a single round."""
        steps, data = [step.name for step in steps_of(config) if not step.by_helpers], request.request
        if request.step == steps[0]:
            memory.sweep(self._now)
            client, born = make(_addressee(data, config), config, UsedOnce(memory, ROUND)), None
        else:  # taken out of the state: after a failure no trace of the round is left
            kept = self._suspended.take(request.config)
            if kept is None:
                raise ConfigError("this node has no part in that round; was it restarted?")
            client, born = make(_addressee(data, config), config), kept.born
            client.resume(kept.client, UsedOnce(memory, STATE))
        answer = client.receive(data)
        if request.step != steps[-1]:
            self._suspended.put(request.config, client.suspend(), born)
        return NodeAnswer(answer)

    def _exchange(
        self, request: Envelope, config: RoundConfig, make: Callable[..., Client], memory: Memory
    ) -> NodeAnswer:
        """Answer an exchange of a series. A refused round is over for this node; the others go on."""
        kept = self._suspended.take(request.config)  # after a failure no trace of the series is left
        first = of_series.unpack(request.request)[:1]
        if not first:
            raise errors.MalformedMessage("the exchange of a series has no message")
        make_one = partial(make, _addressee(first[0], config))
        make_series = partial(SeriesClient, config, make_one, used_rounds=UsedOnce(memory, ROUND))
        series = make_series()
        if kept is None:
            memory.sweep(self._now)
        else:
            try:
                series.resume(kept.client, UsedOnce(memory, STATE))
            except (errors.OrderError, ConfigError) as error:  # this node can still be in rounds that begin now
                _log_refusal("rounds in flight are", error)
                series = make_series()
        try:
            answer = series.receive(request.request)
        except errors.FaultyServer:  # not one exchange, or an older one: nothing has changed
            self._keep(request.config, series, kept)
            raise
        codes = [
            _log_refusal(f"step {request.step}: round {number} of a series is", fault)
            for number, fault in sorted(series.faults.items())
        ]
        self._keep(request.config, series, kept)
        return NodeAnswer(answer, max(codes, default=0))

    def _keep(self, config: bytes, series: SeriesClient, kept: SuspendedClient | None) -> None:
        """Suspend a series until its next exchange, unless no round is in flight."""
        if series.rounds:
            self._suspended.put(config, series.suspend(), kept.born if kept else None)

    def _client(
        self, terms: ReplyTerms, memory: Memory, place: int, config: RoundConfig, used: UsedOnce | None = None
    ) -> Client:
        """Make the client of a round. ``place`` is its id, unless the node has a charter and knows its own."""
        own, content = self._settings, without_envelope(self._message.content)
        vector = Careful(lambda: self._vector(config, terms))
        digests = {"task": lambda: terms.round_task(content), "counted": lambda task: terms.counted_task(content)}
        kept = {"used_rounds": used, "tasks": memory, "account": account_of(own, terms.mechanism)}
        options: dict[str, Any] = {**digests, **kept, "threads": own.threads}
        if own.has_charter:
            return ActiveClient(config, own.identity, own.charter, vector, **options)
        options |= {"floor": own.floor, "attempts": own.attempts, "releases": own.releases}
        return Client(config, place, vector, **options)

    def _agreed(self, request: Envelope) -> tuple[RoundConfig, ReplyTerms]:
        """Return the configuration and the terms of this round; with a charter both follow from it."""
        message_type = str(self._message.metadata.message_type)
        if self._settings.has_charter:
            if request.terms:
                raise ConfigError("the request has terms; this node has a charter, and takes no other terms")
            charter = self._settings.charter
            config, terms = charter.decode(request.config), ReplyTerms.under(charter, message_type)
        else:
            config, terms = RoundConfig.decode(request.config), ReplyTerms.decode(request.terms)
            for name, ours in (("bits", WORD_BITS), ("clients", terms.clients)):
                if ours != getattr(config, name):
                    raise ConfigError(f"terms for {ours} {name} do not fit a round of {getattr(config, name)}")
            self._settings.check_terms(message_type, terms)
        check_noise(self._settings, config, terms.mechanism)
        return config, terms

    def _vector(self, config: RoundConfig, terms: ReplyTerms) -> Vector:
        """Return this node's contribution. Everything else was checked before."""
        content = without_envelope(self._message.content)
        packing = packing_for(terms, model_of(content), config.context)
        if packing.length != config.length:
            raise ConfigError(f"terms for {packing.length} elements do not fit a round of {config.length}")
        self._message.content = content
        return self._contribution(packing)

    def _contribution(self, packing: AnyPacking) -> Vector:
        """Run the app and pack its reply. If that fails, return zeros and a count, or only noise."""
        try:
            return pack_reply(self._call_next(self._message, self._context), packing)
        except CcesaError as error:
            log.warn(f"this node contributes nothing to this round: {_reason(error)}")
        except KeyboardInterrupt:  # a person at the node
            raise
        except BaseException as error:  # the user's own code
            log.fail("this node contributes nothing: the app failed", error)
        return packing.nothing()


def _log_refusal(what: str, error: CcesaError) -> int:
    """Log the reason on this node, and return the code. The server gets nothing else."""
    spent = isinstance(error, errors.TaskSpent)
    log.warn(f"{what} refused: {_reason(error)}{_COUNTING * spent}")
    if spent:
        return envelope.SPENT
    return envelope.BUDGET if isinstance(error, errors.BudgetSpent) else envelope.REFUSED


def _reason(error: CcesaError) -> str:
    return shown(str(error), 500)


def _addressee(request: Data, config: RoundConfig) -> int:
    """Return which client of the round this node is; the client checks that every request is for it."""
    maximum = max(m.limit(step.request, config) for step in steps_of(config) if not step.by_helpers)
    return m.decode(request, maximum).client


def pack_reply(message: Message | None, packing: AnyPacking) -> Vector:
    """Return the vector; raise VectorError if the reply cannot be used. This node's log says what is cut off."""
    if message is None:
        raise VectorError("the app gave no reply")
    if message.has_error():
        raise VectorError(f"the app answered with an error: {shown(message.error.reason)}")
    if isinstance(packing, NoisyPacking):
        return _pack_noisy(message.content, packing)
    reply, terms = _read(message.content, packing), packing.terms
    vector, clipped = packing.pack(reply)
    if clipped:
        log.warn(f"{clipped} values were clipped at {terms.clip:g}")
    if reply.weight > terms.max_weight:
        log.warn(f"{terms.weighted_by!r} is above {terms.max_weight:g} and counts as {terms.max_weight:g}")
    return vector


def _pack_noisy(content: RecordDict, packing: NoisyPacking) -> Vector:
    terms, metrics = packing.terms, _metrics(content)
    trains = terms.kind == "train"
    for name in sorted(metrics):
        if trains or name not in terms.named_metrics:
            log.info_once(f"metric {quoted(name)} of a {terms.kind} round stays on this node")
    arrays = model_of(content) if trains else {}
    vector, clipped = packing.pack(Reply(arrays=arrays, metrics=metrics, weight=1.0))
    if clipped:
        log.info(f"the contribution of this node is clipped to the norm {packing.mechanism.norm:g}")
    return vector


def _read(content: RecordDict, packing: Packing) -> Reply:
    terms, metrics = packing.terms, _metrics(content)
    weight = metrics.pop(terms.weighted_by, None)
    if weight is None or isinstance(weight, list):
        raise VectorError(f"the reply needs the metric {terms.weighted_by!r}, a number to weight it by")
    return Reply(
        arrays=model_of(content) if terms.kind == "train" else {},
        metrics=_with_slots(metrics, packing),
        weight=float(weight),
        records=(_name(content, ArrayRecord, RECORDS[0]), _name(content, MetricRecord, RECORDS[1])),
    )


def _metrics(content: RecordDict) -> Metrics:
    return {
        name: list(value) if isinstance(value, list) else value
        for record in content.values()
        if isinstance(record, MetricRecord)
        for name, value in record.items()
    }


def _with_slots(metrics: Metrics, packing: Packing) -> Metrics:
    """Return the metrics for which there is a slot and room for the name; log the others once."""
    terms, names, kept = packing.terms, packing.metric_names, Metrics()
    for name, value in sorted(metrics.items()):
        if names is None:
            fits = name in terms.named_metrics
            why = f"metric {quoted(name)} is not in the charter and stays on this node"
        else:
            slots = slots_of({**kept, name: value})
            fits = len(slots) <= terms.metric_slots and names.has_room(slots)
            why = f"metric {quoted(name)} has no slot; set a larger metric_slots of SecureGrid"
        if fits:
            kept[name] = value
        else:
            log.info_once(why)
    return kept


def _name(content: RecordDict, record: type, default: str) -> str:
    """Return the app's name for its record of this type."""
    return next((name for name, one in content.items() if isinstance(one, record)), default)
