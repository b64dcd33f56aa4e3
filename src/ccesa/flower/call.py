"""The transport of one round: requests out as Flower's messages, replies in as they arrive."""

import math
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from logging import WARNING

import msgspec
from flwr.app import Message, RecordDict
from flwr.common import log
from flwr.serverapp import Grid

from ccesa.config import RoundConfig
from ccesa.flower import records
from ccesa.flower.mail import exchange
from ccesa.flower.records import FORGET, Answer, Envelope
from ccesa.flower.terms import Terms
from ccesa.protocol.server import Requests
from ccesa.protocol.steps import STEPS, Step

#: Of the time that is left to a round, the parts of the step in which nodes train; other steps have one.
TRAINING_PARTS = 4
#: Seconds by which the clocks of nodes may differ: a message is not too old on arrival because of that.
_CLOCKS = 300.0
#: Seconds for nodes that are there to forget a round.
_GOODBYE = 5.0


@dataclass
class Call:
    """Messages of one round to the nodes that take part, by their place in it."""

    grid: Grid
    config: RoundConfig
    terms: Terms
    messages: dict[int, Message]
    deadline: float | None
    step_timeout: float | None
    #: What the replies consist of, from the masking step.
    _parts: dict[int, Answer] = field(default_factory=dict)
    #: Nodes that answered and may be waiting for the next message of this round.
    _holding: set[int] = field(default_factory=set)

    def carry(self, step: Step, requests: Requests) -> Iterator[tuple[int, bytes]]:
        asked = {self._node(client): client for client in requests if client in self.messages}
        ends, last = self._ends(step), step == STEPS[self.config.guard][-1]
        size = self.config.length * self.config.bits // 8 if step.name == "mask" else 0
        sent = [self._request(step, client, requests[client], ends) for client in asked.values()]
        self._holding -= set(asked)
        for node, answer in exchange(self.grid, step.name, sent, ends, size):
            if not last:
                self._holding.add(node)
            if step.name == "mask":
                self._parts[asked[node]] = msgspec.structs.replace(answer, reply=b"")
            yield asked[node], answer.reply

    def forget(self) -> None:
        """Nodes that wait for a message which will not come drop the keys of this round."""
        envelope = Envelope(step=FORGET, config=self.config.encode())
        some = [one for one in self.messages.values() if one.metadata.dst_node_id in self._holding]
        requests = [
            Message(records.put(RecordDict(), envelope), one.metadata.dst_node_id, one.metadata.message_type)
            for one in some
        ]
        if requests:
            for _ in exchange(self.grid, FORGET, requests, time.monotonic() + _GOODBYE):
                pass

    def metrics(self, survivors: tuple[int, ...]) -> list[str]:
        """The metrics that are in the sum: those of all survivors, if they have the same."""
        found = {tuple(self._parts[client].metrics) for client in survivors}
        if len(found) > 1:
            log(WARNING, "secure aggregation: nodes report different metrics; they are left out")
        return list(found.pop()) if len(found) == 1 else []

    def record_names(self) -> tuple[str, str]:
        """What the apps call their arrays and their metrics, most of them."""
        names = Counter(tuple(parts.records) for parts in self._parts.values()).most_common(1)
        found = names[0][0] if names else ()
        return (found[0], found[-1]) if found else ("arrays", "metrics")

    def _node(self, client: int) -> int:
        return int(self.messages[client].metadata.dst_node_id)

    def _ends(self, step: Step) -> float:
        """A node that never answers may use up the time of its step, not that of the steps after it."""
        now = time.monotonic()
        ends = math.inf if self.step_timeout is None else now + self.step_timeout
        if self.deadline is None:
            return ends
        steps = STEPS[self.config.guard]
        parts = [TRAINING_PARTS if one.name == "mask" else 1 for one in steps[steps.index(step) :]]
        return min(ends, now + (self.deadline - now) * parts[0] / sum(parts))

    def _request(self, step: Step, client: int, request: bytes, ends: float) -> Message:
        """The model goes along only where it is needed: in the masking step."""
        given = self.messages[client]
        envelope = Envelope(
            step=step.name, config=self.config.encode(), terms=self.terms.encode(), request=request
        )
        content = given.content if step.name == "mask" else RecordDict()
        return Message(
            records.put(content, envelope),
            given.metadata.dst_node_id,
            given.metadata.message_type,
            ttl=min(given.metadata.ttl, ends - time.monotonic() + _CLOCKS),
            group_id=given.metadata.group_id,
        )
