"""Step 1, server side: hand on sealed shares, show everyone all of V2."""

from dataclasses import dataclass

from ccesa.charter import Charter
from ccesa.protocol import messages as m
from ccesa.protocol.active.server_0_advertise import Committed
from ccesa.protocol.drawing import deliver, take_sealed
from ccesa.protocol.server_states import Delivered, Round, grown
from ccesa.protocol.steps import Requests

take = take_sealed


@dataclass(frozen=True, kw_only=True, eq=False)
class Among(Delivered):
    """After step 1 everyone masks among this V2."""

    root: bytes
    packed_v2: bytes


def close(round: Round[Charter], state: Committed, kept: dict[int, m.ShareReply]) -> tuple[Among, Requests]:
    """Tell each client V2, and hand on what its neighbours in it sealed for it."""
    delivered, texts = deliver(round, state, kept)
    v2 = m.pack_members(state.graph.ids[delivered.v2], round.config.clients)
    among = grown(Among, delivered, root=state.root, packed_v2=v2)
    return among, round.requests(
        state.graph, delivered.v2, lambda node, head: m.MaskAmongRequest(**head, v2=v2, sealed=texts[node])
    )
