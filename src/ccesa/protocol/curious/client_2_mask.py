"""Step 2, client side: mask the vector, or complain."""

import numpy as np

from ccesa.errors import FaultyServer
from ccesa.floor import Floor
from ccesa.graphs.neighbourhood import Flags, Neighbourhood
from ccesa.protocol import messages as m
from ccesa.protocol.client_states import Done, Holding, Round, Shared
from ccesa.protocol.masking import check_enough, check_hidden, mask_vector, take_hold


def answer(
    round: Round[Floor], state: Shared, request: m.MaskRequest
) -> tuple[Holding, m.MaskReply] | tuple[Done, m.Complaint]:
    """Open the live neighbours' shares, then mask with these neighbours."""
    live = state.near.among(still_there(round, request.dropped, state.near))
    check_enough(live, state.threshold)
    check_hidden(live)
    held = take_hold(round, state, live, request)
    if isinstance(held, m.Complaint):
        return Done(), held
    return held, m.MaskReply(**round.head, **mask_vector(round, state, live))


def still_there(round: Round[Floor], packed: bytes, near: Neighbourhood) -> Flags:
    """Flag the members that the server does not list as dropped; it may list neighbours and no one else."""
    dropped = m.unpack_ids("dropped", packed, round.config.clients)
    strangers = np.setdiff1d(dropped, near.members)
    if strangers.size:
        raise FaultyServer(f"client {strangers[0]} is listed as dropped and is not a live neighbour")
    if round.client in dropped:
        raise FaultyServer("the server lists this client itself as dropped")
    return ~np.isin(near.members, dropped)
