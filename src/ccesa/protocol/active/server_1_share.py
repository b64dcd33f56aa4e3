"""Step 1, server side: hand on sealed shares; without *accept* show everyone all of V2."""

from dataclasses import dataclass
from typing import Any

from ccesa.agreement.charter import Charter
from ccesa.graphs.assignment import Flags
from ccesa.protocol import messages as m
from ccesa.protocol.active.server_0_advertise import Committed
from ccesa.protocol.drawing import deliver, take_sealed
from ccesa.protocol.packing import ids_near
from ccesa.protocol.server_states import Delivered, Round, grown
from ccesa.protocol.steps import Requests

take = take_sealed


@dataclass(frozen=True, kw_only=True, eq=False)
class Among(Delivered):
    """Everyone masks among this V2; with *accept* it is those who have shared until that step closes."""

    root: bytes
    packed_v2: bytes


def among(round: Round[Charter], state: Delivered, root: bytes, v2: Flags) -> Among:
    """Settle V2."""
    packed = m.pack_members(state.graph.ids[v2], round.config.clients)
    return grown(Among, state, root=root, v2=v2, packed_v2=packed)


def close(round: Round[Charter], state: Committed, kept: dict[int, None]) -> tuple[Among, Requests]:
    """Hand on what was sealed, and tell each client who has shared."""
    delivered, texts = deliver(round, state, kept)
    graph, shared = state.graph, among(round, delivered, state.root, delivered.v2)
    packed_v2, dropped = shared.packed_v2, ids_near(graph, ~shared.v2)

    def make(node: int, head: dict[str, Any]) -> m.Message:
        if round.config.accept:
            return m.AcceptRequest(**head, dropped=dropped(node), **texts(node))
        return m.MaskAmongAtOnceRequest(**head, v2=packed_v2, **texts(node), task=round.task)

    return shared, round.requests(graph, shared.v2, make)
