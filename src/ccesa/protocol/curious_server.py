"""The steps of a server under the guard ``curious``: functions that take one reply, and functions that close a step.

Functions that are the same under every guard are in ``drawing`` and ``summing``.
"""

from typing import Any, TypeAlias

import numpy as np

from ccesa import labels
from ccesa.agreement.agreement import Trust
from ccesa.evidence import Accusation
from ccesa.graphs.assignment import AssignmentGraph, Flags, Nodes
from ccesa.protocol import messages as m
from ccesa.protocol import server_states, signed_texts
from ccesa.protocol.drawing import accused_edges, deliver, draw_graph, fit, hold_together, note_keys, stack
from ccesa.protocol.server_states import Advertising, Delivered, Requests, ServerRound, Settled, Sharing, grow
from ccesa.protocol.summing import check_asked_for, settle

#: The round of a server that clients trust to follow the protocol.
Round: TypeAlias = ServerRound[Trust]


def take_keys(round: Round, state: Advertising, client: int, reply: m.AdvertiseReply) -> bytes:
    """Step 0: keep the public keys of a client."""
    note_keys(round, state, m.check(reply, round.config))
    return reply.keys


def close_advertise(round: Round, state: Advertising, kept: dict[int, bytes]) -> tuple[Sharing, Requests]:
    """Draw the graph, and name each client its neighbours, their keys, and the edges on which masks run."""
    bundles = {client: kept[client] for client in sorted(kept)}
    entries = [labels.client_bytes(client) + bundle for client, bundle in bundles.items()]
    root = labels.digest(labels.ROSTER, round.context, b"".join(entries))
    drawn, public_keys = draw_graph(round, root, bundles), stack(bundles.values())
    graph = drawn.graph
    neighbours = server_states.cut(m.pack_ids(graph.ids[graph.columns]), m.ID_BYTES * graph.degrees)
    masked = server_states.cut(graph.carries_masks.tobytes(), graph.degrees)

    def make(node: int, head: dict[str, Any]) -> m.Message:
        return m.ShareRequest(
            **head,
            neighbours=neighbours(node),
            keys=public_keys.take(graph.neighbours(node), axis=0).tobytes(),
            masked=masked(node),
        )

    return drawn, round.requests(graph, fit(round.config, drawn), make)


def close_share(round: Round, state: Sharing, kept: dict[int, None]) -> tuple[Delivered, Requests]:
    """Step 1: name each client the neighbours that have not shared, and hand on the texts of the others."""
    delivered, texts = deliver(round, state, kept)
    dropped = server_states.ids_near(state.graph, ~delivered.v2)

    def make(node: int, head: dict[str, Any]) -> m.Message:
        if round.config.accept:
            return m.AcceptRequest(**head, dropped=dropped(node), **texts(node))
        return m.MaskAtOnceRequest(**head, dropped=dropped(node), **texts(node), task=round.task)

    return delivered, round.requests(state.graph, delivered.v2, make)


def close_accept(round: Round, state: Delivered, kept: dict[int, frozenset[Accusation]]) -> tuple[Delivered, Requests]:
    """Step accept: settle V2, and name each client the neighbours that had shared and are not in it.

    An accusation costs the edge between accuser and dealer, and nobody's place: to both the other has dropped. So an
    honest client loses only edges to liars. A client with too few holders left for the dropouts still to come is left
    out. So is one without masks to most of the others: few liars could cut themselves off together and stop any sum.
    """
    graph, shared = state.graph, state.v2
    cut_off = graph.edge_flags(accused_edges(graph, frozenset().union(*kept.values())))
    left = grow(Delivered, state, graph=graph.without(cut_off))
    spare = spare_holders(graph, cut_off, round.dropout)
    v2 = hold_together(round.config, left, graph.flags(kept), spare)

    def make(node: int, head: dict[str, Any]) -> m.Message:
        near = graph.neighbours(node)
        gone = near[shared[near] & (cut_off[graph.edges(node)] | ~v2[near])]
        return m.MaskRequest(**head, dropped=m.pack_ids(graph.ids[gone]), task=round.task)

    return grow(Delivered, left, v2=v2), round.requests(graph, v2, make)


def spare_holders(graph: AssignmentGraph, cut_off: Flags, dropout: float) -> Nodes:
    """Return the holders beyond its threshold that each node needs: some, if accusations took any from it."""
    accused = graph.count(cut_off) > 0
    return np.where(accused, np.ceil(dropout * graph.degrees), 0).astype(np.int64)


def take_vector(round: Round, state: Delivered, client: int, reply: m.MaskReply) -> None:
    """Step 2: check a vector before it is added to the sum."""
    known = state.ids_around(state.graph.nodes[client])
    check_asked_for(round, reply, signed_texts.among(round.context, client, known))


def close_mask(round: Round, state: Delivered, kept: dict[int, None]) -> tuple[Settled, Requests]:
    """Name each client the neighbours that dropped after sharing."""
    settled = settle(round, state, kept)
    dropped = server_states.ids_near(state.graph, state.v2 & ~settled.v3)
    return settled, round.requests(
        state.graph, settled.v3, lambda node, head: m.UnmaskRequest(**head, dropped=dropped(node))
    )
