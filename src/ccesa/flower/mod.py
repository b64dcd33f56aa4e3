"""``secure_mod``: a node's part. It answers the protocol, trains only in the masking step, and lets nothing
of the app's reply out but under masks.

Between messages the client sleeps in the node's own state (``context.state``), which stays on the node, and
is wiped when the round is over. A node that was restarted has no state and refuses the rest of the round.

What the server hears in clear does not depend on the node's data: an app that fails, or whose reply cannot be
used, contributes zeros and a count under the masks. All reasons are in the node's own log.
"""

import time
from logging import ERROR, WARNING

from flwr.app import Context, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable
from flwr.common import log

from ccesa.config import RoundConfig
from ccesa.errors import CcesaError, ConfigError, TaskSpent, shown
from ccesa.flower import members, records, replies
from ccesa.flower.marks import ROUND, STATE, Marks, open_marks
from ccesa.flower.memory import Seen, Sleeping, TaskCounts
from ccesa.flower.models import Arrays, model_of
from ccesa.flower.records import FAILED, FORGET, INTRODUCE, REFUSED, SPENT, Answer, Envelope
from ccesa.flower.site import Site
from ccesa.flower.terms import Terms
from ccesa.protocol import messages as m
from ccesa.protocol.client import ActiveClient, Client
from ccesa.protocol.steps import steps_of
from ccesa.words import Vector

_ALLOWING = "; ccesa-plain=true would allow it"
#: Characters of a reason in the node's log.
_REASON = 500


def secure_mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
    """``ClientApp(mods=[secure_mod])``; or ``mods=`` of both ``@app.train`` and ``@app.evaluate``."""
    if records.kind_of(message) == "query":
        return call_next(message, context)
    try:
        site = Site(context.node_config)
        envelope = records.take(message)
    except CcesaError as error:
        log(WARNING, "secure aggregation: a message was refused: %s", shown(str(error), _REASON))
        return records.refusal(message, REFUSED)
    if envelope is None:
        if site.plain:
            return call_next(message, context)
        log(
            WARNING,
            "secure aggregation: a message in clear was refused%s",
            _ALLOWING * (not site.has_charter),
        )
        return records.not_in_clear(message)
    try:
        answer = _Node(message, context, call_next, site).answer(envelope)
    except CcesaError as error:
        code = SPENT if isinstance(error, TaskSpent) else REFUSED
        log(
            WARNING,
            "secure aggregation: step %s refused: %s",
            shown(envelope.step),
            shown(str(error), _REASON),
        )
    except Exception as error:  # Flower would send its text to the server
        code = FAILED
        log(ERROR, "secure aggregation: step %s failed", shown(envelope.step), exc_info=error)
    else:
        return Message(records.put(RecordDict(), answer), reply_to=message)
    return records.refusal(message, code)


class _Node:
    """One message of the protocol on this node."""

    def __init__(self, message: Message, context: Context, call_next: ClientAppCallable, site: Site) -> None:
        self._message, self._context, self._call_next = message, context, call_next
        self._site, self._now = site, time.time()
        self._sleeping = Sleeping(context, self._now)

    def answer(self, envelope: Envelope) -> Answer:
        self._sleeping.sweep(self._site.forget_after)
        if envelope.step == INTRODUCE:
            identity, digest = self._site.identity, self._site.charter.digest
            return Answer(reply=members.introduce(identity, self._context.node_id, envelope.request, digest))
        if envelope.step == FORGET:
            self._sleeping.wipe(envelope.config)
            return Answer(reply=b"")
        return Answer(reply=self._step(envelope))

    def _step(self, envelope: Envelope) -> bytes:
        config, terms = self._agreed(envelope)
        steps = [step.name for step in steps_of(config.guard)]
        if envelope.step not in steps:
            raise ConfigError(f"there is no step {envelope.step!r}")
        marks = open_marks(self._site, self._context)
        if envelope.step == steps[0]:
            marks.sweep(self._now)
            client, born = self._client(config, terms, envelope.request, marks, Seen(marks, ROUND)), None
        else:  # taken out of the state: after a failure nothing of the round is left
            sleeper = self._sleeping.take(envelope.config)
            client, born = self._client(config, terms, envelope.request, marks), sleeper.born
            client.resume(sleeper.client, Seen(marks, STATE))
        reply = client.receive(envelope.request)
        if envelope.step != steps[-1]:
            self._sleeping.put(envelope.config, client.suspend(), born)
        return reply

    def _client(
        self, config: RoundConfig, terms: Terms, request: bytes, marks: Marks, used: Seen | None = None
    ) -> Client:
        def vector() -> Vector:
            return self._vector(config, terms, TaskCounts(marks))

        site = self._site
        if site.has_charter:
            return ActiveClient(config, site.identity, site.charter, vector, used_rounds=used, tasks=None)
        return Client(config, _addressee(request, config), vector, floor=site.floor, used_rounds=used)

    def _agreed(self, envelope: Envelope) -> tuple[RoundConfig, Terms]:
        """What this round is, and how replies become vectors in it.

        A node with a charter knows no other rounds, and takes no terms from the server.
        """
        message_type = str(self._message.metadata.message_type)
        if self._site.has_charter:
            if envelope.terms:
                raise ConfigError(
                    "a request with terms; this node has a charter, and takes part only under it"
                )
            return self._site.charter.decode(envelope.config), Terms.under(self._site.charter, message_type)
        config, terms = RoundConfig.decode(envelope.config), Terms.decode(envelope.terms)
        for name in ("bits", "clients"):
            agreed, due = getattr(terms, name), getattr(config, name)
            if agreed != due:
                raise ConfigError(f"terms for {agreed} {name} in a round of {due}")
        self._site.rules.check(message_type, terms)
        return config, terms

    def _vector(self, config: RoundConfig, terms: Terms, counts: TaskCounts) -> Vector:
        """Step 2, after everything was checked: what this node contributes, counted before it leaves."""
        content = records.without(self._message.content)
        if terms.task(content) != config.task:
            raise ConfigError("the model or its settings are not those that this round was announced for")
        model = model_of(content)
        if terms.length(model) != config.length:
            raise ConfigError(f"terms for {terms.length(model)} elements in a round of {config.length}")
        subject, attempts = terms.subject(content), self._site.attempts
        counts.check(subject, attempts)
        self._message.content = content
        vector = self._contribution(terms, model)
        counts.count(subject, attempts)
        return vector

    def _contribution(self, terms: Terms, model: Arrays) -> Vector:
        """Run the app, and turn its reply into one vector; zeros and a count if there is nothing to turn."""
        try:
            return replies.packed(self._call_next(self._message, self._context), model, terms)
        except CcesaError as error:
            reason = shown(str(error), _REASON)
            log(WARNING, "secure aggregation: this node contributes nothing to this round: %s", reason)
        except Exception as error:  # the user's own code
            log(ERROR, "secure aggregation: this node contributes nothing: the app failed", exc_info=error)
        return terms.nothing(model)


def _addressee(request: bytes, config: RoundConfig) -> int:
    """Which client of the round this node is; the client checks that every request is for it."""
    most = max(m.limit(step.request, config) for step in steps_of(config.guard))
    return m.decode(request, most).client
