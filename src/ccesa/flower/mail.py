"""Messages to nodes, and their answers as they arrive."""

import math
import time
from collections.abc import Iterator
from logging import INFO, WARNING

from flwr.app import Message
from flwr.common import log
from flwr.serverapp import Grid

from ccesa.errors import MalformedMessage
from ccesa.flower import records
from ccesa.flower.records import Answer

#: Seconds between two looks for replies: short at first, for fast steps, then longer.
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 1.0
#: Replies that are fetched at once, at most, and what they may weigh together.
_AT_ONCE, _BYTES_AT_ONCE = 16, 1 << 24


def exchange(
    grid: Grid, step: str, requests: list[Message], ends: float = math.inf, size: int = 0
) -> Iterator[tuple[int, Answer]]:
    """Send all; yield nodes and answers until all have come or the time is up. Whoever is missing is logged.

    ``size`` is what an answer weighs: large ones are fetched a few at a time.
    """
    sent = {one for one in grid.push_messages(requests) if one}
    nodes = {request.metadata.message_id: request.metadata.dst_node_id for request in requests}
    for node in (node for name, node in nodes.items() if name not in sent):
        log(INFO, "secure aggregation: step %s: the message to node %d could not be sent", step, node)
    left = {name: node for name, node in nodes.items() if name in sent}
    at_once, wait = max(1, min(_AT_ONCE, _BYTES_AT_ONCE // max(size, 1))), _FIRST_WAIT
    while left and time.monotonic() < ends:
        before = len(left)
        for reply in _fetch(grid, sorted(left), at_once):
            node = left.pop(reply.metadata.reply_to_message_id, None)  # None: to another request
            answer = None if node is None else _opened(step, node, reply)
            if node is not None and answer is not None:
                yield node, answer
        wait = _FIRST_WAIT if len(left) < before else min(2 * wait, _LONGEST_WAIT)
        if left:
            time.sleep(min(wait, max(ends - time.monotonic(), 0.0)))
    for node in left.values():
        log(INFO, "secure aggregation: step %s: node %d did not answer in time", step, node)


def _fetch(grid: Grid, ids: list[str], at_once: int) -> Iterator[Message]:
    for place in range(0, len(ids), at_once):
        yield from grid.pull_messages(ids[place : place + at_once])


def _opened(step: str, node: int, reply: Message) -> Answer | None:
    """The answer in a reply; an error is logged with its reason, and its node is lost in this step."""
    if reply.has_error():
        log(INFO, "secure aggregation: step %s: node %d: %s", step, node, reply.error.reason)
        return None
    try:
        return records.take_answer(reply)
    except MalformedMessage as error:
        log(WARNING, "secure aggregation: step %s: node %d: %s", step, node, error)
        return None
