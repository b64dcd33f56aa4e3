"""The transport of one round, alone or in a series: requests out as Flower's messages, replies in."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from ccesa.agreement.config import RoundConfig
from ccesa.errors import (
    AttemptsSpent,
    Disconnected,
    FaultyClient,
    RoundFailed,
    TooFewClients,
    Unreliable,
    VectorError,
)
from ccesa.flower.both import envelope, log
from ccesa.flower.both.envelope import FORGET, Envelope
from ccesa.flower.both.terms import Terms
from ccesa.flower.server.exchange import Exchange, Outcome
from ccesa.flower.server.lost_rounds import RoundLost
from ccesa.flower.server.report import Tally, in_nodes, nodes_text
from ccesa.flower.server.waiting import TRAINING_PARTS, Deadline, Waiting
from ccesa.guards import guard_named
from ccesa.protocol import messages as m
from ccesa.protocol.steps import Requests, Step, steps_of

#: Seconds by which the clocks of nodes may differ, and that sending may take: a message is not too old on
#: arrival because of that.
_SLACK = 600.0
#: Seconds for nodes that are there to forget a round.
_GOODBYE = 5.0
_OF_MISSING_NODES = (TooFewClients, Unreliable, Disconnected)


@dataclass
class RoundTransport:
    """Carries the messages of one round to the nodes that take part, by their client ids in it.

    In a series they are envelopes, in which set-up of the rounds after it rides along.
    """

    grid: Grid
    #: Of the round, or of the first round of its series.
    config: RoundConfig
    terms: Terms
    messages: dict[int, Message]
    deadline: Deadline
    waiting: Waiting
    #: Whether nodes have answered to this type of message before: then the mod is there.
    mod_seen: bool = False
    #: Of anyone's neighbours so many lie at most, if there is a charter that says so.
    around: int | None = None
    #: Whether any node has answered.
    has_answers: bool = False
    #: Nodes that did not answer in some step, and those of them that may not contribute to this task again.
    _lost: set[int] = field(default_factory=set)
    _spent: set[int] = field(default_factory=set)
    #: Nodes that may hold keys of this round, or of its series, which hands the same set to all its rounds.
    holding: set[int] = field(default_factory=set)
    #: Nodes that have answered the last step, and those that have not answered what they were asked at last:
    #: they are out of all rounds that were in flight then, and may hold keys of them.
    answered_last: set[int] = field(default_factory=set)
    left_behind: set[int] = field(default_factory=set)
    #: Nodes that were asked for a vector, which counts as released whether it came or not.
    asked_for_vectors: set[int] = field(default_factory=set)
    #: Whether any node was asked for shares, after which it works on this task no more.
    asked_for_shares: bool = False
    #: Why nodes were lost in the last step.
    _missing: list[str] = field(default_factory=list)
    _refused: Tally = field(default_factory=Tally)

    def carry(self, step: Step, requests: Requests) -> Iterator[tuple[int, bytes]]:
        """Carry one step, as ``run_round`` asks for it. Whoever is missing in it is logged at its end."""
        asked = {self.nodes[client]: client for client in requests if client in self.messages}
        size = self.config.vector_bytes if _trains(step) else 0
        sent = [self._request(step, client, requests[client]) for client in asked.values()]
        exchange = Exchange(self.grid, step.name, self.waiting, first=step == self._steps[0])
        self.holding.update(asked)
        if _trains(step):
            self.asked_for_vectors.update(asked)
        self.asked_for_shares |= step == self._steps[-1]
        began = time.monotonic()
        for node, answer in exchange.answers(sent, lambda: self._ends(step, began), size):
            self.has_answers = True
            if step == self._steps[-1]:
                self.answered_last.add(node)
            yield asked[node], answer
        self._close(exchange)

    def refuse(self, fault: FaultyClient) -> None:
        """Remember a reply that the protocol's server did not take."""
        self._refused.add(in_nodes(fault, self.nodes), self.nodes.get(fault.client, fault.client))

    def failed(self, failure: RoundFailed | VectorError, given_up: Callable[[], bool]) -> RoundFailed:
        """Return the failure of the round in terms of nodes, with what those said that were missing at last.

        Where most of the nodes that are missing may not contribute to this task again, an evaluation is left
        out, and training ends: AttemptsSpent. If the task is ``given_up``, training goes on without it.
        """
        why = "; ".join([in_nodes(failure, self.nodes, self.around), *self._missing])
        if isinstance(failure, _OF_MISSING_NODES) and 2 * len(self._spent) > len(self._lost):
            why = (
                f"{nodes_text(self._spent)} may not contribute to this task again, and the round fails "
                f"without them: {why}"
            )
            if self.terms.kind != "train":
                return RoundLost(why, repeatable=False)
            if given_up():
                return RoundLost(why, repeatable=True)
            return AttemptsSpent(
                f"{why}. A node works on one model in one run only, until it has released shares for it or "
                "sent as many vectors as it may (releases, attempts), and with noise as long as its budget "
                "lasts: start anew from another model, or with more noise"
            )
        return RoundLost(why, repeatable=isinstance(failure, RoundFailed))

    def report(self) -> None:
        """Log the replies that were refused."""
        for line in self._refused.lines():
            log.warn(line)

    @cached_property
    def nodes(self) -> dict[int, int]:
        """Node ids by client."""
        return {client: int(one.metadata.dst_node_id) for client, one in self.messages.items()}

    @property
    def _steps(self) -> tuple[Step, ...]:
        return steps_of(self.config)

    def _close(self, exchange: Exchange) -> None:
        """Take note of the nodes that did not answer in a step."""
        self._lost |= (exchange.outcomes.keys() - exchange.having(Outcome.ANSWERED)) | exchange.spent
        self._spent |= exchange.spent
        self.left_behind -= exchange.outcomes.keys()
        self.left_behind |= exchange.having(Outcome.SILENT, Outcome.BROKEN)
        self.holding -= exchange.having(Outcome.WITHOUT_MOD)
        if exchange.first or not self.config.accept:  # in a series it can refuse one round of several
            self.holding -= exchange.having(Outcome.REFUSED)
        if exchange.first:
            self.holding -= exchange.having(Outcome.UNSENT)
            if not self.mod_seen:
                exchange.check_mod()
        self._missing = exchange.report()

    def _ends(self, step: Step, began: float) -> float:
        """A node that never answers may use up the time of its step, not that of the steps after it."""
        now = time.monotonic()
        self.deadline.extend(now - began)
        return now + self._seconds(step)

    def _seconds(self, step: Step) -> float:
        left = self._steps[self._steps.index(step) :]
        parts = [TRAINING_PARTS if _trains(one) else 1 for one in left]
        return min(self.waiting.seconds, self.deadline.left * parts[0] / sum(parts))

    def _request(self, step: Step, client: int, request: bytes) -> Message:
        """Make a node's message. The model goes along only where it is needed: in the masking step.

        Under a charter the terms do not: every node derives them from its own copy.
        """
        given = self.messages[client]
        terms = b"" if guard_named(self.config.guard).chartered else self.terms.encode()
        part = Envelope(step=step.name, config=self.config.encode(), terms=terms, request=request)
        content = given.content if _trains(step) else RecordDict()
        return Message(
            envelope.request_with(content, part),
            given.metadata.dst_node_id,
            given.metadata.message_type,
            ttl=min(given.metadata.ttl, self._seconds(step) + _SLACK),
            group_id=given.metadata.group_id,
        )


def forget(grid: Grid, config: RoundConfig, message_type: str, nodes: set[int], *, wait: bool) -> None:
    """Let nodes drop the keys of a round or a series that is over for them.

    They are given a moment if it is lost: it may have been the last one. After one that went well nobody
    waits for those that were left behind.
    """
    content = envelope.request_with(RecordDict(), Envelope(step=FORGET, config=config.encode()))
    requests = [Message(content, node, message_type) for node in sorted(nodes)]
    if requests:
        exchange = Exchange(grid, FORGET)
        for _ in exchange.answers(requests, lambda: time.monotonic() + (_GOODBYE if wait else 0.0)):
            pass
        if wait:
            exchange.report()


def _trains(step: Step) -> bool:
    """Tell whether nodes train in this step: it is the one that vectors answer."""
    return m.has_vector(step.reply)
