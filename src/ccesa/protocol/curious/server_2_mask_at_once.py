"""Step 2 without *accept*, server side: some complain, and are out like those that dropped."""

from ccesa.evidence import Accusation
from ccesa.protocol import messages as m
from ccesa.protocol.accepting import take_complaint
from ccesa.protocol.curious import server_2_mask
from ccesa.protocol.server_states import Delivered, Round

close = server_2_mask.close


def take(
    round: Round[None], state: Delivered, client: int, reply: m.MaskReply | m.Complaint
) -> frozenset[Accusation] | None:
    """Check what is added to the sum, or note a complaint."""
    if isinstance(reply, m.Complaint):
        return take_complaint(round, state, client, reply)
    server_2_mask.take(round, state, client, reply)
    return None
