"""Protocol bytes in Flower's records and back, and what a node says in the clear."""

from contextlib import suppress
from typing import NamedTuple

import msgspec
from flwr.app import ConfigRecord, Error, Message, RecordDict

from ccesa import labels
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import RoundConfig
from ccesa.agreement.identity import KEY_BYTES, Identity
from ccesa.crypto import primitives
from ccesa.errors import ConfigError, MalformedMessage
from ccesa.protocol import messages as m
from ccesa.protocol.steps import steps_of

#: The record that carries the protocol in both directions. In a node's state it has the suspended clients.
KEY = "ccesa"
#: Error codes of replies, in the range that Flower leaves to applications.
REFUSED, FAILED, SPENT, BUDGET = 2001, 2002, 2003, 2004
#: Besides the steps of the protocol: a node shows its identity, or drops what it keeps of a round.
INTRODUCE, FORGET = "introduce", "forget"
#: One sentence for each code. The reason stays on the node: it could reveal data, files or lists.
SENTENCES = {
    REFUSED: "this node refuses; its own log says why",
    FAILED: "this node failed; its own log says why",
    SPENT: "this node no longer contributes to this model",
    BUDGET: "this node has spent its privacy budget",
}
NOT_IN_CLEAR = "this node answers secure aggregation only: train through SecureGrid"


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the protocol, and all that a node needs to answer it."""

    step: str
    config: bytes = b""
    #: Empty under a charter, which has them.
    terms: bytes = b""
    request: bytes = b""


class NodeAnswer(NamedTuple):
    """A reply of the protocol. In a series it covers several rounds, of which the node can refuse some."""

    reply: bytes
    #: Why the node refuses a round; 0 if it refuses none.
    code: int = 0


class Exchange(NamedTuple):
    """One message to each of some parties, and their replies."""

    name: str
    request: type[m.Message]
    reply: type[m.Message]
    by_helpers: bool


def exchanges_of(config: RoundConfig) -> tuple[Exchange, ...]:
    """Return the steps of a round, and after a step what goes beside it."""
    return tuple(
        Exchange(one.name, one.request, one.reply, by_helpers)
        for step in steps_of(config)
        for one, by_helpers in ((step, step.by_helpers), (step.beside, True))
        if one is not None
    )


def kind_of(message_type: object) -> str:
    """Return ``train``, ``evaluate`` or ``query``: what a message's type begins with."""
    return str(message_type).split(".")[0]


def request_with(content: RecordDict, request: Envelope) -> RecordDict:
    """Return the content of a request: the envelope, and the records for the app."""
    return RecordDict({**content, KEY: ConfigRecord(msgspec.structs.asdict(request))})


def request_in(message: Message) -> Envelope | None:
    """Return the envelope of a request; None without one."""
    record = _record(message)
    try:
        return None if record is None else msgspec.convert(dict(record), Envelope)
    except msgspec.ValidationError as error:
        raise MalformedMessage(f"not a request of secure aggregation: {error}") from error


def answer(message: Message, given: NodeAnswer) -> Message:
    """Make a node's reply: the protocol's bytes, and a code if there is one; an error if there is only a code."""
    if given.code and not given.reply:
        return refuse(message, given.code)
    refused = {"code": given.code} if given.code else {}
    return Message(RecordDict({KEY: ConfigRecord({"reply": given.reply, **refused})}), reply_to=message)


def answer_in(message: Message) -> NodeAnswer:
    """Return the answer in a node's reply; MalformedMessage if it has none."""
    record = _record(message)
    if record is None:
        raise MalformedMessage("the reply has no answer of secure aggregation; add secure_mod to the mods of the app")
    reply, code = record.get("reply"), record.get("code", 0)
    if not isinstance(reply, bytes):
        raise MalformedMessage("not an answer of secure aggregation: it has no bytes")
    if not isinstance(code, int) or code not in {0, *SENTENCES}:
        raise MalformedMessage("not an answer of secure aggregation: its code is unknown")
    return NodeAnswer(reply, code)


def refuse(message: Message, code: int, reason: str = "") -> Message:
    """Make the error that a node replies, with this reason or the sentence of the code."""
    return Message(Error(code=code, reason=reason or SENTENCES[code]), reply_to=message)


def without_envelope(content: RecordDict) -> RecordDict:
    """Return the records for the app."""
    return RecordDict({name: record for name, record in content.items() if name != KEY})


def _record(message: Message) -> ConfigRecord | None:
    """``content.config_records`` makes a reference cycle, which keeps vectors until garbage is collected."""
    record = message.content.get(KEY)
    return record if isinstance(record, ConfigRecord) else None


def introduce(identity: Identity, node: int, challenge: bytes, charter: bytes) -> bytes:
    """Return a node's public key and its signature over the challenge and the digest of its own charter."""
    return identity.public + identity.sign(_text(node, challenge, charter))


def ids_of(charter: Charter, node: int, challenge: bytes, introduction: bytes) -> tuple[int, ...]:
    """Return the ids of a node under this charter, as a member, a helper or both; ConfigError says why it has none."""
    key, ids = introduction[:KEY_BYTES], list[int]()
    for find in (charter.admission.id_of, charter.helper_id):
        with suppress(ConfigError):
            ids.append(find(key))
    if not ids:
        raise ConfigError("this identity is not among the members" + " or helpers" * bool(charter.helper_seats))
    text = _text(node, challenge, charter.digest)
    try:
        primitives.verify(key, introduction[KEY_BYTES:], text)
    except primitives.BadSignature as error:
        raise ConfigError("its signature is wrong: it does not have this key, or has another charter") from error
    return tuple(ids)


def _text(node: int, challenge: bytes, charter: bytes) -> bytes:
    return labels.frame(labels.FLOWER_INTRODUCTION, str(node).encode(), challenge, charter)
