"""Step *accept*, client side: open what the neighbours sealed, and name those whose texts cannot be used."""

from ccesa.agreement.config import Floor
from ccesa.protocol import messages as m
from ccesa.protocol.accepting import accept_reply
from ccesa.protocol.client_states import Accepted, Round, Shared
from ccesa.protocol.masking import check_enough, check_hidden, opened, still_there


def answer(round: Round[Floor], state: Shared, request: m.AcceptRequest) -> tuple[Accepted, m.AcceptReply]:
    """Take hold of the shares of everyone who has shared."""
    live = state.near.among(still_there(round, request.dropped, state.near))
    check_enough(live, state.threshold)
    check_hidden(live)
    accepted = Accepted(**opened(round, state, live, request))
    return accepted, accept_reply(round, state, accepted)
