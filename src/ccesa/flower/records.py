"""Protocol bytes in Flower's records, and back; and all that a node says in clear when it does not answer."""

from typing import Any

import msgspec
from flwr.app import ConfigRecord, Error, Message, RecordDict

from ccesa.errors import MalformedMessage

#: The record that carries the protocol, in both directions; in a node's state, its clients between steps.
KEY = "ccesa"
#: Error codes of replies, in the range that Flower leaves to applications.
REFUSED, FAILED, SPENT = 2001, 2002, 2003
#: Not steps of the protocol: a node shows which identity it has; a node drops what it keeps of a round.
INTRODUCE, FORGET = "introduce", "forget"

#: One sentence for each code, whatever the reason was: it could tell of the node's data, files or lists.
_SENTENCES = {
    REFUSED: "this node refuses; its own log says why",
    FAILED: "this node failed; its own log says why",
    SPENT: "this node has contributed to this model as often as it may",
}
_PLAIN = "this node answers secure aggregation only: train through SecureGrid"


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """One request of the protocol, and what a node needs to answer it."""

    step: str
    config: bytes = b""
    #: None under a charter, which has them.
    terms: bytes = b""
    request: bytes = b""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One reply of the protocol. There is nothing beside it."""

    reply: bytes


def kind_of(message: Message) -> str:
    """``train``, ``evaluate`` or ``query``: what a message's type begins with."""
    return str(message.metadata.message_type).split(".")[0]


def put(content: RecordDict, what: Envelope | Answer) -> RecordDict:
    """The content with the envelope or answer in it."""
    fields: dict[str, Any] = msgspec.structs.asdict(what)
    return RecordDict({**content, KEY: ConfigRecord(fields)})


def take(message: Message) -> Envelope | None:
    """The envelope of a request; None where there is none."""
    record = _record(message)
    if record is None:
        return None
    try:
        return msgspec.convert(dict(record), Envelope)
    except msgspec.ValidationError as error:
        raise MalformedMessage(f"no request of secure aggregation: {error}") from error


def take_answer(message: Message) -> Answer:
    record = _record(message)
    if record is None:
        raise MalformedMessage("no answer of secure aggregation; is secure_mod among the mods of its app?")
    try:
        return msgspec.convert(dict(record), Answer)
    except msgspec.ValidationError as error:
        raise MalformedMessage(f"no answer of secure aggregation: {error}") from error


def refusal(message: Message, code: int) -> Message:
    """The reply of a node that does not answer."""
    return Message(Error(code=code, reason=_SENTENCES[code]), reply_to=message)


def not_in_clear(message: Message) -> Message:
    """The reply to a message that is no request of secure aggregation."""
    return Message(Error(code=REFUSED, reason=_PLAIN), reply_to=message)


def without(content: RecordDict) -> RecordDict:
    """What the app itself is to see."""
    return RecordDict({name: record for name, record in content.items() if name != KEY})


def _record(message: Message) -> ConfigRecord | None:
    """Not by ``content.config_records``: that ties a knot, and vectors stay until garbage is collected."""
    record = message.content.get(KEY)
    return record if isinstance(record, ConfigRecord) else None
