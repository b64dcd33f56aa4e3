"""Step 2, server side: add masked vectors up, say who dropped since."""

from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.packing import ids_near
from ccesa.protocol.server_states import Delivered, Round, Settled
from ccesa.protocol.steps import Requests
from ccesa.protocol.summing import check_asked_for, settle


def take(round: Round[None], state: Delivered, client: int, reply: m.MaskReply) -> None:
    """Check what is added to the sum."""
    known = state.ids_around(state.graph.nodes[client])
    check_asked_for(round, reply, signed_texts.among(round.context, client, known))


def close(round: Round[None], state: Delivered, kept: dict[int, None]) -> tuple[Settled, Requests]:
    """Tell each client which of its neighbours dropped after sharing."""
    settled = settle(round, state, kept)
    dropped = ids_near(state.graph, state.v2 & ~settled.v3)
    return settled, round.requests(
        state.graph, settled.v3, lambda node, head: m.UnmaskRequest(**head, dropped=dropped(node))
    )
