"""``secure_mod``: a node's part. It answers the protocol, trains only in the masking step, and lets nothing
of the app's reply out but under masks.

Between messages the client sleeps in the node's own state (``context.state``), which stays on the node, and
is wiped when the round is over. A node that was restarted has no state and refuses the rest of the round.
"""

import math
from logging import ERROR, INFO, WARNING
from pathlib import Path
from types import TracebackType

from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable
from flwr.common import log

from ccesa.config import Floor, RoundConfig
from ccesa.errors import CcesaError, ConfigError, MalformedMessage, VectorError
from ccesa.flower import records
from ccesa.flower.records import FAILED, INTRODUCE, KEY, REFUSED, Answer, Envelope
from ccesa.flower.slots import Metrics, schema
from ccesa.flower.terms import Terms, model_of
from ccesa.identity import Admission, Identity
from ccesa.protocol import messages as m
from ccesa.protocol.active_client import ActiveClient
from ccesa.protocol.client import Client
from ccesa.protocol.steps import STEPS
from ccesa.ring import Vector

#: Keys of a node's configuration (``flower-supernode --node-config``).
REQUIRED = "ccesa-required"
FLOOR = "ccesa-floor-"  # clients, degree, mask_degree, threshold, survivors
MAX_CLIP = "ccesa-max-clip"
IDENTITY, ADMISSION = "ccesa-identity", "ccesa-admission"

_USED = "ccesa-used"
_REMEMBERED = 4096  # round ids
_told: set[str] = set()


def secure_mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """``ClientApp(mods=[secure_mod])``, or ``@app.train(mods=[secure_mod])``."""
    try:
        envelope = records.take(message)
    except MalformedMessage as error:
        return _refuse(message, REFUSED, str(error))
    if envelope is None:
        if context.node_config.get(REQUIRED) and message.metadata.message_type.split(".")[0] != "query":
            return _refuse(message, REFUSED, "this node takes part in secure aggregation only")
        return call_next(message, context)
    answer = None
    try:
        answer = _Node(message, context, call_next).answer(envelope)
    except CcesaError as error:
        log(WARNING, "secure aggregation: step %s refused: %s", envelope.step, error)
        return _refuse(message, FAILED, f"step {envelope.step}: {error}")
    finally:
        if answer is None:  # also if the app itself failed: the keys of this round are of no use any more
            _wipe(context, envelope.config)
    return Message(records.put(RecordDict(), answer), reply_to=message)


class _Node:
    """One message of the protocol on this node."""

    def __init__(self, message: Message, context: Context, call_next: ClientAppCallable) -> None:
        self._message, self._context, self._call_next = message, context, call_next
        self._names: list[str] = []

    def answer(self, envelope: Envelope) -> Answer:
        if envelope.step == INTRODUCE:
            return Answer(reply=self._identity().public, metrics=[])
        config, terms = RoundConfig.decode(envelope.config), Terms.decode(envelope.terms)
        steps = [step.name for step in STEPS[config.guard]]
        if envelope.step not in steps:
            raise ConfigError(f"there is no step {envelope.step!r}")
        first, last = envelope.step == steps[0], envelope.step == steps[-1]
        if first:  # whatever is left of another round is of no use any more
            self._context.state.pop(KEY, None)
        client = self._client(config, terms, envelope.request, first)
        if not first:
            client.resume(self._saved(envelope.config))
        reply = client.receive(envelope.request)
        if last:
            _wipe(self._context, envelope.config)
        else:
            self._save(envelope.config, client)
        return Answer(reply=reply, metrics=self._names)

    def _client(self, config: RoundConfig, terms: Terms, request: bytes, first: bool) -> Client:
        self._check(config, terms)
        used = _Used(self._context) if first else None

        def vector() -> Vector:
            return self._vector(config, terms)

        floor = _floor(self._context)
        if config.guard == "active":
            admission = Admission.load(self._path(ADMISSION))
            return ActiveClient(config, self._identity(), admission, vector, floor=floor, used_rounds=used)
        if IDENTITY in self._context.node_config:
            raise ConfigError("this node has an identity and takes part under guard = active only")
        return Client(config, _addressee(request), vector, floor=floor, used_rounds=used)

    def _identity(self) -> Identity:
        return Identity.load(self._path(IDENTITY))

    def _path(self, key: str) -> Path:
        path = Path(str(self._context.node_config.get(key, "")))
        if not path.is_file():
            raise ConfigError(f"guard = active needs a file in this node's configuration: {key}={path}")
        return path

    def _check(self, config: RoundConfig, terms: Terms) -> None:
        """What this site insists on beside the floor of the protocol."""
        kind = self._message.metadata.message_type.split(".")[0]
        if kind != terms.kind:
            raise ConfigError(f"terms of {terms.kind} in a message of type {kind}")
        most = self._context.node_config.get(MAX_CLIP)
        if most is not None and terms.clip > float(most):
            raise ConfigError(f"clip = {terms.clip}, this node allows {most}")
        for name in ("bits", "clients"):
            agreed, due = getattr(terms, name), getattr(config, name)
            if agreed != due:
                raise ConfigError(f"terms for {agreed} {name} in a round of {due}")

    def _vector(self, config: RoundConfig, terms: Terms) -> Vector:
        """Step 2, after everything was checked: run the app, and turn its reply into one vector."""
        content = records.without(self._message.content)
        model = model_of(content)
        if terms.task(model) != config.task:
            raise ConfigError("the model is not the one that this round was announced for")
        self._message.content = content
        with _Quiet():
            reply = self._call_next(self._message, self._context)
        if reply.has_error():
            log(WARNING, "secure aggregation: the app answered with an error: %s", reply.error.reason)
            raise VectorError("the app answered with an error; its reason stays on the node")
        weight, metrics = _metrics(reply, terms)
        vector, clipped = terms.pack(model, model_of(reply.content), metrics, weight)
        if clipped:
            log(WARNING, "secure aggregation: %d values were clipped at %g", clipped, terms.clip)
        self._names = schema(metrics)
        return vector

    def _save(self, config: bytes, client: Client) -> None:
        self._context.state[KEY] = ConfigRecord({"config": config, "client": client.suspend()})

    def _saved(self, config: bytes) -> bytes:
        record = self._context.state.config_records.get(KEY)
        if record is None or record.get("config") != config:
            raise ConfigError("this node has no part in that round; was it restarted?")
        data = record["client"]
        if not isinstance(data, bytes):
            raise ConfigError("the state of this node is damaged")
        return data


class _Quiet:
    """An exception of the app stays on the node: Flower would send its text to the server."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            log(ERROR, "secure aggregation: the app raised an exception", exc_info=error)
            raise VectorError(f"the app raised {type(error).__name__}; its text stays on the node") from None


class _Used(set[bytes]):
    """Round ids that this node has seen, kept in its state."""

    def __init__(self, context: Context) -> None:
        record = context.state.config_records.get(_USED)
        packed = record["ids"] if record else b""
        if not isinstance(packed, bytes):
            packed = b""
        super().__init__(packed[place : place + 32] for place in range(0, len(packed), 32))
        self._context, self._packed = context, packed

    def add(self, round_id: bytes) -> None:
        super().add(round_id)
        self._packed = (self._packed + round_id)[-32 * _REMEMBERED :]
        self._context.state[_USED] = ConfigRecord({"ids": self._packed})


def _addressee(request: bytes) -> int:
    """Which client of the round this node is; the client checks that every request is for it."""
    return m.decode(request, len(request)).client


def _floor(context: Context) -> Floor | None:
    given = {
        name: int(context.node_config[FLOOR + name])
        for name in Floor.__struct_fields__
        if FLOOR + name in context.node_config
    }
    return Floor(**given) if given else None


def _metrics(reply: Message, terms: Terms) -> tuple[float, Metrics]:
    """The weight, and all numbers that can be summed; the rest is left out, and said once."""
    found: Metrics = {}
    for record in reply.content.metric_records.values():
        found |= {name: list(value) if isinstance(value, list) else value for name, value in record.items()}
    weight = found.pop(terms.weighted_by, None)
    if weight is None or isinstance(weight, list):
        raise VectorError(
            f"the app's reply has no number {terms.weighted_by!r} in its metrics to weight it by"
        )
    if not 0 <= weight <= terms.max_weight:  # how far outside is not the server's business
        raise VectorError(
            f"{terms.weighted_by!r} of this node is not in 0..{terms.max_weight:g}; SecureGrid takes another "
            "max_weight"
        )
    used, kept = 0, Metrics()
    for name, value in sorted(found.items()):
        numbers = value if isinstance(value, list) else [value]
        fits = used + len(numbers) <= terms.slots and all(_summable(one, terms) for one in numbers)
        if not fits:
            _say_once(f"secure aggregation: metric {name!r} cannot be summed and is left out")
            continue
        kept[name], used = value, used + len(numbers)
    return float(weight), kept


def _summable(number: float, terms: Terms) -> bool:
    return math.isfinite(number) and abs(number) <= terms.metric_clip


def _say_once(text: str) -> None:
    if text not in _told:
        _told.add(text)
        log(INFO, text)


def _refuse(message: Message, code: int, reason: str) -> Message:
    return Message(Error(code=code, reason=reason), reply_to=message)


def _wipe(context: Context, config: bytes) -> None:
    """Of this round only: a message of another one must not end it."""
    record = context.state.config_records.get(KEY)
    if record is not None and record.get("config") == config:
        context.state.pop(KEY, None)
