"""Step *accept*, server side: an accusation costs the edge between accuser and dealer, and nobody's place.

Both ends are told that the other dropped. Neither masks with nor holds shares of the other, so an honest
client loses nothing but edges to liars. Who is left with too few holders to survive the dropouts still to
come is left out. So is who is left without a mask in common with most of the others: where masks are thin, a
few liars could cut themselves off together, and no sum could be opened.
"""

from typing import Any

import numpy as np

from ccesa.evidence import Accusation
from ccesa.graphs.assignment import AssignmentGraph, Flags, Nodes
from ccesa.protocol import messages as m
from ccesa.protocol.accepting import accused_edges, take_acceptance
from ccesa.protocol.drawing import held_together
from ccesa.protocol.server_states import Delivered, Round, grown
from ccesa.protocol.steps import Requests

take = take_acceptance


def close(
    round: Round[None], state: Delivered, kept: dict[int, frozenset[Accusation]]
) -> tuple[Delivered, Requests]:
    """Settle V2, and tell each client which of those that had shared are not in it, for this client."""
    graph, shared = state.graph, state.v2
    cut = graph.edge_flags(accused_edges(graph, frozenset().union(*kept.values())))
    left = grown(Delivered, state, graph=graph.without(cut))
    v2 = held_together(round.config, left, graph.flags(kept), spare_holders(graph, cut, round.dropout))

    def make(node: int, head: dict[str, Any]) -> m.Message:
        near = graph.neighbours(node)
        gone = near[shared[near] & (cut[graph.edges(node)] | ~v2[near])]
        return m.MaskRequest(**head, dropped=m.pack_ids(graph.ids[gone]), task=round.task)

    return grown(Delivered, left, v2=v2), round.requests(graph, v2, make)


def spare_holders(graph: AssignmentGraph, cut: Flags, dropout: float) -> Nodes:
    """Return how many holders beyond its threshold each node needs: some, if accusations took any from it."""
    accused = graph.count(cut) > 0
    return np.where(accused, np.ceil(dropout * graph.degrees), 0).astype(np.int64)
