"""Step 0, server side: collect public keys, draw the graph, tell everyone its neighbours."""

from typing import Any

from ccesa import labels
from ccesa.protocol import messages as m
from ccesa.protocol.drawing import draw_graph, fit, note_keys, stacked
from ccesa.protocol.packing import cut
from ccesa.protocol.server_states import Opened, Round, Sharing
from ccesa.protocol.steps import Requests


def take(round: Round[None], state: Opened, client: int, reply: m.AdvertiseReply) -> bytes:
    """Keep the public keys of a client."""
    note_keys(round, state, m.checked(reply, round.config))
    return reply.keys


def close(round: Round[None], state: Opened, kept: dict[int, bytes]) -> tuple[Sharing, Requests]:
    """Tell each client its neighbours, their keys, and with whom masks run."""
    bundles = {client: kept[client] for client in sorted(kept)}
    entries = [labels.client_bytes(client) + bundle for client, bundle in bundles.items()]
    root = labels.digest(labels.ROSTER, round.context, b"".join(entries))
    drawn, public_keys = draw_graph(round, root, bundles), stacked(bundles.values())
    graph = drawn.graph
    neighbours = cut(m.pack_ids(graph.ids[graph.columns]), m.ID_BYTES * graph.degrees)
    masked = cut(graph.carries_masks.tobytes(), graph.degrees)

    def make(node: int, head: dict[str, Any]) -> m.Message:
        return m.ShareRequest(
            **head,
            neighbours=neighbours(node),
            keys=public_keys.take(graph.neighbours(node), axis=0).tobytes(),
            masked=masked(node),
        )

    return drawn, round.requests(graph, fit(round.config, drawn), make)
