"""Step 2, server side: add masked vectors up, say who dropped since."""

from ccesa.evidence import Complained
from ccesa.protocol import messages as m
from ccesa.protocol.server_states import Delivered, Round, Settled
from ccesa.protocol.steps import Requests
from ccesa.protocol.summing import complaints, settle


def take(
    round: Round[None], state: Delivered, client: int, reply: m.MaskReply | m.Complaint
) -> frozenset[Complained] | None:
    """Keep nothing of a vector that is added to the sum, or note a complaint."""
    if isinstance(reply, m.Complaint):
        return complaints(round, state, client, reply)
    return None


def close(round: Round[None], state: Delivered, kept: dict[int, None]) -> tuple[Settled, Requests]:
    """Tell each client which of its neighbours dropped after sharing."""
    settled = settle(round, state, kept)
    graph = state.graph
    dropped = graph.ids_at(state.v2[graph.columns] & ~settled.v3[graph.columns])
    return settled, round.requests(
        graph, settled.v3, lambda node, head: m.UnmaskRequest(**head, dropped=dropped[node])
    )
