"""Step 2c, server side: collect signatures on V3, show each client those of its neighbours."""

import numpy as np

from ccesa.charter import Charter
from ccesa.crypto.primitives import SIGNATURE_BYTES
from ccesa.protocol import messages as m
from ccesa.protocol.active.server_0_advertise import check_signed
from ccesa.protocol.active.server_2_mask import Confirming
from ccesa.protocol.drawing import releasing
from ccesa.protocol.server_states import Round, Settled
from ccesa.protocol.steps import Requests
from ccesa.protocol.summing import check_reliable


def take(round: Round[Charter], state: Confirming, client: int, reply: m.ConfirmReply) -> bytes:
    """Keep a signature on V3."""
    check_signed(round, client, m.checked(reply, round.config).signature, state.text)
    return reply.signature


def close(round: Round[Charter], state: Confirming, kept: dict[int, bytes]) -> tuple[Settled, Requests]:
    """Ask only those for shares who can be shown enough confirmations: others would refuse."""
    graph = state.graph
    confirmed = graph.flags(kept)
    ready = releasing(round.config, state, confirmed)
    check_reliable(state, state.v3, ready)
    best = state.signatures | kept  # a confirmation says more than the signature it replaces
    signatures = [best.get(client, bytes(SIGNATURE_BYTES)) for client in graph.ids.tolist()]
    shown = graph.of_neighbours(signatures, state.v3)
    near = state.v3[graph.columns]
    flags = graph.cut(near, confirmed[graph.columns[near]].astype(np.uint8))
    return state, round.requests(
        graph,
        ready,
        lambda node, head: m.SignedUnmaskRequest(**head, confirmed=flags[node], signatures=shown[node]),
    )
