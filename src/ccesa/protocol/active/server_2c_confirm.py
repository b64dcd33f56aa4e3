"""Step 2c, server side: collect signatures on V3, show each client those of its neighbours."""

from typing import Any

from ccesa.agreement.charter import Charter
from ccesa.crypto.primitives import SIGNATURE_BYTES
from ccesa.protocol import messages as m
from ccesa.protocol.active.server_0_advertise import check_signed
from ccesa.protocol.active.server_2_mask import Confirming
from ccesa.protocol.drawing import releasing, stacked
from ccesa.protocol.server_states import Round, Settled
from ccesa.protocol.steps import Requests
from ccesa.protocol.summing import check_reliable


def take(round: Round[Charter], state: Confirming, client: int, reply: m.ConfirmReply) -> bytes:
    """Keep a signature on V3."""
    check_signed(round, client, m.checked(reply, round.config).signature, state.text)
    return reply.signature


def close(round: Round[Charter], state: Confirming, kept: dict[int, bytes]) -> tuple[Settled, Requests]:
    """Ask only those for shares who can be shown enough confirmations: others would refuse."""
    graph, v3 = state.graph, state.v3
    confirmed = graph.flags(kept)
    ready = releasing(round.config, state, confirmed)
    check_reliable(state, v3, ready)
    best = state.signatures | kept  # a confirmation says more than the signature it replaces
    signatures = stacked(best.get(client, bytes(SIGNATURE_BYTES)) for client in graph.ids.tolist())

    def make(node: int, head: dict[str, Any]) -> m.Message:
        near = graph.neighbours(node)
        live = near[v3[near]]
        return m.SignedUnmaskRequest(
            **head, confirmed=confirmed[live].tobytes(), signatures=signatures.take(live, axis=0).tobytes()
        )

    return state, round.requests(graph, ready, make)
