"""``secure_mod``: a node's part. It answers the protocol, trains only in the masking step, and lets nothing
of the app's reply out but under masks.

Between messages the client sleeps in the node's own state (``context.state``), which stays on the node, and
is wiped when the round is over. A node that was restarted has no state and refuses the rest of the round.
"""

from logging import ERROR, INFO, WARNING

import msgspec
from flwr.app import Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp.typing import ClientAppCallable
from flwr.common import log

from ccesa.config import RoundConfig
from ccesa.errors import CcesaError, ConfigError, VectorError
from ccesa.flower import members, records
from ccesa.flower.memory import Sleeping, UsedRounds
from ccesa.flower.records import FAILED, FORGET, INTRODUCE, REFUSED, Answer, Envelope
from ccesa.flower.site import Site
from ccesa.flower.slots import Metrics, schema
from ccesa.flower.terms import Terms, counters_of, model_of
from ccesa.identity import Admission, Identity
from ccesa.protocol import messages as m
from ccesa.protocol.active_client import ActiveClient
from ccesa.protocol.client import Client
from ccesa.protocol.steps import STEPS
from ccesa.ring import Vector

_told: set[str] = set()


def secure_mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """``ClientApp(mods=[secure_mod])``; or ``mods=`` of both ``@app.train`` and ``@app.evaluate``."""
    if records.kind_of(message) == "query":
        return call_next(message, context)
    try:
        site = Site(context.node_config)
        envelope = records.take(message)
    except CcesaError as error:
        return _refuse(message, REFUSED, str(error))
    if envelope is None:
        if site.required:
            return _refuse(message, REFUSED, "this node takes part in secure aggregation only")
        return call_next(message, context)
    try:
        answer = _Node(message, context, call_next, site).answer(envelope)
    except CcesaError as error:
        reason = str(error)
        log(WARNING, "secure aggregation: step %s refused: %s", envelope.step, reason)
    except Exception as error:  # Flower would send its text to the server
        reason = f"{type(error).__name__} on the node; its text stays there"
        log(ERROR, "secure aggregation: step %s raised an exception", envelope.step, exc_info=error)
    else:
        return Message(records.put(RecordDict(), answer), reply_to=message)
    return _refuse(message, FAILED, f"step {envelope.step}: {reason}")


class _Node:
    """One message of the protocol on this node."""

    def __init__(self, message: Message, context: Context, call_next: ClientAppCallable, site: Site) -> None:
        self._message, self._context, self._call_next = message, context, call_next
        self._site, self._sleeping = site, Sleeping(context)
        #: What the app's reply consists of, once there is one.
        self._parts = Answer(reply=b"")

    def answer(self, envelope: Envelope) -> Answer:
        if envelope.step == INTRODUCE:
            identity = Identity.load(self._site.identity)
            digest = Admission.load(self._site.admission).digest
            return Answer(reply=members.introduce(identity, self._context.node_id, envelope.request, digest))
        if envelope.step == FORGET:
            self._sleeping.wipe(envelope.config)
            return Answer(reply=b"")
        config, terms = RoundConfig.decode(envelope.config), Terms.decode(envelope.terms)
        steps = [step.name for step in STEPS[config.guard]]
        if envelope.step not in steps:
            raise ConfigError(f"there is no step {envelope.step!r}")
        self._check(config, terms)
        if envelope.step == steps[0]:
            client = self._client(config, terms, envelope.request, UsedRounds(self._context))
        else:  # taken out of the state: after a failure nothing of the round is left
            sleeping = self._sleeping.take(envelope.config)
            client = self._client(config, terms, envelope.request, None)
            client.resume(sleeping)
        reply = client.receive(envelope.request)
        if envelope.step != steps[-1]:
            self._sleeping.put(envelope.config, client.suspend())
        return msgspec.structs.replace(self._parts, reply=reply)

    def _client(self, config: RoundConfig, terms: Terms, request: bytes, used: UsedRounds | None) -> Client:
        def vector() -> Vector:
            return self._vector(config, terms)

        if config.guard == "active":
            identity = Identity.load(self._site.identity)
            admission = Admission.load(self._site.admission)
            return ActiveClient(config, identity, admission, vector, floor=self._site.floor, used_rounds=used)
        if self._site.has_identity:
            raise ConfigError("this node has an identity and takes part under guard = active only")
        return Client(config, _addressee(request), vector, floor=self._site.floor, used_rounds=used)

    def _check(self, config: RoundConfig, terms: Terms) -> None:
        kind = records.kind_of(self._message)
        if kind != terms.kind:
            raise ConfigError(f"terms of {terms.kind} in a message of type {kind}")
        for name in ("bits", "clients"):
            agreed, due = getattr(terms, name), getattr(config, name)
            if agreed != due:
                raise ConfigError(f"terms for {agreed} {name} in a round of {due}")
        self._site.check(config, terms)

    def _vector(self, config: RoundConfig, terms: Terms) -> Vector:
        """Step 2, after everything was checked: run the app, and turn its reply into one vector."""
        content = records.without(self._message.content)
        if terms.task(content) != config.task:
            raise ConfigError("the model or its settings are not those that this round was announced for")
        model = model_of(content)
        if terms.length(model) != config.length:
            raise ConfigError(f"terms for {terms.length(model)} elements in a round of {config.length}")
        self._message.content = content
        reply = self._call_next(self._message, self._context)
        if reply.has_error():
            log(WARNING, "secure aggregation: the app answered with an error: %s", reply.error.reason)
            raise VectorError("the app answered with an error; its reason stays on the node")
        weight, metrics = _metrics(reply, terms)
        arrays = model_of(reply.content)
        vector, clipped = terms.pack(model, arrays, metrics, weight)
        if clipped:
            log(WARNING, "secure aggregation: %d values were clipped at %g", clipped, terms.clip)
        if weight > terms.max_weight:
            log(
                WARNING,
                "secure aggregation: %r is above %g and counts as that",
                terms.weighted_by,
                terms.max_weight,
            )
        self._parts = Answer(
            reply=b"",
            metrics=schema(metrics),
            counters=sorted(counters_of(arrays)),
            records=_record_names(reply.content),
        )
        return vector


def _addressee(request: bytes) -> int:
    """Which client of the round this node is; the client checks that every request is for it."""
    return m.decode(request, len(request)).client


def _metrics(reply: Message, terms: Terms) -> tuple[float, Metrics]:
    """The weight, and all metrics for which there are slots; the rest is left out, and said once."""
    found: Metrics = {}
    for record in reply.content.values():
        if isinstance(record, MetricRecord):
            found |= {
                name: list(value) if isinstance(value, list) else value for name, value in record.items()
            }
    weight = found.pop(terms.weighted_by, None)
    if weight is None or isinstance(weight, list):
        raise VectorError(
            f"the app's reply has no number {terms.weighted_by!r} in its metrics to weight it by"
        )
    if not weight >= 0:
        raise VectorError(f"{terms.weighted_by!r} is no number from 0 on")
    used, kept = 0, Metrics()
    for name, value in sorted(found.items()):
        size = len(value) if isinstance(value, list) else 1
        if used + size > terms.slots:
            _say_once(f"secure aggregation: no slot for metric {name!r}; SecureGrid takes more metric_slots")
            continue
        kept[name], used = value, used + size
    return float(weight), kept


def _record_names(content: RecordDict) -> list[str]:
    """Of arrays and of metrics, as the app calls them."""
    arrays = [name for name, one in content.items() if not isinstance(one, MetricRecord)]
    metrics = [name for name, one in content.items() if isinstance(one, MetricRecord)]
    return [*arrays[:1], *metrics[:1]]


def _say_once(text: str) -> None:
    if text not in _told:
        _told.add(text)
        log(INFO, text)


def _refuse(message: Message, code: int, reason: str) -> Message:
    return Message(Error(code=code, reason=reason), reply_to=message)
