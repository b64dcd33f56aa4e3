"""Messages to nodes, their answers as they arrive, and what became of the others."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from logging import INFO, WARNING

from flwr.app import Message
from flwr.common import log
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from ccesa.errors import ConfigError, MalformedMessage, shown
from ccesa.flower import records
from ccesa.flower.pace import Pace
from ccesa.flower.records import FAILED, REFUSED, SPENT, Answer
from ccesa.flower.report import Tally, named

#: Seconds between two looks for replies: short at first, for fast steps, then longer.
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 1.0
#: Replies that are fetched at once, at most, and what they may weigh together.
_AT_ONCE, _BYTES_AT_ONCE = 16, 1 << 24
_HINT = (
    "add it to the ClientApp, ClientApp(mods=[secure_mod]); where mods are on single functions, to both "
    "@app.train and @app.evaluate, or give SecureGrid secure_evaluate=False"
)


class NoSecureMod(ConfigError):
    """The nodes' app has no ``secure_mod``, so none of them can take part."""


class Fate(Enum):
    """What became of a message."""

    ANSWERED = auto()
    UNSENT = auto()
    SILENT = auto()
    #: Flower's own error, an exception outside ``secure_mod``, or bytes that are no answer.
    BROKEN = auto()
    #: Somebody answered, and it was not ``secure_mod``.
    PLAIN = auto()
    #: ``secure_mod`` answered with an error, and keeps nothing of the round.
    REFUSED = auto()
    SPENT = auto()


_FATES = {REFUSED: Fate.REFUSED, FAILED: Fate.REFUSED, SPENT: Fate.SPENT}


@dataclass
class Exchange:
    """One message to each of some nodes."""

    grid: Grid
    step: str
    pace: Pace = field(default_factory=Pace)
    #: The first message of a round: it has no model, so an app without the mod is likely to raise.
    first: bool = False
    fates: dict[int, Fate] = field(default_factory=dict)
    _tally: Tally = field(default_factory=Tally)
    #: What one of the nodes without the mod said.
    _plain: str = ""

    def answers(
        self, requests: list[Message], ends: Callable[[], float], size: int = 0
    ) -> Iterator[tuple[int, Answer]]:
        """Send all; yield nodes and answers until all have come, enough have come, or the time is up.

        ``ends`` is asked for the time when all are out. ``size`` is what an answer weighs: large ones are
        fetched a few at a time. What is ready when the time is up is taken.
        """
        left = self._push(requests)
        closes, quorum, answered = ends(), self.pace.quorum(len(requests)), 0
        at_once, wait = max(1, min(_AT_ONCE, _BYTES_AT_ONCE // max(size, 1))), _FIRST_WAIT
        while left:
            last, before = time.monotonic() >= closes, len(left)
            for reply in _fetch(self.grid, sorted(left), at_once):
                node = left.pop(reply.metadata.reply_to_message_id, None)  # None: to another request
                answer = None if node is None else self._opened(node, reply)
                if node is not None and answer is not None:
                    answered += 1
                    yield node, answer
            if last:
                break
            if answered >= quorum:
                closes, quorum = min(closes, time.monotonic() + self.pace.grace), len(requests) + 1
            wait = _FIRST_WAIT if len(left) < before else min(2 * wait, _LONGEST_WAIT)
            if left:
                time.sleep(max(min(wait, closes - time.monotonic()), 0.0))
        for node in left.values():
            self._lost(node, Fate.SILENT, "no answer in time")

    def having(self, *fates: Fate) -> set[int]:
        """The nodes whose messages fared like this."""
        return {node for node, fate in self.fates.items() if fate in fates}

    def report(self) -> list[str]:
        """Log whoever is missing, a line per reason, and return these lines."""
        lines = list(self._tally.lines())
        for line in lines:
            log(INFO, "secure aggregation: step %s: %s", self.step, line)
        without = self.having(Fate.PLAIN)
        if without:
            lines.append(f"{named(without)} without secure_mod")
            log(WARNING, "secure aggregation: step %s: %s", self.step, self._without(named(without)))
        return lines

    def check_mod(self) -> None:
        """Raise if most of the nodes answered, and nobody as ``secure_mod`` does."""
        without = self.having(Fate.PLAIN)
        if 2 * len(without) > len(self.fates) and not self.having(Fate.ANSWERED, Fate.REFUSED, Fate.SPENT):
            raise NoSecureMod(self._without(f"no node has secure_mod: {named(without)}"))

    def _without(self, who: str) -> str:
        return f"{who} answered without secure_mod: {_HINT} (one of the replies: {self._plain})"

    def _push(self, requests: list[Message]) -> dict[str, int]:
        """The nodes by the ids of their messages."""
        sent = {one for one in self.grid.push_messages(requests) if one}
        nodes = {request.metadata.message_id: int(request.metadata.dst_node_id) for request in requests}
        for node in (node for name, node in nodes.items() if name not in sent):
            self._lost(node, Fate.UNSENT, "the message could not be sent")
        return {name: node for name, node in nodes.items() if name in sent}

    def _opened(self, node: int, reply: Message) -> Answer | None:
        """The answer in a reply; a node that has none is lost in this step."""
        if reply.has_error():
            self._lost(node, self._fate(reply.error.code), shown(str(reply.error.reason), most=200))
            return None
        try:
            answer = records.take_answer(reply)
        except MalformedMessage as error:
            plain = records.KEY not in reply.content
            self._lost(node, Fate.PLAIN if plain else Fate.BROKEN, shown(str(error), most=200))
            return None
        self.fates[node] = Fate.ANSWERED
        return answer

    def _fate(self, code: int) -> Fate:
        if self.first and code == ErrorCode.CLIENT_APP_RAISED_EXCEPTION:
            return Fate.PLAIN
        return _FATES.get(code, Fate.BROKEN)

    def _lost(self, node: int, fate: Fate, reason: str) -> None:
        self.fates[node] = fate
        if fate is Fate.PLAIN:
            self._plain = self._plain or reason
        else:
            self._tally.add(reason, node)


def _fetch(grid: Grid, ids: list[str], at_once: int) -> Iterator[Message]:
    for place in range(0, len(ids), at_once):
        yield from grid.pull_messages(ids[place : place + at_once])
