"""Step 0, server side: collect public keys, draw the graph, tell everyone its neighbours."""

import numpy as np

from ccesa import labels
from ccesa.protocol import messages as m
from ccesa.protocol.drawing import draw_graph, fit, note_keys
from ccesa.protocol.server_states import Drawn, Opened, Round
from ccesa.protocol.steps import Requests


def take(round: Round[None], state: Opened, client: int, reply: m.AdvertiseReply) -> m.AdvertiseReply:
    """Keep the public keys of a client."""
    note_keys(round, state, m.checked(reply, round.config))
    return reply


def close(round: Round[None], state: Opened, kept: dict[int, m.AdvertiseReply]) -> tuple[Drawn, Requests]:
    """Tell each client its neighbours, their keys, and with whom masks run."""
    bundles = {client: kept[client].keys for client in sorted(kept)}
    entries = [labels.client_bytes(client) + bundle for client, bundle in bundles.items()]
    root = labels.digest(labels.ROSTER, round.context, b"".join(entries))
    drawn = draw_graph(round, root, bundles)
    graph, every = drawn.graph, np.ones(drawn.graph.columns.size, bool)
    neighbours, public_keys = graph.ids_at(every), graph.of_neighbours(list(bundles.values()))
    carries_masks = graph.cut(every, graph.carries_masks.astype(np.uint8))
    return drawn, round.requests(
        graph,
        fit(round.config, drawn),
        lambda node, head: m.ShareRequest(
            **head, neighbours=neighbours[node], keys=public_keys[node], masked=carries_masks[node]
        ),
    )
