"""Step 1, server side: hand on sealed shares, say who dropped."""

from typing import Any

from ccesa.protocol import messages as m
from ccesa.protocol.drawing import deliver, ids_near, take_sealed
from ccesa.protocol.server_states import Delivered, Round, Sharing
from ccesa.protocol.steps import Requests

take = take_sealed


def close(round: Round[None], state: Sharing, kept: dict[int, None]) -> tuple[Delivered, Requests]:
    """Tell each client which neighbours have not shared, and hand on what the others sealed for it."""
    delivered, texts = deliver(round, state, kept)
    graph, v2, gone = state.graph, delivered.v2, ~delivered.v2

    def make(node: int, head: dict[str, Any]) -> m.Message:
        dropped = ids_near(graph, node, gone)
        if round.config.accept:
            return m.AcceptRequest(**head, dropped=dropped, **texts(node))
        return m.MaskAtOnceRequest(**head, dropped=dropped, **texts(node), task=round.task)

    return delivered, round.requests(graph, v2, make)
