"""Step 2 without *accept*, client side: open the shares and mask the vector, or complain."""

import numpy as np

from ccesa.agreement.config import Floor
from ccesa.protocol import messages as m
from ccesa.protocol.client_states import Accepted, Done, Holding, Round, Shared
from ccesa.protocol.curious.client_2_mask import masked
from ccesa.protocol.masking import check_enough, check_hidden, complaint, opened, still_there


def answer(
    round: Round[Floor], state: Shared, request: m.MaskAtOnceRequest
) -> tuple[Holding, m.MaskReply] | tuple[Done, m.Complaint]:
    """Open the live neighbours' shares, then mask with these neighbours."""
    live = state.near.among(still_there(round, request.dropped, state.near))
    check_enough(live, state.threshold)
    check_hidden(live)
    accepted = Accepted(**opened(round, state, live, request))
    if accepted.accused:
        return Done(), complaint(round, accepted.accused)
    return masked(round, accepted, np.ones(live.members.size, bool), request.task)
