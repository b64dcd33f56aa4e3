"""Which client of the protocol a node is."""

import math
import os
import time
from logging import WARNING

from flwr.app import Message, RecordDict
from flwr.common import log
from flwr.serverapp import Grid

from ccesa import labels
from ccesa.charter import Charter
from ccesa.crypto import primitives
from ccesa.errors import ConfigError
from ccesa.flower import records
from ccesa.flower.mail import Exchange
from ccesa.flower.pace import TRAINING_PARTS, Deadline, Pace
from ccesa.flower.records import INTRODUCE, Envelope
from ccesa.flower.report import Tally
from ccesa.identity import KEY_BYTES, Identity

_PATIENCE = 600.0  # seconds, where neither the step nor the strategy sets a limit
_LABEL = b"ccesa-flower-1 introduce"


def introduce(identity: Identity, node: int, challenge: bytes, digest: bytes) -> bytes:
    """A node's public key, and a signature that it is here now: nobody takes the place of another.

    The digest is that of the node's own copy of what was agreed on, the charter.
    """
    return identity.public + identity.sign(_text(node, challenge, digest))


class Members:
    """Under a charter nodes have the places of their identities in it; else they are numbered each round."""

    def __init__(self, grid: Grid, charter: Charter | None) -> None:
        self._grid, self._charter = grid, charter
        self._known: dict[int, int] = {}

    def places(self, messages: list[Message], pace: Pace, deadline: Deadline) -> dict[int, Message]:
        """For each client the message that its node is to get."""
        by_node = {message.metadata.dst_node_id: message for message in messages}
        if self._charter is None:
            return {place: by_node[node] for place, node in enumerate(sorted(by_node))}
        strangers = [message for node, message in by_node.items() if node not in self._known]
        if strangers:
            self._forget_the_gone()
            self._introduce(self._charter, strangers, pace, deadline)
        return {self._known[node]: message for node, message in by_node.items() if node in self._known}

    def _forget_the_gone(self) -> None:
        """A node that was started anew has another number in Flower, and the same identity."""
        online = set(self._grid.get_node_ids())
        self._known = {node: place for node, place in self._known.items() if node in online}

    def _introduce(self, charter: Charter, messages: list[Message], pace: Pace, deadline: Deadline) -> None:
        challenge, known = os.urandom(32), bool(self._known)
        content = records.put(RecordDict(), Envelope(step=INTRODUCE, request=challenge))
        requests = [
            Message(content, message.metadata.dst_node_id, message.metadata.message_type)
            for message in messages
        ]
        exchange, strange = Exchange(self._grid, INTRODUCE, pace, first=True), Tally()
        for node, answer in exchange.answers(requests, lambda: time.monotonic() + _patience(pace, deadline)):
            try:
                self._meet(charter, node, challenge, answer.reply)
            except ConfigError as error:
                strange.add(str(error), node)
        if not known:
            exchange.check_mod()
        exchange.report()
        for line in strange.lines():
            log(WARNING, "secure aggregation: no part is taken by %s", line)

    def _meet(self, charter: Charter, node: int, challenge: bytes, reply: bytes) -> None:
        place = charter.admission.id_of(reply[:KEY_BYTES])
        try:
            text = _text(node, challenge, charter.digest)
            primitives.verify(charter.admission.key(place), reply[KEY_BYTES:], text)
        except primitives.BadSignature as error:
            raise ConfigError("it has not the key that it names, or another charter") from error
        if place in self._known.values():
            raise ConfigError("another node has the same identity")
        self._known[node] = place


def _patience(pace: Pace, deadline: Deadline) -> float:
    """Introducing themselves takes nodes one part of the time, like a step without training."""
    seconds = min(pace.seconds, deadline.left / (2 * TRAINING_PARTS + 1))
    return seconds if seconds < math.inf else _PATIENCE


def _text(node: int, challenge: bytes, digest: bytes) -> bytes:
    return labels.frame(_LABEL, str(node).encode(), challenge, digest)
