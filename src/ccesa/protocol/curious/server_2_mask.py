"""Step 2, server side: add masked vectors up, say who dropped since."""

from ccesa import labels
from ccesa.protocol import messages as m
from ccesa.protocol import signed_texts
from ccesa.protocol.drawing import ids_near
from ccesa.protocol.server_states import Delivered, Round, Settled
from ccesa.protocol.steps import Requests
from ccesa.protocol.summing import check_asked_for, settle


def take(round: Round[None], state: Delivered, client: int, reply: m.MaskReply) -> None:
    """Check what is added to the sum."""
    graph, node = state.graph, state.graph.nodes[client]
    near = graph.neighbours(node)
    live = near[state.v2.take(near)]
    ids, place = m.pack_ids(graph.ids.take(live)), m.ID_BYTES * int(live.searchsorted(node))
    known = ids[:place] + labels.client_bytes(client) + ids[place:]
    check_asked_for(round, reply, signed_texts.among(round.context, client, known))


def close(round: Round[None], state: Delivered, kept: dict[int, None]) -> tuple[Settled, Requests]:
    """Tell each client which of its neighbours dropped after sharing."""
    settled = settle(round, state, kept)
    graph, gone = state.graph, state.v2 & ~settled.v3
    return settled, round.requests(
        graph, settled.v3, lambda node, head: m.UnmaskRequest(**head, dropped=ids_near(graph, node, gone))
    )
