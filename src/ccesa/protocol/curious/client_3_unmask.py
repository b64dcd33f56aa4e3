"""Step 3, client side: release shares of the survivors' self masks and of the others' keys."""

from ccesa.agreement.config import Floor
from ccesa.protocol import messages as m
from ccesa.protocol.client_states import Done, Holding, Round
from ccesa.protocol.masking import check_enough, check_hidden, release, still_there


def answer(round: Round[Floor], state: Holding, request: m.UnmaskRequest) -> tuple[Done, m.UnmaskReply]:
    """Release one share of each member: of which secret depends on who dropped."""
    survived = still_there(round, request.dropped, state.near)
    live = state.near.among(survived)
    check_enough(live, state.threshold)
    check_hidden(live)
    return Done(), release(round, state, survived)
