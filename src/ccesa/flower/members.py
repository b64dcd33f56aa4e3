"""Which client of the protocol a node is."""

import time
from logging import WARNING

from flwr.app import Message, RecordDict
from flwr.common import log
from flwr.serverapp import Grid

from ccesa.errors import ConfigError, MalformedMessage
from ccesa.flower import records
from ccesa.flower.records import INTRODUCE, Envelope
from ccesa.identity import Admission

_WAIT = 0.1
_PATIENCE = 600.0  # where neither the step nor the strategy sets a limit


class Members:
    """Under ``curious`` nodes are numbered anew each round; under ``active`` by their place in the list.

    A node says once which identity it has. It need not be believed: signatures decide.
    """

    def __init__(self, grid: Grid, admission: Admission | None) -> None:
        self._grid, self._admission = grid, admission
        self._known: dict[int, int] = {}

    @property
    def admission(self) -> Admission:
        if self._admission is None:
            raise ConfigError("there is no admission list")
        return self._admission

    def count(self, asked: int) -> int:
        """Clients of a round's configuration: the nodes that are asked, or all on the list."""
        return asked if self._admission is None else len(self._admission)

    def places(self, messages: list[Message], patience: float | None) -> dict[int, Message]:
        """For each client the message that its node is to get."""
        nodes = sorted(message.metadata.dst_node_id for message in messages)
        if self._admission is None:
            numbers = {node: place for place, node in enumerate(nodes)}
        else:
            strangers = [one for one in messages if one.metadata.dst_node_id not in self._known]
            if strangers:
                self._forget_the_gone()
                self._introduce(strangers, patience)
            numbers = self._known
        return {
            numbers[message.metadata.dst_node_id]: message
            for message in messages
            if message.metadata.dst_node_id in numbers
        }

    def _forget_the_gone(self) -> None:
        """A node that was started anew has another number in Flower, and the same identity."""
        online = set(self._grid.get_node_ids())
        self._known = {node: place for node, place in self._known.items() if node in online}

    def _introduce(self, messages: list[Message], patience: float | None) -> None:
        envelope = Envelope(step=INTRODUCE, config=b"", terms=b"", request=b"")
        requests = [
            Message(
                records.put(RecordDict(), envelope),
                message.metadata.dst_node_id,
                message.metadata.message_type,
            )
            for message in messages
        ]
        left = {one for one in self._grid.push_messages(requests) if one}
        ends = time.monotonic() + (_PATIENCE if patience is None else patience)
        while left and time.monotonic() < ends:
            for reply in self._grid.pull_messages(sorted(left)):
                left.discard(reply.metadata.reply_to_message_id)
                self._meet(reply)
            time.sleep(_WAIT if left else 0.0)
        if left:
            log(WARNING, "secure aggregation: %d node(s) did not say who they are in time", len(left))

    def _meet(self, reply: Message) -> None:
        node = reply.metadata.src_node_id
        try:
            if reply.has_error():
                raise ConfigError(str(reply.error.reason))
            place = self.admission.id_of(records.take_answer(reply).reply)
            if place in self._known.values():
                raise ConfigError("another node has the same identity")
        except (ConfigError, MalformedMessage) as error:
            log(WARNING, "secure aggregation: node %d takes no part: %s", node, error)
        else:
            self._known[node] = place
