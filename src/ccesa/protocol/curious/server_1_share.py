"""Step 1, server side: hand on sealed shares, say who dropped."""

from typing import Any

from ccesa.protocol import messages as m
from ccesa.protocol.drawing import deliver, take_sealed
from ccesa.protocol.packing import ids_near
from ccesa.protocol.server_states import Delivered, Round, Sharing
from ccesa.protocol.steps import Requests

take = take_sealed


def close(round: Round[None], state: Sharing, kept: dict[int, None]) -> tuple[Delivered, Requests]:
    """Tell each client which neighbours have not shared, and hand on what the others sealed for it."""
    delivered, texts = deliver(round, state, kept)
    dropped = ids_near(state.graph, ~delivered.v2)

    def make(node: int, head: dict[str, Any]) -> m.Message:
        if round.config.accept:
            return m.AcceptRequest(**head, dropped=dropped(node), **texts(node))
        return m.MaskAtOnceRequest(**head, dropped=dropped(node), **texts(node), task=round.task)

    return delivered, round.requests(state.graph, delivered.v2, make)
