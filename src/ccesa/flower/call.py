"""The transport of one round: requests out as Flower's messages, replies in as they arrive."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from logging import WARNING

from flwr.app import Message, RecordDict
from flwr.common import log
from flwr.serverapp import Grid

from ccesa.config import RoundConfig
from ccesa.errors import (
    AttemptsSpent,
    CcesaError,
    Disconnected,
    FaultyClient,
    RoundFailed,
    TooFewClients,
    Unreliable,
)
from ccesa.flower import records
from ccesa.flower.mail import Exchange, Fate
from ccesa.flower.pace import TRAINING_PARTS, Deadline, Pace
from ccesa.flower.records import FORGET, Envelope
from ccesa.flower.report import Tally, in_nodes, named
from ccesa.flower.terms import Terms
from ccesa.protocol.steps import Requests, Step, steps_of

#: Seconds by which the clocks of nodes may differ, and that sending may take: a message is not too old on
#: arrival because of that.
_SLACK = 600.0
#: Seconds for nodes that are there to forget a round.
_GOODBYE = 5.0
_OF_MISSING_NODES = (TooFewClients, Unreliable, Disconnected)


class RoundLost(RoundFailed):
    """A round ended without a mean; says why in terms of nodes."""

    def __init__(self, why: str, *, repeatable: bool) -> None:
        super().__init__(why)
        #: Whether the same messages can go better in another round.
        self.repeatable = repeatable


@dataclass
class Call:
    """Messages of one round to the nodes that take part, by their place in it."""

    grid: Grid
    config: RoundConfig
    terms: Terms
    messages: dict[int, Message]
    deadline: Deadline
    pace: Pace
    #: Whether nodes have answered to this type of message before: then the mod is there.
    known: bool = False
    #: Of anyone's neighbours so many lie at most, if there is a charter that says so.
    around: int | None = None
    #: Nodes that did not answer in some step, and those of them that may not contribute to this task again.
    lost: set[int] = field(default_factory=set)
    spent: set[int] = field(default_factory=set)
    #: Whether any node has answered.
    met: bool = False
    #: Nodes that may hold keys of this round.
    _holding: set[int] = field(default_factory=set)
    #: Why nodes were lost in the last step.
    _missing: list[str] = field(default_factory=list)
    _refused: Tally = field(default_factory=Tally)

    def carry(self, step: Step, requests: Requests) -> Iterator[tuple[int, bytes]]:
        """The transport of ``run_round``. Whoever is missing in a step is logged at its end."""
        steps = steps_of(self.config.guard)
        asked = {self.nodes[client]: client for client in requests if client in self.messages}
        size = self.config.vector_bytes if step.name == "mask" else 0
        sent = [self._request(step, client, requests[client]) for client in asked.values()]
        exchange = Exchange(self.grid, step.name, self.pace, first=step == steps[0])
        self._holding |= asked.keys()
        began = time.monotonic()
        for node, answer in exchange.answers(sent, lambda: self._ends(step, began), size):
            self.met = True
            if step == steps[-1]:
                self._holding.discard(node)
            yield asked[node], answer.reply
        self._close(exchange)

    def refuse(self, fault: FaultyClient) -> None:
        """A reply that the protocol's server did not take."""
        self._refused.add(in_nodes(fault, self.nodes), self.nodes.get(fault.client, fault.client))

    def failed(self, failure: CcesaError) -> RoundFailed:
        """The failure of the round in terms of nodes, with what those said that were missing at last.

        AttemptsSpent where training cannot go on: most of the nodes that are missing may not contribute to
        this task again. An evaluation is then left out.
        """
        why = "; ".join([in_nodes(failure, self.nodes, self.around), *self._missing])
        if isinstance(failure, _OF_MISSING_NODES) and 2 * len(self.spent) > len(self.lost):
            why = (
                f"{named(self.spent)} may not contribute to this task again, and the round fails without "
                f"them: {why}. Nodes answer the same model only so often (attempts): start anew from another"
            )
            return AttemptsSpent(why) if self.terms.kind == "train" else RoundLost(why, repeatable=False)
        return RoundLost(why, repeatable=isinstance(failure, RoundFailed))

    def end(self, *, lost: bool) -> None:
        """Report the replies that were refused, and let nodes drop the keys of a round that is over for them.

        Nodes that wait for a message which will not come are given a moment if the round is lost: it may be
        the last one. After a round that went well nobody waits for those that were left behind.
        """
        for line in self._refused.lines():
            log(WARNING, "secure aggregation: %s", line)
        envelope = Envelope(step=FORGET, config=self.config.encode())
        kind = next((one.metadata.message_type for one in self.messages.values()), "")
        requests = [
            Message(records.put(RecordDict(), envelope), node, kind) for node in sorted(self._holding)
        ]
        if requests:
            exchange = Exchange(self.grid, FORGET)
            for _ in exchange.answers(requests, lambda: time.monotonic() + (_GOODBYE if lost else 0.0)):
                pass
            if lost:
                exchange.report()

    @cached_property
    def nodes(self) -> dict[int, int]:
        """Node ids by client."""
        return {client: int(one.metadata.dst_node_id) for client, one in self.messages.items()}

    def _close(self, exchange: Exchange) -> None:
        """What a step shows about the nodes that did not answer in it."""
        self.lost |= exchange.fates.keys() - exchange.having(Fate.ANSWERED)
        self.spent |= exchange.having(Fate.SPENT)
        # These keep nothing; one that was sent nothing at first never had anything.
        self._holding -= exchange.having(Fate.REFUSED, Fate.SPENT, Fate.PLAIN)
        if exchange.first:
            self._holding -= exchange.having(Fate.UNSENT)
            if not self.known:
                exchange.check_mod()
        self._missing = exchange.report()

    def _ends(self, step: Step, began: float) -> float:
        """A node that never answers may use up the time of its step, not that of the steps after it."""
        now = time.monotonic()
        self.deadline.extend(now - began)
        return now + self._seconds(step)

    def _seconds(self, step: Step) -> float:
        steps = steps_of(self.config.guard)
        parts = [TRAINING_PARTS if one.name == "mask" else 1 for one in steps[steps.index(step) :]]
        return min(self.pace.seconds, self.deadline.left * parts[0] / sum(parts))

    def _request(self, step: Step, client: int, request: bytes) -> Message:
        """The model goes along only where it is needed: in the masking step.

        Under a charter the terms do not: every node derives them from its own copy.
        """
        given = self.messages[client]
        terms = self.terms.encode() if self.config.guard == "curious" else b""
        envelope = Envelope(step=step.name, config=self.config.encode(), terms=terms, request=request)
        content = given.content if step.name == "mask" else RecordDict()
        return Message(
            records.put(content, envelope),
            given.metadata.dst_node_id,
            given.metadata.message_type,
            ttl=min(given.metadata.ttl, self._seconds(step) + _SLACK),
            group_id=given.metadata.group_id,
        )
