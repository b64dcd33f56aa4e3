"""The server sends messages to nodes and takes their answers, in exchanges, rounds and introductions."""

import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property

from flwr.app import Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from ccesa import errors
from ccesa.agreement.charter import Charter
from ccesa.agreement.config import RoundConfig
from ccesa.errors import ConfigError, FaultyClient, HelpersMissing, RoundFailed, VectorError, shown
from ccesa.flower.both import envelope, log
from ccesa.flower.both.envelope import Envelope, Exchange, exchanges_of, request_with
from ccesa.flower.both.terms import ReplyTerms
from ccesa.flower.server.report import HelperNames, Reasons, in_nodes, nodes_text
from ccesa.flower.server.strategy import RoundLost
from ccesa.guards import guard_named
from ccesa.policy import Policy
from ccesa.protocol import messages as m
from ccesa.protocol.steps import Requests, Step

#: Seconds between two looks for replies: short at first, for fast steps, then longer.
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 1.0
#: Seconds that count as zero: a clock may not move in such a short time.
_TICK = 1e-6
#: The parts of a round's remaining time for the step in which nodes train; other steps have one.
TRAINING_PARTS = 4
#: The maximum of replies that are fetched at once, and of their bytes together.
_AT_ONCE, _BYTES_AT_ONCE = 16, 1 << 24
#: The maximum of characters of a reason that a node gives.
_REASON = 200
_HINT = (
    "add it to the ClientApp, ClientApp(mods=[secure_mod]); where mods are on single functions, to both "
    "@app.train and @app.evaluate, or give SecureGrid secure_evaluate=False"
)


class Outcome(Enum):
    """The outcome of a message."""

    ANSWERED = auto()
    UNSENT = auto()
    SILENT = auto()
    #: Flower's own error, an exception outside ``secure_mod``, or bytes that are not an answer.
    BROKEN = auto()
    #: The app answered without ``secure_mod``.
    WITHOUT_MOD = auto()
    #: ``secure_mod`` answered with an error, and keeps nothing from the round.
    REFUSED = auto()


class StrategyTimeout:
    """The strategy's own timeout. Sending is not counted, as in Flower's own grids."""

    def __init__(self, timeout: float | None) -> None:
        self._ends = math.inf if timeout is None else time.monotonic() + timeout

    @property
    def left(self) -> float:
        return max(self._ends - time.monotonic(), 0.0)

    def extend(self, seconds: float) -> None:
        self._ends += seconds


@dataclass
class StepExchange:
    """One message to each of some nodes, and their answers."""

    grid: Grid
    step: str
    #: None: wait for all nodes while there is time.
    policy: Policy | None = None
    #: The first message of a round. It has no model, so an app without the mod is likely to raise.
    first: bool = False
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    #: Nodes that have contributed as often as they may. In a series they can have answered something else.
    spent: set[int] = field(default_factory=set)
    _missing: Reasons = field(default_factory=Reasons)
    #: The reply of one of the nodes without the mod.
    _without_mod: str = ""

    def answers(
        self, requests: list[Message], limit: Callable[[], float], size: int = 0
    ) -> Iterator[tuple[int, bytes]]:
        """Send all; yield nodes and answers until all have come, enough have come, or the time is up.

        ``limit`` is called when all are out, and returns the seconds that are left. ``size`` is that of a
        vector, if answers are vectors: large ones are fetched a few at a time.
        """
        left, asked, answered = self._push(requests), len(requests), 0
        seconds, began = limit(), time.monotonic()
        at_once, wait = max(1, min(_AT_ONCE, _BYTES_AT_ONCE // max(size, 1))), _FIRST_WAIT

        def stays_open() -> float:
            since = time.monotonic() - began
            remains = max(seconds - since, 0.0)
            if self.policy is None:
                return remains
            waits = self.policy.stays_open(asked=asked, answered=answered, minimum=0, seconds=since, vectors=size > 0)
            return min(remains, waits)

        while left:
            last, before = stays_open() < _TICK, len(left)
            for reply in _fetch(self.grid, sorted(left), at_once):
                node = left.pop(reply.metadata.reply_to_message_id, None)  # None: to another request
                answer = None if node is None else self._open(node, reply)
                if node is not None and answer is not None:
                    answered += 1
                    yield node, answer
            if last:
                break
            wait = _FIRST_WAIT if len(left) < before else min(2 * wait, _LONGEST_WAIT)
            if left:
                time.sleep(min(wait, stays_open()))
        for node in left.values():
            self._lose(node, Outcome.SILENT, "no answer in time")

    def having(self, *outcomes: Outcome) -> set[int]:
        """Return the nodes whose messages had one of these outcomes."""
        return {node for node, outcome in self.outcomes.items() if outcome in outcomes}

    def report(self) -> list[str]:
        """Log which nodes are missing, one line per reason, and return these lines."""
        lines = list(self._missing.lines())
        for line in lines:
            log.info(f"step {self.step}: {line}")
        without = self.having(Outcome.WITHOUT_MOD)
        if without:
            lines.append(f"{nodes_text(without)} without secure_mod")
            log.warn(f"step {self.step}: {self._hint(nodes_text(without))}")
        return lines

    def check_mod(self) -> None:
        """Raise ConfigError if most nodes answered without ``secure_mod``, and none with it."""
        without = self.having(Outcome.WITHOUT_MOD)
        with_mod = self.having(Outcome.ANSWERED, Outcome.REFUSED)
        if 2 * len(without) > len(self.outcomes) and not with_mod:
            raise ConfigError(self._hint(f"no node has secure_mod: {nodes_text(without)}"))

    def _hint(self, who: str) -> str:
        return f"{who} answered without secure_mod: {_HINT} (one of the replies: {self._without_mod})"

    def _push(self, requests: list[Message]) -> dict[str, int]:
        """Send, and return the nodes by the ids of their messages."""
        sent = {message_id for message_id in self.grid.push_messages(requests) if message_id}
        nodes = {request.metadata.message_id: node_of(request) for request in requests}
        for message_id in nodes.keys() - sent:
            self._lose(nodes[message_id], Outcome.UNSENT, "the message could not be sent")
        return {message_id: node for message_id, node in nodes.items() if message_id in sent}

    def _open(self, node: int, reply: Message) -> bytes | None:
        """Return the answer in a reply; without one, the node is lost in this step."""
        if reply.has_error():
            code, reason = reply.error.code, shown(str(reply.error.reason), most=_REASON)
            raised = self.first and code == ErrorCode.CLIENT_APP_RAISED_EXCEPTION
            refused = Outcome.REFUSED if code in envelope.SENTENCES else Outcome.BROKEN
            self._lose(node, Outcome.WITHOUT_MOD if raised else refused, reason, code)
            return None
        try:
            answer = envelope.answer_in(reply)
        except errors.MalformedMessage as error:
            outcome = Outcome.BROKEN if envelope.KEY in reply.content else Outcome.WITHOUT_MOD
            self._lose(node, outcome, shown(str(error), most=_REASON))
            return None
        if answer.code:  # the node refuses one round of a series, and answers in another
            self._lose(node, Outcome.REFUSED, envelope.SENTENCES[answer.code], answer.code)
        self.outcomes[node] = Outcome.ANSWERED
        return answer.reply

    def _lose(self, node: int, outcome: Outcome, reason: str, code: int = 0) -> None:
        self.outcomes[node] = outcome
        if code in (envelope.SPENT, envelope.BUDGET):
            self.spent.add(node)
        if outcome is Outcome.WITHOUT_MOD:
            self._without_mod = self._without_mod or reason
        else:
            self._missing.add(reason, node)


def node_of(message: Message) -> int:
    return int(message.metadata.dst_node_id)


def _fetch(grid: Grid, ids: list[str], at_once: int) -> Iterator[Message]:
    for place in range(0, len(ids), at_once):
        yield from grid.pull_messages(ids[place : place + at_once])


#: Seconds for sending, and for clocks of nodes that differ, so that no message is too old on arrival.
_SLACK = 600.0
#: Seconds for nodes to forget a round.
_GOODBYE = 5.0
_OF_MISSING_NODES = (errors.TooFewClients, errors.Unreliable, errors.Disconnected)


@dataclass
class RoundTransport:
    """Carries the messages of a round by client id. In a series they also have the set-up of the rounds after it."""

    grid: Grid
    #: The configuration of the round, or of the first round of its series.
    config: RoundConfig
    terms: ReplyTerms
    messages: dict[int, Message]
    timeout: StrategyTimeout
    policy: Policy | None
    #: Types of messages to which some node has answered, so that the nodes have the mod.
    mod_seen: set[str]
    #: The maximum of lying neighbours of any node, if a charter has one.
    around: int | None
    #: Nodes that may hold keys of this round, or of its series, which hands the same set to all its rounds.
    holding: set[int]
    helpers: HelperNames
    #: Nodes that did not answer in some step, and those of them that may not contribute to this task again.
    _lost: set[int] = field(default_factory=set)
    _spent: set[int] = field(default_factory=set)
    #: Nodes that have answered the last step.
    answered_last: set[int] = field(default_factory=set)
    #: Nodes that did not answer their last request. They are out of all rounds that were in flight then, and
    #: may hold keys of them.
    left_behind: set[int] = field(default_factory=set)
    #: Nodes that were asked for a vector, which counts as released even if it did not come.
    asked_for_vectors: set[int] = field(default_factory=set)
    #: Whether any node was asked for shares. After that it no longer works on this task.
    asked_for_shares: bool = False
    #: Helpers that did not answer in time.
    _silent: set[int] = field(default_factory=set)
    #: Why nodes were lost in the last step.
    _missing: list[str] = field(default_factory=list)
    _refused: Reasons = field(default_factory=Reasons)

    def carry(self, step: Step, requests: Requests) -> Iterator[tuple[int, bytes]]:
        """Carry one step for ``run_round``, or what goes beside it; log at its end which nodes are missing."""
        due = self._due(step, requests)
        asked = {self.nodes[client]: client for client in requests if client in self.messages}
        if due.name != step.name:  # what goes beside it can come often: wait for a silent node once
            asked = {node: client for node, client in asked.items() if node not in self._silent}
        sent = [self._request(due, client, requests[client]) for client in asked.values()]
        first, last = due == self._exchanges[0], due == self._exchanges[-1]
        # A round waits for all helpers, because each of them is needed.
        exchange = StepExchange(self.grid, due.name, None if due.by_helpers else self.policy, first=first)
        if due.by_helpers or not self.config.helper_ids:  # their members keep nothing
            self.holding.update(asked)
        if _trains(due):
            self.asked_for_vectors.update(asked)
        self.asked_for_shares |= last
        began = time.monotonic()

        def limit() -> float:
            self.timeout.extend(time.monotonic() - began)  # sending is not counted
            return self._seconds(due)

        for node, answer in exchange.answers(sent, limit, self.config.masked_bytes if m.has_vector(due.reply) else 0):
            self.mod_seen.add(self.terms.message_type)
            if last:
                self.answered_last.add(node)
            yield asked[node], answer
        self._close(exchange)
        if due.by_helpers:
            self._silent |= exchange.having(Outcome.SILENT)

    def refuse(self, fault: FaultyClient) -> None:
        """Remember a reply that the protocol's server refused."""
        self._refused.add(in_nodes(fault, self.nodes, helpers=self.helpers), self.nodes.get(fault.client, fault.client))

    def explain(self, failure: RoundFailed | VectorError, given_up: Callable[[], bool]) -> RoundFailed:
        """Return the failure of the round in terms of nodes, with the reasons of those that are missing.

        If most missing nodes may not contribute to this task again, an evaluation is left out, and training
        ends with AttemptsSpent. If the task is ``given_up``, training goes on without it.
        """
        why = "; ".join([in_nodes(failure, self.nodes, self.around, self.helpers), *self._missing])
        if not self._spent_by(failure):
            return RoundLost(why, repeatable=isinstance(failure, RoundFailed))
        nodes = nodes_text(self._spent)
        why = f"{nodes} may not contribute to this task again, and the round fails without them: {why}"
        if self.terms.kind != "train":
            return RoundLost(why, repeatable=False)
        if given_up():
            return RoundLost(why, repeatable=True)
        return errors.AttemptsSpent(
            f"{why}. A node works on one model in one run only, until it has released shares for it or "
            "sent as many vectors as it may (releases, attempts), and with noise as long as its budget "
            "lasts: start again from another model, or with more noise"
        )

    def report(self) -> None:
        for line in self._refused.lines():
            log.warn(line)

    @cached_property
    def nodes(self) -> dict[int, int]:
        """Node ids by client."""
        return {client: node_of(message) for client, message in self.messages.items()}

    @cached_property
    def _exchanges(self) -> tuple[Exchange, ...]:
        return exchanges_of(self.config)

    def _due(self, step: Step, requests: Requests) -> Exchange:
        """Return the exchange of these requests: that of the step, or that with helpers beside it."""
        beside = step.beside is not None and any(client in self.config.helper_ids for client in requests)
        name = step.beside.name if step.beside and beside else step.name
        return next(one for one in self._exchanges if one.name == name)

    def _spent_by(self, failure: RoundFailed | VectorError) -> bool:
        """Return whether the round failed because nodes may not contribute to this task again."""
        if isinstance(failure, HelpersMissing):
            return any(self.nodes.get(helper) in self._spent for helper in failure.helpers)
        return isinstance(failure, _OF_MISSING_NODES) and 2 * len(self._spent) > len(self._lost)

    def _close(self, exchange: StepExchange) -> None:
        """Note the nodes that did not answer in a step."""
        self._lost |= (exchange.outcomes.keys() - exchange.having(Outcome.ANSWERED)) | exchange.spent
        self._spent |= exchange.spent
        self.left_behind -= exchange.outcomes.keys()
        self.left_behind |= exchange.having(Outcome.SILENT, Outcome.BROKEN)
        self.holding -= exchange.having(Outcome.WITHOUT_MOD)
        # In a series a node can refuse one round of several, and a helper refuses a request and keeps its key.
        if exchange.first or not (self.config.accept or self.config.helper_ids):
            self.holding -= exchange.having(Outcome.REFUSED)
        if exchange.first:
            self.holding -= exchange.having(Outcome.UNSENT)
            if self.terms.message_type not in self.mod_seen:
                exchange.check_mod()
        self._missing = exchange.report()

    def _seconds(self, due: Exchange) -> float:
        """Return the time of an exchange. A node that never answers uses up no time of those after it."""
        left = self._exchanges[self._exchanges.index(due) :]
        parts = [TRAINING_PARTS if _trains(one) else 1 for one in left]
        lasts = math.inf if self.policy is None else self.policy.lasts(_trains(due) or due.by_helpers)
        return min(lasts, self.timeout.left * parts[0] / sum(parts))

    def _request(self, due: Exchange, client: int, request: bytes) -> Message:
        """Make a node's message. It has the model only in the masking step, and terms only without a charter."""
        given = self.messages[client]
        terms = b"" if guard_named(self.config.guard).chartered else self.terms.encode()
        part = Envelope(step=due.name, config=self.config.encode(), terms=terms, request=request)
        content = given.content if _trains(due) else RecordDict()
        return Message(
            request_with(content, part),
            given.metadata.dst_node_id,
            given.metadata.message_type,
            ttl=min(given.metadata.ttl, self._seconds(due) + _SLACK),
            group_id=given.metadata.group_id,
        )


def forget(grid: Grid, config: RoundConfig, message_type: str, nodes: set[int], *, wait: bool) -> None:
    """Let nodes drop the keys of a round or a series. Wait for them if it is lost: it may have been the last."""
    content = request_with(RecordDict(), Envelope(step=envelope.FORGET, config=config.encode()))
    requests = [Message(content, node, message_type) for node in sorted(nodes)]
    if requests:
        exchange = StepExchange(grid, envelope.FORGET)
        for _ in exchange.answers(requests, lambda: _GOODBYE if wait else 0.0):
            pass
        if wait:
            exchange.report()


def _trains(due: Exchange) -> bool:
    """Return whether nodes train in this exchange: they answer it with masked vectors."""
    return m.is_masked_vector(due.reply)


#: Seconds for an introduction, without a policy and a timeout of the strategy.
_PATIENCE = 600.0


class ClientIds:
    """Numbers the clients of a round in the order of their nodes' ids."""

    @property
    def only_help(self) -> frozenset[int]:
        """Nodes that help and are not members."""
        return frozenset()

    def assign(self, messages: list[Message], policy: Policy | None, timeout: StrategyTimeout) -> dict[int, Message]:
        """Return the messages by client."""
        return dict(enumerate(sorted(messages, key=node_of)))


class IntroducedIds(ClientIds):
    """Gives each node its place in the charter, once it has introduced itself."""

    def __init__(self, grid: Grid, charter: Charter) -> None:
        self._grid, self._charter = grid, charter
        #: The ids of nodes in rounds, by node; a member that helps has two.
        self._introduced: dict[int, tuple[int, ...]] = {}
        #: By node that gave its place up: the node with the same identity that came later.
        self._successors: dict[int, int] = {}

    def assign(self, messages: list[Message], policy: Policy | None, timeout: StrategyTimeout) -> dict[int, Message]:
        """Return the messages by client, and one without content for each helper; nodes without a place get none."""
        by_node, helps = {node_of(message): message for message in messages}, bool(self._charter.helper_seats)
        asked = set(by_node)
        if helps or asked - self._introduced.keys():
            # Forget nodes that are offline: a node that restarted has another number, and the same identity.
            online = set(self._grid.get_node_ids())
            self._introduced = {node: ids for node, ids in self._introduced.items() if node in online}
            self._successors = {node: later for node, later in self._successors.items() if {node, later} <= online}
            asked |= online if helps else set()  # strategies choose no helpers
        strangers = asked - self._introduced.keys() - self._successors.keys()
        if strangers:
            complete = self._helper_ids <= {one for ids in self._introduced.values() for one in ids}
            if policy is not None and not complete:
                policy = Policy.wait_for_all(policy.vector_deadline)
            self._introduce(strangers, messages[0], policy, timeout)
        return {one: message for node in self._introduced for one, message in self._seated(node, by_node, messages[0])}

    @property
    def only_help(self) -> frozenset[int]:
        return frozenset(node for node, ids in self._introduced.items() if self._helper_ids.issuperset(ids))

    @cached_property
    def _helper_ids(self) -> frozenset[int]:
        return frozenset(self._charter.any_round.helper_ids)

    def _seated(self, node: int, by_node: dict[int, Message], example: Message) -> Iterator[tuple[int, Message]]:
        """Yield the ids of a node in this round, with its messages."""
        for one in self._introduced[node]:
            if one in self._helper_ids:
                head = example.metadata
                yield one, Message(RecordDict(), node, head.message_type, ttl=head.ttl, group_id=head.group_id)
            elif node in by_node:
                yield one, by_node[node]

    def _introduce(self, nodes: set[int], example: Message, policy: Policy | None, timeout: StrategyTimeout) -> None:
        challenge, mod_seen = os.urandom(32), bool(self._introduced)
        content = request_with(RecordDict(), Envelope(step=envelope.INTRODUCE, request=challenge))
        requests = [Message(content, node, example.metadata.message_type) for node in sorted(nodes)]
        exchange, refused = StepExchange(self._grid, envelope.INTRODUCE, policy, first=True), Reasons()
        before = {ids: node for node, ids in self._introduced.items()}
        seconds = timeout.left / (2 * TRAINING_PARTS + 1)  # one part of the time, like a step without training
        if policy is None and seconds == math.inf:
            seconds = _PATIENCE
        for node, answer in exchange.answers(requests, lambda: seconds):
            try:
                self._admit(node, envelope.ids_of(self._charter, node, challenge, answer), before)
            except ConfigError as error:
                refused.add(str(error), node)
        if not mod_seen:
            exchange.check_mod()
        exchange.report()
        for line in refused.lines():
            log.warn(f"refused {line}")

    def _admit(self, node: int, ids: tuple[int, ...], before: dict[tuple[int, ...], int]) -> None:
        """Give a node the place of its identity; a former node with that identity gives it up.

        A restarted SuperNode is another node in Flower, where its former self counts as online for a while.
        """
        former = before.pop(ids, None)
        if former is None and ids in self._introduced.values():
            raise ConfigError("another node has the same identity")
        if former is not None:
            del self._introduced[former]
            self._successors[former] = node
            log.warn(f"node {node} takes the place of node {former}, which has the same identity")
        self._introduced[node] = ids
