"""Messages to nodes, their answers as they arrive, and what became of the others."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto

from flwr.app import Message
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from ccesa.errors import ConfigError, MalformedMessage, shown
from ccesa.flower.both import envelope, log
from ccesa.flower.both.envelope import BUDGET, FAILED, REFUSED, SPENT
from ccesa.flower.server.report import Tally, nodes_text
from ccesa.policy import Policy

#: Seconds between two looks for replies: short at first, for fast steps, then longer.
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 1.0
#: Less time than this is none: a clock need not move while it passes.
_TICK = 1e-6
#: Of the time that is left to a round, the parts of the step in which nodes train; other steps have one.
TRAINING_PARTS = 4
#: Replies that are fetched at once, at most, and what they may weigh together.
_AT_ONCE, _BYTES_AT_ONCE = 16, 1 << 24
_HINT = (
    "add it to the ClientApp, ClientApp(mods=[secure_mod]); where mods are on single functions, to both "
    "@app.train and @app.evaluate, or give SecureGrid secure_evaluate=False"
)


class NoSecureMod(ConfigError):
    """The nodes' app has no ``secure_mod``, so none of them can take part."""


class Outcome(Enum):
    """What became of a message."""

    ANSWERED = auto()
    UNSENT = auto()
    SILENT = auto()
    #: Flower's own error, an exception outside ``secure_mod``, or bytes that are not an answer.
    BROKEN = auto()
    #: Somebody answered, and it was not ``secure_mod``.
    WITHOUT_MOD = auto()
    #: ``secure_mod`` answered with an error, and keeps nothing of the round.
    REFUSED = auto()


_CODES = {REFUSED, FAILED, SPENT, BUDGET}


class StrategyTimeout:
    """When the strategy's own timeout is over. Sending is not counted, as in Flower's own grids."""

    def __init__(self, timeout: float | None) -> None:
        self._ends = math.inf if timeout is None else time.monotonic() + timeout

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(self._ends - time.monotonic(), 0.0)

    def extend(self, seconds: float) -> None:
        self._ends += seconds


@dataclass
class Exchange:
    """One message to each of some nodes, and their answers."""

    grid: Grid
    step: str
    #: None: everyone is waited for, as long as there is time.
    policy: Policy | None = None
    #: The first message of a round: it has no model, so an app without the mod is likely to raise.
    first: bool = False
    #: By node.
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    #: Nodes that have contributed as often as they may; in a series they can have answered something else.
    spent: set[int] = field(default_factory=set)
    _missing: Tally = field(default_factory=Tally)
    #: What one of the nodes without the mod said.
    _without_mod: str = ""

    def answers(
        self, requests: list[Message], limit: Callable[[], float], size: int = 0
    ) -> Iterator[tuple[int, bytes]]:
        """Send all; yield nodes and answers until all have come, enough have come, or the time is up.

        ``limit`` is called when all are out, and returns the seconds that are left for the answers. ``size``
        is that of a vector, if answers are vectors: large ones are fetched a few at a time. What is ready
        when the time is up is taken.
        """
        left, asked, answered = self._push(requests), len(requests), 0
        seconds, began = limit(), time.monotonic()
        at_once, wait = max(1, min(_AT_ONCE, _BYTES_AT_ONCE // max(size, 1))), _FIRST_WAIT

        def stays_open() -> float:
            since = time.monotonic() - began
            remains = max(seconds - since, 0.0)
            if self.policy is None:
                return remains
            waits = self.policy.stays_open(
                asked=asked, answered=answered, minimum=0, seconds=since, vectors=size > 0
            )
            return min(remains, waits)

        while left:
            last, before = stays_open() < _TICK, len(left)
            for reply in _fetch(self.grid, sorted(left), at_once):
                node = left.pop(reply.metadata.reply_to_message_id, None)  # None: to another request
                answer = None if node is None else self._opened(node, reply)
                if node is not None and answer is not None:
                    answered += 1
                    yield node, answer
            if last:
                break
            wait = _FIRST_WAIT if len(left) < before else min(2 * wait, _LONGEST_WAIT)
            if left:
                time.sleep(min(wait, stays_open()))
        for node in left.values():
            self._lost(node, Outcome.SILENT, "no answer in time")

    def having(self, *outcomes: Outcome) -> set[int]:
        """Return the nodes whose messages had one of these outcomes."""
        return {node for node, outcome in self.outcomes.items() if outcome in outcomes}

    def report(self) -> list[str]:
        """Log whoever is missing, one line per reason, and return these lines."""
        lines = list(self._missing.lines())
        for line in lines:
            log.info(f"step {self.step}: {line}")
        without = self.having(Outcome.WITHOUT_MOD)
        if without:
            lines.append(f"{nodes_text(without)} without secure_mod")
            log.warn(f"step {self.step}: {self._hint(nodes_text(without))}")
        return lines

    def check_mod(self) -> None:
        """Raise NoSecureMod if most of the nodes answered, and nobody as ``secure_mod`` does."""
        without = self.having(Outcome.WITHOUT_MOD)
        with_mod = self.having(Outcome.ANSWERED, Outcome.REFUSED)
        if 2 * len(without) > len(self.outcomes) and not with_mod:
            raise NoSecureMod(self._hint(f"no node has secure_mod: {nodes_text(without)}"))

    def _hint(self, who: str) -> str:
        return f"{who} answered without secure_mod: {_HINT} (one of the replies: {self._without_mod})"

    def _push(self, requests: list[Message]) -> dict[str, int]:
        """Send, and return the nodes by the ids of their messages."""
        sent = {one for one in self.grid.push_messages(requests) if one}
        nodes = {request.metadata.message_id: int(request.metadata.dst_node_id) for request in requests}
        for name in nodes.keys() - sent:
            self._lost(nodes[name], Outcome.UNSENT, "the message could not be sent")
        return {name: node for name, node in nodes.items() if name in sent}

    def _opened(self, node: int, reply: Message) -> bytes | None:
        """Return the answer in a reply; a node that has none is lost in this step."""
        if reply.has_error():
            code, reason = reply.error.code, shown(str(reply.error.reason), most=200)
            raised = self.first and code == ErrorCode.CLIENT_APP_RAISED_EXCEPTION
            refused = Outcome.REFUSED if code in _CODES else Outcome.BROKEN
            self._lost(node, Outcome.WITHOUT_MOD if raised else refused, reason, code)
            return None
        try:
            answer = envelope.answer_in(reply)
        except MalformedMessage as error:
            broken = envelope.KEY in reply.content
            outcome = Outcome.BROKEN if broken else Outcome.WITHOUT_MOD
            self._lost(node, outcome, shown(str(error), most=200))
            return None
        if answer.code:  # it is out of one round of a series, and answers in another
            self._lost(node, Outcome.REFUSED, envelope.sentence(answer.code), answer.code)
        self.outcomes[node] = Outcome.ANSWERED
        return answer.reply

    def _lost(self, node: int, outcome: Outcome, reason: str, code: int = 0) -> None:
        self.outcomes[node] = outcome
        if code in (SPENT, BUDGET):
            self.spent.add(node)
        if outcome is Outcome.WITHOUT_MOD:
            self._without_mod = self._without_mod or reason
        else:
            self._missing.add(reason, node)


def _fetch(grid: Grid, ids: list[str], at_once: int) -> Iterator[Message]:
    for place in range(0, len(ids), at_once):
        yield from grid.pull_messages(ids[place : place + at_once])
