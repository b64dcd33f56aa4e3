"""Step 2 without *accept*, client side: open the shares of those in V2 and mask the vector, or complain."""

from ccesa.protocol import messages as m
from ccesa.protocol.active.checks import part_of
from ccesa.protocol.active.client_1_share import Rostered
from ccesa.protocol.active.client_1a_accept import AcceptedAmong
from ccesa.protocol.active.client_2_mask import SignedV2, masked
from ccesa.protocol.client_states import Done, Membership, Round
from ccesa.protocol.masking import check_enough, check_hidden, complaint, opened


def answer(
    round: Round[Membership], state: Rostered, request: m.MaskAmongAtOnceRequest
) -> tuple[SignedV2, m.SignedMaskReply] | tuple[Done, m.Complaint]:
    """Open the shares of the neighbours in V2, then mask with these neighbours."""
    v2 = part_of(round, "V2", request.v2, "V1", state.v1)
    live = state.near.among(v2[state.near.members])
    check_enough(live, state.threshold)
    check_hidden(live)
    accepted = AcceptedAmong.of(state, **opened(round, state, live, request))
    if accepted.accused:
        return Done(), complaint(round, accepted.accused)
    return masked(round, accepted, request.v2, request.task)
