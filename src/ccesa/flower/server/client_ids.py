"""Which client of the protocol a node is."""

import math
import os
import time

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from ccesa.agreement.charter import Charter
from ccesa.errors import ConfigError
from ccesa.flower.both import envelope, introduction, log
from ccesa.flower.both.envelope import INTRODUCE, Envelope
from ccesa.flower.server.exchange import Exchange
from ccesa.flower.server.report import Tally
from ccesa.flower.server.waiting import TRAINING_PARTS, Deadline, Waiting

_PATIENCE = 600.0  # seconds, where neither the step nor the strategy sets a limit


class ClientIds:
    """Client ids by node, in any order."""

    def assign(self, messages: list[Message], waiting: Waiting, deadline: Deadline) -> dict[int, Message]:
        """Return for each client the message that its node is to get."""
        by_node = {message.metadata.dst_node_id: message for message in messages}
        return {client: by_node[node] for client, node in enumerate(sorted(by_node))}


class IntroducedIds(ClientIds):
    """Client ids by node: places in the charter, once nodes have introduced themselves."""

    def __init__(self, grid: Grid, charter: Charter) -> None:
        self._grid, self._charter = grid, charter
        self._introduced: dict[int, int] = {}
        #: By node that gave its place up: the node with the same identity that came later.
        self._successors: dict[int, int] = {}

    def assign(self, messages: list[Message], waiting: Waiting, deadline: Deadline) -> dict[int, Message]:
        """Return for each client the message that its node is to get."""
        by_node = {message.metadata.dst_node_id: message for message in messages}
        if by_node.keys() - self._introduced.keys():
            self._forget_the_gone()
        known = self._introduced.keys() | self._successors.keys()
        strangers = [message for node, message in by_node.items() if node not in known]
        if strangers:
            self._introduce(strangers, waiting, deadline)
        return {self._introduced[node]: one for node, one in by_node.items() if node in self._introduced}

    def _forget_the_gone(self) -> None:
        """A node that was started anew has another number in Flower, and the same identity."""
        online = set(self._grid.get_node_ids())
        self._introduced = {node: client for node, client in self._introduced.items() if node in online}
        self._successors = {
            node: later for node, later in self._successors.items() if {node, later} <= online
        }

    def _introduce(self, messages: list[Message], waiting: Waiting, deadline: Deadline) -> None:
        challenge, mod_seen = os.urandom(32), bool(self._introduced)
        content = envelope.request_with(RecordDict(), Envelope(step=INTRODUCE, request=challenge))
        requests = [
            Message(content, message.metadata.dst_node_id, message.metadata.message_type)
            for message in messages
        ]
        exchange, turned_away = Exchange(self._grid, INTRODUCE, waiting, first=True), Tally()
        before = {client: node for node, client in self._introduced.items()}
        for node, answer in exchange.answers(requests, lambda: _ends(waiting, deadline)):
            try:
                self._admit(node, introduction.client_of(self._charter, node, challenge, answer), before)
            except ConfigError as error:
                turned_away.add(str(error), node)
        if not mod_seen:
            exchange.check_mod()
        exchange.report()
        for line in turned_away.lines():
            log.warn(f"no part is taken by {line}")

    def _admit(self, node: int, client: int, before: dict[int, int]) -> None:
        """Give a node the place of its identity; a former node with that identity gives it up.

        A SuperNode that was started again is another node in Flower, which takes its dead former self for
        online for a while. Of two that answer at the same time nobody knows which came later.
        """
        former = before.pop(client, None)
        if former is None and client in self._introduced.values():
            raise ConfigError("another node has the same identity")
        if former is not None:
            del self._introduced[former]
            self._successors[former] = node
            log.warn(f"node {node} takes the place of node {former}, which has the same identity")
        self._introduced[node] = client


def _ends(waiting: Waiting, deadline: Deadline) -> float:
    """Introducing themselves takes nodes one part of the time, like a step without training."""
    seconds = min(waiting.seconds, deadline.left / (2 * TRAINING_PARTS + 1))
    return time.monotonic() + (seconds if seconds < math.inf else _PATIENCE)
